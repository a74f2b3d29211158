//! Who removes the file of a lock that another process may have.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, NameUse, NamedFile};
use crate::util::text::clean;

/// `` `b.py` (process 12) removed `x.lock` at 0.61 s, while `a.py` (process 11) still ran, which had it open before ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let files = || {
        view.document
            .named_files
            .iter()
            .filter(|file| file.error.is_none() && file.is_of_lock() && !file.path.ends_with(".pid"))
    };
    let removed = files().filter(|file| file.does == NameUse::Removes);
    let found = removed.filter_map(|removes| {
        let at = removes.at_ns[0];
        let opened = |file: &&NamedFile| file.inode > 0 && file.is_same_place(removes);
        let before = |file: &&NamedFile| {
            let lived_on = file.ended_ns.is_none_or(|ended| ended > at);
            opened(file) && lived_on && file.at_ns[1] < at && !is_of(view, removes.pid, file.pid)
        };
        let first = files().find(before)?;
        let later = |file: &&NamedFile| {
            let meanwhile = first.ended_ns.is_none_or(|ended| ended > file.at_ns[0]);
            let is_new = file.inode != first.inode && file.does == NameUse::Creates;
            opened(file) && is_new && file.at_ns[0] > at && meanwhile && !is_of(view, file.pid, first.pid)
        };
        let second = files().find(later)?;
        let name = |file: &NamedFile| view.name_of_one(file.process, file.pid);
        let makes = match second.pid == removes.pid {
            true => "and made a new one".to_owned(),
            false => format!("and {} made a new one", name(second)?),
        };
        let text = format!(
            "{} removed `{}` at {}, while {} still ran, which had opened it before, {makes}: both can have the lock of a file of that name at \
             the same time. Nobody but who has a lock may remove its file. A lock of the kernel (flock, F_SETLK) ends with its process, and \
             its file can stay.",
            name(removes)?,
            clean(removes.last_name()),
            after(at),
            name(first)?,
        );
        Some(Finding { at_ns: Some(at), ..Finding::new(FindingKind::Raced, [removes.process, first.process], text) })
    });
    found.take(1).collect()
}

/// Whether a process is another one, or has been started by it.
fn is_of(view: &FindingView<'_>, pid: u32, other: u32) -> bool {
    let above = std::iter::successors(Some(pid), |pid| view.life(*pid).map(|life| life.parent).filter(|pid| *pid > 0));
    above.take(view.document.lives.len() + 1).any(|pid| pid == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, said, silent};
    use crate::result::{Document, ProcessLife};

    #[test]
    fn who_removes_the_lock_of_another_one_is_said() {
        let stolen = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let file = |process: usize, pid: u32, does: NameUse, at: u64, inode: u64| NamedFile {
                    process,
                    pid,
                    path: "db/flintlock".to_owned(),
                    does,
                    at_ns: [at * MS; 2],
                    inode,
                    ended_ns: Some(900 * MS),
                    ..NamedFile::default()
                };
                recording.named_files = vec![
                    file(0, 11, NameUse::Creates, 100, 7),
                    file(1, 12, NameUse::Removes, 600, 0),
                    file(1, 12, NameUse::Creates, 601, 8),
                ];
                change(recording);
            })
        };
        let text = "`grep` (process 12) removed `flintlock` at 0.60 s, while `seq` (process 11) still ran, which had opened it before, and made \
                    a new one: both can have the lock of a file of that name at the same time. Nobody but who has a lock may remove its file. \
                    A lock of the kernel (flock, F_SETLK) ends with its process, and its file can stay.";
        assert_eq!(stolen(&|_| {}), [text]);
        silent(
            &stolen,
            &[
                &|recording| recording.named_files[0].ended_ns = Some(500 * MS),
                &|recording| recording.named_files[0].ended_ns = Some(600 * MS + 1),
                &|recording| recording.named_files[1].pid = 11,
                &|recording| recording.named_files[2].inode = 7,
                &|recording| recording.lives = vec![ProcessLife { pid: 12, parent: 11, lived_ns: [0, 1] }],
                &|recording| recording.named_files.iter_mut().for_each(|file| file.path = "data".to_owned()),
            ],
        );
    }
}
