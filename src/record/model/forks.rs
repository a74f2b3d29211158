//! Who started whom, and what was in a buffer when a process forked.

use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::raw::{PR_FORKED, PR_FORKS, PrHead, PrWho};
use crate::record::observe::reason::name_of;
use crate::record::start::command_line::is_shell;
use crate::result::{DoubledBuffer, LeftProcesses, RecordedProcess, Zombies};
use std::collections::{BTreeMap, HashMap};

/// A shorter line may have been written by each of them on purpose.
const LEAST: usize = 6;

/// The rows of each process, by its id: one for each program, by its begin, and when that ended.
type RowsOfPrograms = HashMap<u64, BTreeMap<u64, (usize, u64)>>;

fn programs(counted: &RecordedCounts, index: &BTreeMap<PrWho, usize>) -> RowsOfPrograms {
    let mut programs: RowsOfPrograms = HashMap::new();
    for (who, process) in &counted.processes {
        if let Some(at) = index.get(who) {
            programs.entry(who.tgid.into()).or_default().insert(process.begin, (*at, process.end));
        }
    }
    programs
}

/// The row of what this process executed at that time. One that executes a program of the same name again, as a wrapper of it
/// does, has one row for both, which began before others that have ended by then.
fn row_at(programs: &RowsOfPrograms, process: u64, at: u64) -> Option<usize> {
    let rows = programs.get(&process)?;
    let mut begun = rows.range(..=at).rev().map(|(_, row)| row);
    let last = begun.clone().next()?;
    Some(begun.find(|(_, end)| *end >= at).unwrap_or(last).0)
}

/// The rows, of these, of each program that one process started, by that process and the program's name.
pub(crate) fn by_program(
    recorded: &[RecordedProcess],
    rows: impl IntoIterator<Item = usize>,
) -> BTreeMap<(usize, &str), Vec<usize>> {
    let mut same: BTreeMap<(usize, &str), Vec<usize>> = BTreeMap::new();
    for at in rows {
        let process = recorded.get(at).filter(|process| process.execs > 0);
        if let Some((process, starter)) = process.and_then(|process| Some((process, process.started_by?))) {
            same.entry((starter, process.name.as_str())).or_default().push(at);
        }
    }
    same
}

/// The row of the process that started all of each row, if that is one and is known.
pub(crate) fn parents(counted: &RecordedCounts, index: &BTreeMap<PrWho, usize>) -> BTreeMap<usize, Option<usize>> {
    let programs = programs(counted, index);
    let mut found: BTreeMap<usize, Option<usize>> = BTreeMap::new();
    for (who, process) in &counted.processes {
        let Some(at) = index.get(who) else { continue };
        // Of its programs the one that ran by then. A copy of itself has started nothing new.
        let parent = row_at(&programs, process.parent, process.begin);
        if parent == Some(*at) {
            continue;
        }
        found.entry(*at).and_modify(|known| *known = known.filter(|known| Some(*known) == parent)).or_insert(parent);
    }
    found
}

/// The row of the process whose signal ended one of each row, or was to do so: SIGTERM.
pub(crate) fn enders(counted: &RecordedCounts, index: &BTreeMap<PrWho, usize>, ended: bool) -> BTreeMap<usize, usize> {
    let programs = programs(counted, index);
    let sent = counted.processes.iter().filter_map(|(who, process)| {
        let is_wanted = if ended { process.signal > 0 } else { [0, libc::SIGKILL as u64].contains(&process.signal) };
        let sender = (if ended { process.sender } else { process.told }) & u64::from(u32::MAX);
        (is_wanted && sender > 0).then_some((who, sender, process.end))
    });
    sent.filter_map(|(who, sender, end)| Some((*index.get(who)?, row_at(&programs, sender, end)?))).collect()
}

/// The last row of a process, its parent, and when it began that program and ended.
struct Lived {
    row: usize,
    parent: u64,
    begin: u64,
    end: u64,
}

/// What each row had started that ended later. `begin`: that of the window.
pub(crate) fn left(
    counted: &RecordedCounts,
    index: &BTreeMap<PrWho, usize>,
    begin: u64,
) -> BTreeMap<usize, LeftProcesses> {
    let mut lived: HashMap<u64, Lived> = HashMap::new();
    for (who, process) in &counted.processes {
        let Some(row) = index.get(who).copied().filter(|_| !counted.members.contains_key(who)) else { continue };
        let new = || Lived { row, parent: process.parent, begin: process.begin, end: process.end };
        let known = lived.entry(who.tgid.into()).or_insert_with(new);
        known.end = known.end.max(process.end);
        if process.begin > known.begin {
            (known.row, known.begin) = (row, process.begin);
        }
    }
    let mut found: BTreeMap<usize, LeftProcesses> = BTreeMap::new();
    for child in lived.values() {
        let Some(parent) = lived.get(&child.parent).filter(|parent| parent.end < child.end) else { continue };
        let left = found.entry(parent.row).or_default();
        left.count += 1;
        left.processes.insert(child.row);
        left.until_ns = left.until_ns.max(child.end.saturating_sub(begin));
    }
    found
}

/// Of each row whose processes had zombies when they ended.
pub(crate) fn zombies(counted: &RecordedCounts, index: &BTreeMap<PrWho, usize>) -> BTreeMap<usize, Zombies> {
    let programs = programs(counted, index);
    let mut found: BTreeMap<usize, Zombies> = BTreeMap::new();
    for (who, process) in counted.processes.iter().filter(|(_, process)| process.zombies > 0) {
        if let Some(row) = index.get(who) {
            let all = found.entry(*row).or_default();
            all.count += process.zombies;
            all.first = all.first.or_else(|| row_at(&programs, process.first_zombie, process.end));
            all.last = row_at(&programs, process.last_zombie, process.end).or(all.last);
        }
    }
    found
}

/// The same lines that a process and children of its own program wrote first to a channel after the fork.
pub(crate) fn doubled(
    counted: &RecordedCounts,
    index: &BTreeMap<PrWho, usize>,
    (inode, device): (u64, u32),
) -> Option<DoubledBuffer> {
    let heads: Vec<(&PrWho, &PrHead)> = counted
        .heads
        .iter()
        .filter(|(end, _)| (end.inode, end.device) == (inode, device))
        .map(|(end, head)| (&end.who, head))
        .collect();
    let parent_of = |who: &PrWho| {
        let own = counted.processes.iter().find(|(other, _)| other == who);
        own.map_or(0, |(_, process)| process.parent)
    };
    let is = |head: &PrHead, bit: usize| head.forked & bit as u64 > 0;
    for (who, parent) in heads.iter().filter(|(who, head)| is(head, PR_FORKS) && !is_shell(&name_of(who.name))) {
        let children = heads.iter().filter(|(other, head)| {
            is(head, PR_FORKED) && parent_of(other) == u64::from(who.tgid) && other.name == who.name
        });
        let same: Vec<usize> =
            children.map(|(_, child)| common_lines(parent, child)).filter(|of| *of >= LEAST).collect();
        if let (Some(bytes), Some(process)) = (same.iter().min(), index.get(*who)) {
            return Some(DoubledBuffer { process: *process, children: same.len() as u64, bytes: *bytes as u64 });
        }
    }
    None
}

/// How many bytes of whole lines two heads begin with.
fn common_lines(one: &PrHead, other: &PrHead) -> usize {
    let [one, other] = [one, other].map(|head| {
        let text: &[u8] = bytemuck::cast_slice(&head.text);
        &text[..text.len().min(usize::try_from(head.length).unwrap_or(usize::MAX))]
    });
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    one[..same].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observe::raw::{PrEnd, PrProcess};
    use bytemuck::Zeroable as _;

    fn who(tgid: u32, name: &str) -> PrWho {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        PrWho { tgid, name: bytemuck::cast(bytes), ..PrWho::zeroed() }
    }

    /// A process of this name and its child, and what each wrote first.
    fn pair(name: &str, texts: [&str; 2]) -> Option<DoubledBuffer> {
        let mut counted = RecordedCounts::default();
        for (tgid, forked, parent, text) in [(7, PR_FORKS, 0, texts[0]), (8, PR_FORKED, 7, texts[1])] {
            let who = who(tgid, name);
            counted.processes.push((who, PrProcess { parent, begin: u64::from(tgid), ..PrProcess::zeroed() }));
            let mut head = PrHead { forked: forked as u64, length: text.len() as u64, ..PrHead::zeroed() };
            bytemuck::cast_slice_mut(&mut head.text)[..text.len()].copy_from_slice(text.as_bytes());
            counted.heads.push((PrEnd { who, inode: 3, device: 1, ..PrEnd::zeroed() }, head));
        }
        let index = [(who(7, name), 0), (who(8, name), 1)].into();
        assert_eq!(parents(&counted, &index), [(0, None), (1, Some(0))].into());
        let ended = |ends: [u64; 2]| {
            let mut counted = RecordedCounts { processes: counted.processes.clone(), ..RecordedCounts::default() };
            counted.processes.iter_mut().zip(ends).for_each(|((_, process), end)| process.end = end);
            left(&counted, &index, 5)
        };
        let mut killed = RecordedCounts { processes: counted.processes.clone(), ..RecordedCounts::default() };
        (killed.processes[1].1.signal, killed.processes[1].1.sender, killed.processes[1].1.end) = (9, 7, 30);
        let both = |counted: &RecordedCounts| [true, false].map(|ended| enders(counted, &index, ended));
        assert_eq!((both(&killed), both(&counted)), ([[(1, 0)].into(), BTreeMap::new()], Default::default()));
        (killed.processes[1].1.signal, killed.processes[1].1.told) = (0, 7 | 15 << 32);
        assert_eq!(both(&killed), [BTreeMap::new(), [(1, 0)].into()]);
        let later = LeftProcesses { count: 1, processes: [1].into(), until_ns: 25 };
        assert_eq!((ended([20, 30]), ended([30, 20])), ([(0, later)].into(), BTreeMap::new()));
        doubled(&counted, &index, (3, 1))
    }

    #[test]
    fn a_program_of_a_name_that_was_used_before_is_that_of_its_time() {
        let mut counted = RecordedCounts::default();
        for (name, begin, end) in [("python3", 10, 900), ("env", 20, 30)] {
            counted.processes.push((who(7, name), PrProcess { begin, end, ..PrProcess::zeroed() }));
        }
        counted.processes.push((who(8, "job"), PrProcess { parent: 7, begin: 500, end: 600, ..PrProcess::zeroed() }));
        let index = [(who(7, "python3"), 0), (who(7, "env"), 1), (who(8, "job"), 2)].into();
        assert_eq!(parents(&counted, &index)[&2], Some(0));
        counted.processes[2].1.begin = 25;
        assert_eq!(parents(&counted, &index)[&2], Some(1));
    }

    #[test]
    fn lines_of_a_buffer_that_was_forked_are_found() {
        let found = Some(DoubledBuffer { process: 0, children: 1, bytes: 13 });
        assert_eq!(pair("a", ["parent value\ndone\n", "parent value\nchild\n"]), found);
        assert_eq!(pair("a", ["parent value", "parent value"]), None, "no whole line");
        assert_eq!(pair("a", ["parent\n", "child\n"]), None);
        assert_eq!(pair("a", ["a\nx", "a\ny"]), None, "too short");
        assert_eq!(pair("bash", ["parent value\n", "parent value\n"]), None);
    }
}
