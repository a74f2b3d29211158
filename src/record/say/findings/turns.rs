//! Two programs at a pipe of which only one runs at a time, although there are CPUs for both.

use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedProcess};

/// Each is on a CPU for this part of the window at least, and both together about all of it.
const EACH: f64 = 0.25;
const ALL: [f64; 2] = [0.8, 1.1];

/// While one runs, the other one waits at the pipe for this part of that time.
const MEANWHILE: f64 = 0.7;

/// From this part on, one of them waited for a CPU, so that they could not run at once.
const CROWDED: f64 = 0.1;

/// Fewer turns are phases.
const TURNS: u64 = 10;

/// `` `a.py` and `b.py` take turns at their pipe: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    if view.document.environment.cpus < 2 {
        return Vec::new();
    }
    let channels = view.document.channels.iter().enumerate();
    channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..turns(view, channel)? })).collect()
}

fn turns(view: &FindingView<'_>, channel: &RecordedChannel) -> Option<Finding> {
    let ([from], [to]) = (&channel.writers[..], &channel.readers[..]) else { return None };
    let (writer, reader) = (view.process(from)?, view.process(to)?);
    let window = view.document.processes.window_ns.max(1) as f64;
    let share = |ns: u64| ns as f64 / window;
    let fits = |process: &RecordedProcess| {
        process.pids.len() == 1
            && process.threads == 1
            && share(process.cpu_ns) >= EACH
            && share(process.runnable_ns) <= CROWDED
    };
    let all = share(writer.cpu_ns + reader.cpu_ns);
    let waits = from.blocked_ns as f64 >= MEANWHILE * reader.cpu_ns as f64
        && to.blocked_ns as f64 >= MEANWHILE * writer.cpu_ns as f64;
    let is_so = fits(writer) && fits(reader) && (ALL[0]..=ALL[1]).contains(&all) && waits;
    if !is_so || from.sleeps < TURNS || to.sleeps < TURNS {
        return None;
    }
    let text = format!(
        "{} and {} take turns: the first is on a CPU {} of the time and waits for room {}, the second {} and waits for data {}, so \
         that it takes as long as both one after the other. A pipe that holds more than is written at once (F_SETPIPE_SZ), or a \
         thread that reads ahead, has both run at once.",
        view.name(from.process),
        view.name(to.process),
        percent(share(writer.cpu_ns)),
        percent(share(from.blocked_ns)),
        percent(share(reader.cpu_ns)),
        percent(share(to.blocked_ns))
    );
    Some(Finding::new(FindingKind::Turns, [from.process, to.process], text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    fn alternate(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            recording.environment.cpus = 2;
            for process in &mut recording.recorded[..2] {
                (process.threads, process.cpu_ns, process.runnable_ns) = (1, WINDOW / 2, 0);
            }
            let channel = &mut recording.channels[0];
            for end in [&mut channel.writers[0], &mut channel.readers[0]] {
                (end.blocked_ns, end.sleeps) = (WINDOW / 2, 20);
            }
            change(recording);
        })
    }

    #[test]
    fn two_that_take_turns_are_said() {
        let text = "`seq` and `grep` take turns: the first is on a CPU 50 % of the time and waits for room 50 %, the second 50 % and \
                    waits for data 50 %, so that it takes as long as both one after the other. A pipe that holds more than is \
                    written at once (F_SETPIPE_SZ), or a thread that reads ahead, has both run at once.";
        assert_eq!(alternate(&|_| {}), [text]);
        let silent: [&dyn Fn(&mut Document); 5] = [
            &|recording| recording.environment.cpus = 1,
            &|recording| recording.channels[0].writers[0].blocked_ns = 0,
            &|recording| recording.channels[0].readers[0].sleeps = 3,
            &|recording| recording.recorded[0].runnable_ns = WINDOW / 5,
            &|recording| recording.recorded[1].cpu_ns = WINDOW / 10,
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(alternate(change).is_empty(), "{at}");
        }
    }
}
