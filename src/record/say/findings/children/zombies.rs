//! Children that ended and for which nobody waited, until their parent ended.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedProcess};
use crate::util::text::grouped;

/// Fewer can be those of a program that was about to end.
const MANY: u64 = 2;

/// Who has not waited for so long was not about to, ns.
const LONG_NS: u64 = 1_000_000_000;

/// `` `python3 core.py` had not waited for 4 children that had ended (zombies), such as `curl`, which ended at 1.30 s ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let found = |(at, parent): (usize, &RecordedProcess)| {
        let zombies = parent.zombies.filter(|zombies| zombies.count >= MANY && view.is_one(at))?;
        // Of a row of several, the first one that ended did so about here.
        let first = document.recorded.get(zombies.first?)?;
        let ended = match first.pids.len() as u64 {
            0 | 1 => first.end_ns,
            several => first.begin_ns + first.lived_ns / several,
        };
        let is_old = ended + LONG_NS <= parent.end_ns;
        // Others can have been its own before its last `exec`.
        let last = zombies.last?;
        let child = document.recorded.get(last)?;
        let name = view.name(at);
        let starter = child.started_by.and_then(|starter| Some((starter, document.recorded.get(starter)?)));
        let why = match starter {
            Some((starter, _)) if starter == at => "It has to call `waitpid` for each of them.".to_owned(),
            Some((starter, before)) if before.pids.iter().any(|pid| parent.pids.contains(pid)) => format!(
                "{} had started them, and executed {name} in its own place (`exec`), which knows nothing of them: a shell that starts {name} as \
                 its child waits for both.",
                view.name(starter)
            ),
            Some((starter, before)) if before.end_ns <= parent.end_ns => format!(
                "{} had started that, and had ended: what such processes leave becomes the children of process 1 of their container, which has \
                 to wait for them. {name} does not; a small init as process 1 does (`tini`, `docker run --init`).",
                view.name(starter)
            ),
            _ => return None,
        };
        let text = format!(
            "{name} had not waited for {} children that had ended (zombies), such as {}, when it ended at {}. {why}",
            grouped(zombies.count),
            view.name(last),
            after(parent.end_ns),
        );
        is_old.then(|| Finding {
            count: Some(zombies.count),
            at_ns: Some(parent.end_ns),
            ..Finding::new(FindingKind::NotAwaited, [at, last], text)
        })
    };
    document.recorded.iter().enumerate().filter_map(found).take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, Zombies};

    #[test]
    fn children_for_which_nobody_waited_are_said() {
        let left = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let all = &mut recording.recorded;
                (all[1].zombies, all[1].end_ns) = (Some(Zombies { count: 4, first: Some(2), last: Some(2) }), WINDOW);
                (all[2].end_ns, all[2].started_by) = (WINDOW / 8, Some(0));
                all[0].end_ns = WINDOW / 4;
                change(recording);
            })
        };
        let of = |why: &str| {
            vec![format!(
                "`grep` had not waited for 4 children that had ended (zombies), such as `cat`, when it ended at 4.00 s. {why}"
            )]
        };
        let adopted = of(
            "`seq` had started that, and had ended: what such processes leave becomes the children of process 1 of their \
                          container, which has to wait for them. `grep` does not; a small init as process 1 does (`tini`, `docker run --init`).",
        );
        assert_eq!(left(&|_| {}), adopted);
        let own = of("It has to call `waitpid` for each of them.");
        assert_eq!(left(&|recording| recording.recorded[2].started_by = Some(1)), own);
        let replaced = of(
            "`seq` had started them, and executed `grep` in its own place (`exec`), which knows nothing of them: a shell that starts \
                           `grep` as its child waits for both.",
        );
        assert_eq!(left(&|recording| recording.recorded[0].pids = recording.recorded[1].pids.clone()), replaced);
        silent(
            &left,
            &[
                &|recording| recording.recorded[1].zombies = Some(Zombies { count: 1, first: Some(2), last: Some(2) }),
                &|recording| recording.recorded[2].end_ns = WINDOW - LONG_NS + 1,
                &|recording| recording.recorded[0].end_ns = WINDOW + 1,
                &|recording| recording.recorded[2].started_by = None,
            ],
        );
    }
}
