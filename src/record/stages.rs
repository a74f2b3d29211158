//! The stages of a recorded pipeline, and how each spent the window: the basis of the answer.

use super::model::{RecordedEnd, RecordedPipe, RecordedProcess, Recording, WaitReason};
use crate::profile::Moved;
use std::collections::{BTreeMap, BTreeSet};

/// Where a stage's time went, as shares of the window. Time on a CPU and waiting for one are sums of all threads and can
/// exceed 1; sleeps at pipes are cut at 1, because several threads can wait at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StageTime {
    /// The stage's name in sentences: `xz`, or `stage 2, cat`.
    pub name: String,
    pub cpu: f64,
    /// The part of `cpu` in user space, 0 to 1.
    pub user: Option<f64>,
    pub runnable: f64,
    /// Asleep for data, by pipe (index in the recording).
    pub empty: BTreeMap<usize, f64>,
    /// Asleep for room, by pipe.
    pub full: BTreeMap<usize, f64>,
    /// Asleep for the lock of a pipe.
    pub lock: f64,
    /// The part of the window before its start and after its end.
    pub absent: f64,
    /// Other sleeps.
    pub waits: BTreeMap<WaitReason, f64>,
    /// Who stopped or traced it.
    pub held_by: BTreeMap<WaitReason, BTreeSet<String>>,
}

impl StageTime {
    /// The part of the window in which it does not hold up the others, 0 to 1: asleep for data, for room or for another
    /// process that opens a FIFO, or absent.
    pub(super) fn at_pipes(&self) -> f64 {
        let asleep: f64 = self.empty.values().chain(self.full.values()).sum();
        (asleep + self.opening() + self.absent).min(1.0)
    }

    /// Asleep until another process opens the other end of a FIFO.
    pub(super) fn opening(&self) -> f64 {
        self.waits.get(&WaitReason::Open).copied().unwrap_or(0.0).min(1.0)
    }
}

/// The stages in the order of the pipeline, each with the processes (indices) in it. If pipeprof started the stages,
/// these are its own; in a shell, all processes that used a pipe.
pub(super) fn stages(recording: &Recording) -> Vec<Vec<usize>> {
    let processes = || recording.processes.iter().enumerate();
    if recording.pipeline.stages.len() > 1 {
        let of = |stage: usize| processes().filter(move |(_, process)| process.stage as usize == stage);
        return (0..recording.pipeline.stages.len()).map(|stage| of(stage).map(|(at, _)| at).collect()).collect();
    }
    let uses = |at: usize| {
        // An end that is only open counts if the other one is used: a reader may wait for it all the time.
        let used = recording.pipes.iter().filter(|pipe| pipe.is_used());
        used.flat_map(RecordedPipe::ends).any(|end| end.process == at)
    };
    let mut using: Vec<usize> = processes().map(|(at, _)| at).filter(|at| uses(*at)).collect();
    if using.is_empty() && recording.pids.is_empty() {
        return vec![processes().map(|(at, _)| at).collect()];
    }
    if using.is_empty() {
        // Those asked for come first.
        let asked = processes().filter(|(_, process)| (process.stage as usize) < recording.pids.len());
        return asked.map(|(at, _)| vec![at]).collect();
    }
    // A reader comes after the writers of its pipes. A pipeline has few stages, and no cycles.
    let before = |reader: usize, writer: usize| {
        recording.pipes.iter().any(|pipe| {
            pipe.writers.iter().any(|end| end.process == writer) && pipe.readers.iter().any(|end| end.process == reader)
        })
    };
    let mut ordered: Vec<usize> = Vec::new();
    while !using.is_empty() {
        let free = using.iter().position(|one| using.iter().all(|other| one == other || !before(*one, *other)));
        ordered.push(using.remove(free.unwrap_or(0)));
    }
    ordered.into_iter().map(|at| vec![at]).collect()
}

/// The names of the stages: their programs, with numbers if one occurs twice.
pub(super) fn names(recording: &Recording, stages: &[Vec<usize>]) -> Vec<String> {
    let plain: Vec<String> =
        stages.iter().enumerate().map(|(stage, members)| plain(recording, stage, members)).collect();
    let twice = |name: &String| plain.iter().filter(|other| *other == name).count() > 1;
    (1..)
        .zip(&plain)
        .map(|(number, name)| if twice(name) { format!("{name} (stage {number})") } else { name.clone() })
        .collect()
}

/// Programs that become another one by `exec`, as in `sh -c 'exec pv'` and `nice pv`.
const LAUNCHERS: [&str; 16] = [
    "bash", "chrt", "dash", "env", "exec", "ionice", "nice", "nohup", "numactl", "prlimit", "setpriv", "setsid", "sh",
    "stdbuf", "taskset", "zsh",
];

fn plain(recording: &Recording, stage: usize, members: &[usize]) -> String {
    let words = recording.pipeline.stages.get(stage).filter(|_| recording.pipeline.stages.len() > 1);
    let typed =
        words.and_then(|words| words.first()).map(|program| program.rsplit('/').next().unwrap_or(program).to_owned());
    // What a launcher has become, unless it started other processes.
    let process = |at: &usize| recording.processes.get(*at);
    let one = members.windows(2).all(|pair| match [&pair[0], &pair[1]].map(process) {
        [Some(before), Some(after)] => before.pids.len() == 1 && before.pids == after.pids,
        _ => false,
    });
    let launcher = typed.as_deref().is_some_and(|typed| LAUNCHERS.contains(&typed));
    let became = members.last().filter(|_| launcher && one).and_then(process);
    if let Some(process) = became.filter(|process| !process.name.is_empty()) {
        return process.name.clone();
    }
    let busiest = || members.iter().max_by_key(|at| recording.processes[**at].cpu_ns);
    typed.or_else(|| busiest().map(|at| recording.processes[*at].name.clone())).unwrap_or_default()
}

/// How each of `stages` spent the window.
pub(super) fn times(recording: &Recording, stages: &[Vec<usize>]) -> Vec<StageTime> {
    let names = names(recording, stages);
    stages.iter().zip(names).map(|(members, name)| time(recording, members, name)).collect()
}

fn time(recording: &Recording, members: &[usize], name: String) -> StageTime {
    let window = recording.window_ns.max(1) as f64;
    let share = |ns: u64| ns as f64 / window;
    let of: Vec<&RecordedProcess> = members.iter().map(|at| &recording.processes[*at]).collect();
    let mut time = StageTime { name, ..StageTime::default() };
    let (mut known, mut user) = (0, 0.0);
    for process in &of {
        time.cpu += share(process.cpu_ns);
        time.runnable += share(process.runnable_ns);
        if let Some(part) = process.user_share {
            known += process.cpu_ns;
            user += part * process.cpu_ns as f64;
        }
        for (reason, total) in &process.waits {
            *time.waits.entry(*reason).or_default() += share(total.ns);
        }
        for (reason, names) in &process.held_by {
            time.held_by.entry(*reason).or_default().extend(names.iter().cloned());
        }
    }
    // The end is 0 if it is not known.
    let end = of.iter().map(|process| process.end_ns).max().filter(|end| *end > 0);
    let begin = of.iter().map(|process| process.begin_ns).min().unwrap_or(0);
    time.absent = share(begin) + end.map_or(0.0, |end| (1.0 - share(end)).max(0.0));
    let all: u64 = of.iter().map(|process| process.cpu_ns).sum();
    // Without the short processes whose share is unknown.
    time.user = (known > 0 && known >= all / 10 * 9).then(|| user / known as f64);
    for (at, pipe) in recording.pipes.iter().enumerate() {
        let sleep = |ends: &[RecordedEnd]| -> u64 { mine(ends, members).map(|end| end.blocked_ns).sum() };
        for (ends, shares) in [(&pipe.readers, &mut time.empty), (&pipe.writers, &mut time.full)] {
            let blocked = share(sleep(ends)).min(1.0);
            if blocked > 0.0 {
                shares.insert(at, blocked);
            }
            time.lock += mine(ends, members).map(|end| share(end.lock_ns)).sum::<f64>();
        }
    }
    time
}

fn mine<'a>(ends: &'a [RecordedEnd], members: &'a [usize]) -> impl Iterator<Item = &'a RecordedEnd> {
    ends.iter().filter(|end| members.contains(&end.process))
}

/// What the processes `of` moved through pipes, and their calls.
pub(super) fn moved(recording: &Recording, of: impl Fn(usize) -> bool) -> Moved {
    let sum = |side: fn(&RecordedPipe) -> &Vec<RecordedEnd>| -> u64 {
        let ends = recording.pipes.iter().flat_map(side);
        ends.filter(|end| of(end.process)).map(|end| end.bytes).sum()
    };
    let processes = recording.processes.iter().enumerate().filter(|(process, _)| of(*process));
    Moved {
        bytes: sum(|pipe| &pipe.writers).max(sum(|pipe| &pipe.readers)),
        calls: processes.map(|(_, process)| process.calls).sum(),
        cpu_ns: None,
    }
}

/// The stages that write and read `pipe`, by number. A stage on both sides (a process's own pipe) counts for none.
pub(super) fn sides(pipe: &RecordedPipe, stages: &[Vec<usize>]) -> [Vec<usize>; 2] {
    let of = |ends: &[RecordedEnd]| -> Vec<usize> {
        (0..stages.len()).filter(|stage| ends.iter().any(|end| stages[*stage].contains(&end.process))).collect()
    };
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
mod tests {
    use super::super::pipeline::PipelineCommand;
    use super::*;

    #[test]
    fn a_launcher_is_named_by_what_it_became() {
        let name = |typed: &str, processes: &[&str]| {
            let stages = [vec!["dd"], vec![typed, "-x"]].map(|words| words.into_iter().map(str::to_owned).collect());
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
            let recording = Recording {
                pipeline: PipelineCommand { stages: stages.to_vec(), shell: false },
                processes: std::iter::once(("dd", 0, 1)).chain(second).map(process).collect(),
                ..Recording::default()
            };
            names(&recording, &stages_of(&recording)).swap_remove(1)
        };
        assert_eq!(name("/bin/sh", &["pv"]), "pv");
        assert_eq!(name("nice", &["gzip"]), "gzip");
        assert_eq!(name("sh", &["sh", "exec pv"]), "pv");
        assert_eq!(name("sh", &["sh", "pv"]), "sh");
        assert_eq!(name("sh", &["sh"]), "sh");
        // A script is what was typed, not its interpreter.
        assert_eq!(name("./convert.py", &["python3"]), "convert.py");
        assert_eq!(name("taskset", &["dd"]), "dd (stage 2)");
    }

    fn stages_of(recording: &Recording) -> Vec<Vec<usize>> {
        super::stages(recording)
    }
}
