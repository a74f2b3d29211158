//! Run a plan, with one or several tasks at a time.

use super::plan::{OnFailure, Plan, Task};
use super::progress::{Progress, Times};
use super::stop::{EndedBy, Ending, MOST_BLOCKS, relative_half_width};
use super::store::Store;
use crate::util::cancel::{self, Cancelled};
use anyhow::Result;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Measures one cell.
pub trait Executor<C> {
    type Output;

    fn run(&self, cell: &C, task: Task) -> Result<Self::Output>;

    /// Whether another result of a cell with the results `done` is needed.
    fn wants(&self, _cell: &C, _done: usize) -> bool {
        true
    }

    /// The values that `output` adds to the cell's main value, for the stop rule. A cell without values is ignored by
    /// it.
    fn values(&self, _cell: &C, _output: &Self::Output) -> Vec<f64> {
        Vec::new()
    }
}

/// A measuring function, without values for a stop rule.
impl<C, R, F: Fn(&C, Task) -> Result<R>> Executor<C> for F {
    type Output = R;

    fn run(&self, cell: &C, task: Task) -> Result<R> {
        self(cell, task)
    }
}

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The result of an earlier call is used.
    Kept,
    Running,
    Done,
    Failed(String),
}

/// An event for a watcher, on the thread that runs the task.
#[derive(Debug)]
pub struct Event<'a, C> {
    pub cell: &'a C,
    pub task: Task,
    pub state: State,
    pub progress: Progress,
}

/// A finished task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskResult<R> {
    pub lane: usize,
    pub block: usize,
    /// The result, or the reason of the failure.
    pub result: Result<R, String>,
}

/// The results of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished<R> {
    /// In the order in which they finished.
    pub entries: Vec<TaskResult<R>>,
    pub ending: Ending,
}

impl<R> Finished<R> {
    /// Results by lane, in the order of blocks, and the error of a failed lane.
    pub fn lanes(mut self, lanes: usize) -> Vec<(Vec<R>, Option<String>)> {
        let mut out: Vec<(Vec<R>, Option<String>)> = (0..lanes).map(|_| (Vec::new(), None)).collect();
        self.entries.sort_by_key(|entry| entry.block);
        for entry in self.entries {
            let Some((results, failed)) = out.get_mut(entry.lane) else { continue };
            match entry.result {
                Ok(result) => results.push(result),
                Err(why) => *failed = Some(why),
            }
        }
        out
    }
}

/// The error of an experiment interrupted by a signal. Stored results are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted with {done} of {of} results")]
pub struct Interrupted {
    pub done: usize,
    pub of: usize,
}

impl Interrupted {
    /// `error`; if it is an interruption, with where the finished results are, and how to continue: `unit` is `run`, `again`
    /// is `repeat the command with --resume`.
    pub fn kept(error: anyhow::Error, unit: &str, folder: &Path, again: &str) -> anyhow::Error {
        let Some(Self { done, of }) = error.downcast_ref() else { return error };
        let folder = folder.display();
        anyhow::anyhow!("interrupted after {done} of {of} {unit}s, which are kept in {folder}: {again} to continue")
    }
}

/// Run `plan`, one task after the other, on this thread.
///
/// # Errors
/// [`Interrupted`]; the error of a cell under [`OnFailure::Abort`].
pub fn run<C, E: Executor<C>>(
    plan: &Plan<C>,
    executor: &E,
    store: &dyn Store<C, E::Output>,
    watch: &dyn Fn(&Event<'_, C>),
) -> Result<Finished<E::Output>> {
    let course = Mutex::new(Course::new(plan, 1));
    work(&course, &Condvar::new(), executor, store, watch);
    course.into_inner().unwrap_or_else(PoisonError::into_inner).finished()
}

/// Run `plan`, `jobs` tasks at a time.
///
/// # Errors
/// As [`run`].
pub fn run_jobs<C, E>(
    plan: &Plan<C>,
    jobs: usize,
    executor: &E,
    store: &(dyn Store<C, E::Output> + Sync),
    watch: &(dyn Fn(&Event<'_, C>) + Sync),
) -> Result<Finished<E::Output>>
where
    C: Sync,
    E: Executor<C> + Sync,
    E::Output: Send,
{
    let jobs = jobs.clamp(1, plan.lanes.len().saturating_mul(plan.blocks).max(1));
    let course = Mutex::new(Course::new(plan, jobs));
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work(&course, &changed, executor, store, watch));
        }
    });
    course.into_inner().unwrap_or_else(PoisonError::into_inner).finished()
}

/// Run tasks of `course` until none is left. `changed` wakes other threads that do the same; a single one never waits.
fn work<C, E: Executor<C>>(
    course: &Mutex<Course<'_, C, E::Output>>,
    changed: &Condvar,
    executor: &E,
    store: &dyn Store<C, E::Output>,
    watch: &dyn Fn(&Event<'_, C>),
) {
    let lock = || course.lock().unwrap_or_else(PoisonError::into_inner);
    let mut guard = lock();
    loop {
        match guard.next() {
            Next::End => return,
            Next::Wait => guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Next::Run(task) => {
                let (plan, done, progress) = (guard.plan, guard.done(task.lane), guard.progress());
                drop(guard);
                let Some(cell) = plan.lanes.get(task.lane) else { return };
                let ended = attempt(cell, task, done, executor, store, &|state| {
                    watch(&Event { cell, task, state, progress });
                });
                guard = lock();
                let state = guard.finish(task, ended);
                let progress = guard.progress();
                drop(guard);
                changed.notify_all();
                if let Some(state) = state {
                    watch(&Event { cell, task, state, progress });
                }
                guard = lock();
            }
        }
    }
}

/// The outcome of a task.
enum TaskEnd<R> {
    /// No further result of its cell is needed.
    Unwanted,
    Kept(R, Vec<f64>),
    Measured(Result<(R, Vec<f64>)>, Duration),
}

fn attempt<C, E: Executor<C>>(
    cell: &C,
    task: Task,
    done: usize,
    executor: &E,
    store: &dyn Store<C, E::Output>,
    watch: &dyn Fn(State),
) -> TaskEnd<E::Output> {
    if !executor.wants(cell, done) {
        return TaskEnd::Unwanted;
    }
    if let Some(result) = store.kept(cell, task) {
        let values = executor.values(cell, &result);
        return TaskEnd::Kept(result, values);
    }
    watch(State::Running);
    let begin = Instant::now();
    let result = executor.run(cell, task).and_then(|result| {
        let result = store.keep(cell, task, result)?;
        let values = executor.values(cell, &result);
        Ok((result, values))
    });
    TaskEnd::Measured(result, begin.elapsed())
}

enum Next {
    Run(Task),
    /// Until a running task has ended.
    Wait,
    End,
}

/// The state of an experiment.
struct Course<'a, C, R> {
    plan: &'a Plan<C>,
    jobs: usize,
    random: SmallRng,
    queue: VecDeque<Task>,
    /// Number of blocks begun.
    begun: usize,
    under_way: usize,
    entries: Vec<TaskResult<R>>,
    /// Values of the main value, by lane.
    values: Vec<Vec<f64>>,
    /// Results by lane.
    counts: Vec<usize>,
    given_up: Vec<bool>,
    times: Times,
    started: Instant,
    block_started: Instant,
    longest_block: Duration,
    interrupted: bool,
    /// Number of interrupted tasks.
    broken_off: usize,
    error: Option<anyhow::Error>,
    ended_by: Option<EndedBy>,
}

impl<'a, C, R> Course<'a, C, R> {
    fn new(plan: &'a Plan<C>, jobs: usize) -> Self {
        let lanes = plan.lanes.len();
        let now = Instant::now();
        Self {
            plan,
            jobs,
            random: SmallRng::seed_from_u64(plan.seed),
            queue: VecDeque::new(),
            begun: 0,
            under_way: 0,
            entries: Vec::new(),
            values: vec![Vec::new(); lanes],
            counts: vec![0; lanes],
            given_up: vec![false; lanes],
            times: Times::new(lanes),
            started: now,
            block_started: now,
            longest_block: Duration::ZERO,
            interrupted: false,
            broken_off: 0,
            error: None,
            ended_by: None,
        }
    }

    fn next(&mut self) -> Next {
        loop {
            self.interrupted |= cancel::happened();
            if self.interrupted || self.error.is_some() || self.ended_by.is_some() {
                return Next::End;
            }
            if let Some(task) = self.queue.pop_front() {
                if self.given_up.get(task.lane).copied().unwrap_or(true) {
                    continue;
                }
                self.under_way += 1;
                return Next::Run(task);
            }
            // A stop rule judges whole blocks.
            if !self.plan.stop.is_none() && self.under_way > 0 {
                return Next::Wait;
            }
            if self.begun > 0 {
                self.longest_block = self.longest_block.max(self.block_started.elapsed());
            }
            if let Some(by) = self.decide() {
                self.ended_by = Some(by);
                return Next::End;
            }
            self.block_started = Instant::now();
            self.queue.extend(self.plan.block(self.begun, &mut self.random));
            self.begun += 1;
        }
    }

    /// The reason to end before the next block, if any.
    fn decide(&self) -> Option<EndedBy> {
        let stop = &self.plan.stop;
        if self.begun >= self.plan.blocks {
            let judged = self.values.iter().any(|values| !values.is_empty());
            match stop.until {
                Some(until) if judged && self.begun < MOST_BLOCKS => {
                    if self.width().is_some_and(|width| width <= until) {
                        return Some(EndedBy::Until);
                    }
                }
                _ => return Some(EndedBy::Runs),
            }
        }
        if self.given_up.iter().all(|given_up| *given_up) {
            return Some(EndedBy::Runs);
        }
        let late = stop.limit().is_some_and(|limit| self.started.elapsed() + self.longest_block > limit);
        (late && self.begun > 0).then_some(EndedBy::Time)
    }

    /// Width of the widest lane; `None` while a lane has too few values.
    fn width(&self) -> Option<f64> {
        let mut widest: Option<f64> = None;
        for (values, given_up) in self.values.iter().zip(&self.given_up) {
            if values.is_empty() || *given_up {
                continue;
            }
            let width = relative_half_width(values)?;
            widest = Some(widest.map_or(width, |widest| widest.max(width)));
        }
        widest
    }

    fn done(&self, lane: usize) -> usize {
        self.counts.get(lane).copied().unwrap_or(0)
    }

    /// Record the outcome of `task`. Returns the event for a watcher.
    fn finish(&mut self, task: Task, ended: TaskEnd<R>) -> Option<State> {
        self.under_way -= 1;
        let Task { lane, block } = task;
        let (result, state) = match ended {
            TaskEnd::Unwanted => {
                self.give_up(lane);
                return None;
            }
            TaskEnd::Kept(result, values) => (Ok((result, values)), State::Kept),
            TaskEnd::Measured(Ok(result), took) => {
                self.times.add(lane, took);
                (Ok(result), State::Done)
            }
            TaskEnd::Measured(Err(error), _) => {
                // A program ended by the same signal has not failed.
                if cancel::happened() || error.is::<Cancelled>() || error.is::<Interrupted>() {
                    self.interrupted = true;
                    self.broken_off += 1;
                    return None;
                }
                let why = format!("{error:#}");
                match self.plan.on_failure {
                    OnFailure::TryAgain => {}
                    OnFailure::GiveUp => self.give_up(lane),
                    OnFailure::Abort => self.error = self.error.take().or(Some(error)),
                }
                (Err(why.clone()), State::Failed(why))
            }
        };
        let result = result.map(|(result, values)| {
            self.counts[lane] += 1;
            self.values[lane].extend(values);
            result
        });
        self.entries.push(TaskResult { lane, block, result });
        Some(state)
    }

    fn give_up(&mut self, lane: usize) {
        if let Some(given_up) = self.given_up.get_mut(lane) {
            *given_up = true;
        }
    }

    fn progress(&self) -> Progress {
        let lanes = self.given_up.iter().filter(|given_up| !**given_up).count();
        let blocks = self.begun.max(self.plan.blocks);
        let queued = |lane: usize| self.queue.iter().filter(|task| task.lane == lane).count();
        let later = blocks - self.begun;
        let of = self.entries.len()
            + self.under_way
            + self.broken_off
            + self.queue.iter().filter(|task| !self.given_up[task.lane]).count()
            + later * lanes;
        let wanted =
            self.given_up.iter().enumerate().map(|(lane, given_up)| if *given_up { 0 } else { queued(lane) + later });
        // The end of a stop rule is unknown, except for its time limit.
        let limit = self.plan.stop.limit().map(|limit| limit.saturating_sub(self.started.elapsed()));
        let planned = self.times.left(wanted, self.jobs);
        let left = match (planned, limit) {
            (Some(_), Some(limit)) if self.plan.stop.until.is_some() && self.plan.stop.max_time_ns.is_some() => {
                Some(limit)
            }
            (Some(_), _) if self.plan.stop.until.is_some() => None,
            (Some(planned), Some(limit)) => Some(planned.min(limit)),
            (planned, _) => planned,
        };
        Progress { done: self.entries.len(), of, left }
    }

    fn finished(self) -> Result<Finished<R>> {
        let ending = Ending {
            by: self.ended_by.unwrap_or(EndedBy::Runs),
            blocks: self.begun,
            width: self.width(),
            until: self.plan.stop.until,
        };
        if self.interrupted || cancel::happened() {
            let done = self.entries.iter().filter(|entry| entry.result.is_ok()).count();
            return Err(Interrupted { done, of: self.progress().of }.into());
        }
        match self.error {
            Some(error) => Err(error),
            None => Ok(Finished { entries: self.entries, ending }),
        }
    }
}
