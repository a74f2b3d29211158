//! Processes that read one pipe at the same time although nobody shared it between them: each gets a part.

use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::raw::{PR_WRITE, PrCounts, PrEnd, PrProcess, PrWho};
use crate::record::observe::reason::name_of;
use crate::record::start::command_line::is_shell;
use crate::result::{ChannelKind, DividedReader, RecordedChannel};
use std::collections::BTreeMap;

/// Those that read this channel at the same time: one as its standard input, another one by other means, as by
/// /proc/PID/fd/1. Those that have it from one process in the same way, as workers do, share it on purpose.
pub(crate) fn divided(
    counted: &RecordedCounts,
    index: &BTreeMap<PrWho, usize>,
    channel: &RecordedChannel,
) -> Vec<DividedReader> {
    let (inode, device) = (channel.inode, channel.device);
    let is_end = |end: &PrEnd| (end.inode, end.device) == (inode, device) && end.side as usize != PR_WRITE;
    let process = |who: &PrWho| counted.processes.iter().find(|(other, _)| other == who).map(|(_, process)| process);
    // By blocks, as what a shell reads line by line is for others, too.
    let reads = |who: &PrWho, counts: &PrCounts| {
        let calls: u64 = counts.kinds.iter().sum();
        counts.bytes > calls && !is_shell(&name_of(who.name)) && !counted.members.contains_key(who)
    };
    let mut readers: Vec<(&PrWho, &PrCounts, &PrProcess)> = Vec::new();
    if channel.kind == ChannelKind::Pty {
        return of_terminal(counted, index, is_end);
    }
    if channel.kind == ChannelKind::Pipe {
        let ends = counted.ends.iter().filter(|(end, counts)| is_end(end) && reads(&end.who, counts));
        let of = ends.filter_map(|(end, counts)| Some((&end.who, counts, process(&end.who)?)));
        readers.extend(of.filter(|(_, _, process)| process.execs > 0));
    }
    let is_input = |process: &PrProcess| (process.input, process.input_device) == (inode, device.into());
    let meet = |one: &PrCounts, other: &PrCounts| one.first_at < other.last_at && other.first_at < one.last_at;
    let apart = readers.iter().any(|(_, one, first)| {
        let others = || readers.iter().filter(|(_, other, _)| meet(one, other));
        is_input(first) && others().any(|(_, _, second)| !is_input(second))
    });
    let reader = |(who, counts, _): (&PrWho, &PrCounts, &PrProcess)| {
        Some(DividedReader { process: *index.get(who)?, pid: who.tgid, bytes: counts.bytes })
    };
    if apart { readers.into_iter().filter_map(reader).collect() } else { Vec::new() }
}

/// Those that read what is typed at the same time, and of which none has started the other: these take turns.
fn of_terminal(
    counted: &RecordedCounts,
    index: &BTreeMap<PrWho, usize>,
    is_end: impl Fn(&PrEnd) -> bool,
) -> Vec<DividedReader> {
    let parents: BTreeMap<u64, u64> =
        counted.processes.iter().map(|(who, process)| (who.tgid.into(), process.parent)).collect();
    let has_started = |one: &PrWho, other: &PrWho| {
        let above = std::iter::successors(Some(u64::from(other.tgid)), |pid| parents.get(pid).copied());
        above.take(parents.len() + 1).any(|pid| pid == u64::from(one.tgid))
    };
    let readers: Vec<(&PrWho, &PrCounts)> = counted
        .ends
        .iter()
        .filter(|(end, counts)| is_end(end) && counts.bytes > 0)
        .map(|(end, counts)| (&end.who, counts))
        .collect();
    let beside = |(one, own): &(&PrWho, &PrCounts)| {
        readers.iter().any(|(other, counts)| {
            let meet = own.first_at < counts.last_at && counts.first_at < own.last_at;
            meet && one.tgid != other.tgid && !has_started(one, other) && !has_started(other, one)
        })
    };
    let apart = readers.iter().filter(|reader| beside(reader));
    let found = apart.filter_map(|(who, counts)| {
        Some(DividedReader { process: *index.get(*who)?, pid: who.tgid, bytes: counts.bytes })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable as _;

    /// Two processes that read a pipe: whether each has it as its standard input, and from when to when it reads.
    fn both(readers: [(bool, [u64; 2]); 2]) -> usize {
        let mut counted = RecordedCounts::default();
        for (tgid, (is_input, [first_at, last_at])) in (1..).zip(readers) {
            let who = PrWho { tgid, ..PrWho::zeroed() };
            let input = if is_input { 7 } else { 0 };
            counted.processes.push((who, PrProcess { execs: 1, input, input_device: 1, ..PrProcess::zeroed() }));
            let counts = PrCounts { bytes: 500, first_at, last_at, ..PrCounts::zeroed() };
            counted.ends.push((PrEnd { who, inode: 7, device: 1, side: 0 }, counts));
        }
        let index = counted.processes.iter().map(|(who, _)| *who).zip(0..).collect();
        divided(&counted, &index, &RecordedChannel { inode: 7, device: 1, ..RecordedChannel::default() }).len()
    }

    #[test]
    fn who_reads_keys_beside_another_one_is_found() {
        let both = |parents: [u64; 2], second: [u64; 2]| {
            let mut counted = RecordedCounts::default();
            for ((tgid, parent), [first_at, last_at]) in (5..).zip(parents).zip([[10, 100], second]) {
                let who = PrWho { tgid, ..PrWho::zeroed() };
                counted.processes.push((who, PrProcess { execs: 1, parent, ..PrProcess::zeroed() }));
                let counts = PrCounts { bytes: 9, first_at, last_at, ..PrCounts::zeroed() };
                counted.ends.push((PrEnd { who, inode: 7, device: 1, side: 0 }, counts));
            }
            let index = counted.processes.iter().map(|(who, _)| *who).zip(0..).collect();
            let terminal =
                RecordedChannel { inode: 7, device: 1, kind: ChannelKind::Pty, ..RecordedChannel::default() };
            divided(&counted, &index, &terminal).len()
        };
        assert_eq!(both([1, 1], [50, 90]), 2);
        assert_eq!(both([1, 5], [50, 90]), 0, "its child");
        assert_eq!(both([1, 1], [150, 190]), 0, "one after the other");
    }

    #[test]
    fn who_reads_in_between_is_found() {
        assert_eq!(both([(true, [10, 100]), (false, [50, 90])]), 2);
        assert_eq!(both([(true, [10, 100]), (true, [50, 90])]), 0, "workers");
        assert_eq!(both([(false, [10, 100]), (false, [50, 90])]), 0);
        assert_eq!(both([(true, [10, 40]), (false, [50, 90])]), 0, "one after the other");
    }
}
