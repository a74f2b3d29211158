//! Pipes that hold less than others, and why.

use crate::profile::listed;
use crate::record::model::labels::with_id;
use crate::record::observe::user_pages;
use crate::record::say::findings::view::FindingView;
use crate::record::say::first_of::first_of;
use crate::result::{DEFAULT_SLOTS, Finding, FindingKind, PipeHolder, UserPipes};
use crate::util::text::{counted, grouped};

/// `` The pipe from `dd` to `wc` holds only 8 KiB; the default is 64 KiB. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    // Looks do not see the size of a pipe.
    if let (Some(_), Some(user)) = (view.document.looks, &view.document.user_pipes) {
        let text = format!("New pipes hold only 8 KiB or less; {}.", used_up(user));
        return vec![Finding { count: Some(user.pipes), ..Finding::new(FindingKind::UserPages, None, text) }];
    }
    let small = view.document.channels.iter().enumerate().filter_map(|(at, pipe)| {
        let [_, _, least] = pipe.slots.filter(|[_, _, least]| *least < DEFAULT_SLOTS && pipe.bytes() > 0)?;
        let user = view.document.user_pipes.as_ref().filter(|_| least <= user_pages::LEAST_SLOTS);
        let (kind, why) = match user {
            Some(user) => (FindingKind::UserPages, used_up(user)),
            None => (FindingKind::SmallPipe, "the default is 64 KiB".to_owned()),
        };
        let [from, to] = [&pipe.writers, &pipe.readers].map(|ends| view.names(ends));
        let [from, to] = [from, to].map(|names| if names.is_empty() { "outside".to_owned() } else { names });
        let text = format!("The pipe from {from} to {to} holds only {}; {why}.", counted(least * 4, "KiB"));
        let pipes = user.map(|user| user.pipes);
        Some(Finding { channels: vec![at], count: pipes, ..Finding::new(kind, None, text) })
    });
    first_of(small)
}

/// Why a new pipe of a user is small, and what helps.
fn used_up(user: &UserPipes) -> String {
    let UserPipes { uid, pipes, soft_pages, holders } = user;
    let holder = |of: &PipeHolder| {
        let who = with_id(&of.name, of.pid, None, of.container.as_ref());
        format!("{who}: {}", grouped(of.pipes))
    };
    let who = match &holders[..] {
        [] => String::new(),
        holders => format!(", most of them in {}", listed(holders.iter().map(holder))),
    };
    format!(
        "user {uid} has {} open{who}, and with them all {} pages of fs.pipe-user-pages-soft: close those that are not used, \
         or raise the limit with `sysctl fs.pipe-user-pages-soft={}`, or for one program with CAP_SYS_RESOURCE",
        counted(*pipes, "pipe"),
        grouped(*soft_pages),
        soft_pages.saturating_mul(RAISED)
    )
}

/// What the limit is raised by.
const RAISED: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::{Container, ProcLooks};

    #[test]
    fn a_small_pipe_is_said_with_its_cause() {
        let small = said(find, &|recording| recording.channels[0].slots = Some([16, 2, 2]));
        assert_eq!(small, ["The pipe from `seq` to `grep` holds only 8 KiB; the default is 64 KiB."]);
        let text = "The pipe from `seq` to `grep` holds only 8 KiB; user 65534 has 1,101 pipes open, most of them in `node` \
                    (process 12, in container web): 900, and with them all 16,384 pages of fs.pipe-user-pages-soft: close those \
                    that are not used, or raise the limit with `sysctl fs.pipe-user-pages-soft=65536`, or for one program with \
                    CAP_SYS_RESOURCE.";
        let of_user = said(find, &|recording| {
            recording.channels[0].slots = Some([2; 3]);
            let container = Some(Container { id: "1".to_owned(), name: Some("web".to_owned()) });
            let holders = vec![PipeHolder { pid: 12, name: "node".to_owned(), container, pipes: 900 }];
            recording.user_pipes = Some(UserPipes { uid: 65_534, pipes: 1101, soft_pages: 16_384, holders });
        });
        assert_eq!(of_user, [text]);
        assert!(said(find, &|recording| recording.channels[0].slots = Some([256; 3])).is_empty());
        let looked = said(find, &|recording| {
            recording.looks = Some(ProcLooks::default());
            recording.user_pipes =
                Some(UserPipes { uid: 1000, pipes: 1101, soft_pages: 16_384, ..UserPipes::default() });
        });
        assert!(
            looked[0].starts_with("New pipes hold only 8 KiB or less; user 1000 has 1,101 pipes open, and with them")
        );
    }
}
