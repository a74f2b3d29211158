//! The end of the path: of the thread that ended last, or of those that have not ended.

use super::chain::{Chain, Slices};
use super::clocks::{ASSUMED, Clocks, OF_ALL, PathState};
use super::command_lines::CommandLines;
use super::cut_waits::{resolve_cut_waits, sliced};
use super::follow::{FIRST_CLOCK, PathFollower, Woken};
use super::parts::{NOBODY, PartKey, at_pipe, part, pipe_number};
use super::process_ids::ProcessIds;
use super::samples::TimedSamples;
use super::switches::SeenSwitches;
use super::wakes::SliceWakes;
use crate::record::observe::raw::{PR_ASLEEP, PR_GONE, PR_RUNNABLE, PrTask, PrWho};
use crate::record::observe::reason::{name_of, why};
use crate::result::{CriticalPath, PathCeiling, PathKind, PathPart, PathWakes, PathWhat, WaitReason};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Parts that are stored, and the part of the time that each of them is at least. What is left is one part.
const PARTS: usize = 64;
const SMALLEST: u64 = 1000;

/// The paths that end at the end of a recording.
#[derive(Debug)]
pub(crate) struct PathEnds {
    slices: Slices,
    /// At the thread that ended last.
    last: Option<Chain>,
    /// At threads that have not ended.
    alive: Vec<(PrWho, Chain)>,
    /// At the ends of processes that ran before the recording, by process id, with their stages.
    seized: BTreeMap<u32, (u32, Option<Chain>)>,
    /// By the number of a process, the path that ends at the last of its children.
    of_children: BTreeMap<u32, Chain>,
    parts: Vec<(Option<PrWho>, PartKey)>,
    /// The processes that were assumed to cost nothing, and the clocks at the end.
    assumed: Vec<PrWho>,
    /// For each of these, those that share its clock: programs of its name that were started when it had ended, and copies of it.
    sharers: Vec<Vec<PrWho>>,
    clocks: Clocks,
    sleeps: Clocks,
    /// Whether steps are missing.
    has_gaps: bool,
    /// In the same slices of time.
    pub samples: TimedSamples,
    /// Who woke whom.
    wakes: Vec<([PrWho; 2], Vec<SliceWakes>)>,
    /// If they were kept.
    pub switches: Option<SeenSwitches>,
    pub command_lines: CommandLines,
    pub ids: ProcessIds,
}

/// The names of the kernel's workers begin with this.
const WORKER: &str = "kworker";

/// Processes with a smaller part of the path have no ceiling, nor those without which it would not be shorter by this part.
const CEILING_FROM: f64 = 0.05;
const SHORTER: f64 = 0.05;

/// What a sleep at a pipe and its end take of the time of a CPU, about, ns. Without the process that ended it, the other
/// one would not have slept. If that is more than this part of a ceiling, the ceiling is not known.
const SLEEP: u64 = 2_000;
const UNCERTAIN: f64 = 0.15;

pub(crate) type Tasks<'a> = HashMap<u64, &'a PrTask>;

/// An end of a pipe that a stage has open: inode and device, whether it writes, and the stage.
pub(crate) type KnownEnd = ((u64, u32), bool, u32);

impl PathFollower {
    /// The paths that end now. Steps after this are not in them.
    pub(crate) fn ends(&mut self, now: u64, tasks: &[(u64, PrTask)], open: &[KnownEnd]) -> PathEnds {
        let slices = self.slices_until(now);
        let switches = self.switches.take().map(|switches| switches.finish(now, tasks));
        let tasks: Tasks = tasks.iter().map(|(task, state)| (*task, state)).collect();
        let mut living: Vec<u64> = self.threads.keys().copied().filter(|task| is_alive(&tasks, *task)).collect();
        // Of a process, the last one counts: what only waits for other threads, or looks again after a time, comes first.
        let patience = |task: &u64| {
            let sleeps = tasks.get(task).filter(|state| state.state as usize == PR_ASLEEP && state.inode == 0)?;
            let reasons = [WaitReason::Thread, WaitReason::Signal, WaitReason::Timer, WaitReason::Poll];
            reasons.iter().position(|reason| *reason == why(sleeps.call, sleeps.file_type))
        };
        living.sort_unstable_by_key(|task| (patience(task).unwrap_or(usize::MAX), *task));
        let mut of_children: BTreeMap<u32, Chain> =
            self.of_children.iter().map(|(parent, last)| (*parent, last.chain.clone())).collect();
        let mut alive = Vec::new();
        for task in living {
            let thread = self.threads.get(&task);
            let (who, child_of) =
                (thread.and_then(|thread| self.who(thread.process)), thread.and_then(|thread| thread.child_of));
            let chain = self.ending(task, now, &tasks, open, &mut Vec::new());
            of_children.extend(child_of.zip(chain.clone()));
            alive.extend(who.zip(chain));
        }
        let parts = self.parts.iter().map(|key| (self.who(key.process), *key)).collect();
        let assumed = self.assumed.iter().filter_map(|process| self.who(*process)).collect();
        let mut sharers = vec![Vec::new(); self.assumed.len()];
        for (number, (_, who)) in (0u32..).zip(&self.processes) {
            if let Some(of) = sharers.get_mut(usize::from(self.clock(number).wrapping_sub(FIRST_CLOCK))) {
                of.push(*who);
            }
        }
        let chain = |last: &Option<PathState>| last.as_ref().map(|last| last.chain.clone());
        let seized = self.seized.iter().map(|(tgid, (stage, last))| (*tgid, (*stage, chain(last)))).collect();
        let samples = std::mem::take(&mut self.samples);
        let (clocks, sleeps, has_gaps) = (self.ended, self.sleeps, self.has_gaps);
        let (last, command_lines, ids) = (chain(&self.last), self.command_lines.clone(), self.ids.clone());
        let pair = |(waker, woken)| Some([self.who(waker)?, self.who(woken)?]);
        let wakes = self.wakes.iter().filter_map(|(both, slices)| Some((pair(both)?, slices.to_vec()))).collect();
        PathEnds {
            slices,
            last,
            alive,
            seized,
            of_children,
            parts,
            assumed,
            sharers,
            clocks,
            sleeps,
            has_gaps,
            samples,
            wakes,
            switches,
            command_lines,
            ids,
        }
    }

    /// The path that ends at a thread now. What it sleeps for goes on, so the path goes to whoever could end that.
    fn ending(
        &mut self,
        task: u64,
        now: u64,
        tasks: &Tasks<'_>,
        open: &[KnownEnd],
        before: &mut Vec<u64>,
    ) -> Option<Chain> {
        let slices = self.slices_until(now);
        let state = tasks.get(&task)?;
        let thread = self.threads.get(&task)?;
        let (mut chain, process) = (thread.state.chain.clone(), thread.process);
        let what = match state.state as usize {
            PR_RUNNABLE => PathWhat::ForCpu,
            PR_ASLEEP if state.woken > 0 => {
                if let Some(Woken::By(woken, ..)) = &thread.woken {
                    chain = woken.chain.clone();
                }
                PathWhat::ForCpu
            }
            PR_ASLEEP => {
                before.push(task);
                if let Some(other) = self.holds_up(task, state, tasks, open, before)
                    && let Some(path) = self.ending(other, now, tasks, open, before)
                {
                    return Some(path);
                }
                match state.inode {
                    0 => PathWhat::Asleep { reason: why(state.call, state.file_type) },
                    _ => at_pipe(state.side == 1, state.locked != 0),
                }
            }
            _ => PathWhat::OnCpu,
        };
        let mut number = |what| self.parts.insert_full(part(process, what)).0 as u32;
        if what != PathWhat::OnCpu {
            chain.extend(&slices, number(PathWhat::OnCpu), state.since.min(now));
        }
        chain.extend(&slices, number(what), now);
        Some(chain)
    }

    /// The thread that could end the sleep of this one: it has the other side of the pipe, also
    /// of one in poll, or is its child.
    fn holds_up(&self, task: u64, state: &PrTask, tasks: &Tasks<'_>, open: &[KnownEnd], before: &[u64]) -> Option<u64> {
        let may = |other: &u64| *other != task && !before.contains(other) && is_alive(tasks, *other);
        let mut others: Vec<u64> = Vec::new();
        if state.inode != 0 && state.locked == 0 {
            let other = usize::from(state.side & 1 == 0);
            let pipe = (state.inode, state.device);
            others.extend(self.peers.get(&pipe_number(pipe)).map(|sides| self.living(sides[other])));
            let uses = |task: &PrTask| {
                let used = &task.used[other];
                used.inode == state.inode && used.device == u64::from(state.device)
            };
            let has_open = |task: &PrTask| open.contains(&(pipe, other == 1, task.who.stage));
            let using = tasks.iter().filter(|(_, task)| uses(task) || has_open(task));
            let mut using: Vec<(bool, u64)> = using.map(|(at, task)| (!uses(task), *at)).collect();
            using.sort_unstable();
            others.extend(using.into_iter().map(|(_, at)| at));
        } else if why(state.call, state.file_type) == WaitReason::Child {
            others.extend(self.threads.iter().filter(|(_, thread)| thread.parent == task).map(|(at, _)| *at));
            others.sort_unstable_by_key(|at| (Reverse(tasks.get(at).map_or(0, |task| task.own.begin)), *at));
        }
        let is_known = state.inode != 0
            || matches!(
                why(state.call, state.file_type),
                WaitReason::Child | WaitReason::Poll | WaitReason::Network | WaitReason::Connect | WaitReason::FileLock
            );
        let awaited = u32::try_from(state.id).ok().filter(|_| is_known).and_then(|id| self.awaited.get(&id));
        for id in awaited.into_iter().flatten() {
            let mut threads: Vec<u64> =
                tasks.iter().filter(|(_, task)| task.id == u64::from(*id)).map(|(at, _)| *at).collect();
            threads.sort_unstable();
            others.extend(threads);
        }
        others.into_iter().find(may)
    }
}

pub(crate) fn is_alive(tasks: &Tasks<'_>, task: u64) -> bool {
    tasks.get(&task).is_some_and(|task| task.started != 0 && task.state as usize != PR_GONE)
}

impl PathEnds {
    /// The path of what was looked at now and then.
    pub(super) fn seen(
        slices: Slices,
        chain: Chain,
        parts: Vec<(Option<PrWho>, PartKey)>,
        (command_lines, ids): (CommandLines, ProcessIds),
    ) -> Self {
        let none = [0; ASSUMED + 1];
        Self {
            slices,
            last: Some(chain),
            alive: Vec::new(),
            seized: BTreeMap::new(),
            of_children: BTreeMap::new(),
            parts,
            assumed: Vec::new(),
            sharers: Vec::new(),
            clocks: none,
            sleeps: none,
            has_gaps: false,
            samples: TimedSamples::default(),
            wakes: Vec::new(),
            switches: None,
            command_lines,
            ids,
        }
    }

    /// When the paths begin and end: what was counted may lack processes for want of room.
    pub(crate) fn span(&self) -> [u64; 2] {
        let ends = self.last.iter().chain(self.alive.iter().map(|(_, chain)| chain)).map(|chain| chain.at);
        [self.slices.begin, ends.fold(self.slices.begin, u64::max)]
    }

    /// The path that ends with the processes of the first `named` stages, if they have ended.
    fn end_of(&self, named: u32) -> Option<&Chain> {
        let ends = || self.seized.iter().filter(|(_, (stage, _))| *stage < named);
        let lives = |tgid: &u32| self.alive.iter().any(|(who, _)| who.tgid == *tgid);
        let last = ends().filter_map(|(_, (_, chain))| chain.as_ref()).max_by_key(|chain| chain.at);
        last.filter(|_| !ends().any(|(tgid, _)| lives(tgid)))
    }

    /// The path to store. `index` has the processes of the recording, and `stage` their places in the pipeline: if
    /// `unended`, the path ends where the last stage is that still runs and has a place. But if all processes of the first
    /// `named` stages have ended that ran before the recording, it ends with them.
    pub(crate) fn path(
        self,
        window: [u64; 2],
        index: &BTreeMap<PrWho, usize>,
        stage: impl Fn(usize) -> Option<usize>,
        unended: bool,
        named: u32,
    ) -> Option<CriticalPath> {
        let place = |who: &PrWho| index.get(who).copied();
        let with_place = |who: &PrWho| place(who).and_then(&stage);
        let last_stage = self.alive.iter().max_by_key(|(who, _)| (with_place(who), Reverse(*who)));
        let placed = last_stage.filter(|(who, _)| unended && with_place(who).is_some()).map(|(_, chain)| chain);
        let alive = last_stage.map(|(_, chain)| chain);
        // What still runs ended no sooner than what has ended.
        let rest = if unended { alive.or(self.last.as_ref()) } else { self.last.as_ref().or(alive) };
        let mut chain = self.end_of(named).or(placed).or(rest)?.clone();
        // What lies between the begin of the recording and the first step, and after the last one.
        let slices = &self.slices;
        let end_part = self.parts.len() as u32;
        chain.extend(slices, end_part, window[1]);
        let end = if self.has_gaps { PathWhat::Unknown } else { PathWhat::End };
        let keys = self.parts.iter().copied().chain([(None, part(NOBODY, end))]);
        let by_name: BTreeMap<(u32, [u64; 2]), usize> =
            index.iter().map(|(who, at)| ((who.stage, who.name), *at)).collect();
        let find = |who: PrWho| place(&who).or_else(|| by_name.get(&(who.stage, who.name)).copied());
        // Any of the kernel's workers may do a piece of work: their numbers say nothing.
        let plain = |name: String| if name.starts_with(WORKER) { WORKER.to_owned() } else { name };
        let name = |by: [u64; 2]| (by != [0; 2]).then(|| plain(name_of(by)));
        let first = (None, PathWhat::Begin, None);
        let keys: Vec<_> = keys.map(|(who, key)| (who.and_then(find), key.what, name(key.by))).collect();
        let mut of_chain = sliced(&chain);
        resolve_cut_waits(&mut of_chain, &self.parts, &self.of_children);
        let count = usize::try_from(*of_chain.keys().next_back()?).ok()? + 1;
        let mut parts: BTreeMap<&PathKind, Vec<u64>> = BTreeMap::new();
        for (slice, times) in of_chain {
            for (number, ns) in times {
                let key = keys.get(number as usize)?;
                parts.entry(key).or_insert_with(|| vec![0; count])[usize::try_from(slice).ok()?] += ns;
            }
        }
        let before = slices.begin.saturating_sub(window[0]);
        if before > 0 {
            parts.entry(&first).or_insert_with(|| vec![0; count])[0] += before;
        }
        let stored = |((process, what, by), slices): (&PathKind, Vec<u64>)| PathPart {
            process: *process,
            what: *what,
            by: by.clone(),
            ns: slices.iter().sum(),
            slices,
        };
        let mut parts: Vec<PathPart> = parts.into_iter().map(stored).collect();
        parts.sort_by_key(|part| Reverse(part.ns));
        let whole: u64 = parts.iter().map(|part| part.ns).sum();
        let large = |part: &PathPart| part.ns >= whole / SMALLEST || part.what == PathWhat::Unknown;
        let (mut parts, mut rest): (Vec<PathPart>, Vec<PathPart>) = parts.into_iter().partition(large);
        rest.extend(parts.split_off(parts.len().min(PARTS)));
        if !rest.is_empty() {
            let sum = |slice: usize| rest.iter().map(|part| part.slices[slice]).sum();
            let slices: Vec<u64> = (0..count).map(sum).collect();
            parts.push(PathPart { what: PathWhat::Others, ns: slices.iter().sum(), slices, ..PathPart::default() });
        }
        let wakes = self.woken(window[0], count, &find);
        let mut slice_ns = vec![slices.length; count];
        if let Some(last) = slice_ns.last_mut() {
            *last = (chain.at - slices.begin) - slices.length * (count as u64 - 1);
        }
        slice_ns[0] += before;
        // Without some steps, the clocks are not known.
        let clocks = [&self.clocks, &self.sleeps];
        let is_known = !unended && !self.has_gaps;
        let ceilings =
            if is_known { ceilings(self.assumed.iter().zip(&self.sharers), clocks, &parts, find) } else { Vec::new() };
        Some(CriticalPath { parts, slice_ns, lost_steps: 0, ceilings, wakes })
    }

    /// The wake-ups of processes that `find` knows, in the first `count` slices; times are from `begin` on.
    fn woken(&self, begin: u64, count: usize, find: &impl Fn(PrWho) -> Option<usize>) -> Vec<PathWakes> {
        let mut found: BTreeMap<[usize; 2], PathWakes> = BTreeMap::new();
        for ([waker, woken], slices) in &self.wakes {
            let Some((from, to)) = find(*waker).zip(find(*woken)).filter(|(from, to)| from != to) else { continue };
            let (counts, first_ns) = (vec![0; count], vec![None; count]);
            let wakes = found.entry([from, to]).or_insert(PathWakes { from, to, counts, first_ns });
            for SliceWakes { slice, first, count } in slices {
                let slice = usize::try_from(*slice).unwrap_or(usize::MAX);
                if let Some((sum, earliest)) = wakes.counts.get_mut(slice).zip(wakes.first_ns.get_mut(slice)) {
                    *sum += count;
                    let at = first.saturating_sub(begin);
                    *earliest = Some(earliest.map_or(at, |before: u64| before.min(at)));
                }
            }
        }
        found.into_values().collect()
    }
}

/// What it would take if one of the processes that are much of the path cost nothing, shortest first.
fn ceilings<'a>(
    assumed: impl Iterator<Item = (&'a PrWho, &'a Vec<PrWho>)>,
    [clocks, sleeps]: [&Clocks; 2],
    parts: &[PathPart],
    find: impl Fn(PrWho) -> Option<usize>,
) -> Vec<PathCeiling> {
    let whole: u64 = parts.iter().map(|part| part.ns).sum();
    let mut clocks_of: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    let longest = (clocks[OF_ALL] as f64 * (1.0 - SHORTER)) as u64;
    let of_row =
        |row: usize| -> u64 { parts.iter().filter(|part| part.process == Some(row)).map(|part| part.ns).sum() };
    for (((who, sharers), ns), sleeps) in assumed.zip(&clocks[OF_ALL + 1..]).zip(&sleeps[OF_ALL + 1..]) {
        let Some(process) = find(*who) else { continue };
        // Others for which the clock stood still, too, still cost what they did: that much at most is to be added.
        let others: BTreeSet<usize> = sharers.iter().filter_map(|of| find(*of)).filter(|row| *row != process).collect();
        let others: u64 = others.into_iter().map(of_row).sum();
        if of_row(process) as f64 >= CEILING_FROM * whole as f64 {
            clocks_of.entry(process).or_default().push((*ns + others, *sleeps));
        }
    }
    // Of processes that ran side by side and are one row, it is not known what they would all leave.
    let known = clocks_of.into_iter().filter_map(|(process, found)| match found[..] {
        [(ns, sleeps)] if ns <= longest && (sleeps * SLEEP) as f64 <= UNCERTAIN * ns as f64 => {
            Some(PathCeiling { process, ns })
        }
        _ => None,
    });
    let mut ceilings: Vec<PathCeiling> = known.collect();
    ceilings.sort_by_key(|ceiling| (ceiling.ns, ceiling.process));
    ceilings
}

#[cfg(test)]
mod tests {
    use super::super::clocks::ASSUMED;
    use super::*;

    #[test]
    fn a_ceiling_that_is_not_known_or_does_not_help_is_left_out() {
        const MS: u64 = 1_000_000;
        let of = |ns: u64, ended: u64| {
            let (mut clocks, mut sleeps) = ([0; ASSUMED + 1], [0; ASSUMED + 1]);
            (clocks[OF_ALL], clocks[OF_ALL + 1], sleeps[OF_ALL + 1]) = (100 * MS, ns * MS, ended);
            let part = |row: usize, ns: u64| PathPart { process: Some(row), ns: ns * MS, ..PathPart::default() };
            let parts = [part(0, 100), part(1, 10)];
            let who = |tgid: u32| PrWho { stage: 0, tgid, name: [1, 0] };
            let all = [(&who(1), &vec![who(1), who(2)])];
            ceilings(all.into_iter(), [&clocks, &sleeps], &parts, |who| Some(who.tgid as usize - 1))
        };
        // The other one shares its clock.
        assert_eq!(of(50, 1000), [PathCeiling { process: 0, ns: 60 * MS }]);
        assert_eq!(of(86, 0), []);
        // They would take more than 15 % of it.
        assert_eq!(of(50, 5000), []);
    }
}
