//! Whether the parts of a document from outside fit together: reports index with its numbers, and draw its arrays.

use super::{CriticalPath, Document, LastWait, RecordedChannel, Timeline};
use anyhow::{Result, ensure};

/// The largest pipe, in slots: F_SETPIPE_SZ takes at most 2^31 bytes (fs/pipe.c, `round_pipe_size`).
const MOST_SLOTS: u64 = 1 << 19;

/// Most stages: each needs a process.
const MOST_STAGES: u32 = 1 << 22;

/// Numbers have 64 bits: `log2_sizes` has at most as many elements.
const BITS: usize = 64;

/// A document that was stored or sent by a guest.
///
/// # Errors
/// What does not fit. pipeprof never writes such a document.
pub fn check(document: &Document) -> Result<()> {
    let (processes, stages) = (document.recorded.len(), document.target.stages().len());
    let known = |process: usize, place: &str| {
        ensure!(process < processes, "{place} names process {process}, and it has {processes}");
        Ok(())
    };
    for process in &document.recorded {
        let most = if stages > 1 { u32::try_from(stages)? } else { MOST_STAGES };
        let channels = document.channels.len();
        let ends = process.input.into_iter().chain(process.output);
        ensure!(ends.into_iter().all(|at| at < channels), "a process has a channel that is not there");
        process.ended_by.into_iter().chain(process.started_by).try_for_each(|at| known(at, "a process"))?;
        process.left.iter().flat_map(|left| &left.processes).try_for_each(|at| known(*at, "a process"))?;
        ensure!(process.stage < most, "a process is in stage {}, and the pipeline has {most}", process.stage);
    }
    for pipe in &document.channels {
        ensure!(
            pipe.between.is_none_or(|ends| ends.iter().all(|stage| (*stage as usize) < stages.max(1))),
            "a pipe is between stages {:?}, and the pipeline has {stages}",
            pipe.between
        );
        ensure!(
            pipe.slots.is_none_or(|slots| slots.iter().all(|slots| *slots <= MOST_SLOTS)),
            "a pipe has {:?} slots",
            pipe.slots
        );
        for end in RecordedChannel::ends(pipe) {
            known(end.process, "an end of a pipe")?;
            ensure!(end.log2_sizes.len() <= BITS, "an end of a pipe has calls of more than 2^64 bytes");
            let failed = [end.eagain, end.epipe, end.errors].iter().sum::<u64>();
            ensure!(failed <= end.all_calls(), "{failed} calls failed of {}", end.all_calls());
        }
    }
    document.streams.iter().try_for_each(|stream| known(stream.process, "a stream"))?;
    document.lock_waits.iter().flatten().try_for_each(|wait| known(wait.process, "a wait for a lock"))?;
    let waits = document.last_look.iter().flat_map(|look| &look.waits);
    waits.flat_map(LastWait::processes).filter_map(|of| of.recorded).try_for_each(|at| known(at, "a wait"))?;
    for finding in &document.findings {
        finding.processes.iter().try_for_each(|at| known(*at, "a finding"))?;
        let pipes = document.channels.len();
        ensure!(finding.channels.iter().all(|at| *at < pipes), "a finding names a pipe, and there are {pipes}");
    }
    if let Some(path) = &document.path {
        let named = path.parts.iter().filter_map(|part| part.process);
        named.chain(path.ceilings.iter().map(|ceiling| ceiling.process)).try_for_each(|at| known(at, "the path"))?;
        let woken = path.wakes.iter().flat_map(|wakes| [wakes.from, wakes.to]);
        woken.into_iter().try_for_each(|at| known(at, "a wake-up"))?;
        check_path(path, document.processes.window_ns)?;
    }
    check_timeline(&document.timeline, processes, document.channels.len())
}

/// Whether the parts of a path add up: each over its slices, all of them in each slice, and the slices to the window.
pub fn check_path(path: &CriticalPath, window_ns: u64) -> Result<()> {
    let sum = |times: &mut dyn Iterator<Item = u64>| times.map(u128::from).sum::<u128>();
    let slices = path.slice_ns.len();
    for part in &path.parts {
        ensure!(part.slices.len() == slices, "a part of the path does not have {slices} slices");
        let ns = sum(&mut part.slices.iter().copied());
        ensure!(ns == u128::from(part.ns), "a part of the path has {} ns, and its slices have {ns}", part.ns);
    }
    for wakes in &path.wakes {
        let rows = [wakes.counts.len(), wakes.first_ns.len()];
        ensure!(rows == [slices; 2], "wake-ups do not have {slices} slices");
    }
    for (slice, length) in path.slice_ns.iter().enumerate() {
        let ns = sum(&mut path.parts.iter().map(|part| part.slices[slice]));
        ensure!(ns == u128::from(*length), "slice {slice} of the path has {length} ns, and its parts have {ns}");
    }
    let ns = sum(&mut path.slice_ns.iter().copied());
    ensure!(ns == u128::from(window_ns), "the path has {ns} ns, and the recording {window_ns}");
    Ok(())
}

fn check_timeline(timeline: &Timeline, processes: usize, pipes: usize) -> Result<()> {
    let slices = timeline.slice_ns.len();
    for row in &timeline.processes {
        ensure!(row.process < processes, "the timeline names process {}, and there are {processes}", row.process);
        let rows = [&row.running, &row.runnable, &row.empty, &row.full];
        let seldom = [&row.throttled, &row.stopped].into_iter().filter(|shares| !shares.is_empty());
        ensure!(
            rows.into_iter().chain(seldom).all(|shares| shares.len() == slices),
            "a process does not have {slices} slices of time"
        );
    }
    for row in &timeline.pipes {
        ensure!(row.pipe < pipes, "the timeline names pipe {}, and there are {pipes}", row.pipe);
        ensure!(
            row.bytes.len() == slices && row.filled.len() == slices,
            "a pipe does not have {slices} slices of time"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{
        Finding, FindingKind, LockWait, PathPart, PathWakes, RecordedEnd, RecordedProcess, TimelinePipe,
        TimelineProcess,
    };
    use super::*;

    fn path_part(process: usize, ns: u64, slices: usize) -> PathPart {
        PathPart { process: Some(process), ns, slices: vec![0; slices], ..PathPart::default() }
    }

    fn path(slices: usize) -> CriticalPath {
        CriticalPath { slice_ns: vec![1; slices], ..CriticalPath::default() }
    }

    #[test]
    fn numbers_of_what_does_not_exist_are_refused() {
        let good = Document {
            recorded: vec![RecordedProcess::default(); 2],
            channels: vec![RecordedChannel { readers: vec![RecordedEnd::default()], ..RecordedChannel::default() }],
            timeline: Timeline { slice_ns: vec![1], ..Timeline::default() },
            ..Document::default()
        };
        assert!(check(&good).is_ok());
        let finding = |processes| Finding::new(FindingKind::Path, processes, String::new());
        let wakes = |to, counts| PathWakes { to, counts, ..PathWakes::default() };
        let changes: [&dyn Fn(&mut Document); 17] = [
            &|document| document.channels[0].readers[0].process = 2,
            &|document| document.channels[0].readers[0].errors = 1,
            &|document| document.channels[0].readers[0].log2_sizes = vec![0; 65],
            &|document| document.channels[0].between = Some([0, 1]),
            &|document| document.channels[0].slots = Some([1 << 20; 3]),
            &|document| document.recorded[1].stage = u32::MAX,
            &|document| document.lock_waits = Some(vec![LockWait { process: 2, ..LockWait::default() }]),
            &|document| document.findings = vec![finding(Some(2))],
            &|document| document.findings = vec![Finding { channels: vec![1], ..finding(None) }],
            &|document| document.path = Some(CriticalPath { parts: vec![path_part(2, 1, 0)], ..path(0) }),
            &|document| document.path = Some(CriticalPath { parts: vec![path_part(1, 1, 2)], ..path(1) }),
            &|document| document.path = Some(CriticalPath { parts: vec![path_part(1, u64::MAX, 0); 2], ..path(0) }),
            &|document| document.path = Some(CriticalPath { wakes: vec![wakes(2, Vec::new())], ..path(0) }),
            &|document| document.path = Some(CriticalPath { wakes: vec![wakes(1, vec![1])], ..path(0) }),
            &|document| document.timeline.processes = vec![TimelineProcess::new(2, 1)],
            &|document| document.timeline.processes = vec![TimelineProcess::new(1, 2)],
            &|document| document.timeline.pipes = vec![TimelinePipe { pipe: 1, ..TimelinePipe::default() }],
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(check(&bad).is_err(), "{number}");
        }
    }
}
