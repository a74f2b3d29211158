//! Collectors that attach to the kernel while a pipeline is recorded, `kprobe` and `fgraph`: the same as for runs, with the
//! recorded processes as their target.

use crate::collect::registry::make_for_programs;
use crate::collect::{CollectPrograms, Context, tracefs};
use crate::kernel::tracefs::Tracefs;
use crate::process::{ProgramId, Programs, Watched, WatchedProcess};
use crate::profile::{ProcessName, Unit};
use crate::record::model::names::process_names;
use crate::record::observe::raw::PrWho;
use crate::result::{Collector, Loader, Outcome, Probe, Status};
use crate::run::Gathered;
use crate::util::warning::{Warning, WarningCode};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What to attach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracingCollector {
    pub collector: Collector,
    /// The functions that `kprobe` probes.
    pub probe: Probe,
}

/// An attached collector. Dropping it detaches it.
pub(crate) struct Tracing {
    kind: Collector,
    collector: Box<dyn CollectPrograms>,
    /// Removed of runs that were killed.
    removed: Vec<String>,
}

impl Tracing {
    /// Attach to the processes `pids`. Without any, attach to all that this thread starts from now on.
    ///
    /// # Errors
    /// When the kernel does not have what the collector needs.
    pub(crate) fn start(wanted: &TracingCollector, pids: &[u32]) -> Result<Self> {
        let kind = wanted.collector;
        let removed = Tracefs::open().map(|tracefs| tracefs::clean_up(&tracefs)).unwrap_or_default();
        let own = rustix::thread::gettid().as_raw_pid().cast_unsigned();
        let pids = if pids.is_empty() { &[own] } else { pids };
        let process = |pid: &u32| WatchedProcess { name: ProcessName::default(), pids: vec![*pid] };
        let watched = Watched { processes: pids.iter().map(process).collect(), programs: true };
        let attach = || {
            let context = Context::new(Loader::Libbpf, wanted.probe.clone());
            let mut collector = make_for_programs(kind, &context)?;
            collector.arm(&watched)?;
            Ok(collector)
        };
        let collector = attach().map_err(|error: anyhow::Error| {
            error.context(format!("--collect {} is not possible here (see `pipeprof doctor`)", kind.name()))
        })?;
        Ok(Self { kind, collector, removed })
    }

    /// All processes that are recorded have been started.
    pub(crate) fn started(&self) {
        self.collector.started();
    }

    /// End the window.
    pub(crate) fn stop(mut self) -> StoppedTracing {
        let stopped = self.collector.stop();
        StoppedTracing { tracing: self, stopped }
    }
}

/// A collector that is still attached, but collects nothing more.
pub(crate) struct StoppedTracing {
    tracing: Tracing,
    stopped: Result<()>,
}

impl StoppedTracing {
    /// Add what was collected to `outcome`, whose processes are those of `index`.
    pub(crate) fn add(self, outcome: &mut Outcome, index: &BTreeMap<PrWho, usize>) {
        let Self { tracing: Tracing { kind, mut collector, removed }, stopped } = self;
        let programs = programs(outcome, index);
        let collected = stopped.and_then(|()| collector.results(&programs));
        let gathered = match collected {
            Ok(collected) => Gathered::first(collected),
            // What was recorded is kept.
            Err(error) => Gathered::nothing(Status::Failed, format!("{error:#}")),
        };
        let document = &mut outcome.document;
        document.collectors.push(gathered.report(kind, None));
        document.symbols = collector.resolutions();
        document.warnings.extend(gathered.warnings.iter().cloned());
        let warning = |message| Warning { code: WarningCode::LeftBehind, message, action: String::new() };
        document.warnings.extend(removed.into_iter().map(warning));
        if gathered.unit == Unit::Nanoseconds {
            // Its stacks are the main ones. Without the cost of the hooks, which are most of their time, no shares are known.
            document.unit = gathered.unit;
            kind.name().clone_into(&mut document.attribution.collector);
        }
        outcome.profiles.extend(gathered.profiles(kind));
        // In the order of the processes.
        let names = process_names(document);
        document.functions = gathered.functions;
        document.functions.sort_by_key(|row| names.iter().position(|name| *name == row.process));
    }
}

/// The names of the recorded programs, and those that were attached to.
fn programs(outcome: &Outcome, index: &BTreeMap<PrWho, usize>) -> Programs {
    let document = &outcome.document;
    let names = process_names(document);
    let mut programs = Programs::default();
    let mut first: BTreeMap<u32, (u64, ProgramId)> = BTreeMap::new();
    for (PrWho { stage, tgid, name }, at) in index {
        programs.names.insert((*tgid, *name), names[*at]);
        let begin = (document.recorded[*at].begin_ns, (*tgid, *name));
        let earliest = first.entry(*stage).or_insert(begin);
        *earliest = begin.min(*earliest);
    }
    // Attached processes are stages; others are started by this process, which is not recorded.
    let attached = document.target.pids();
    let stages = if attached.is_empty() { 0 } else { first.keys().last().map_or(0, |last| last + 1) };
    let of_stage = |stage: u32| first.get(&stage).map_or((0, [0; 2]), |(_, program)| *program);
    programs.first = if stages == 0 { vec![(0, [0; 2])] } else { (0..stages).map(of_stage).collect() };
    programs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Document, MeasuredTarget, RecordedProcess};

    #[test]
    fn what_was_attached_to_is_the_first_program_of_its_stage() {
        let process = |name: &str, stage, begin_ns| RecordedProcess {
            name: name.to_owned(),
            stage,
            begin_ns,
            ..RecordedProcess::default()
        };
        let recorded = vec![process("cat", 0, 0), process("cat", 0, 9), process("sh", 1, 0), process("awk", 1, 5)];
        let who = |(stage, tgid, name)| PrWho { stage, tgid, name };
        let all = [(0, 7, [3, 0]), (0, 8, [3, 0]), (1, 9, [5, 0]), (1, 9, [4, 0])];
        let index = all.map(who).into_iter().zip(0..).collect();
        let target = MeasuredTarget::Attached { pids: vec![7, 9], group: None };
        let mut outcome =
            Outcome { document: Document { recorded, target, ..Document::default() }, ..Outcome::default() };
        let found = programs(&outcome, &index);
        assert_eq!(found.first, [(7, [3, 0]), (9, [5, 0])]);
        let name = |id: ProgramId| found.names[&id].as_str();
        assert_eq!([name((7, [3, 0])), name((8, [3, 0])), name((9, [4, 0]))], ["stage1-cat", "stage2-cat", "awk"]);
        outcome.document.target = MeasuredTarget::default();
        assert_eq!(programs(&outcome, &index).first, [(0, [0; 2])]);
    }
}
