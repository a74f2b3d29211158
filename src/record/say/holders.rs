//! Processes that have an end of a pipe open which others use: those that were not recorded, with how much of the data can
//! be theirs (their calls are not counted), and recorded ones that made no call.

use crate::profile::few;
use crate::record::model::labels::with_id;
use crate::record::model::stage_times::StageTime;
use crate::record::model::stages::{self, Stages};
use crate::record::start::command_line::program_name;
use crate::record::start::running::OtherEnd;
use crate::report::number::number;
use crate::result::{
    Document, Finding, FindingKind, LastLook, LastWait, RecordLevel, RecordedChannel, RecordedEnd, RecordedProcess,
    SeenProcess, UnrecordedProcess,
};
use crate::util::text::{capitalized, clean, counted};
use std::collections::{BTreeMap, BTreeSet};

/// Pipes of which more are in result.json only.
const NAMED_PIPES: usize = 3;

const MIB: u64 = 1 << 20;

/// Add the processes at `others` to their pipes.
pub(crate) fn add(pipes: &mut [RecordedChannel], others: &[OtherEnd]) {
    for end in others {
        if let Some(pipe) = pipes.iter_mut().find(|pipe| pipe.inode == end.pipe.inode && pipe.device == end.pipe.device)
        {
            let side = if end.writes { &mut pipe.other_writers } else { &mut pipe.other_readers };
            side.push(end.process.clone());
        }
    }
}

/// Add those that were seen at the ends of pipes which no known process has.
pub(crate) fn add_seen(pipes: &mut [RecordedChannel], look: Option<&LastLook>) {
    let channels = look.into_iter().flat_map(|look| &look.waits).flat_map(LastWait::channels);
    let mut known = BTreeSet::new();
    for channel in channels {
        let Some(pipe) = pipes.iter_mut().find(|pipe| pipe.is(channel)) else { continue };
        let (ends, others) = if channel.room {
            (&mut pipe.readers, &mut pipe.other_readers)
        } else {
            (&mut pipe.writers, &mut pipe.other_writers)
        };
        let is_new = known.insert((channel.inode, channel.device, channel.room));
        if !is_new || !ends.is_empty() || !others.is_empty() {
            continue;
        }
        // This process has the other side of the terminal of a live recording.
        let holders = channel.holders.iter().map(|holder| &holder.process);
        for SeenProcess { pid, name, recorded, container, .. } in holders.filter(|of| of.pid != std::process::id()) {
            match recorded {
                Some(process) if ends.iter().any(|end| end.process == *process) => {}
                Some(process) => ends.push(RecordedEnd { process: *process, ..RecordedEnd::default() }),
                None => {
                    others.push(UnrecordedProcess { pid: *pid, name: name.clone(), container: container.clone() });
                }
            }
        }
    }
}

/// `from dd to wc`.
pub(crate) fn pipe_name(recording: &Document, pipe: &RecordedChannel, stages: &Stages, times: &[StageTime]) -> String {
    let at = recording.channels.iter().position(|of| std::ptr::eq(of, pipe));
    let sides = stages::sides(pipe, stages);
    // Who has made no call there, but had it as its standard input or output, is not outside.
    let silent: [fn(&RecordedProcess) -> Option<usize>; 2] = [|of| of.output, |of| of.input];
    let [from, to] = [0, 1].map(|side| {
        let used = sides[side].iter().map(|stage| format!("`{}`", times[*stage].name));
        let had_it = recording.recorded.iter().filter(|of| at.is_some() && of.execs > 0 && silent[side](of) == at);
        let had_it = had_it.map(|of| format!("`{}`", clean(&program_name(&of.name, &of.args))));
        let names = if sides[side].is_empty() { few(had_it) } else { few(used) };
        if names.is_empty() { "outside".to_owned() } else { names }
    });
    format!("from {from} to {to}")
}

/// Sentences about each pipe that was used and has such processes.
pub(crate) fn findings(recording: &Document, stages: &Stages, times: &[StageTime]) -> Vec<Finding> {
    // Behind a terminal is who types.
    let told = |pipe: &RecordedChannel| pipe.is_used() && !pipe.is_typed();
    let used = recording.channels.iter().enumerate().filter(|(_, pipe)| told(pipe));
    let said = |at, text| Finding { channels: vec![at], ..Finding::new(FindingKind::Unrecorded, None, text) };
    let mut found: Vec<Finding> = used
        .flat_map(|pipe| [(pipe, true), (pipe, false)])
        .filter_map(|((at, pipe), writes)| Some(said(at, unrecorded(recording, stages, times, pipe, writes)?)))
        .take(NAMED_PIPES)
        .collect();
    let idle = without_calls(recording, stages);
    let (have, calls) = if idle.len() == 1 { ("has", "makes") } else { ("have", "make") };
    if !idle.is_empty() {
        let names = few(idle.iter().map(|stage| format!("`{}`", times[*stage].name)));
        let text = format!("{names} only {have} a pipe open and {calls} no calls on it.");
        found.push(Finding::new(FindingKind::OnlyOpen, idle.iter().flat_map(|stage| stages[*stage].clone()), text));
    }
    found
}

/// From this part of the time on a CPU on, a stage does more than to have a pipe open.
const BUSY: f64 = 0.05;

/// The stages that made no call on the pipes that they have open, while another process used the same ends, and were
/// hardly on a CPU. They do not limit a pipeline.
pub(crate) fn without_calls(recording: &Document, stages: &Stages) -> Vec<usize> {
    if recording.level == RecordLevel::Sched {
        return Vec::new();
    }
    // Of each stage with an end of a used pipe: whether it only has open what others use.
    let mut holds: Vec<Option<bool>> = vec![None; stages.len()];
    let used = recording.channels.iter().filter(|pipe| pipe.is_used());
    for ends in used.flat_map(|pipe| [&pipe.writers, &pipe.readers]) {
        let calls = |end: &RecordedEnd| end.all_calls() + end.sleeps;
        let all: u64 = ends.iter().map(calls).sum();
        let mut own: BTreeMap<usize, u64> = BTreeMap::new();
        for (stage, end) in ends.iter().filter_map(|end| Some((stages.of(end.process)?, end))) {
            *own.entry(stage).or_default() += calls(end);
        }
        for (stage, calls) in own {
            holds[stage] = Some(holds[stage].unwrap_or(true) && calls == 0 && all > 0);
        }
    }
    let cpu_ns = |members: &[usize]| -> u64 {
        members.iter().filter_map(|member| recording.recorded.get(*member)).map(|process| process.cpu_ns).sum()
    };
    let unseen = |member: &usize| recording.recorded.get(*member).is_some_and(RecordedProcess::moves_unseen);
    let is_idle = |members: &[usize]| {
        (cpu_ns(members) as f64) < BUSY * recording.processes.window_ns as f64 && !members.iter().any(unseen)
    };
    (0..stages.len()).filter(|stage| holds[*stage] == Some(true) && is_idle(&stages[*stage])).collect()
}

/// The processes that were not recorded at one side of a pipe.
fn unrecorded(
    recording: &Document,
    stages: &Stages,
    times: &[StageTime],
    pipe: &RecordedChannel,
    writes: bool,
) -> Option<String> {
    let others = if writes { &pipe.other_writers } else { &pipe.other_readers };
    let (have, were) = match others.len() {
        0 => return None,
        1 => ("has", "was"),
        _ => ("have", "were"),
    };
    let end = if writes { "write" } else { "read" };
    let who = capitalized(&few(others.iter().map(|of| with_id(&of.name, of.pid, None, of.container.as_ref()))));
    let name = pipe_name(recording, pipe, stages, times);
    let recorded = if writes { &pipe.writers } else { &pipe.readers };
    let also = if recorded.is_empty() { "" } else { "also " };
    let (end, noun) = (if pipe.kind.is_pipe() { end } else { "other" }, pipe.kind.noun());
    let open = format!("{who} {also}{have} the {end} end of the {noun} {name} open, but {were} not recorded.");
    if !pipe.kind.is_pipe() {
        return Some(open);
    }
    let theirs = theirs(recording, pipe, writes).map_or_else(String::new, |text| format!(" {text}"));
    Some(open + &theirs)
}

/// How much the processes moved that were not recorded: what the other side moved more than the recorded processes at
/// their side, but for what the pipe itself can hold. `None` if it is not known.
fn theirs(recording: &Document, pipe: &RecordedChannel, writes: bool) -> Option<String> {
    let (same, other) = if writes { (&pipe.writers, &pipe.readers) } else { (&pipe.readers, &pipe.writers) };
    let unseen = recording.recorded.iter().any(RecordedProcess::moves_unseen);
    if recording.level == RecordLevel::Sched || other.is_empty() || unseen {
        return None;
    }
    let sum = |ends: &[RecordedEnd]| ends.iter().map(|end| end.bytes).sum::<u64>();
    let bytes = |count: u64| match count {
        small if small < MIB => counted(small, "byte"),
        large => format!("{} MiB", number(large as f64 / MIB as f64)),
    };
    let (recorded, moved) = (sum(same), sum(other));
    let capacity = pipe.capacity();
    let more = moved.saturating_sub(recorded);
    let [who, did, does] = if writes { ["readers", "read", "wrote"] } else { ["writers", "wrote", "read"] };
    // tee copies what stays in the pipe, and a slot that splice filled can hold more than a page.
    let odd = |end: &RecordedEnd| end.calls.keys().any(|call| call == "tee" || call == "splice");
    let about = if same.iter().chain(other).any(odd) { "about" } else { "at least" };
    Some(if more > capacity {
        format!(
            "The {who} {did} {}, the recorded processes {does} {}: others {does} {about} {}.",
            bytes(moved),
            bytes(recorded),
            bytes(more - capacity)
        )
    } else if more > 0 {
        let held = if writes { "in the pipe before" } else { "left in the pipe" };
        format!(
            "The {who} {did} {}, the recorded processes {does} {}: others {does} the difference, or it was {held}.",
            bytes(moved),
            bytes(recorded)
        )
    } else {
        let until = if writes {
            "the readers get no end of file until all of them have closed it"
        } else {
            "the writers get no SIGPIPE until all of them have closed it"
        };
        format!("The {who} {did} no more than the recorded processes {does}, so they may only hold it open: {until}.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::model::stages::tests::shell;

    /// A writer and a reader that moved so many bytes, and other processes at their ends.
    fn recording([wrote, read]: [u64; 2], others: [u32; 2]) -> Document {
        let mut recording = shell(["dd", "cat"], &[[&[0], &[1]]]);
        let pipe = &mut recording.channels[0];
        pipe.slots = Some([1; 3]);
        (pipe.writers[0].bytes, pipe.readers[0].bytes) = (wrote, read);
        [pipe.other_writers, pipe.other_readers] = others.map(|count| {
            (1..=count).map(|pid| UnrecordedProcess { pid, name: "sh".to_owned(), container: None }).collect()
        });
        recording
    }

    fn said(recording: &Document) -> Vec<String> {
        let stages = stages::stages(recording);
        let found = findings(recording, &stages, &crate::record::model::stage_times::times(recording, &stages));
        found.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn what_cannot_have_been_in_the_pipe_is_theirs() {
        let open = "`sh` (process 1) also has the write end of the pipe from `dd` to `cat` open, but was not recorded.";
        let text = |bytes| said(&recording(bytes, [1, 0])).join(" ");
        assert_eq!(
            text([1000, 9000]),
            format!(
                "{open} The readers read 9,000 bytes, the recorded processes wrote 1,000 bytes: others wrote at least \
                 3,904 bytes."
            )
        );
        assert!(text([0, 5 << 20]).contains("The readers read 5.00 MiB, the recorded processes wrote 0 bytes:"));
        assert!(text([1000, 1001]).ends_with("others wrote the difference, or it was in the pipe before."));
        assert!(text([1000, 1000]).contains("they may only hold it open: the readers get no end of file"));
        let without_calls = Document { level: RecordLevel::Sched, ..recording([0, 0], [1, 0]) };
        assert_eq!(said(&without_calls), [open]);
        // The recorded writer may have written more.
        let mut unseen = recording([0, 5 << 20], [1, 0]);
        unseen.recorded[0].io_uring_calls = 7;
        assert_eq!(said(&unseen), [open]);
    }

    #[test]
    fn readers_are_named_too_and_many_are_counted() {
        let said = said(&recording([9000, 1000], [0, 6]));
        let [text] = &said[..] else { panic!("{said:?}") };
        let names = "`sh` (process 1), `sh` (process 2), `sh` (process 3) and 3 more also have";
        assert!(text.starts_with(names) && text.ends_with("others read at least 3,904 bytes."), "{text}");
    }

    #[test]
    fn a_recorded_process_that_only_holds_a_pipe_open_does_not_limit() {
        let mut recording = recording([9000, 9000], [0, 0]);
        recording.recorded.push(RecordedProcess { name: "bash".to_owned(), ..RecordedProcess::default() });
        recording.channels[0].writers.push(RecordedEnd { process: 2, ..RecordedEnd::default() });
        let stages = stages::stages(&recording);
        let [idle] = without_calls(&recording, &stages)[..] else { panic!() };
        assert_eq!(stages[idle], [2]);
        assert_eq!(said(&recording), ["`bash` only has a pipe open and makes no calls on it."]);
        recording.recorded[2].unseen_requests = 7;
        assert!(without_calls(&recording, &stages).is_empty());
        recording.recorded[2].unseen_requests = 0;
        // The only writer of a pipe is what its reader waits for.
        recording.channels[0].writers.remove(0);
        assert!(said(&recording).is_empty());
    }

    #[test]
    fn nothing_is_said_without_such_processes() {
        assert!(said(&recording([9000, 1000], [0, 0])).is_empty());
    }
}
