//! What each way to observe does for a recording. A further one is a file that implements [`Observe`], and its line in
//! `record::observer`.

use crate::record::model::ended::EndedProcesses;
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::path::PathEnds;
use crate::record::observe::raw::{PrTask, PrWho};
use crate::record::start::launch::MadePipe;
use crate::record::start::running::RunningProcesses;
use crate::result::Document;
use anyhow::Result;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// All that was counted: of processes that ended long ago apart, and the path.
pub(crate) type AllCounts = (RecordedCounts, EndedProcesses, Option<PathEnds>);

/// Observes what this thread starts, or processes that run already.
pub(crate) trait Observe {
    /// Processes that this thread forks from now on are of `stage`; of none if absent.
    fn launching(&mut self, stage: Option<u32>) -> Result<()>;

    /// The stages have been started: their processes, and the pipes between them.
    fn launched(&mut self, pids: Vec<u32>, pipes: &[MadePipe]);

    /// Follow processes that run already.
    fn seize(&mut self, running: &RunningProcesses) -> Result<()>;

    /// Also follow those at these places, which have come later.
    fn join(&mut self, running: &RunningProcesses, new: &[usize]);

    /// Whether it needs no rights any more. perf's events of root end with an exec that gives rights back.
    fn needs_no_rights(&self) -> bool {
        false
    }

    /// Read what has happened. Returns when to do it again. `ended`: counts that later readings do not have any more, and the
    /// identity that each process has from now on.
    fn step(&mut self, ended: &mut dyn FnMut(&RecordedCounts, HashMap<PrWho, PrWho>)) -> Duration;

    /// What has been counted until now, as far as it is known, without that of processes that ended long ago.
    fn counts(&self) -> Option<RecordedCounts>;

    /// The same, and the path since this was last called, for who watches.
    fn look(&mut self) -> Option<(RecordedCounts, Option<PathEnds>)> {
        None
    }

    /// A process to which `happened` what is waited for, by the state of its threads and the time.
    fn find(&self, _happened: &dyn Fn(&PrTask, u64) -> bool) -> Result<Option<PrWho>> {
        Ok(None)
    }

    /// The id of a process in this PID namespace, by the one that counts have.
    fn id_here(&self, tgid: u32) -> u32 {
        tgid
    }

    /// The followed processes that have not ended, by the ids that this process sees.
    fn living(&self) -> HashSet<u32>;

    /// The followed processes by the ids that this process sees, and the time, if a thread of them has slept for `ns` at a
    /// channel, or for other processes.
    fn sleepers(&self, ns: u64) -> Option<(u64, BTreeMap<u32, PrWho>)>;

    /// By process id: the processes for which a process waits at the end of the window, as its child or in poll.
    fn know_awaited(&mut self, _awaited: BTreeMap<u32, Vec<u32>>) {}

    /// End the window now, if it is not over yet.
    fn end_now(&mut self) -> Result<()>;

    /// Read what will be different later, because what is followed goes on.
    fn read_last(&mut self) -> Result<()> {
        Ok(())
    }

    /// Stop. Returns what was counted, and adds to `recording` how.
    fn finish(self: Box<Self>, recording: &mut Document) -> Result<AllCounts>;
}
