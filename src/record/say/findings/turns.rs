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

/// Who writes more at once than the pipe holds, and waits so long, while the other one waits so long at other times, has it too
/// small.
const BOTH: f64 = 0.2;

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
    let is_one = |process: &RecordedProcess| {
        process.pids.len() == 1 && process.threads == 1 && share(process.runnable_ns) <= CROWDED
    };
    let all = share(writer.cpu_ns + reader.cpu_ns);
    let work = writer.cpu_ns.min(reader.cpu_ns);
    let waits = from.blocked_ns as f64 >= MEANWHILE * reader.cpu_ns as f64
        && to.blocked_ns as f64 >= MEANWHILE * writer.cpu_ns as f64;
    let in_turn = share(work) >= EACH && (ALL[0]..=ALL[1]).contains(&all) && waits;
    let at_once = from.bytes / from.all_calls().max(1) > channel.capacity();
    let bursts = at_once && channel.kind.is_pipe() && share(from.blocked_ns.min(to.blocked_ns)) >= BOTH;
    let is_so = is_one(writer) && is_one(reader) && (in_turn || bursts);
    if !is_so || from.sleeps.min(to.sleeps) < TURNS {
        return None;
    }
    let text = format!(
        "{} and {} take turns: the first waits for room {} of the time, and the second waits for data {}. A pipe that holds more \
         than is written at once (F_SETPIPE_SZ, or `pv -q -B 16M` or `mbuffer` between them), or a thread that reads ahead, has \
         both work at once.",
        view.name(from.process),
        view.name(to.process),
        percent(share(from.blocked_ns)),
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
        let text = "`seq` and `grep` take turns: the first waits for room 50 % of the time, and the second waits for data 50 %. A \
                    pipe that holds more than is written at once (F_SETPIPE_SZ, or `pv -q -B 16M` or `mbuffer` between them), or a \
                    thread that reads ahead, has both work at once.";
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
        // Both sleep, as for a disk.
        let bursts = |bytes: u64| {
            alternate(&|recording| {
                recording.recorded.iter_mut().for_each(|process| process.cpu_ns = 0);
                recording.channels[0].writers[0].bytes = bytes;
            })
        };
        assert_eq!((bursts(20 << 18), bursts(20 << 12)), (vec![text.to_owned()], Vec::new()));
    }
}
