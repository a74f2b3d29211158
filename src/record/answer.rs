//! The answer of a recording: which stage limits the pipeline, and why. docs/method.md gives the rules. It depends on
//! the recording alone.

use super::holders;
use super::model::{
    BusyProgram, DEFAULT_SLOTS, LimitingStage, PipelineLimit, RecordedPipe, RecordedProcess, Recording, WaitReason,
};
use super::stages::{self, StageTime, Stages};
use crate::profile::{few, listed};
use crate::report::number::percent;
use crate::result::ExecutedOn;
use crate::util::text::{capitalized, counted};
use std::collections::BTreeSet;

/// A stage that sleeps at its pipes for this part of the window does not limit the pipeline.
const WAITS_AT_PIPES: f64 = 0.5;

/// Stages whose sleeps at pipes differ by less than this are alike.
const ALIKE: f64 = 0.1;

/// A stage that is on a CPU for this part of the window is busy.
const BUSY: f64 = 0.5;

/// A stage whose parts add up to more than this has threads that run or sleep side by side.
const SIDE_BY_SIDE: f64 = 1.05;

/// Smaller parts of the window are not named.
const NAMED: f64 = 0.05;

/// From this part of the window on, waiting for a CPU casts doubt on the answer.
const CROWDED: f64 = 0.2;

/// Shorter windows are mostly the start of programs.
const SHORT_NS: u64 = 20_000_000;

/// Calls of fewer bytes in the mean are named, from this number of calls on.
const SMALL_BYTES: u64 = 512;
const MANY_CALLS: u64 = 1000;

/// Sentences of one kind of which more are only counted.
const NAMED_ALIKE: usize = 3;

/// Signals by which the kernel ends a program for what it did.
const FAULTS: [(i32, &str, &str); 6] = [
    (libc::SIGILL, "SIGILL", "illegal instruction"),
    (libc::SIGABRT, "SIGABRT", "it aborted"),
    (libc::SIGBUS, "SIGBUS", "bad memory access"),
    (libc::SIGFPE, "SIGFPE", "arithmetic error"),
    (libc::SIGSEGV, "SIGSEGV", "invalid memory access"),
    (libc::SIGSYS, "SIGSYS", "forbidden system call"),
];

/// Findings, and reasons to doubt them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RecordedAnswer {
    pub limit: Option<PipelineLimit>,
    pub findings: Vec<String>,
    pub cautions: Vec<String>,
}

/// The answer of `recording`.
#[must_use]
pub(super) fn answer(recording: &Recording) -> RecordedAnswer {
    let stages = stages::stages(recording);
    let times = stages::times(recording, &stages);
    let used = recording.pipes.iter().any(|pipe| pipe.is_used() || pipe.between.is_some());
    let mut answer = RecordedAnswer::default();
    if times.is_empty() {
        answer.findings.push("No process was recorded.".to_owned());
    } else if used {
        let (limit, sentences) = limit(recording, &stages, &times);
        answer.limit = limit;
        answer.findings.extend(sentences);
        answer.findings.extend(oddities(recording, &stages, &times));
        answer.findings.extend(holders::findings(recording, &stages, &times));
    } else {
        let spent = few(times.iter().map(|time| format!("`{}` {}", time.name, spent(time))));
        answer.findings.push(format!("No pipe was used. {}.", capitalized(&spent)));
    }
    answer.findings.extend(first_of(recording.processes.iter().filter_map(|process| crashed(recording, process))));
    answer.cautions = cautions(recording, &times);
    answer
}

/// What limits the pipeline, and who waits for it.
fn limit(recording: &Recording, stages: &Stages, times: &[StageTime]) -> (Option<PipelineLimit>, Vec<String>) {
    let outside = outside(recording, stages, times);
    if let ([only], None) = (times, &outside) {
        return (None, vec![format!("`{}` {}.", only.name, spent(only))]);
    }
    let idle = holders::without_calls(recording, stages);
    let mut order: Vec<usize> = (0..times.len()).filter(|stage| !idle.contains(stage)).collect();
    order.sort_by(|a, b| times[*a].at_pipes().total_cmp(&times[*b].at_pipes()));
    let Some(first) = order.first().copied() else { return (None, Vec::new()) };
    let least = &times[first];
    let waiting = most_waiting(recording, stages, times, None);
    if least.at_pipes() >= WAITS_AT_PIPES {
        let (limit, sentence) = outside.unwrap_or_else(|| {
            let sentence = "No single stage limits the pipeline: every stage waits for another one most of the time.";
            (PipelineLimit::EachOther, sentence.to_owned())
        });
        return (Some(limit), std::iter::once(sentence).chain(waiting).collect());
    }
    let is_alike = |time: &StageTime| time.at_pipes() < least.at_pipes() + ALIKE && time.cpu >= BUSY;
    let alike: Vec<usize> = order.iter().copied().filter(|stage| is_alike(&times[*stage])).collect();
    let limiting = |stages: &[usize]| {
        let stage = |time: &StageTime| LimitingStage {
            name: time.name.clone(),
            cpu: time.cpu,
            runnable: time.runnable,
            at_pipes: time.at_pipes(),
        };
        Some(PipelineLimit::Stages { stages: stages.iter().map(|at| stage(&times[*at])).collect() })
    };
    if alike.len() > 1 && alike.contains(&first) {
        let names = few(alike.iter().map(|stage| format!("`{}` ({})", times[*stage].name, spent(&times[*stage]))));
        let sentence = format!("{names} limit the pipeline alike.");
        return (limiting(&alike), std::iter::once(sentence).chain(waiting).collect());
    }
    let sentence = format!("`{}` limits the pipeline: it {}.", least.name, spent(least));
    let waiting = most_waiting(recording, stages, times, Some(first));
    (limiting(&[first]), std::iter::once(sentence).chain(waiting).collect())
}

/// If most of a stage's sleeps are at pipes whose other side was not recorded: who waits for what.
fn outside(recording: &Recording, stages: &Stages, times: &[StageTime]) -> Option<(PipelineLimit, String)> {
    for time in times {
        for (shares, side, what) in [(&time.empty, 0, "data from"), (&time.full, 1, "room in")] {
            let is_outside = |at: usize| stages::sides(&recording.pipes[at], stages)[side].is_empty();
            if let Some(share) = shares.iter().find(|(at, share)| **share >= WAITS_AT_PIPES && is_outside(**at)) {
                let other = if side == 0 { "writer" } else { "reader" };
                let sentence = format!(
                    "The limit is outside of the pipeline: `{}` waits {} of the time for {what} a pipe whose {other} was \
                     not recorded.",
                    time.name,
                    percent(*share.1)
                );
                return Some((PipelineLimit::Outside { stage: time.name.clone(), waits: *share.1 }, sentence));
            }
        }
    }
    None
}

/// `it is on a CPU 97 % of the time (12 % user, 85 % system)`, with all that takes a part worth naming.
fn spent(time: &StageTime) -> String {
    let mut parts: Vec<(f64, String)> = Vec::new();
    let split = time.user.filter(|_| time.cpu >= NAMED).map_or_else(String::new, |user| {
        format!(" ({} user, {} system)", percent(time.cpu * user), percent(time.cpu * (1.0 - user)))
    });
    parts.push((
        time.cpu,
        match time.cpu {
            many if many > SIDE_BY_SIDE => format!("uses {many:.1} CPUs{split}"),
            _ => format!("is on a CPU {} of the time{split}", percent(time.cpu)),
        },
    ));
    parts.push((time.runnable, format!("waits for a CPU {}", percent(time.runnable))));
    parts.push((time.lock, format!("waits for the lock of a pipe {}", percent(time.lock))));
    let at = |sum: f64, what: &str| (sum, format!("waits {what} {}", percent(sum.min(1.0))));
    parts.push(at(time.empty.values().sum(), "for data in a pipe"));
    parts.push(at(time.full.values().sum(), "for room in a pipe"));
    // Where threads of a busy stage sleep while another one runs, they do not hold it up.
    let together = parts.iter().map(|(share, _)| share).sum::<f64>() + time.waits.values().sum::<f64>();
    let covered = time.cpu >= BUSY && together > SIDE_BY_SIDE;
    for (reason, share) in time.waits.iter().filter(|_| !covered) {
        let by = time
            .held_by
            .get(reason)
            .map_or_else(String::new, |names| format!(" by {}", listed(names.iter().map(|name| format!("`{name}`")))));
        parts.push((*share, format!("{}{by} {}", reason.doing(), percent(share.min(1.0)))));
    }
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named = parts.iter().filter(|(share, _)| *share >= NAMED).count().clamp(1, 3);
    listed(parts.into_iter().take(named).map(|(_, text)| text))
}

/// The stage, other than `limiting`, that sleeps most at one of its pipes, or until a FIFO is opened.
fn most_waiting(
    recording: &Recording,
    stages: &Stages,
    times: &[StageTime],
    limiting: Option<usize>,
) -> Option<String> {
    // The pipe, and the side of it at which others are.
    type Place = Option<(usize, usize)>;
    let mut most: Option<(f64, usize, Place)> = None;
    for (stage, time) in times.iter().enumerate().filter(|(stage, _)| Some(*stage) != limiting) {
        let at_pipes = [(&time.empty, 0), (&time.full, 1)]
            .into_iter()
            .flat_map(|(shares, side)| shares.iter().map(move |(pipe, share)| (*share, stage, Some((*pipe, side)))));
        for wait in at_pipes.chain([(time.opening(), stage, None)]).filter(|(share, ..)| *share >= NAMED) {
            if most.is_none_or(|(largest, ..)| wait.0 > largest) {
                most = Some(wait);
            }
        }
    }
    let (share, stage, place) = most?;
    let (name, share) = (&times[stage].name, percent(share));
    let Some((pipe, side)) = place else {
        return Some(format!("`{name}` {} {share}.", WaitReason::Open.doing()));
    };
    let others = &stages::sides(&recording.pipes[pipe], stages)[side];
    let others = few(others.iter().filter(|other| **other != stage).map(|other| format!("`{}`", times[*other].name)));
    let why = match (side, others.is_empty()) {
        (0, true) => "a pipe is empty".to_owned(),
        (0, false) => format!("the pipe from {others} is empty"),
        (_, true) => "a pipe is full".to_owned(),
        (_, false) => format!("the pipe to {others} is full"),
    };
    Some(format!("`{name}` waits {share} of the time because {why}."))
}

/// The first three of these sentences, each once, and how many more there are.
fn first_of(sentences: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut sentences: Vec<String> = sentences.filter(|sentence| known.insert(sentence.clone())).collect();
    let more = sentences.len().saturating_sub(NAMED_ALIKE);
    sentences.truncate(NAMED_ALIKE);
    sentences.extend((more > 0).then(|| format!("The same holds for {more} more, which result.json has.")));
    sentences
}

/// Properties of pipes that are worth a sentence.
fn oddities(recording: &Recording, stages: &Stages, times: &[StageTime]) -> Vec<String> {
    let (mut small, mut short, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    for pipe in &recording.pipes {
        if let Some([_, _, least]) = pipe.slots.filter(|[_, _, least]| *least < DEFAULT_SLOTS && pipe.bytes() > 0) {
            let name = pipe_name(pipe, stages, times);
            let size = counted(least * 4, "KiB");
            small.push(format!("The pipe {name} holds only {size}; the default is 64 KiB."));
        }
        for (ends, does) in [(&pipe.writers, "writes"), (&pipe.readers, "reads")] {
            for end in ends {
                let calls = end.all_calls() - end.eagain - end.epipe - end.errors;
                if calls >= MANY_CALLS && end.bytes / calls < SMALL_BYTES {
                    let name = &recording.processes[end.process].name;
                    let mean = (end.bytes as f64 / calls as f64).round() as u64;
                    short.push(format!("`{name}` {does} only {} per call.", counted(mean, "byte")));
                }
            }
        }
    }
    for process in recording.processes.iter().filter(|process| process.io_uring_calls > 0) {
        unseen.push(format!("`{}` uses io_uring, whose reads and writes are not recorded.", process.name));
    }
    [small, short, unseen].into_iter().flat_map(|sentences| first_of(sentences.into_iter())).collect()
}

/// A program that a fault of its own ended. A shell reports only that of the last one.
fn crashed(recording: &Recording, process: &RecordedProcess) -> Option<String> {
    let number = i32::try_from(process.signal?).ok()?;
    let (_, name, what) = FAULTS.into_iter().find(|(signal, ..)| *signal == number)?;
    let advice = match number {
        libc::SIGILL if recording.executed_on == ExecutedOn::Tcg => {
            ": the guest's CPU may lack what it was compiled for; try --cpu max"
        }
        _ => "",
    };
    Some(format!("`{}` was killed by {name} ({what}){advice}.", process.name))
}

/// `from dd to wc`.
pub(super) fn pipe_name(pipe: &RecordedPipe, stages: &Stages, times: &[StageTime]) -> String {
    let [from, to] = stages::sides(pipe, stages).map(|side| {
        let names = few(side.iter().map(|stage| format!("`{}`", times[*stage].name)));
        if names.is_empty() { "outside".to_owned() } else { names }
    });
    format!("from {from} to {to}")
}

fn cautions(recording: &Recording, times: &[StageTime]) -> Vec<String> {
    let mut cautions = Vec::new();
    if !recording.on_disk.is_empty() && recording.executed_on == ExecutedOn::Tcg {
        let names = few(recording.on_disk.iter().map(|path| format!("`{path}`")));
        let were = if recording.on_disk.len() == 1 { "was" } else { "were" };
        cautions.push(format!(
            "Not exact: {names} {were} on a disk, which answers at moments that depend on this machine."
        ));
    }
    if recording.window_ns < SHORT_NS {
        cautions.push("The pipeline took less than 20 ms: most of it is the start of its programs.".to_owned());
    }
    let crowded: Vec<&StageTime> = times.iter().filter(|time| time.runnable >= CROWDED).collect();
    // The CPUs of an emulated guest take turns.
    if !crowded.is_empty() && recording.executed_on != ExecutedOn::Tcg {
        let names = few(crowded.iter().map(|time| format!("`{}` {}", time.name, percent(time.runnable))));
        cautions.push(format!(
            "The CPUs are busy: {names} of the time runnable but without a CPU. The answer may differ on an idle machine."
        ));
    }
    cautions.extend(busy_others(&recording.others));
    cautions
}

/// Who else used the CPUs, if that is much.
fn busy_others(others: &[BusyProgram]) -> Option<String> {
    let all: f64 = others.iter().map(|program| program.share).sum();
    let names = few(others.iter().map(|program| format!("`{}` {}", program.name, percent(program.share))));
    (all > crate::run::BUSY).then(|| {
        format!(
            "Other programs used {} of the CPUs' time: {}. Times may differ on an idle machine.",
            percent(all),
            names
        )
    })
}

impl WaitReason {
    /// The reason in a sentence.
    fn doing(self) -> &'static str {
        match self {
            Self::Timer => "sleeps on a timer",
            Self::Disk => "waits for files",
            Self::Network => "waits for the network",
            Self::Child => "waits for a child process",
            Self::Thread => "waits for another thread",
            Self::Poll => "waits in poll for a timer or another event",
            Self::Device => "waits for a device",
            Self::Signal => "waits for a signal",
            Self::Open => "waits until another process opens the other end of a FIFO",
            Self::Memory => "waits for memory",
            Self::Stopped => "is stopped",
            Self::Traced => "is traced",
            Self::Frozen => "is frozen by its cgroup",
            Self::Other => "waits for something else",
        }
    }

    /// The reason in a table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Disk => "files",
            Self::Network => "network",
            Self::Child => "child",
            Self::Thread => "thread",
            Self::Poll => "poll",
            Self::Device => "device",
            Self::Signal => "signal",
            Self::Open => "FIFO to be opened",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::Traced => "traced",
            Self::Frozen => "frozen",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{RecordedEnd, RecordedProcess, WaitTotal};
    use super::super::pipeline::PipelineCommand;
    use super::*;

    const WINDOW: u64 = 1_000_000_000;

    /// A pipeline of stages `a`, `b`, ..., each with shares of the window in percent: on a CPU, asleep for data, asleep
    /// for room, on a timer.
    fn pipeline(stages: &[[u64; 4]]) -> Recording {
        let percent = WINDOW / 100;
        let name = |stage: usize| char::from(b'a' + stage as u8).to_string();
        let end = |process, share: u64| RecordedEnd {
            process,
            bytes: 1 << 20,
            blocked_ns: share * percent,
            sleeps: 1,
            ..RecordedEnd::default()
        };
        let processes = stages.iter().enumerate().map(|(stage, [cpu, _, _, timer])| RecordedProcess {
            name: name(stage),
            stage: stage as u32,
            cpu_ns: cpu * percent,
            user_share: Some(0.75),
            waits: [(WaitReason::Timer, WaitTotal { ns: timer * percent, count: 1 })].into(),
            ..RecordedProcess::default()
        });
        let pipes = (1..stages.len()).map(|reader| RecordedPipe {
            between: Some([reader as u32 - 1, reader as u32]),
            slots: Some([16; 3]),
            writers: vec![end(reader - 1, stages[reader - 1][2])],
            readers: vec![end(reader, stages[reader][1])],
            ..RecordedPipe::default()
        });
        Recording {
            window_ns: WINDOW,
            pipeline: PipelineCommand {
                stages: (0..stages.len()).map(|stage| vec![name(stage)]).collect(),
                shell: false,
            },
            processes: processes.collect(),
            pipes: pipes.collect(),
            ..Recording::default()
        }
    }

    fn findings(stages: &[[u64; 4]]) -> String {
        answer(&pipeline(stages)).findings.join(" ")
    }

    #[test]
    fn the_stage_that_waits_least_at_its_pipes_limits() {
        assert_eq!(
            findings(&[[96, 0, 2, 0], [10, 88, 0, 0]]),
            "`a` limits the pipeline: it is on a CPU 96 % of the time (72 % user, 24 % system). `b` waits 88 % of the \
             time because the pipe from `a` is empty."
        );
        assert_eq!(
            findings(&[[5, 0, 94, 0], [2, 1, 1, 95], [3, 96, 0, 0]]),
            "`b` limits the pipeline: it sleeps on a timer 95 %. `c` waits 96 % of the time because the pipe from `b` is \
             empty."
        );
    }

    #[test]
    fn what_limits_is_known_without_its_sentence() {
        let limit = |stages: &[[u64; 4]]| answer(&pipeline(stages)).limit;
        let names = |stages: &[[u64; 4]]| match limit(stages) {
            Some(PipelineLimit::Stages { stages }) => stages.into_iter().map(|stage| stage.name).collect::<String>(),
            other => format!("{other:?}"),
        };
        assert_eq!(names(&[[96, 0, 2, 0], [10, 88, 0, 0]]), "a");
        assert_eq!(names(&[[90, 0, 8, 0], [88, 10, 0, 0]]), "ab");
        assert_eq!(limit(&[[30, 0, 60, 0], [30, 60, 0, 0]]), Some(PipelineLimit::EachOther));
        assert_eq!(limit(&[[50, 0, 0, 49]]), None);
    }

    #[test]
    fn a_stage_that_ended_early_or_began_late_does_not_limit() {
        let mut recording = pipeline(&[[4, 0, 0, 0], [80, 2, 0, 0], [3, 95, 0, 0]]);
        for (process, percent) in recording.processes.iter_mut().zip([5, 99, 100]) {
            process.end_ns = WINDOW / 100 * percent;
        }
        let text = answer(&recording).findings.join(" ");
        assert!(text.starts_with("`b` limits the pipeline"), "{text}");
        // Nor does one that was started late, as in a shell's second pipeline.
        let mut recording = pipeline(&[[90, 2, 0, 0], [4, 90, 0, 0], [1, 1, 0, 0]]);
        recording.processes[2].begin_ns = WINDOW / 100 * 97;
        let text = answer(&recording).findings.join(" ");
        assert!(text.starts_with("`a` limits the pipeline"), "{text}");
    }

    #[test]
    fn threads_that_sleep_beside_a_running_one_are_not_named() {
        let mut recording = pipeline(&[[90, 0, 2, 100], [10, 88, 0, 0]]);
        let text = answer(&recording).findings.join(" ");
        let busy = "`a` limits the pipeline: it is on a CPU 90 % of the time (68 % user, 22 % system). `b`";
        assert!(text.starts_with(busy), "{text}");
        // Waits for the CPU, and those of a stage that hardly runs, say why.
        recording.processes[0].runnable_ns = WINDOW / 4;
        assert!(answer(&recording).findings[0].ends_with("and waits for a CPU 25 %."), "{recording:?}");
        let text = findings(&[[30, 0, 2, 100], [10, 88, 0, 0]]);
        assert!(text.starts_with("`a` limits the pipeline: it sleeps on a timer 100 % and is on a CPU 30 %"), "{text}");
    }

    #[test]
    fn stages_that_are_alike_are_both_named() {
        let text = findings(&[[90, 0, 8, 0], [88, 10, 0, 0]]);
        assert!(text.starts_with("`a` (is on a CPU 90 % of the time"), "{text}");
        assert!(text.contains("limit the pipeline alike"), "{text}");
        let text = findings(&[[30, 0, 60, 0], [30, 60, 0, 0]]);
        assert!(text.starts_with("No single stage limits the pipeline"), "{text}");
    }

    #[test]
    fn one_program_waits_for_no_other_stage() {
        let mut recording = pipeline(&[[30, 0, 0, 0]]);
        let end = RecordedEnd { calls: [("write".to_owned(), 1)].into(), bytes: 10, ..RecordedEnd::default() };
        recording.pipes.push(RecordedPipe { writers: vec![end], ..RecordedPipe::default() });
        for begin in [0, WINDOW / 100 * 60] {
            recording.processes[0].begin_ns = begin;
            let text = answer(&recording).findings.join(" ");
            assert_eq!(text, "`a` is on a CPU 30 % of the time (22 % user, 8 % system).");
        }
    }

    #[test]
    fn a_stopped_stage_limits() {
        let mut recording = pipeline(&[[4, 0, 94, 0], [5, 10, 0, 0]]);
        let held = &mut recording.processes[1];
        held.waits = [(WaitReason::Stopped, WaitTotal { ns: WINDOW / 100 * 64, count: 1 })].into();
        let said = |recording: &Recording| answer(recording).findings.remove(0);
        assert!(said(&recording).starts_with("`b` limits the pipeline: it is stopped 64 %, waits"), "{recording:?}");
        recording.processes[1].held_by = [(WaitReason::Stopped, ["cpulimit".to_owned()].into())].into();
        assert!(said(&recording).starts_with("`b` limits the pipeline: it is stopped by `cpulimit` 64 %, waits"));
    }

    #[test]
    fn a_program_that_crashed_is_named() {
        let mut recording = pipeline(&[[96, 0, 2, 0], [10, 88, 0, 0]]);
        let said = |recording: &Recording| answer(recording).findings.join(" ");
        recording.processes[0].signal = Some(libc::SIGPIPE.cast_unsigned());
        assert!(!said(&recording).contains("killed"), "{}", said(&recording));
        recording.processes[0].signal = Some(libc::SIGILL.cast_unsigned());
        assert!(said(&recording).ends_with("`a` was killed by SIGILL (illegal instruction)."), "{}", said(&recording));
        recording.executed_on = ExecutedOn::Tcg;
        assert!(said(&recording).ends_with("try --cpu max."), "{}", said(&recording));
    }

    #[test]
    fn a_limit_outside_of_the_pipeline_is_said() {
        let mut recording = pipeline(&[[5, 0, 0, 0], [5, 93, 0, 0]]);
        let outside = RecordedEnd { blocked_ns: WINDOW / 100 * 92, sleeps: 9, ..RecordedEnd::default() };
        recording.pipes.push(RecordedPipe { inode: 7, readers: vec![outside], ..RecordedPipe::default() });
        let answer = answer(&recording);
        assert_eq!(answer.limit, Some(PipelineLimit::Outside { stage: "a".to_owned(), waits: 0.92 }));
        let text = answer.findings.join(" ");
        assert!(
            text.starts_with("The limit is outside of the pipeline: `a` waits 92 % of the time for data"),
            "{text}"
        );
    }

    #[test]
    fn small_pipes_small_calls_and_busy_cpus_are_said() {
        let mut recording = pipeline(&[[90, 0, 0, 0], [5, 93, 0, 0]]);
        recording.pipes[0].slots = Some([16, 2, 2]);
        recording.pipes[0].writers[0].calls = [("write".to_owned(), 1 << 20)].into();
        recording.processes[0].runnable_ns = WINDOW / 2;
        let said = answer(&recording);
        let text = said.findings.join(" ");
        assert!(text.contains("The pipe from `a` to `b` holds only 8 KiB; the default is 64 KiB."), "{text}");
        assert!(text.contains("`a` writes only 1 byte per call."), "{text}");
        assert!(said.cautions[0].starts_with("The CPUs are busy: `a` 50 %"), "{:?}", said.cautions);
    }

    #[test]
    fn an_emulated_guest_with_a_disk_is_not_exact() {
        let mut recording = pipeline(&[[90, 0, 0, 0], [5, 93, 0, 0]]);
        recording.on_disk = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        assert!(answer(&recording).cautions.is_empty(), "times are not exact with KVM in any case");
        recording.executed_on = ExecutedOn::Tcg;
        let said = &answer(&recording).cautions[0];
        assert!(said.starts_with("Not exact: `a`, `b`, `c` and 1 more were on a disk"), "{said}");
    }

    #[test]
    fn a_command_without_pipes_has_an_answer() {
        assert_eq!(
            findings(&[[50, 0, 0, 49]]),
            "No pipe was used. `a` is on a CPU 50 % of the time (38 % user, 12 % system) and sleeps on a timer 49 %."
        );
    }
}
