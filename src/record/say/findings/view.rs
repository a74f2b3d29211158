//! What the rules of findings look at.

use crate::profile::few;
use crate::record::model::labels::{self, labels, with_id};
use crate::record::start::command_line::program_name;
use crate::report::number::time;
use crate::result::{Document, PathPart, PathWhat, ProcessLife, RecordedChannel, RecordedEnd, RecordedProcess};
use crate::util::text::clean;
use std::collections::{BTreeSet, HashMap};

/// A recording, and the names of its processes.
pub(crate) struct FindingView<'a> {
    pub(crate) document: &'a Document,
    labels: Vec<String>,
    /// By process id: a recording can have hundreds, and each is asked for often.
    lives: HashMap<u32, &'a ProcessLife>,
}

impl<'a> FindingView<'a> {
    pub(crate) fn new(document: &'a Document) -> Self {
        let lives = document.lives.iter().map(|life| (life.pid, life)).collect();
        Self { document, labels: labels(document), lives }
    }

    /// `` `cat` ``.
    pub(crate) fn name(&self, process: usize) -> String {
        self.labels.get(process).map_or_else(|| "a process".to_owned(), |name| format!("`{name}`"))
    }

    /// `` `cat` and `dd` ``: the processes at these ends, each once.
    pub(crate) fn names<'b>(&self, ends: impl IntoIterator<Item = &'b RecordedEnd>) -> String {
        let processes: BTreeSet<usize> = ends.into_iter().map(|end| end.process).collect();
        few(processes.into_iter().map(|at| self.name(at)))
    }

    /// `` the pipe from `dd` ``; `the pipe` if nobody is known to write it.
    pub(crate) fn pipe_from(&self, pipe: &RecordedChannel) -> String {
        self.pipe(pipe, "from", &pipe.writers)
    }

    /// `` the pipe to `wc` ``; `the pipe` if nobody is known to read it.
    pub(crate) fn pipe_to(&self, pipe: &RecordedChannel) -> String {
        self.pipe(pipe, "to", &pipe.readers)
    }

    fn pipe(&self, pipe: &RecordedChannel, way: &str, ends: &[RecordedEnd]) -> String {
        let (noun, names) = (pipe.kind.noun(), self.names(ends));
        if names.is_empty() { format!("the {noun}") } else { format!("the {noun} {way} {names}") }
    }

    /// The length of the window, ns.
    pub(crate) fn window(&self) -> f64 {
        self.document.processes.window_ns.max(1) as f64
    }

    /// The part of the window that the path spends with this process doing this.
    pub(crate) fn on_path(&self, process: usize, what: PathWhat) -> f64 {
        self.path_share(process, |part| part.what == what)
    }

    /// The part of the window that the path spends with this process, whatever that does.
    pub(crate) fn all_on_path(&self, process: usize) -> f64 {
        self.path_share(process, |_| true)
    }

    fn path_share(&self, process: usize, is: impl Fn(&PathPart) -> bool) -> f64 {
        let parts = self.document.path.iter().flat_map(|path| &path.parts);
        let ns: u64 = parts.filter(|part| part.process == Some(process) && is(part)).map(|part| part.ns).sum();
        ns as f64 / self.window()
    }

    /// The process that pipeprof waits for: the first one of the last stage.
    pub(crate) fn outermost(&self) -> Option<usize> {
        let last = self.last_stage();
        self.document.recorded.iter().position(|process| process.stage == last)
    }

    /// Of the other processes of the last stage that are so, the one that ended last.
    pub(crate) fn last_ended(&self, is: impl Fn(&RecordedProcess) -> bool) -> Option<(usize, &'a RecordedProcess)> {
        let (outermost, last) = (self.outermost(), self.last_stage());
        let others = self.document.recorded.iter().enumerate().filter(|(at, _)| Some(*at) != outermost);
        others.filter(|(_, of)| of.stage == last && is(of)).max_by_key(|(_, process)| process.end_ns)
    }

    fn last_stage(&self) -> u32 {
        self.document.recorded.iter().map(|process| process.stage).max().unwrap_or_default()
    }

    /// The process of an end.
    pub(crate) fn process(&self, end: &RecordedEnd) -> Option<&'a RecordedProcess> {
        self.document.recorded.get(end.process)
    }

    /// [`labels::is_one`].
    pub(crate) fn is_one(&self, at: usize) -> bool {
        labels::is_one(self.document, at)
    }

    /// A process, what had started it, what had started that, and so on, as far as that is known.
    pub(crate) fn with_starters(&self, at: usize) -> impl Iterator<Item = usize> + use<'a> {
        let all = &self.document.recorded;
        // Rows of several processes can have started each other.
        std::iter::successors(Some(at), |of| all.get(*of)?.started_by).take(all.len())
    }

    /// Who left it to a process to ignore a signal: the nearest of those that started it which was not executed so itself; `is` tells
    /// how often a process was. None if it was not executed so, or nobody is known.
    pub(crate) fn left_by(&self, at: usize, is: fn(&RecordedProcess) -> u64) -> Option<usize> {
        let all = &self.document.recorded;
        let is_so = |of: usize| all.get(of).is_some_and(|process| is(process) > 0);
        // Copies that have not executed anything are those of their parents.
        let executed = |of: &usize| all.get(*of).is_some_and(|process| process.execs > 0);
        let mut line = self.with_starters(at).filter(executed);
        line.next().filter(|own| is_so(*own))?;
        self.before(at).filter(|of| executed(of) && !is_so(*of)).or_else(|| line.find(|of| !is_so(*of)))
    }

    /// What a process was, by its last exec but one.
    pub(crate) fn before(&self, at: usize) -> Option<usize> {
        let all = &self.document.recorded;
        let (end, [pid]) = (all.get(at)?.end_ns, &all[at].pids[..]) else { return None };
        // Of a row of several, the first one's begin is known.
        let was = |(of, process): &(usize, &RecordedProcess)| {
            *of != at && process.moved_on.contains(pid) && process.begin_ns < end
        };
        all.iter().enumerate().filter(was).max_by_key(|(_, process)| process.begin_ns).map(|(of, _)| of)
    }

    /// What makes a pipeline's exit code that of each of its programs, in the shell of this one: dash has it from 0.5.13 on (2025),
    /// where it is `sh` as well.
    pub(crate) fn pipefail(&self, at: usize) -> &'static str {
        let all = &self.document.recorded;
        let shell =
            self.with_starters(at).find_map(|of| all.get(of).filter(|process| process.is_shell() && process.execs > 0));
        let is_posix = shell.is_some_and(|shell| ["sh", "dash"].contains(&shell.program()));
        if is_posix { "`set -o pipefail` of bash" } else { "`set -o pipefail`" }
    }

    /// When a process lived that used a name, or one before it.
    pub(crate) fn life(&self, pid: u32) -> Option<&'a ProcessLife> {
        self.lives.get(&pid).copied()
    }

    /// Of two processes, what had started each of them but not both, which can be they themselves, if those lived at the same time.
    /// None if one of the two is of what had started the other one.
    pub(crate) fn beside(&self, one: u32, other: u32) -> Option<[&'a ProcessLife; 2]> {
        let line = |pid: u32| -> Vec<&ProcessLife> {
            let all = std::iter::successors(self.life(pid), |life| self.life(life.parent));
            all.take(self.document.lives.len()).collect()
        };
        let lines = [line(one), line(other)];
        let apart = |own: usize| {
            let is_shared = |life: &&&ProcessLife| lines[1 - own].iter().any(|other| other.pid == life.pid);
            lines[own].iter().take_while(|life| !is_shared(life)).last().copied()
        };
        let both = [apart(0)?, apart(1)?];
        let [first, second] = both.map(|life| life.lived_ns);
        (first[0] < second[1] && second[0] < first[1]).then_some(both)
    }

    /// All ends where processes write, each with its pipe and the number of that.
    pub(crate) fn writers(&self) -> impl Iterator<Item = (usize, &'a RecordedChannel, &'a RecordedEnd)> {
        let pipes = self.document.channels.iter().enumerate();
        pipes.flat_map(|(at, pipe)| pipe.writers.iter().map(move |end| (at, pipe, end)))
    }

    /// One process of a row, as `` `python3 a.py` (process 11) ``.
    pub(crate) fn name_of_one(&self, row: usize, pid: u32) -> Option<String> {
        let process = self.document.recorded.get(row)?;
        Some(with_id(&clean(&program_name(&process.name, &process.args)), pid, None, None))
    }

    /// The same where they read.
    pub(crate) fn readers(&self) -> impl Iterator<Item = (usize, &'a RecordedChannel, &'a RecordedEnd)> {
        let pipes = self.document.channels.iter().enumerate();
        pipes.flat_map(|(at, pipe)| pipe.readers.iter().map(move |end| (at, pipe, end)))
    }

    /// Whether a process went on until the end of the recording, or was ended with it.
    pub(crate) fn goes_on(&self, process: &RecordedProcess) -> bool {
        process.end_ns >= self.document.processes.window_ns || self.document.ended_by_interruption(process.end_ns)
    }

    /// When the last process that reads a pipe ended, if all had before `before` (ns).
    pub(crate) fn readers_ended(&self, pipe: &RecordedChannel, before: u64) -> Option<u64> {
        let ends = pipe.readers.iter().filter_map(|end| self.process(end)).map(|process| process.end_ns);
        ends.max().filter(|last| *last < before && pipe.other_readers.is_empty())
    }
}

/// `12.3 ms`, of nanoseconds.
pub(crate) fn after(ns: u64) -> String {
    time(ns as f64 / 1e9)
}
