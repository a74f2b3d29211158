//! Which processes did the same: a loop of a shell, xargs and make start the same programs thousands of times, each time
//! with pipes of their own. They are one row, and the time and size of a report do not depend on how many they are.

use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::raw::PrWho;
use indexmap::IndexSet;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// From so many on, processes that did the same at different pipes are one row: nobody types as many.
const MANY: usize = 9;

/// From so many on, turns of a loop are one row: those of one kind that ended before the next one began.
const TURNS: usize = 3;

/// Of many scripts, one that lived for a tenth of the window or longer has its own row.
const LONG: u64 = 10;

/// The longest chain of pipes whose processes are all told apart has twice as many.
const ROUNDS: usize = 64;

/// The inode, device and side of a pipe.
pub(crate) type PipeSide = (u64, u32, u32);

/// A stage, and the name of a program in it.
pub(crate) type StageProgram = (u32, [u64; 2]);

/// Processes of one stage and program, with the sides of pipes that they used.
pub(crate) type SameEnds = (StageProgram, BTreeSet<PipeSide>);

/// How a process ended: its signal and its exit code.
type HowEnded = [u64; 2];

/// A number for each process. It is the same for processes of a stage that ran the same program on the same pipes, with the same
/// `script` (a number, 0 for none) unless there are many, and for
/// [`MANY`], or [`TURNS`] of a loop that ended in the same way, that did so on pipes of the same kind. Pipes are of the same kind if the
/// same processes, of those that are told apart already, write and read them: the colour refinement of graphs.
pub(crate) fn alike(counted: &RecordedCounts, script: impl Fn(&PrWho) -> u64) -> HashMap<PrWho, usize> {
    let scripts = scripts(counted, &script);
    let program = |who: &PrWho| {
        let own = script(who);
        let is_told = scripts.get(&(who.stage, who.name)).is_some_and(|told| told.contains(&own));
        (who.stage, [who.name[0], who.name[1] ^ if is_told { own } else { 0 }])
    };
    let mut used: HashMap<PrWho, BTreeSet<PipeSide>> = HashMap::new();
    for (end, _) in &counted.ends {
        used.entry(end.who).or_default().insert((end.inode, end.device, end.side));
    }
    let mut groups: IndexSet<SameEnds> = IndexSet::new();
    let mut exact: Vec<(PrWho, usize)> = Vec::new();
    for (who, _) in &counted.processes {
        let sides = used.remove(who).unwrap_or_default();
        exact.push((*who, groups.insert_full((program(who), sides)).0));
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    kinds(&groups).into_iter().enumerate().for_each(|(group, kind)| members.entry(kind).or_default().push(group));
    let turns = turns(counted, &exact);
    let mut firsts: Vec<usize> = (0..groups.len()).collect();
    for groups in members.values() {
        let mut merge = |groups: &[usize]| groups.iter().for_each(|group| firsts[*group] = groups[0]);
        if groups.len() >= MANY {
            merge(groups);
            continue;
        }
        let mut alike: BTreeMap<HowEnded, Vec<usize>> = BTreeMap::new();
        for (group, turn) in groups.iter().filter_map(|group| Some((*group, turns.get(group)?))) {
            alike.entry(turn.how).or_default().push(group);
        }
        for groups in alike.values().filter(|groups| groups.len() >= TURNS) {
            let mut spans: Vec<[u64; 2]> = groups.iter().map(|group| turns[group].span).collect();
            spans.sort_unstable();
            if spans.windows(2).all(|two| two[0][1] <= two[1][0]) {
                merge(groups);
            }
        }
    }
    exact.into_iter().map(|(who, group)| (who, firsts[group])).collect()
}

/// A group of processes that have all ended.
struct Turn {
    /// From the first begin to the last end, by the programs' clock, ns.
    span: [u64; 2],
    how: HowEnded,
}

/// The groups whose processes ended, all in the same way, before the last process of all did.
fn turns(counted: &RecordedCounts, exact: &[(PrWho, usize)]) -> HashMap<usize, Turn> {
    let last = counted.processes.iter().map(|(_, process)| process.end).max().unwrap_or(0);
    let mut turns: HashMap<usize, Option<Turn>> = HashMap::new();
    for ((_, process), (_, group)) in counted.processes.iter().zip(exact) {
        let (span, how) = ([process.begin, process.end], [process.signal, process.code]);
        let turn = turns.entry(*group).or_insert(Some(Turn { span, how }));
        *turn = turn
            .take()
            .filter(|turn| process.end < last && turn.how == how)
            .map(|turn| Turn { span: [turn.span[0].min(span[0]), turn.span[1].max(span[1])], how });
    }
    turns.into_iter().filter_map(|(group, turn)| Some((group, turn?))).collect()
}

/// The scripts of each program that have rows of their own: all if there are few; of many those that lived long, such as the one that
/// pyenv's scripts start at the end.
fn scripts(counted: &RecordedCounts, script: impl Fn(&PrWho) -> u64) -> HashMap<StageProgram, BTreeSet<u64>> {
    let mut lived: HashMap<StageProgram, BTreeMap<u64, u64>> = HashMap::new();
    for (who, process) in &counted.processes {
        let one = process.end.saturating_sub(process.begin);
        let ns = counted.members.get(who).map_or(one, |members| members.lived_ns);
        *lived.entry((who.stage, who.name)).or_default().entry(script(who)).or_default() += ns;
    }
    let begin = counted.processes.iter().map(|(_, process)| process.begin).min().unwrap_or(0);
    let end = counted.processes.iter().map(|(_, process)| process.end).max().unwrap_or(0);
    let long = end.saturating_sub(begin) / LONG;
    let told = |scripts: BTreeMap<u64, u64>| -> BTreeSet<u64> {
        if scripts.len() < MANY {
            return scripts.into_keys().collect();
        }
        let mut scripts: Vec<(u64, u64)> = scripts.into_iter().filter(|(_, ns)| *ns >= long.max(1)).collect();
        scripts.sort_by_key(|(script, ns)| (Reverse(*ns), *script));
        scripts.into_iter().take(MANY - 1).map(|(script, _)| script).collect()
    };
    lived.into_iter().map(|(program, scripts)| (program, told(scripts))).collect()
}

/// A number for each group, the same for those that cannot be told apart by what is at the other ends of their pipes.
fn kinds(groups: &IndexSet<SameEnds>) -> Vec<usize> {
    let mut ends: BTreeMap<(u64, u32), Vec<(u32, usize)>> = BTreeMap::new();
    for (group, (_, sides)) in groups.iter().enumerate() {
        for (inode, device, side) in sides {
            ends.entry((*inode, *device)).or_default().push((*side, group));
        }
    }
    let mut programs = IndexSet::new();
    let mut kinds: Vec<usize> = groups.iter().map(|(program, _)| programs.insert_full(*program).0).collect();
    let mut count = programs.len();
    for _ in 0..ROUNDS {
        let mut pipes = IndexSet::new();
        let of_pipe: HashMap<(u64, u32), usize> = ends
            .iter()
            .map(|(pipe, ends)| {
                let users: BTreeSet<(u32, usize)> = ends.iter().map(|(side, group)| (*side, kinds[*group])).collect();
                (*pipe, pipes.insert_full(users).0)
            })
            .collect();
        let mut finer = IndexSet::new();
        kinds = groups
            .iter()
            .zip(&kinds)
            .map(|((_, sides), kind)| {
                let used: BTreeSet<(u32, Option<usize>)> = sides
                    .iter()
                    .map(|(inode, device, side)| (*side, of_pipe.get(&(*inode, *device)).copied()))
                    .collect();
                finer.insert_full((*kind, used)).0
            })
            .collect();
        if finer.len() == count {
            break;
        }
        count = finer.len();
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observe::raw::{PR_WRITE, PrCounts, PrEnd, PrProcess};
    use bytemuck::Zeroable as _;

    const READ: u32 = 1 - PR_WRITE as u32;
    const WRITE: u32 = PR_WRITE as u32;

    /// How many kinds there are of processes with these names, which use these sides of pipes.
    fn rows(processes: &[(u64, &[(u64, u32)])]) -> usize {
        let mut counted = RecordedCounts::default();
        for (tgid, (name, sides)) in (1..).zip(processes) {
            let who = PrWho { tgid, name: [*name, 0], ..PrWho::zeroed() };
            counted.processes.push((who, PrProcess::zeroed()));
            for (inode, side) in *sides {
                counted.ends.push((PrEnd { who, inode: *inode, device: 1, side: *side }, PrCounts::zeroed()));
            }
        }
        alike(&counted, |_| 0).into_values().collect::<BTreeSet<usize>>().len()
    }

    #[test]
    fn many_processes_that_did_the_same_are_one_row() {
        let pairs = |count: u64| -> Vec<[(u64, u32); 3]> {
            (0..count).map(|at| [(at, WRITE), (at, READ), (1000, WRITE)]).collect()
        };
        let of = |pairs: &[[(u64, u32); 3]]| {
            let ends = pairs.iter().flat_map(|ends| [(1, &ends[..1]), (2, &ends[1..])]);
            let all: Vec<(u64, &[(u64, u32)])> = ends.chain([(3, &[(1000, READ)][..])]).collect();
            rows(&all)
        };
        // A few of them were typed.
        assert_eq!(of(&pairs(8)), 17);
        assert_eq!(of(&pairs(900)), 3);
        // Same pipe: one row, however few.
        assert_eq!(rows(&[(1, &[(5, WRITE)]), (1, &[(5, WRITE)]), (2, &[(5, READ)])]), 2);
        let scripts = |count: u64| {
            let mut counted = RecordedCounts::default();
            for tgid in 1..=count {
                let who = PrWho { tgid: tgid as u32, ..PrWho::zeroed() };
                counted.processes.push((who, PrProcess::zeroed()));
            }
            alike(&counted, |who| who.tgid.into()).into_values().collect::<BTreeSet<usize>>().len()
        };
        assert_eq!([scripts(3), scripts(200)], [3, 1], "few scripts were typed");
    }

    /// Three processes, each with a pipe of its own to a fourth that lives on, and these times and exit codes.
    fn turns_of(times: [[u64; 3]; 3]) -> usize {
        let mut counted = RecordedCounts::default();
        let mut add = |tgid: u32, [begin, end, code]: [u64; 3], pipe: u64| {
            let who = PrWho { tgid, name: [u64::from(tgid == 9), 0], ..PrWho::zeroed() };
            counted.processes.push((who, PrProcess { begin, end, code, ..PrProcess::zeroed() }));
            let side = if tgid == 9 { READ } else { WRITE };
            counted.ends.push((PrEnd { who, inode: pipe, device: 1, side }, PrCounts::zeroed()));
        };
        for (tgid, times) in (1..).zip(times) {
            add(tgid, times, u64::from(tgid));
        }
        add(9, [0, 100, 0], 50);
        alike(&counted, |_| 0).into_values().collect::<BTreeSet<usize>>().len()
    }

    #[test]
    fn turns_of_a_loop_are_one_row() {
        assert_eq!(turns_of([[1, 5, 0], [5, 9, 0], [10, 20, 0]]), 2);
        assert_eq!(turns_of([[1, 6, 0], [5, 9, 0], [10, 20, 0]]), 4, "two ran at once");
        assert_eq!(turns_of([[1, 5, 0], [5, 9, 1], [10, 20, 0]]), 4, "one failed");
        assert_eq!(turns_of([[1, 5, 0], [5, 9, 0], [10, 100, 0]]), 4, "one runs on");
    }

    #[test]
    fn the_place_in_a_chain_tells_programs_apart() {
        let ends: Vec<[(u64, u32); 2]> = (0..20).map(|at| [(at, READ), (at + 1, WRITE)]).collect();
        let cats: Vec<(u64, &[(u64, u32)])> = ends.iter().map(|ends| (1, &ends[..])).collect();
        assert_eq!(rows(&cats), 20);
    }
}
