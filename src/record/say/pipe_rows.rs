//! Rows of the tables of pipes. A program that starts others makes pipes that often carry nothing, such as one for each
//! child's errors: those between the same programs are one row. So are those of processes that are one row themselves.

use crate::record::model::stage_times;
use crate::record::model::stages;
use crate::record::observe::timeline::mean_fill;
use crate::record::say::holders::pipe_name;
use crate::result::{Document, RecordLevel, RecordedChannel, RecordedEnd};
use std::collections::{BTreeMap, BTreeSet};

/// One pipe, or several through which nothing went or whose processes are one row.
pub(crate) struct PipeRow<'a> {
    pub name: String,
    pub pipes: Vec<&'a RecordedChannel>,
}

/// Pipes through which nothing went are left out if nobody waited for this part of the window.
const WAITED: f64 = 0.05;

/// So many bytes of a process to itself are signals for its own threads.
const SIGNALS: u64 = 1 << 16;

/// Of more rows than this, those with less than a hundredth of the bytes of the largest, or with few bytes, are left out, too, unless
/// somebody waited there or a finding is about them: pipes of a program's start, such as those of a shell that looks for the real
/// program.
pub(crate) const MANY: usize = 8;
const LITTLE: u64 = 100;

/// Fewer bytes are few.
const FEW_BYTES: u64 = 4096;

/// The pipes that were used, or are between stages.
pub(crate) fn used(recording: &Document) -> impl Iterator<Item = &RecordedChannel> {
    recording.channels.iter().filter(|pipe| pipe.is_used() || pipe.between.is_some())
}

/// The pipes that say something, in the order of the stages. result.json has each of them.
pub(crate) fn rows(recording: &Document) -> Vec<PipeRow<'_>> {
    let stages = stages::stages(recording);
    let times = stage_times::times(recording, &stages);
    let mut used: Vec<&RecordedChannel> = used(recording).collect();
    used.sort_by_cached_key(|pipe| stages::sides(pipe, &stages));
    let mut rows: Vec<PipeRow<'_>> = Vec::new();
    // The rows of pipes that can be several, by name.
    let mut shared: BTreeMap<String, usize> = BTreeMap::new();
    for pipe in used {
        let mut name =
            pipe_name(recording, pipe, &stages, &times).replace('`', "").trim_start_matches("from ").to_owned();
        if !pipe.kind.is_pipe() {
            name += &format!(" ({})", noun_with_port(pipe));
        }
        if carried_nothing(recording, pipe) || is_of_many(recording, pipe) {
            let at = *shared.entry(name.clone()).or_insert(rows.len());
            if let Some(row) = rows.get_mut(at) {
                row.pipes.push(pipe);
                continue;
            }
        }
        rows.push(PipeRow { name, pipes: vec![pipe] });
    }
    rows.retain(|row| tells(recording, row));
    if rows.len() > MANY {
        let is_between = |row: &PipeRow<'_>| row.pipes.iter().any(|pipe| pipe.between.is_some());
        let named = recording.findings.iter().flat_map(|finding| &finding.channels);
        let named: Vec<&RecordedChannel> = named.filter_map(|at| recording.channels.get(*at)).collect();
        let is_named = |row: &PipeRow<'_>| named.iter().any(|of| row.pipes.iter().any(|pipe| std::ptr::eq(*of, *pipe)));
        let largest = rows.iter().map(PipeRow::bytes).max().unwrap_or(0);
        // Without calls, no bytes are known.
        let few = if recording.level == RecordLevel::Sched { 0 } else { FEW_BYTES };
        let least = (largest / LITTLE).max(few);
        rows.retain(|row| row.bytes() >= least || waited(recording, row) || is_between(row) || is_named(row));
    }
    for row in rows.iter_mut().filter(|row| row.pipes.len() > 1) {
        let noun = if row.are_pipes() { "pipes, " } else { "× " };
        row.name = format!("{} {noun}{}", row.pipes.len(), row.name);
    }
    rows
}

/// Whether something went through pipes, or somebody waited for it: a program makes a pipe for the error of each `exec`, and
/// one for its own threads.
fn tells(recording: &Document, row: &PipeRow<'_>) -> bool {
    let is_own = |pipe: &RecordedChannel| {
        let users: BTreeSet<usize> = pipe.ends().map(|end| end.process).collect();
        pipe.between.is_none() && users.len() == 1 && !pipe.writers.is_empty() && pipe.bytes() < SIGNALS
    };
    waited(recording, row) || !row.pipes.iter().all(|pipe| carried_nothing(recording, pipe) || is_own(pipe))
}

/// Whether somebody waited there for a good part of the window.
fn waited(recording: &Document, row: &PipeRow<'_>) -> bool {
    let blocked_ns = row.blocked_ns(true) + row.blocked_ns(false);
    blocked_ns as f64 >= WAITED * recording.processes.window_ns as f64
}

/// Whether no byte went through `pipe`. Those between the stages of a pipeline are rows of their own in any case.
fn carried_nothing(recording: &Document, pipe: &RecordedChannel) -> bool {
    // Bytes are not known without calls.
    recording.level != RecordLevel::Sched && pipe.between.is_none() && pipe.bytes() == 0
}

/// Whether it is one of several that the processes of one row made.
fn is_of_many(recording: &Document, pipe: &RecordedChannel) -> bool {
    let process = |end: &RecordedEnd| recording.recorded.get(end.process).is_some_and(|process| process.pids.len() > 1);
    pipe.between.is_none() && pipe.ends().any(process)
}

impl PipeRow<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        self.pipes.iter().map(|pipe| pipe.bytes()).sum()
    }

    /// Time asleep at one side of these pipes.
    pub(crate) fn blocked_ns(&self, readers: bool) -> u64 {
        let ends = self.pipes.iter().flat_map(|pipe| if readers { &pipe.readers } else { &pipe.writers });
        ends.map(|end| end.blocked_ns).sum()
    }

    /// Whether they are pipes, not sockets or terminals.
    pub(crate) fn are_pipes(&self) -> bool {
        self.pipes.iter().all(|pipe| pipe.kind.is_pipe())
    }

    /// The mean part of it that was in use in a window of `ns`; `None` if unknown.
    pub(crate) fn fill(&self, ns: u64) -> Option<f64> {
        let known: Vec<f64> = self.pipes.iter().filter_map(|pipe| pipe.mean_filled).collect();
        let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
        let bytes = mean.map(|filled| if self.are_pipes() { filled * 4096.0 } else { filled });
        let at_calls = bytes.zip(self.largest()).map(|(bytes, capacity)| (bytes / capacity.max(1) as f64).min(1.0));
        let part = |readers: bool| (self.blocked_ns(readers) as f64 / ns.max(1) as f64).min(1.0);
        mean_fill(part(false), part(true), at_calls)
    }

    /// The same in slots or, of other channels, in bytes.
    pub(crate) fn mean_filled(&self, ns: u64) -> Option<f64> {
        let unit = if self.are_pipes() { 4096.0 } else { 1.0 };
        let capacity = self.largest()?;
        self.pipes
            .iter()
            .any(|pipe| pipe.mean_filled.is_some())
            .then(|| self.fill(ns))?
            .map(|fill| fill * capacity as f64 / unit)
    }

    fn largest(&self) -> Option<u64> {
        self.capacity().map(|sizes| sizes.into_iter().max().unwrap_or_default())
    }

    /// First, last and least capacity in bytes; `None` if unknown, or not the same for all.
    pub(crate) fn capacity(&self) -> Option<[u64; 3]> {
        let first = self.pipes.first()?.sizes()?;
        self.pipes.iter().all(|pipe| pipe.sizes() == Some(first)).then_some(first)
    }

    /// What each process did at one side: of several pipes, the sums.
    pub(crate) fn ends(&self, readers: bool) -> Vec<RecordedEnd> {
        let mut sums: BTreeMap<usize, RecordedEnd> = BTreeMap::new();
        for end in self.pipes.iter().flat_map(|pipe| if readers { &pipe.readers } else { &pipe.writers }) {
            let none = || RecordedEnd { process: end.process, ..RecordedEnd::default() };
            add(sums.entry(end.process).or_insert_with(none), end);
        }
        sums.into_values().collect()
    }
}

/// `socket`, or `TCP connection, port 4000`: servers have the lower ports.
fn noun_with_port(channel: &RecordedChannel) -> String {
    let noun = channel.kind.noun();
    let port = channel.ports().and_then(|ports| ports.into_iter().min());
    port.map_or_else(|| noun.to_owned(), |port| format!("{noun}, port {port}"))
}

/// Add the counts that the tables show.
fn add(sum: &mut RecordedEnd, more: &RecordedEnd) {
    for (kind, calls) in &more.calls {
        *sum.calls.entry(kind.clone()).or_default() += calls;
    }
    sum.log2_sizes.resize(sum.log2_sizes.len().max(more.log2_sizes.len()), 0);
    sum.log2_sizes.iter_mut().zip(&more.log2_sizes).for_each(|(sum, more)| *sum += more);
    for (sum, more) in [
        (&mut sum.bytes, more.bytes),
        (&mut sum.short, more.short),
        (&mut sum.eagain, more.eagain),
        (&mut sum.sleeps, more.sleeps),
        (&mut sum.wakes, more.wakes),
        (&mut sum.needless, more.needless),
    ] {
        *sum += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Processes, RecordedProcess};

    /// A program that reads 30 pipes without data, then `bytes` from each of `busy` others.
    fn recording(busy: usize, bytes: u64) -> Document {
        let pipe = |inode: usize, bytes| RecordedChannel {
            inode: inode as u64,
            slots: Some([16; 3]),
            readers: vec![RecordedEnd {
                bytes,
                calls: [("read".to_owned(), 2)].into(),
                sleeps: 1,
                blocked_ns: 10,
                ..RecordedEnd::default()
            }],
            ..RecordedChannel::default()
        };
        Document {
            processes: Processes { window_ns: 1000, ..Processes::default() },
            recorded: vec![RecordedProcess { name: "python3".to_owned(), ..RecordedProcess::default() }],
            channels: (0..30).map(|at| pipe(at, 0)).chain((30..30 + busy).map(|at| pipe(at, bytes))).collect(),
            ..Document::default()
        }
    }

    #[test]
    fn pipes_without_data_are_one_row() {
        let recording = recording(2, 5);
        let found = rows(&recording);
        let names: Vec<&str> = found.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["30 pipes, outside to python3", "outside to python3", "outside to python3"]);
        let idle = &found[0];
        assert_eq!((idle.bytes(), idle.blocked_ns(true), idle.capacity()), (0, 300, Some([1 << 16; 3])));
        let [end] = &idle.ends(true)[..] else { panic!() };
        assert_eq!((end.calls["read"], end.sleeps, idle.ends(false).len()), (60, 30, 0));
    }

    #[test]
    fn pipes_for_errors_and_signals_are_left_out() {
        let mut recording = recording(2, 70_000);
        recording.processes.window_ns = 1_000_000;
        let own = RecordedEnd { calls: [("write".to_owned(), 1)].into(), ..RecordedEnd::default() };
        recording.channels[30].writers = vec![own.clone()];
        recording.channels[31].writers = vec![own];
        recording.channels[31].readers[0].bytes = 7;
        let found = rows(&recording);
        let bytes: Vec<u64> = found.iter().map(PipeRow::bytes).collect();
        assert_eq!((bytes, used(&recording).count()), (vec![70_000], 32));
        // Somebody waits for it.
        recording.channels[31].readers[0].blocked_ns = 60_000;
        assert_eq!(rows(&recording).len(), 2);
    }

    #[test]
    fn of_many_pipes_those_with_little_are_left_out() {
        let mut recording = recording(20, 50);
        recording.processes.window_ns = 1_000_000;
        recording.channels[30].readers[0].bytes = 60_000;
        recording.channels[40].readers[0].blocked_ns = 60_000;
        let bytes = |recording: &Document| rows(recording).iter().map(PipeRow::bytes).collect::<Vec<u64>>();
        assert_eq!(bytes(&recording), [60_000, 50]);
        // All but what somebody waited for carry a few bytes.
        recording.channels[30].readers[0].bytes = 60;
        assert_eq!(bytes(&recording), [50]);
        // Unless a finding is about it.
        let finding = crate::result::Finding::new(crate::result::FindingKind::Unread, None, String::new());
        recording.findings = vec![crate::result::Finding { channels: vec![30], ..finding }];
        assert_eq!(bytes(&recording), [60, 50]);
        // Of a few, each is shown.
        recording.channels.truncate(38);
        recording.channels[30].readers[0].bytes = 60_000;
        assert_eq!(bytes(&recording).len(), 8);
    }

    #[test]
    fn pipes_of_processes_in_one_row_are_one_row() {
        let mut recording = recording(2, 5);
        recording.recorded[0].pids = vec![7, 8];
        recording.channels[31].readers[0].log2_sizes = vec![0, 0, 1];
        let found = rows(&recording);
        let names: Vec<&str> = found.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["32 pipes, outside to python3"]);
        let [end] = &found[0].ends(true)[..] else { panic!() };
        assert_eq!((found[0].bytes(), end.bytes, &end.log2_sizes[..]), (10, 10, &[0, 0, 1][..]));
    }

    #[test]
    fn without_calls_no_pipe_is_known_to_be_without_data() {
        let sched = Document { level: RecordLevel::Sched, ..recording(0, 0) };
        assert_eq!(rows(&sched).len(), 30);
    }

    #[test]
    fn one_pipe_without_data_has_its_name() {
        let mut recording = recording(0, 0);
        recording.channels.truncate(1);
        recording.processes.window_ns = 100;
        assert_eq!(rows(&recording)[0].name, "outside to python3");
    }
}
