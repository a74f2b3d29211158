//! Measure combinations: runs alternately, or exact counts in one guest each.

use super::{SweepAxis, SweepCell};
use crate::experiment::{
    self, Ending, Executor, Json, JsonFolder, NoStore, OnFailure, Plan, Progress, State, StopRule,
};
use crate::experiment::{Store, StoredPlan, Task};
use crate::profile::ProcessName;
use crate::result::{Collector, ExecutedOn, Processes};
use crate::run::bench::{Bench, GuestSetup, request};
use crate::util::stats;
use crate::workload::{HUGE_PAGES_MISSING, Spec, WorkloadRequest, caveats_of_all};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One combination to measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SweepCombination {
    pub labels: BTreeMap<String, String>,
    /// The workload, or the reason why it is contradictory.
    pub spec: Result<Spec, String>,
}

/// The plan of a sweep, which must be equal to resume it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepPlan {
    pub schema: String,
    /// pipeprof's version and build.
    pub build: String,
    /// The kernel as named, size and time of its image, and the guest's options that are not defaults.
    pub place: String,
    pub axes: Vec<SweepAxis>,
    /// Options common to all combinations.
    pub common: WorkloadRequest,
    /// Whether instructions are counted instead of time.
    pub exact: bool,
    /// Runs of each combination.
    pub runs: usize,
    pub seed: u64,
    #[serde(default, skip_serializing_if = "StopRule::is_none")]
    pub stop: StopRule,
}

impl StoredPlan for SweepPlan {
    const FILE: &'static str = "plan.json";
    const RESULTS: &'static str = "runs";
    const SCHEMA: &'static str = "pipeprof.sweep-plan/1";
    const WHAT: &'static str = "sweep";

    fn difference(&self, now: &Self) -> Option<&'static str> {
        if self.build != now.build {
            Some("another build of pipeprof")
        } else if self.place != now.place {
            Some("another kernel or guest")
        } else if self.axes != now.axes || self.common != now.common {
            Some("other combinations")
        } else if self != now {
            Some("another number of runs, another seed or another rule to stop")
        } else {
            None
        }
    }
}

impl SweepPlan {
    fn experiment(&self, combinations: &[SweepCombination]) -> Plan<SweepCombination> {
        Plan {
            // Counts are deterministic, so the order does not matter and one run is enough.
            shuffled: !self.exact,
            on_failure: OnFailure::GiveUp,
            stop: self.stop,
            ..Plan::new(combinations.iter().cloned(), if self.exact { 1 } else { self.runs }, self.seed)
        }
    }
}

/// The totals of a run and, if counted, the instructions of writer and reader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SweepResult {
    processes: Processes,
    instructions: Option<[u64; 2]>,
}

struct Combinations<'a> {
    bench: &'a dyn Bench,
    exact: bool,
}

impl Executor<SweepCombination> for Combinations<'_> {
    type Output = SweepResult;

    fn run(&self, cell: &SweepCombination, _: Task) -> Result<SweepResult> {
        let spec = cell.spec.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
        if !self.exact {
            return Ok(SweepResult { processes: self.bench.pair(spec)?, instructions: None });
        }
        let outcome = self.bench.exact(&request("sweep", spec, vec![Collector::Insn], 1), &GuestSetup::default())?;
        let weight = |name: ProcessName| -> u64 {
            outcome.profiles.iter().filter(|profile| profile.process == name).map(|p| p.stacks.total()).sum()
        };
        let instructions = Some([weight(ProcessName::WRITER), weight(ProcessName::READER)]);
        Ok(SweepResult { processes: outcome.document.processes, instructions })
    }

    /// Contradictory combinations are not run.
    fn wants(&self, cell: &SweepCombination, _: usize) -> bool {
        cell.spec.is_ok()
    }

    fn values(&self, _: &SweepCombination, result: &SweepResult) -> Vec<f64> {
        if self.exact { Vec::new() } else { vec![result.processes.gib_s()] }
    }
}

/// Measure all `combinations` of `plan`, and store each result in `folder`, if given.
///
/// # Errors
/// On interruption; when results cannot be stored, or `folder` contains something else.
pub(crate) fn measure(
    bench: &dyn Bench,
    plan: &SweepPlan,
    combinations: &[SweepCombination],
    folder: Option<(&Path, bool)>,
    progress: &dyn Fn(&Progress),
) -> Result<(Vec<SweepCell>, Option<Ending>)> {
    // Nobody else writes into the folder meanwhile.
    let (store, _lock): (Box<dyn Store<SweepCombination, SweepResult>>, _) = match folder {
        None => (Box::new(NoStore), None),
        Some((folder, resume)) => {
            let lock = experiment::open(folder, plan, resume)?;
            let folder = folder.join(SweepPlan::RESULTS);
            (Box::new(Json(JsonFolder { folder, key: plan.place.clone(), resume })), Some(lock))
        }
    };
    let experiment = plan.experiment(combinations);
    let executor = Combinations { bench, exact: plan.exact };
    let finished = experiment::run(&experiment, &executor, store.as_ref(), &|event| {
        if event.state == State::Running {
            progress(&event.progress);
        }
    })?;
    let ending = (!plan.stop.is_none()).then_some(finished.ending);
    let hardware = !plan.exact && bench.executed_on() != ExecutedOn::Tcg;
    let lanes = finished.lanes(combinations.len());
    let cells = combinations.iter().zip(lanes).map(|(combination, (results, failed))| {
        let reason = combination.spec.as_ref().err().cloned().or(failed);
        cell(combination, results, reason, plan.exact, hardware)
    });
    Ok((cells.collect(), ending))
}

fn cell(
    combination: &SweepCombination,
    mut results: Vec<SweepResult>,
    reason: Option<String>,
    exact: bool,
    hardware: bool,
) -> SweepCell {
    let mut cell = SweepCell { labels: combination.labels.clone(), reason, ..SweepCell::default() };
    caveats(&mut cell, combination, &mut results);
    if let Some(typical) = stats::median_by(&results, |result| result.processes.gib_s()) {
        count(&mut cell, typical, hardware);
    }
    let value = |result: &SweepResult| match result.instructions {
        Some([writer, reader]) => (writer + reader) as f64 / (result.processes.reader().bytes.max(1) as f64 / 1024.0),
        None => result.processes.gib_s(),
    };
    if exact || hardware {
        cell.runs = results.iter().map(value).collect();
    } else if cell.reason.is_none() {
        cell.reason = Some("not available (emulated clock): use --collect insn".into());
    }
    summarise(&mut cell);
    cell
}

/// Add caveats where the run differed from the request. Without the requested huge pages, there is no result.
fn caveats(cell: &mut SweepCell, combination: &SweepCombination, results: &mut Vec<SweepResult>) {
    let Ok(spec) = &combination.spec else { return };
    for caveat in caveats_of_all(spec, results.iter().map(|result| &result.processes)) {
        if caveat.code == HUGE_PAGES_MISSING {
            cell.reason = Some(format!("not testable on this machine: {}: {}", caveat.message, caveat.action));
            results.clear();
        } else {
            cell.caveats.push(caveat.message);
        }
    }
}

fn count(cell: &mut SweepCell, result: &SweepResult, hardware: bool) {
    let SweepResult { processes: pair, instructions } = result;
    [cell.writer_calls_per_mib, cell.reader_calls_per_mib] = pair.calls_per_mib().map(Some);
    if hardware {
        cell.writer_ns_per_kib = Some(pair.cpu_per_kib(ProcessName::WRITER));
        cell.reader_ns_per_kib = Some(pair.cpu_per_kib(ProcessName::READER));
    }
    let counter = pair.writer().counters.get("instructions").filter(|_| pair.writer().calls > 0).copied();
    let counted = instructions.map(|[writer, _]| writer).or(counter);
    cell.instructions_per_writer_call = counted.map(|count| count as f64 / pair.writer().calls.max(1) as f64);
}

pub(super) fn summarise(cell: &mut SweepCell) {
    cell.median = stats::median(&cell.runs);
    cell.mad = stats::mad(&cell.runs).filter(|_| cell.runs.len() > 1);
    cell.ci95 = stats::median_ci95(&cell.runs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::bench::MockBench;
    use anyhow::bail;

    #[test]
    fn huge_pages_that_were_not_got_leave_no_value() {
        let spec = Ok(Spec { huge_pages: true, ..Spec::default() });
        let combination = SweepCombination { labels: BTreeMap::new(), spec };
        let mut pair = Processes::default();
        pair.of_mut(ProcessName::WRITER).pipe_size = 8192;
        pair.of_mut(ProcessName::WRITER).huge_pages = Some(crate::result::GotAsked { got: 0, asked: 2 << 20 });
        let mut results = vec![SweepResult { processes: pair, instructions: None }];
        let mut cell = SweepCell::default();
        caveats(&mut cell, &combination, &mut results);
        assert!(results.is_empty() && cell.reason.as_ref().unwrap().contains("0 of 2M in huge pages"), "{cell:?}");
        assert_eq!(cell.caveats, ["the pipe held 8K instead of 64K"]);
    }

    #[test]
    fn a_resumed_sweep_gives_the_results_of_an_uninterrupted_one() {
        let folder = tempfile::tempdir().unwrap();
        let plan = SweepPlan {
            schema: SweepPlan::SCHEMA.into(),
            build: "test".into(),
            place: "here".into(),
            axes: Vec::new(),
            common: WorkloadRequest::default(),
            exact: false,
            runs: 3,
            seed: 1,
            stop: StopRule::default(),
        };
        let of = |name: &str, spec| SweepCombination { labels: BTreeMap::from([("mode".into(), name.into())]), spec };
        let combinations = [
            of("a", Ok(Spec::default())),
            of("b", Ok(Spec { buffer_size: 4096, ..Spec::default() })),
            of("impossible", Err("no such thing".to_owned())),
            of("broken", Ok(Spec { poll: true, ..Spec::default() })),
        ];
        let sweep = |until: usize, out: &str, resume| {
            // Runs whose speed depends on the workload alone; interrupted after `until` runs.
            let made = MockBench::new(|number, spec: &Spec| {
                if number >= until {
                    return Err(crate::util::cancel::Cancelled.into());
                }
                if spec.poll {
                    bail!("the pipe burst");
                }
                let mut pair = Processes { window_ns: 1_000_000_000, ..Processes::default() };
                pair.of_mut(ProcessName::READER).bytes = spec.buffer_size;
                Ok(pair)
            });
            let out = folder.path().join(out);
            (measure(&made, &plan, &combinations, Some((&out, resume)), &|_| {}), made.pairs.get())
        };
        let (whole, all) = sweep(usize::MAX, "whole", false);
        let (cells, ending) = whole.unwrap();
        assert_eq!((all, ending), (7, None), "three of each that works, one of what breaks");
        assert_eq!(cells[2].reason.as_deref(), Some("no such thing"));
        assert_eq!(cells[3].reason.as_deref(), Some("the pipe burst"));
        let (error, first) = sweep(3, "broken", false);
        assert!(error.unwrap_err().to_string().contains("interrupted"));
        let (resumed, second) = sweep(usize::MAX, "broken", true);
        assert_eq!(resumed.unwrap().0, cells);
        // Only failed runs are repeated.
        assert!(first == 4 && (4..=5).contains(&second), "three pairs and the interrupted one, then {second}");
        assert!(sweep(1, "whole", false).0.unwrap_err().to_string().contains("--resume"));
    }
}
