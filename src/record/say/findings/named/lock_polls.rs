//! Locks that a process asks for again and again instead of waiting.

use crate::record::say::findings::view::FindingView;
use crate::report::number::{percent, time};
use crate::result::{Finding, FindingKind, RecordedProcess, WaitReason};
use crate::util::text::{clean, grouped};

/// Fewer tries, or a smaller part of its life asleep, do not matter.
const TRIES: u64 = 10;
const ASLEEP: f64 = 0.2;

/// `` `insert.py` tried 56 times in vain to get the lock of `db`, and slept 51.6 ms after each: ... ``
pub(crate) fn lock_polls(view: &FindingView<'_>) -> Vec<Finding> {
    let each = view.document.recorded.iter().enumerate();
    each.filter_map(|(at, process)| polls(view, at, process)).collect()
}

fn polls(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let tries = process.refused_locks;
    let naps = process.waits.get(&WaitReason::Timer).filter(|naps| tries >= TRIES && naps.count >= tries / 2)?;
    let part = naps.ns as f64 / process.lived_ns.max(1) as f64;
    let file = view.document.named_files.iter().find(|file| file.inode == process.refused_file && file.error.is_none());
    let file = file.map_or_else(|| "a file".to_owned(), |file| format!("`{}`", clean(file.last_name())));
    if process.own_locks == tries {
        return Some(own_lock(view, at, tries, &file));
    }
    let text = format!(
        "{} tried {} times in vain to get the lock of {file}, and slept on a timer in between, {} each, {} of its time: it does not notice \
         when the lock is free. Who waits for it (F_SETLKW, `flock` without `-n`) is woken at once; where a library looks again and again, \
         as SQLite does (`busy_timeout`), who has the lock has to keep it shorter.",
        view.name(at),
        grouped(tries),
        time(naps.ns as f64 / naps.count as f64 / 1e9),
        percent(part.min(1.0))
    );
    let finding = Finding::new(FindingKind::Naps, [at], text);
    (part >= ASLEEP).then_some(Finding { count: Some(tries), ns: Some(naps.ns), ..finding })
}

/// Who cannot get a lock that it had itself, with another open file.
fn own_lock(view: &FindingView<'_>, at: usize, tries: u64, file: &str) -> Finding {
    let started = view.document.recorded.get(at).is_some_and(|process| process.forks > 0);
    let who = if started {
        "a child that it has started since has inherited the open file, and the lock with it"
    } else {
        "it still has another open file with the lock"
    };
    let text = format!(
        "{} tried {} times in vain to get the lock of {file}, which it had taken itself before: {who}. Open it with O_CLOEXEC (`flock` \
         belongs to the open file, not to the process), or unlock it (LOCK_UN) before `close`.",
        view.name(at),
        grouped(tries),
    );
    Finding { count: Some(tries), ..Finding::new(FindingKind::FileLock, [at], text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent, used};
    use crate::result::{Document, NameUse, WaitTotal};

    #[test]
    fn a_lock_that_is_polled_is_said() {
        let polls = |change: &dyn Fn(&mut Document)| {
            said(lock_polls, &|recording| {
                let process = &mut recording.recorded[1];
                (process.refused_locks, process.refused_file, process.lived_ns) = (56, 7, WINDOW);
                process.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW / 2, count: 40 })].into();
                recording.named_files = vec![used(0, NameUse::Writes, 1)];
                change(recording);
            })
        };
        let text = "`grep` tried 56 times in vain to get the lock of `f`, and slept on a timer in between, 50.0 ms each, 50 % of its time: it \
                    does not notice when the lock is free. Who waits for it (F_SETLKW, `flock` without `-n`) is woken at once; where a library \
                    looks again and again, as SQLite does (`busy_timeout`), who has the lock has to keep it shorter.";
        assert_eq!(polls(&|_| {}), [text]);
        let own = polls(&|recording| recording.recorded[1].own_locks = 56);
        assert!(
            own.concat().contains("which it had taken itself before: it still has another open file with the lock"),
            "{own:?}"
        );
        silent(
            &polls,
            &[
                &|recording| recording.recorded[1].refused_locks = 9,
                &|recording| recording.recorded[1].waits.clear(),
                &|recording| recording.recorded[1].lived_ns = WINDOW * 9,
            ],
        );
    }
}
