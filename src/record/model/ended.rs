//! Processes that have ended. What they counted is taken out of the kernel's maps while the pipeline runs, so that these
//! need room for living processes only. Those of a stage that ran the same program on the same pipes are added up.

use crate::record::model::alike::{PipeSide, SameEnds};
use crate::record::observe::counted::{MOST_FAILURES, Members, ProcessStart, RecordedCounts, add, add_process};
use crate::record::observe::raw::{PR_TOLD_DEFAULT, PrCounts, PrEnd, PrProcess, PrReason, PrWait, PrWho};
use bytemuck::Zeroable as _;
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashMap};

/// The most groups that are kept by the pipes that they used, and the most processes whose start is kept.
const MOST: usize = 16_384;

/// The most processes that have rows of their own for what befell them.
pub(crate) const MOST_APART: usize = 8;

/// Whether a process went on after a signal that asked it to end, or left zombies at its end. Such a process has a row of its own.
pub(crate) fn stands_out(process: &PrProcess) -> bool {
    process.zombies > 1 || process.told_at > 0 && process.told_how as usize != PR_TOLD_DEFAULT
}

/// A group has a number from here on instead of a process id, which is less than 2^22 (include/linux/threads.h,
/// `PID_MAX_LIMIT`).
const FIRST: u32 = 1 << 31;

/// Groups of processes that have ended.
#[derive(Debug, Default)]
pub(crate) struct EndedProcesses {
    /// The number of each is its index.
    groups: IndexMap<(SameEnds, u64), Group>,
    /// Calls and sleeps at pipes of processes that are in no group of their own.
    lost: u64,
    failures: Vec<(PrWho, PrProcess)>,
    /// How many that stand out have a group of their own.
    apart: usize,
    starts: Vec<ProcessStart>,
}

#[derive(Debug)]
struct Group {
    who: PrWho,
    process: PrProcess,
    ends: BTreeMap<PipeSide, PrCounts>,
    /// By call, type of file and holder.
    waits: BTreeMap<(u32, u32, [u64; 2]), PrWait>,
    members: Members,
}

impl EndedProcesses {
    /// Add processes, each with the counts of its ends and waits. Returns the group of each.
    pub(crate) fn add(&mut self, ended: &RecordedCounts) -> HashMap<PrWho, PrWho> {
        let mut ends: HashMap<PrWho, BTreeMap<PipeSide, PrCounts>> = HashMap::new();
        for (end, counts) in &ended.ends {
            ends.entry(end.who).or_default().insert((end.inode, end.device, end.side), *counts);
        }
        let mut groups = HashMap::new();
        for (who, process) in &ended.processes {
            if self.starts.len() < MOST {
                self.starts.push(ProcessStart::of(&(*who, *process)));
            }
            if process.code > 0 && self.failures.len() < MOST_FAILURES {
                self.failures.push((*who, *process));
            }
            // A copy that executes nothing has the name of its parent's script.
            let copy_of = match process.execs {
                _ if stands_out(process) && self.apart < MOST_APART => {
                    self.apart += 1;
                    who.tgid.into()
                }
                0 => process.parent,
                _ => 0,
            };
            let group = self.group(who, copy_of, ends.remove(who).unwrap_or_default());
            add_process(&mut group.process, process);
            group.members.pids.push(who.tgid);
            group.members.lived_ns += process.end.saturating_sub(process.begin);
            groups.insert(*who, group.who);
        }
        for (reason, wait) in &ended.waits {
            let Some(PrWho { tgid: number, .. }) = groups.get(&reason.who) else { continue };
            let sum = self.groups[(number - FIRST) as usize]
                .waits
                .entry((reason.call, reason.file_type, reason.holder))
                .or_insert_with(PrWait::zeroed);
            sum.count += wait.count;
            sum.ns += wait.ns;
        }
        groups
    }

    /// The group of a process, to which its `ends` are added. Copies are told apart by the process that they are copies of.
    fn group(&mut self, who: &PrWho, copy_of: u64, ends: BTreeMap<PipeSide, PrCounts>) -> &mut Group {
        let mut same = (((who.stage, who.name), ends.keys().copied().collect()), copy_of);
        let mut ends = ends;
        if self.groups.len() >= MOST && !self.groups.contains_key(&same) {
            self.lost +=
                ends.values().map(|end| end.kinds.iter().sum::<u64>() + end.sleeps + end.lock_sleeps).sum::<u64>();
            (same.0.1, same.1, ends) = Default::default();
        }
        let next = self.groups.len() as u32;
        let group = self.groups.entry(same).or_insert_with(|| Group {
            who: PrWho { tgid: FIRST + next, ..*who },
            process: PrProcess::zeroed(),
            ends: BTreeMap::new(),
            waits: BTreeMap::new(),
            members: Members::default(),
        });
        for (side, counts) in ends {
            add(group.ends.entry(side).or_insert_with(PrCounts::zeroed), &counts);
        }
        group
    }

    /// Add all groups to what the other processes have counted.
    pub(crate) fn add_to(self, counted: &mut RecordedCounts) {
        counted.starts = self.starts;
        let failed = counted.processes.iter().filter(|(_, process)| process.code > 0);
        counted.failures = self.failures.into_iter().chain(failed.copied()).collect();
        counted.failures.sort_by_key(|(_, process)| process.end);
        counted.failures.truncate(MOST_FAILURES);
        for Group { who, process, ends, waits, members } in self.groups.into_values() {
            counted.processes.push((who, process));
            let end = |(inode, device, side)| PrEnd { who, inode, device, side };
            counted.ends.extend(ends.into_iter().map(|(side, counts)| (end(side), counts)));
            let reason = |(call, file_type, holder)| PrReason { who, call, file_type, holder };
            counted.waits.extend(waits.into_iter().map(|(why, wait)| (reason(why), wait)));
            counted.members.insert(who, members);
        }
        if let Some(state) = &mut counted.state {
            state.lost_ends += self.lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observe::raw::PrState;

    /// A process that wrote one byte to a pipe, unless that is 0, and waited once.
    fn ended(tgid: u32, pipe: u64) -> RecordedCounts {
        let who = PrWho { tgid, name: [7, 0], ..PrWho::zeroed() };
        let process = PrProcess { threads: 1, cpu_ns: 3, begin: 100, end: 110, ..PrProcess::zeroed() };
        let kinds = std::array::from_fn(|kind| u64::from(kind == 0));
        let counts = PrCounts { bytes: 1, kinds, ..PrCounts::zeroed() };
        let end = (PrEnd { who, inode: pipe, device: 1, side: 1 }, counts);
        let wait = (PrReason { who, ..PrReason::zeroed() }, PrWait { count: 1, ns: 5 });
        RecordedCounts {
            processes: vec![(who, process)],
            ends: Some(end).filter(|_| pipe > 0).into_iter().collect(),
            waits: vec![wait],
            ..RecordedCounts::default()
        }
    }

    fn all(processes: impl Iterator<Item = RecordedCounts>) -> RecordedCounts {
        let mut groups = EndedProcesses::default();
        processes.for_each(|process| drop(groups.add(&process)));
        let mut counted = RecordedCounts { state: Some(PrState::zeroed()), ..RecordedCounts::default() };
        groups.add_to(&mut counted);
        counted
    }

    #[test]
    fn processes_of_one_kind_are_one_and_nothing_is_lost() {
        let counted = all((1..=5000).map(|pid| ended(pid, 0)).chain((1..=200).map(|pid| ended(pid, 8))));
        let [(who, process), (other, _)] = &counted.processes[..] else { panic!("{:?}", counted.processes) };
        assert_eq!((process.threads, process.cpu_ns, process.begin, process.end), (5000, 15_000, 100, 110));
        let members = &counted.members[who];
        assert_eq!((members.pids.len(), members.lived_ns), (5000, 50_000));
        assert_eq!((counted.waits[0].1.count, counted.waits[0].1.ns), (5000, 25_000));
        let [(end, counts)] = &counted.ends[..] else { panic!("{:?}", counted.ends) };
        assert_eq!((end.who, end.inode, counts.bytes), (*other, 8, 200));
    }

    #[test]
    fn memory_is_bounded_and_what_is_left_out_is_counted() {
        let most = u32::try_from(MOST).unwrap();
        let counted = all((1..=most + 10).map(|pid| ended(pid, u64::from(pid))));
        assert_eq!(counted.processes.len(), MOST + 1);
        assert_eq!(counted.processes.iter().map(|(_, process)| process.cpu_ns).sum::<u64>(), 3 * u64::from(most + 10));
        assert_eq!((counted.ends.len(), counted.state.unwrap().lost_ends), (MOST, 10));
    }
}
