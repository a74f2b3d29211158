//! The stages of a recorded pipeline, and how each spent the window: the basis of the answer.

use crate::profile::{Moved, listed};
use crate::result::{Document, RecordedChannel, RecordedEnd, RecordedProcess};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

/// The stages in the order of the pipeline, each with the processes (indices) in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Stages {
    members: Vec<Vec<usize>>,
    /// By process.
    stage: Vec<Option<usize>>,
}

impl Deref for Stages {
    type Target = [Vec<usize>];

    fn deref(&self) -> &Self::Target {
        &self.members
    }
}

impl Stages {
    fn new(members: Vec<Vec<usize>>, processes: usize) -> Self {
        let mut stage = vec![None; processes];
        for (number, of) in members.iter().enumerate() {
            of.iter().for_each(|process| stage[*process] = Some(number));
        }
        Self { members, stage }
    }

    /// The stage of a process, if it has one.
    pub(crate) fn of(&self, process: usize) -> Option<usize> {
        self.stage.get(process).copied().flatten()
    }
}

/// The stages of `recording`. If pipeprof started them, these are its own; in a shell, all processes that used a pipe.
pub(crate) fn stages(recording: &Document) -> Stages {
    let count = recording.recorded.len();
    if recording.target.stages().len() > 1 {
        let mut members = vec![Vec::new(); recording.target.stages().len()];
        for (at, process) in recording.recorded.iter().enumerate() {
            members.get_mut(process.stage as usize).into_iter().for_each(|own: &mut Vec<usize>| own.push(at));
        }
        return Stages::new(members, count);
    }
    // An end that is only open counts if the other one is used: a reader may wait for it all the time.
    let used = recording.channels.iter().filter(|pipe| pipe.is_used());
    let using: BTreeSet<usize> = used.flat_map(RecordedChannel::ends).map(|end| end.process).collect();
    if using.is_empty() && recording.target.pids().is_empty() {
        return Stages::new(vec![(0..count).collect()], count);
    }
    if using.is_empty() {
        // Those asked for come first.
        let asked = recording.recorded.iter().enumerate();
        let asked = asked.filter(|(_, process)| (process.stage as usize) < recording.target.pids().len());
        return Stages::new(asked.map(|(at, _)| vec![at]).collect(), count);
    }
    Stages::new(ordered(recording, using).into_iter().map(|at| vec![at]).collect(), count)
}

/// These processes, each after those that write the pipes that it reads, otherwise as they are recorded. Of a cycle, the
/// first comes first. A process waits for no other writer of a pipe that it writes itself.
fn ordered(recording: &Document, mut rest: BTreeSet<usize>) -> Vec<usize> {
    let side = |ends: &[RecordedEnd]| -> BTreeSet<usize> {
        ends.iter().map(|end| end.process).filter(|process| rest.contains(process)).collect()
    };
    let sides: Vec<[BTreeSet<usize>; 2]> =
        recording.channels.iter().map(|pipe| [side(&pipe.writers), side(&pipe.readers)]).collect();
    // Of each process: the pipes that it writes, and how many it reads whose writers are not all in their place yet.
    let mut written: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut waits: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, [writers, readers]) in sides.iter().enumerate() {
        writers.iter().for_each(|writer| written.entry(*writer).or_default().push(at));
        if !writers.is_empty() {
            readers.difference(writers).for_each(|reader| *waits.entry(*reader).or_default() += 1);
        }
    }
    let mut left: Vec<usize> = sides.iter().map(|[writers, _]| writers.len()).collect();
    let mut free: BTreeSet<usize> = rest.iter().filter(|process| !waits.contains_key(process)).copied().collect();
    let mut ordered = Vec::with_capacity(rest.len());
    while let Some(next) = free.first().or(rest.first()).copied() {
        free.remove(&next);
        rest.remove(&next);
        ordered.push(next);
        for at in written.get(&next).into_iter().flatten() {
            left[*at] -= 1;
            if left[*at] > 0 {
                continue;
            }
            let [writers, readers] = &sides[*at];
            for reader in readers.difference(writers) {
                let count = waits.entry(*reader).or_default();
                *count -= 1;
                if *count == 0 && rest.contains(reader) {
                    free.insert(*reader);
                }
            }
        }
    }
    ordered
}

/// So many stages are counted at a glance.
const COUNTABLE: usize = 9;

/// The names of the stages: their programs. If one occurs twice, with the number of the stage in front, as `stage2-cat`; of
/// more stages than anyone counts, as `cat` and `cat-2`.
pub(crate) fn names(recording: &Document, stages: &Stages) -> Vec<String> {
    let plain: Vec<String> =
        stages.iter().enumerate().map(|(stage, members)| plain(recording, stage, members)).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    plain.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let twice = |name: &str| counts.get(name).is_some_and(|count| *count > 1);
    let typed = recording.target.stages().len() > 1;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = Vec::with_capacity(plain.len());
    for (number, name) in (1..).zip(&plain) {
        let count = seen.entry(name).or_default();
        *count += 1;
        names.push(match *count {
            _ if !twice(name) => name.clone(),
            _ if typed || plain.len() <= COUNTABLE => numbered(number, name),
            1 => name.clone(),
            more => format!("{name}-{more}"),
        });
    }
    names
}

/// The name of a program as stage `number`, from 1.
pub(crate) fn numbered(number: usize, program: &str) -> String {
    format!("stage{number}-{program}")
}

/// The program of a stage with that name, with its number or without.
pub(crate) fn unnumbered(name: &str) -> &str {
    let parts = name.strip_prefix("stage").and_then(|rest| rest.split_once('-'));
    parts.filter(|(number, _)| number.parse::<usize>().is_ok()).map_or(name, |(_, program)| program)
}

/// Programs that become another one by `exec`, as in `sh -c 'exec pv'` and `nice pv`.
const LAUNCHERS: [&str; 16] = [
    "bash", "chrt", "dash", "env", "exec", "ionice", "nice", "nohup", "numactl", "prlimit", "setpriv", "setsid", "sh",
    "stdbuf", "taskset", "zsh",
];

/// The program of a stage, without its number.
pub(crate) fn plain(recording: &Document, stage: usize, members: &[usize]) -> String {
    let words = recording.target.stages().get(stage).filter(|_| recording.target.stages().len() > 1);
    let typed =
        words.and_then(|words| words.first()).map(|program| program.rsplit('/').next().unwrap_or(program).to_owned());
    // What a launcher has become, unless it started other processes.
    let process = |at: &usize| recording.recorded.get(*at);
    let one = members.windows(2).all(|pair| match [&pair[0], &pair[1]].map(process) {
        [Some(before), Some(after)] => before.pids.len() == 1 && before.pids == after.pids,
        _ => false,
    });
    let launcher = typed.as_deref().is_some_and(|typed| LAUNCHERS.contains(&typed));
    let became = members.last().filter(|_| launcher && one).and_then(process);
    if let Some(process) = became.filter(|process| !process.name.is_empty()) {
        return process.name.clone();
    }
    let busiest = || members.iter().max_by_key(|at| recording.recorded[**at].cpu_ns);
    typed.or_else(|| busiest().map(|at| recording.recorded[*at].name.clone())).unwrap_or_default()
}

/// What the processes `of` moved through pipes, and their calls.
pub(crate) fn moved(recording: &Document, of: impl Fn(usize) -> bool) -> Moved {
    let sum = |side: fn(&RecordedChannel) -> &Vec<RecordedEnd>| -> u64 {
        let ends = recording.channels.iter().flat_map(side);
        ends.filter(|end| of(end.process)).map(|end| end.bytes).sum()
    };
    let processes = recording.recorded.iter().enumerate().filter(|(process, _)| of(*process));
    Moved {
        bytes: sum(|pipe| &pipe.writers).max(sum(|pipe| &pipe.readers)),
        calls: processes.map(|(_, process)| process.calls).sum(),
        cpu_ns: None,
    }
}

/// How often each process slept, and how often it was preempted.
pub(crate) fn switches(recording: &Document) -> Vec<[u64; 2]> {
    let waits = |process: &RecordedProcess| process.waits.values().map(|wait| wait.count).sum::<u64>();
    let mut switches: Vec<[u64; 2]> =
        recording.recorded.iter().map(|process| [waits(process), process.preemptions]).collect();
    for end in recording.channels.iter().flat_map(RecordedChannel::ends) {
        switches.get_mut(end.process).into_iter().for_each(|of: &mut [u64; 2]| of[0] += end.sleeps + end.lock_sleeps);
    }
    switches
}

/// Between which stages `pipe` is: `dd to wc`.
pub(crate) fn between(pipe: &RecordedChannel, stages: &Stages, names: &[String]) -> String {
    let [from, to] = sides(pipe, stages).map(|side| match &side[..] {
        [] => "outside".to_owned(),
        side => listed(side.iter().map(|stage| names[*stage].clone())),
    });
    format!("{from} to {to}")
}

/// The stages that write and read `pipe`, by number.
pub(crate) fn sides(pipe: &RecordedChannel, stages: &Stages) -> [Vec<usize>; 2] {
    let of = |ends: &[RecordedEnd]| -> Vec<usize> { ends.iter().filter_map(|end| stages.of(end.process)).collect() };
    let (mut writers, mut readers) = (of(&pipe.writers), of(&pipe.readers));
    if let Some([writer, reader]) = pipe.between {
        // Even if they have never used it.
        writers.push(writer as usize);
        readers.push(reader as usize);
    }
    for side in [&mut writers, &mut readers] {
        side.sort_unstable();
        side.dedup();
    }
    [writers, readers]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::result::{MeasuredTarget, PipelineCommand, Processes};

    #[test]
    fn a_launcher_is_named_by_what_it_became() {
        let name = |typed: &str, processes: &[&str]| {
            let words = [vec!["dd"], vec![typed, "-x"]].map(|words| words.into_iter().map(str::to_owned).collect());
            let process = |(name, stage, pid): (&str, u32, u32)| RecordedProcess {
                name: name.to_owned(),
                stage,
                pids: vec![pid],
                ..RecordedProcess::default()
            };
            // Each has a number of its own, except after an exec.
            let second = (2..).zip(processes).map(|(pid, name)| match name.strip_prefix("exec ") {
                Some(name) => (name, 1, pid - 1),
                None => (*name, 1, pid),
            });
            let recording = Document {
                target: MeasuredTarget::Pipeline(PipelineCommand { stages: words.to_vec(), shell: false }),
                recorded: std::iter::once(("dd", 0, 1)).chain(second).map(process).collect(),
                ..Document::default()
            };
            names(&recording, &stages(&recording)).swap_remove(1)
        };
        assert_eq!(name("/bin/sh", &["pv"]), "pv");
        assert_eq!(name("nice", &["gzip"]), "gzip");
        assert_eq!(name("sh", &["sh", "exec pv"]), "pv");
        assert_eq!(name("sh", &["sh", "pv"]), "sh");
        assert_eq!(name("sh", &["sh"]), "sh");
        // A script is what was typed, not its interpreter.
        assert_eq!(name("./convert.py", &["python3"]), "convert.py");
        assert_eq!(name("taskset", &["dd"]), "stage2-dd");
    }

    fn pipe([writers, readers]: [&[usize]; 2]) -> RecordedChannel {
        let end = |process: &usize| RecordedEnd { process: *process, sleeps: 1, ..RecordedEnd::default() };
        RecordedChannel {
            writers: writers.iter().map(end).collect(),
            readers: readers.iter().map(end).collect(),
            ..RecordedChannel::default()
        }
    }

    /// A recording of processes with these names, and of the writers and readers of each pipe.
    pub(crate) fn shell(names: impl IntoIterator<Item: Into<String>>, pipes: &[[&[usize]; 2]]) -> Document {
        let process = |name| RecordedProcess { name, ..RecordedProcess::default() };
        Document {
            processes: Processes { window_ns: 1000, ..Processes::default() },
            recorded: names.into_iter().map(Into::into).map(process).collect(),
            channels: pipes.iter().copied().map(pipe).collect(),
            ..Document::default()
        }
    }

    #[test]
    fn readers_come_after_their_writers() {
        let order = |processes: usize, pipes: &[[&[usize]; 2]]| -> Vec<usize> {
            stages(&shell(vec!["p"; processes], pipes)).iter().flatten().copied().collect()
        };
        assert_eq!(order(4, &[[&[3], &[1]], [&[1], &[0]]]), [3, 1, 0], "2 uses no pipe");
        assert_eq!(order(3, &[[&[2], &[0]], [&[1], &[0]]]), [1, 2, 0]);
        // Of a cycle, the first comes first; an own pipe is no cycle.
        assert_eq!(order(2, &[[&[0], &[1]], [&[1], &[0]]]), [0, 1]);
        assert_eq!(order(2, &[[&[0], &[0]], [&[1], &[0]]]), [1, 0]);
        // A pipe that all of them read and write, as that of make.
        assert_eq!(order(3, &[[&[0, 1, 2], &[0, 1, 2]]]), [0, 1, 2]);
        assert_eq!(order(2, &[]), [0, 1]);
    }
}
