//! Rows of the tables of pipes. A program that starts others makes pipes that often carry nothing, such as one for each
//! child's errors: those between the same programs are one row.

use super::answer::pipe_name;
use super::collect::RecordLevel;
use super::model::{RecordedEnd, RecordedPipe, Recording};
use super::stages;
use std::collections::BTreeMap;

/// One pipe, or several through which nothing went.
pub(super) struct PipeRow<'a> {
    pub name: String,
    pub pipes: Vec<&'a RecordedPipe>,
}

/// The pipes that were used, in the order of the stages. record.json has each of them.
pub(super) fn rows(recording: &Recording) -> Vec<PipeRow<'_>> {
    let stages = stages::stages(recording);
    let times = stages::times(recording, &stages);
    let mut used: Vec<&RecordedPipe> =
        recording.pipes.iter().filter(|pipe| pipe.is_used() || pipe.between.is_some()).collect();
    used.sort_by_key(|pipe| stages::sides(pipe, &stages));
    let mut rows: Vec<PipeRow<'_>> = Vec::new();
    // The row of the pipes without data, by name.
    let mut idle: BTreeMap<String, usize> = BTreeMap::new();
    for pipe in used {
        let name = pipe_name(pipe, &stages, &times).replace('`', "").trim_start_matches("from ").to_owned();
        if carried_nothing(recording, pipe) {
            let at = *idle.entry(name.clone()).or_insert(rows.len());
            if let Some(row) = rows.get_mut(at) {
                row.pipes.push(pipe);
                continue;
            }
        }
        rows.push(PipeRow { name, pipes: vec![pipe] });
    }
    for row in rows.iter_mut().filter(|row| row.pipes.len() > 1) {
        row.name = format!("{} pipes, {}", row.pipes.len(), row.name);
    }
    rows
}

/// Whether no byte went through `pipe`. Those between the stages of a pipeline are rows of their own in any case.
fn carried_nothing(recording: &Recording, pipe: &RecordedPipe) -> bool {
    // Bytes are not known without calls.
    recording.level != RecordLevel::Sched && pipe.between.is_none() && pipe.bytes() == 0
}

impl PipeRow<'_> {
    pub(super) fn bytes(&self) -> u64 {
        self.pipes.iter().map(|pipe| pipe.bytes()).sum()
    }

    /// Time asleep at one side of these pipes.
    pub(super) fn blocked_ns(&self, readers: bool) -> u64 {
        let ends = self.pipes.iter().flat_map(|pipe| if readers { &pipe.readers } else { &pipe.writers });
        ends.map(|end| end.blocked_ns).sum()
    }

    /// Mean number of slots in use, of those pipes for which it is known.
    pub(super) fn mean_filled(&self) -> Option<f64> {
        let known: Vec<f64> = self.pipes.iter().filter_map(|pipe| pipe.mean_filled).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// First, last and least capacity in slots; `None` if unknown, or not the same for all.
    pub(super) fn slots(&self) -> Option<[u64; 3]> {
        let first = self.pipes.first()?.slots?;
        self.pipes.iter().all(|pipe| pipe.slots == Some(first)).then_some(first)
    }

    /// What each process did at one side: of several pipes, the sums.
    pub(super) fn ends(&self, readers: bool) -> Vec<RecordedEnd> {
        let mut sums: Vec<RecordedEnd> = Vec::new();
        for end in self.pipes.iter().flat_map(|pipe| if readers { &pipe.readers } else { &pipe.writers }) {
            match sums.iter_mut().find(|sum| sum.process == end.process) {
                Some(sum) => add_without_data(sum, end),
                None => sums.push(end.clone()),
            }
        }
        sums
    }
}

/// Add the counts that the tables show, of an end through which nothing went.
fn add_without_data(sum: &mut RecordedEnd, more: &RecordedEnd) {
    for (kind, calls) in &more.calls {
        *sum.calls.entry(kind.clone()).or_default() += calls;
    }
    for (sum, more) in [
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
    use super::super::model::RecordedProcess;
    use super::*;

    /// A program that reads 30 pipes without data, then `bytes` from each of `busy` others.
    fn recording(busy: usize, bytes: u64) -> Recording {
        let pipe = |inode: usize, bytes| RecordedPipe {
            inode: inode as u64,
            slots: Some([16; 3]),
            readers: vec![RecordedEnd {
                bytes,
                calls: [("read".to_owned(), 2)].into(),
                sleeps: 1,
                blocked_ns: 10,
                ..RecordedEnd::default()
            }],
            ..RecordedPipe::default()
        };
        Recording {
            window_ns: 1000,
            processes: vec![RecordedProcess { name: "python3".to_owned(), ..RecordedProcess::default() }],
            pipes: (0..30).map(|at| pipe(at, 0)).chain((30..30 + busy).map(|at| pipe(at, bytes))).collect(),
            ..Recording::default()
        }
    }

    #[test]
    fn pipes_without_data_are_one_row() {
        let recording = recording(2, 5);
        let found = rows(&recording);
        let names: Vec<&str> = found.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["30 pipes, outside to python3", "outside to python3", "outside to python3"]);
        let idle = &found[0];
        assert_eq!((idle.bytes(), idle.blocked_ns(true), idle.slots()), (0, 300, Some([16; 3])));
        let [end] = &idle.ends(true)[..] else { panic!() };
        assert_eq!((end.calls["read"], end.sleeps, idle.ends(false).len()), (60, 30, 0));
    }

    #[test]
    fn without_calls_no_pipe_is_known_to_be_without_data() {
        let sched = Recording { level: RecordLevel::Sched, ..recording(0, 0) };
        assert_eq!(rows(&sched).len(), 30);
    }

    #[test]
    fn one_pipe_without_data_has_its_name() {
        let mut recording = recording(0, 0);
        recording.pipes.truncate(1);
        assert_eq!(rows(&recording)[0].name, "outside to python3");
    }
}
