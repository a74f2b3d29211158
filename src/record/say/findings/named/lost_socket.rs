//! Files of sockets that others remove while somebody listens there.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameError, NameUse, NamedFile};
use crate::util::text::{clean, grouped};

/// A server that another one replaces ends so soon after that, ns.
const ENDS_NS: u64 = 300_000_000;

/// `` `daemon b` removed `a.sock` at 1.35 s, where `daemon a` still listened, and made its own: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let files = &view.document.named_files;
    let works = |file: &NamedFile, does: NameUse| file.does == does && file.error.is_none();
    let found = |server: &NamedFile| {
        let listens = |file: &&NamedFile| works(file, NameUse::Listens) && file.inode == server.inode;
        let begin = files.iter().find(listens).filter(|_| works(server, NameUse::Binds))?.at_ns[0];
        let removes = |file: &&NamedFile| {
            works(file, NameUse::Removes)
                && file.is_same_place(server)
                && file.pid != server.pid
                && file.at_ns[0] > begin
        };
        let gone = files.iter().find(removes)?;
        let since = gone.at_ns[0];
        let later = || files.iter().filter(|file| file.is_same_place(server) && file.at_ns[0] > since);
        let missing = |file: &&NamedFile| file.does == NameUse::Connects && file.error == Some(NameError::Missing);
        let other = later().find(|file| works(file, NameUse::Binds) && file.pid != server.pid);
        let failed = later().filter(missing).min_by_key(|file| file.at_ns[0]);
        let seen = other.or(failed)?.at_ns[0] + ENDS_NS;
        let told = view.document.recorded.get(server.process)?.told_to_end_ns;
        if server.ended_ns.is_some_and(|end| end < seen) || told.is_some_and(|told| told < seen) {
            return None;
        }
        let [by, listener] = [gone, server].map(|file| one(view, file));
        let end = match (other, failed) {
            (Some(other), _) => format!(
                ", and {} made another one of that name: who connects since then gets that, and what {listener} has is out of reach",
                if other.pid == gone.pid { "it".to_owned() } else { one(view, other) }
            ),
            (None, Some(failed)) => {
                let calls: u64 = later().filter(missing).map(|file| file.calls).sum();
                let times = if calls == 1 { "once".to_owned() } else { format!("{} times", grouped(calls)) };
                let whose = one(view, failed);
                format!(": {whose} could not connect to it since then ({times} ENOENT), although {listener} is there")
            }
            (None, None) => return None,
        };
        let had_it = |file: &NamedFile| works(file, NameUse::Binds) && file.pid == gone.pid && file.at_ns[0] < begin;
        let remedy = if files.iter().any(|file| had_it(file) && file.is_same_place(server)) {
            "It was the name of its own socket before: who ends may remove it only if nobody has it by then (`SetUnlinkOnClose(false)` of Go \
             leaves it to who starts)."
        } else {
            "The file of a socket may be removed only if a connection to it is refused (ECONNREFUSED), not after another error or a time \
             without an answer."
        };
        let text = format!(
            "{by} removed the socket `{}` at {}, where {listener} still listened{end}. {remedy}",
            clean(&server.path),
            after(since)
        );
        let processes = [gone.process, server.process].into_iter().chain(other.or(failed).map(|file| file.process));
        let finding = Finding { at_ns: Some(since), ..Finding::new(FindingKind::LeftLock, processes, text) };
        Some((other.is_some(), finding))
    };
    // That nobody can connect is worse than that others do.
    let worst = files.iter().filter_map(found).min_by_key(|(other, _)| *other);
    worst.map(|(_, finding)| finding).into_iter().collect()
}

/// The process that used a name.
fn one(view: &FindingView<'_>, file: &NamedFile) -> String {
    if view.is_one(file.process) {
        return view.name(file.process);
    }
    view.name_of_one(file.process, file.pid).unwrap_or_else(|| view.name(file.process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, said, silent, used};
    use crate::result::Document;

    #[test]
    fn a_socket_that_another_one_removes_is_said() {
        let lost = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let listens = used(0, NameUse::Listens, 2);
                let other = NamedFile { inode: 8, ..used(1, NameUse::Binds, 401) };
                let all = [used(0, NameUse::Binds, 1), listens, used(1, NameUse::Removes, 400), other];
                recording.named_files = all.into();
                change(recording);
            })
        };
        let end = "The file of a socket may be removed only if a connection to it is refused (ECONNREFUSED), not after another error or a time \
                   without an answer.";
        let begin = "`grep` removed the socket `/t/f` at 0.40 s, where `seq` still listened";
        let text = format!(
            "{begin}, and it made another one of that name: who connects since then gets that, and what `seq` has is out of reach. {end}"
        );
        assert_eq!(lost(&|_| {}), [text]);
        let missing = |recording: &mut Document| {
            let error = Some(NameError::Missing);
            recording.named_files[3] = NamedFile { error, calls: 11, ..used(2, NameUse::Connects, 402) };
        };
        let text = format!(
            "{begin}: `cat` could not connect to it since then (11 times ENOENT), although `seq` is there. {end}"
        );
        assert_eq!(lost(&missing), [text]);
        silent(
            &lost,
            &[
                &|recording| recording.named_files[0].ended_ns = Some(500 * MS),
                &|recording| recording.recorded[0].told_to_end_ns = Some(450 * MS),
                &|recording| recording.named_files[2].pid = 1,
                &|recording| drop(recording.named_files.remove(1)),
                &|recording| recording.named_files.truncate(3),
                &|recording| recording.named_files[2].at_ns = [MS; 2],
            ],
        );
    }
}
