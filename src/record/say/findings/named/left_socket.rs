//! Files of sockets at which nobody listens any more.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed;
use crate::result::{Finding, FindingKind, NameError, NameUse, NamedFile};
use crate::util::text::clean;

/// Who ends so soon after its call, ns, or calls so often, is not prepared for it.
const ENDS_NS: u64 = 1_000_000_000;
const OFTEN: u64 = 10;

/// `` `client` was refused at `a.sock` at 0.6 s: `server`, which made that file, was ended by SIGKILL at 0.54 s, ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let found = |failed: &NamedFile| {
        let could = match failed.error? {
            NameError::Refused => "was refused at",
            NameError::InUse => "could not bind a socket (EADDRINUSE) to",
            _ => return None,
        };
        let at = failed.at_ns[1];
        let fails =
            || failed.ended_ns.is_some_and(|end| end.saturating_sub(at) < ENDS_NS) && failed.exit_code.is_some();
        let there = |by: &&NamedFile| by.does == NameUse::Binds && by.error.is_none() && by.is_same_place(failed);
        let has = |by: &NamedFile| by.ended_ns.is_none_or(|end| end > at) || by.at_ns[0] > at;
        // A server that ended well, as its clean-up finds: nothing depends on that.
        let by_itself = |by: &NamedFile| view.document.recorded.get(by.process).is_some_and(|of| of.signal.is_none());
        let is_well = view.document.exit_codes.iter().all(|code| *code == 0) && !view.document.exit_codes.is_empty();
        if is_well && failed.calls < OFTEN && files.iter().filter(there).any(by_itself) {
            return None;
        }
        if !failed.unbound || files.iter().filter(there).any(has) || !(fails() || failed.calls >= OFTEN) {
            return None;
        }
        let by = files.iter().filter(there).max_by_key(|by| by.at_ns[0]);
        let who = by.and_then(|by| {
            let process = view.document.recorded.get(by.process)?;
            let how = killed::requested(process).map_or("ended".to_owned(), |signal| format!("was ended by {signal}"));
            Some(format!("{}, which had made that file, {how} at {}", view.name(by.process), after(by.ended_ns?)))
        });
        let text = format!(
            "{} {could} `{}` at {}: {} without removing it, and nobody listens there. Who is to listen has to remove the file (`unlink`) \
             before `bind`, if a connection to it is refused.",
            view.name(failed.process),
            clean(&failed.path),
            after(at),
            who.unwrap_or_else(|| "who had made that file has ended".to_owned())
        );
        let processes = [failed.process].into_iter().chain(by.map(|by| by.process));
        Some(Finding { at_ns: Some(at), ..Finding::new(FindingKind::LeftLock, processes, text) })
    };
    files.iter().find_map(found).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, said, silent, used};
    use crate::result::Document;

    #[test]
    fn a_file_of_a_socket_that_was_left_is_said() {
        let find = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                recording.recorded[1].signal = Some(9);
                let server = NamedFile { ended_ns: Some(5 * MS), ..used(1, NameUse::Binds, 2) };
                let client = NamedFile {
                    error: Some(NameError::Refused),
                    unbound: true,
                    ended_ns: Some(9 * MS),
                    exit_code: Some(1),
                    ..used(0, NameUse::Connects, 8)
                };
                recording.named_files = vec![server, client];
                change(recording);
            })
        };
        let end = " without removing it, and nobody listens there. Who is to listen has to remove the file (`unlink`) before `bind`, if a \
                   connection to it is refused.";
        let begin = "`seq` was refused at `/t/f` at 8.00 ms: ";
        let killed = format!("{begin}`grep`, which had made that file, was ended by SIGKILL at 5.00 ms{end}");
        assert_eq!(find(&|_| {}), [killed]);
        let before = find(&|recording| drop(recording.named_files.remove(0)));
        assert_eq!(before, [format!("{begin}who had made that file has ended{end}")]);
        let binds = find(&|recording| recording.named_files[1].error = Some(NameError::InUse));
        assert!(
            binds[0].starts_with("`seq` could not bind a socket (EADDRINUSE) to `/t/f` at 8.00 ms: `grep`"),
            "{binds:?}"
        );
        let well = find(&|recording| {
            (recording.exit_codes, recording.recorded[1].signal) = (vec![0], None);
        });
        assert!(well.is_empty(), "a clean-up after a server that ended by itself");
        silent(
            &find,
            &[
                &|recording| recording.named_files[1].unbound = false,
                &|recording| recording.named_files[0].ended_ns = None,
                &|recording| recording.named_files[1].exit_code = None,
                &|recording| recording.named_files[1].error = Some(NameError::Missing),
            ],
        );
    }
}
