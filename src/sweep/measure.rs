//! Measure combinations: runs alternately, or exact counts in one guest each.

use super::model::{SweepAxis, SweepCell};
use crate::experiment::{self, Ending, Event, Executor, JsonFolder, NoStore, OnFailure, Plan, PlanFile, StopRule};
use crate::experiment::{Store, Task};
use crate::process::Running as _;
use crate::profile::{ProcessName, Profile, SchedulingWeight};
use crate::record::RecordSettings;
use crate::record::count::RunLimits;
use crate::record::inside::{GuestPipeline, PipelinePlace, PreparedPipeline};
use crate::record::trials::timed::PipelineTimer;
use crate::result::SentFile;
use crate::result::{PipelineCommand, Processes};
use crate::roles::RoleId;
use crate::run::MeasurePair as _;
use crate::run::RunOptions;
use crate::util::stats;
use crate::util::warning::WarningCode;
use crate::vm::Accel;
use crate::vm::GuestOf as _;
use crate::workload::{self, Spec, caveats_of_all};
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One combination to measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepCombination {
    pub labels: BTreeMap<String, String>,
    /// Where it runs and how, and the workload if it is one of pipeprof's.
    pub options: RunOptions,
    /// Size and time of the kernel's image.
    pub image: Option<String>,
    /// The pipeline, if it is one of the user's.
    pub pipeline: Option<SweptPipeline>,
    /// Why it is contradictory.
    pub refused: Option<String>,
}

/// A pipeline of the user's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweptPipeline {
    pub command: PipelineCommand,
    pub pipe_bytes: Option<u64>,
    /// For guests.
    #[serde(skip)]
    pub files: Vec<SentFile>,
}

/// The plan of a sweep, which must be equal to resume it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepPlan {
    pub schema: &'static str,
    /// pipeprof's version and build.
    pub build: String,
    pub axes: Vec<SweepAxis>,
    /// Options of all combinations that no axis has.
    pub common: RunOptions,
    /// Runs of each combination.
    pub runs: usize,
    pub seed: u64,
    #[serde(skip_serializing_if = "StopRule::is_none")]
    pub stop: StopRule,
}

/// The plan's file in the folder of a sweep.
pub const PLAN_FILE: PlanFile =
    PlanFile { name: "plan.json", schema: "pipeprof.sweep-plan/2", results: "runs", what: "sweep" };

/// What one run gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweepResult {
    /// A workload: the totals and, if counted, the instructions of writer and reader.
    Workload(Processes, Option<[u64; 2]>),
    /// A pipeline: its time, and the CPU time of all stages, in seconds.
    Timed { seconds: f64, cpu_seconds: f64 },
    /// A pipeline: the instructions of all stages, in user code and in the kernel, and those of the latter that depend on
    /// the schedule.
    Counted { user: u64, kernel: u64, scheduling: u64 },
}

/// Measures single runs of combinations.
pub struct SweepRunner {
    /// For pipelines on this machine.
    timer: Option<PipelineTimer>,
}

impl SweepRunner {
    /// For `combinations`.
    pub fn new(combinations: &[SweepCombination]) -> Result<Self> {
        let timed = combinations.iter().any(|made| made.pipeline.is_some() && made.options.kernel.is_none());
        Ok(Self { timer: timed.then(PipelineTimer::new).transpose()? })
    }

    pub fn measure(&self, made: &SweepCombination) -> Result<SweepResult> {
        match (&made.pipeline, &self.timer) {
            (None, _) => workload(&made.options),
            (Some(pipeline), _) if made.options.kernel.is_some() => counted(pipeline, &made.options),
            (Some(pipeline), Some(timer)) => {
                let time = timer.run(&pipeline.command, pipeline.pipe_bytes)?;
                let cpu_ns: u64 = time.cpu_ns.iter().sum();
                Ok(SweepResult::Timed { seconds: time.wall_ns as f64 / 1e9, cpu_seconds: cpu_ns as f64 / 1e9 })
            }
            (Some(_), None) => bail!("internal error: no timer"),
        }
    }
}

fn workload(options: &RunOptions) -> Result<SweepResult> {
    let mut request = options.request("pipeprof sweep".to_owned())?;
    if options.kernel.is_none() {
        let mut launched = workload::launch(&request.workload)?;
        launched.release()?;
        return Ok(SweepResult::Workload(launched.wait()?, None));
    }
    // The guest reads its name from memory, and another one must not change the count.
    request.mode = "sweep".to_owned();
    let outcome = options.measure(&request)?;
    if !options.exact() {
        let run = outcome.document.runs.into_iter().next().context("the guest reported no run")?;
        return Ok(SweepResult::Workload(run.processes, None));
    }
    let weight = |name: ProcessName| -> u64 {
        outcome.profiles.iter().filter(|profile| profile.process == name).map(|p| p.stacks.total()).sum()
    };
    let instructions = Some([weight(ProcessName::WRITER), weight(ProcessName::READER)]);
    Ok(SweepResult::Workload(outcome.document.processes, instructions))
}

fn counted(pipeline: &SweptPipeline, options: &RunOptions) -> Result<SweepResult> {
    let guest = options.machine.guest(options.kernel.as_deref())?.context("a kernel is given")?;
    let wanted = GuestPipeline {
        pipeline: &pipeline.command,
        place: PipelinePlace::without_input()?,
        files: &pipeline.files,
        disk: &[],
        settings: RecordSettings { pipe_bytes: pipeline.pipe_bytes, ..RecordSettings::default() },
    };
    let recorded = PreparedPipeline::new(wanted, guest)?.counted(RunLimits::exactly(1))?;
    let shares = || recorded.document.attribution.of_target();
    let user = shares().filter(|share| share.role == RoleId::User).map(|share| share.weight).sum();
    let all: u64 = shares().map(|share| share.weight).sum();
    let scheduling = |profile: &Profile| SchedulingWeight::of(profile).total();
    let scheduling = recorded.profiles.iter().map(scheduling).sum();
    Ok(SweepResult::Counted { user, kernel: all.saturating_sub(user), scheduling })
}

/// Measures by a function.
struct Combinations<'a>(&'a dyn Fn(&SweepCombination) -> Result<SweepResult>);

impl Executor<SweepCombination> for Combinations<'_> {
    type Output = SweepResult;

    fn run(&self, made: &SweepCombination, _: Task) -> Result<SweepResult> {
        (self.0)(made)
    }

    /// Contradictory combinations are not run.
    fn wants(&self, made: &SweepCombination, _: usize) -> bool {
        made.refused.is_none()
    }

    fn values(&self, _: &SweepCombination, result: &SweepResult) -> Vec<f64> {
        if result.is_exact() { Vec::new() } else { vec![result.value()] }
    }
}

/// Measure all `combinations` of `plan` by `measure`, and store each result in `folder`, if given.
///
/// # Errors
/// On interruption; when results cannot be stored, or `folder` contains something else.
pub fn measure(
    measure: &dyn Fn(&SweepCombination) -> Result<SweepResult>,
    plan: &SweepPlan,
    combinations: &[SweepCombination],
    folder: Option<(&Path, bool)>,
    watch: &dyn Fn(&Event<'_, SweepCombination>),
) -> Result<(Vec<SweepCell>, Option<Ending>)> {
    // Nobody else writes into the folder meanwhile.
    let (store, _lock): (Box<dyn Store<SweepCombination, SweepResult>>, _) = match folder {
        None => (Box::new(NoStore), None),
        Some((folder, resume)) => {
            let lock = PLAN_FILE.open(folder, plan, resume)?;
            let folder = folder.join(PLAN_FILE.results);
            (Box::new(JsonFolder { folder, key: String::new(), resume }), Some(lock))
        }
    };
    let exact = plan.common.exact();
    let experiment = Plan {
        // Counts are deterministic, so the order does not matter and one run is enough.
        shuffled: !exact,
        on_failure: OnFailure::GiveUp,
        stop: plan.stop,
        ..Plan::new(combinations.iter().cloned(), if exact { 1 } else { plan.runs }, plan.seed)
    };
    let finished = experiment::run(&experiment, &Combinations(measure), store.as_ref(), watch)?;
    let ending = (!plan.stop.is_none()).then_some(finished.ending);
    let lanes = finished.lanes(combinations.len());
    let cells = combinations.iter().zip(lanes).map(|(made, (results, failed))| cell(made, results, failed));
    Ok((cells.collect(), ending))
}

impl SweepResult {
    fn is_exact(&self) -> bool {
        matches!(self, Self::Workload(_, Some(_)) | Self::Counted { .. })
    }

    /// In the unit of the sweep.
    fn value(&self) -> f64 {
        match self {
            Self::Workload(pair, Some([writer, reader])) => {
                (*writer as f64 + *reader as f64) / (pair.reader().bytes.max(1) as f64 / 1024.0)
            }
            Self::Workload(pair, None) => pair.gib_s(),
            Self::Timed { seconds, .. } => *seconds,
            Self::Counted { user, kernel, .. } => (*user as f64 + *kernel as f64) / 1e6,
        }
    }
}

fn millions(count: u64) -> f64 {
    count as f64 / 1e6
}

fn cell(made: &SweepCombination, mut results: Vec<SweepResult>, failed: Option<String>) -> SweepCell {
    let reason = made.refused.clone().or(failed);
    let mut cell = SweepCell { labels: made.labels.clone(), reason, ..SweepCell::default() };
    let hardware = made.options.kernel.is_none() || made.options.machine.accel == Accel::Kvm;
    if let Ok((_, spec)) = made.options.workload.spec() {
        caveats(&mut cell, &spec, &mut results);
    }
    if let Some(typical) = stats::median_by(&results, SweepResult::value) {
        cell.describe(typical, hardware);
    }
    if hardware || results.iter().any(SweepResult::is_exact) {
        cell.runs = results.iter().map(SweepResult::value).collect();
    } else if cell.reason.is_none() {
        cell.reason = Some("not available (emulated clock): use --collect insn".into());
    }
    cell.summarise();
    cell
}

/// Add caveats where the run differed from the request. Without the requested huge pages, there is no result.
fn caveats(cell: &mut SweepCell, spec: &Spec, results: &mut Vec<SweepResult>) {
    let pairs = results.iter().filter_map(|result| match result {
        SweepResult::Workload(pair, _) => Some(pair),
        _ => None,
    });
    for caveat in caveats_of_all(spec, pairs.collect::<Vec<_>>()) {
        if caveat.code == WarningCode::HugePagesMissing {
            cell.reason = Some(format!("not testable on this machine: {}: {}", caveat.message, caveat.action));
            results.clear();
        } else {
            cell.caveats.push(caveat.message);
        }
    }
}

impl SweepCell {
    /// What the median run did besides its value.
    fn describe(&mut self, result: &SweepResult, hardware: bool) {
        match result {
            SweepResult::Workload(pair, instructions) => {
                [self.writer_calls_per_mib, self.reader_calls_per_mib] = pair.calls_per_mib().map(Some);
                if hardware && instructions.is_none() {
                    self.writer_ns_per_kib = Some(pair.cpu_per_kib(ProcessName::WRITER));
                    self.reader_ns_per_kib = Some(pair.cpu_per_kib(ProcessName::READER));
                }
                let counter = pair.writer().counters.get("instructions").filter(|_| pair.writer().calls > 0).copied();
                let counted = instructions.map(|[writer, _]| writer).or(counter);
                self.instructions_per_writer_call =
                    counted.map(|count| count as f64 / pair.writer().calls.max(1) as f64);
            }
            SweepResult::Timed { cpu_seconds, .. } => self.cpu_seconds = Some(*cpu_seconds),
            SweepResult::Counted { user, kernel, scheduling } => {
                [self.user_minstr, self.kernel_minstr, self.scheduling_minstr] =
                    [user, kernel, scheduling].map(|count| Some(millions(*count)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{SCHEMA, Sweep};
    use super::*;
    use crate::util::stored_json::{self, HIGHEST};
    use crate::workload::WorkloadRequest;
    use proptest::prelude::*;
    use std::cell::Cell;

    fn made(name: &str, mode: &str, refused: Option<&str>) -> SweepCombination {
        let workload = WorkloadRequest { mode: Some(mode.to_owned()), ..WorkloadRequest::default() };
        SweepCombination {
            labels: BTreeMap::from([("mode".into(), name.into())]),
            options: RunOptions { workload, ..RunOptions::default() },
            image: None,
            pipeline: None,
            refused: refused.map(str::to_owned),
        }
    }

    #[test]
    fn huge_pages_that_were_not_got_leave_no_value() {
        let mut pair = Processes::default();
        pair.of_mut(ProcessName::WRITER).pipe_size = 8192;
        pair.of_mut(ProcessName::WRITER).huge_pages = Some(crate::result::GotAsked { got: 0, asked: 2 << 20 });
        let mut results = vec![SweepResult::Workload(pair, None)];
        let mut cell = SweepCell::default();
        caveats(&mut cell, &Spec { huge_pages: true, ..Spec::default() }, &mut results);
        assert!(results.is_empty() && cell.reason.as_ref().unwrap().contains("0 of 2M in huge pages"), "{cell:?}");
        assert_eq!(cell.caveats, ["the pipe held 8K instead of 64K"]);
    }

    #[test]
    fn a_resumed_sweep_gives_the_results_of_an_uninterrupted_one() {
        let folder = tempfile::tempdir().unwrap();
        let plan = SweepPlan {
            schema: PLAN_FILE.schema,
            build: "test".into(),
            axes: Vec::new(),
            common: RunOptions::default(),
            runs: 3,
            seed: 1,
            stop: StopRule::default(),
        };
        let combinations = [
            made("a", "write", None),
            made("b", "vmsplice", None),
            made("impossible", "write", Some("no such thing")),
            made("broken", "splice", None),
        ];
        let sweep = |until: usize, out: &str, resume| {
            // Runs whose speed depends on the workload alone; interrupted after `until` runs.
            let number = Cell::new(0);
            let measure = |made: &SweepCombination| {
                let mode = made.options.workload.mode.as_deref().unwrap();
                if number.replace(number.get() + 1) >= until {
                    return Err(crate::util::cancel::Cancelled.into());
                }
                anyhow::ensure!(mode != "splice", "the pipe burst");
                Ok(SweepResult::Timed { seconds: mode.len() as f64, cpu_seconds: 1.0 })
            };
            let out = folder.path().join(out);
            (super::measure(&measure, &plan, &combinations, Some((&out, resume)), &|_| {}), number.get())
        };
        let (whole, all) = sweep(usize::MAX, "whole", false);
        let (cells, ending) = whole.unwrap();
        assert_eq!((all, ending), (7, None), "three of each that works, one of what breaks");
        assert_eq!((cells[0].median, cells[1].cpu_seconds), (Some(5.0), Some(1.0)));
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

    /// Counts of which the largest are the largest that are stored.
    fn count() -> impl Strategy<Value = u64> {
        prop_oneof![0..3_u64, HIGHEST - 2..HIGHEST, 0..HIGHEST]
    }

    fn result() -> impl Strategy<Value = SweepResult> {
        let workload = ((count(), count(), count(), count()), ".*", proptest::option::of((count(), count())));
        let workload = workload.prop_map(|((window_ns, bytes, calls, ns), note, counted)| {
            let mut pair = Processes { window_ns, ..Processes::default() };
            for name in [ProcessName::WRITER, ProcessName::READER] {
                let totals = pair.of_mut(name);
                (totals.bytes, totals.calls, totals.user_ns, totals.system_ns) = (bytes, calls, ns, calls);
                (totals.notes, totals.counters) = (vec![note.clone()], [(note.clone(), ns)].into());
            }
            SweepResult::Workload(pair, counted.map(|(writer, reader)| [writer, reader]))
        });
        let seconds = || prop_oneof![0.0..1e12_f64, Just(f64::MIN_POSITIVE), Just(f64::NAN), Just(f64::INFINITY)];
        let timed = (seconds(), 0.0..9.0_f64);
        let timed = timed.prop_map(|(seconds, cpu_seconds)| SweepResult::Timed { seconds, cpu_seconds });
        let counted = (count(), count(), count());
        let counted = counted.prop_map(|(user, kernel, scheduling)| SweepResult::Counted { user, kernel, scheduling });
        prop_oneof![workload, timed, counted]
    }

    proptest! {
        #[test]
        fn what_is_written_of_a_sweep_is_read(results in proptest::collection::vec(result(), 1..4), label in ".*") {
            let folder = tempfile::tempdir().unwrap();
            let plan = SweepPlan {
                schema: PLAN_FILE.schema,
                build: "test".into(),
                axes: vec![SweepAxis { name: "mode".into(), values: vec![label.clone()] }],
                common: RunOptions::default(),
                runs: results.len(),
                seed: u64::MAX,
                stop: StopRule::default(),
            };
            let combinations = [made(&label, "write", None)];
            let number = Cell::new(0);
            let measure = |_: &SweepCombination| {
                let at = number.replace(number.get() + 1);
                Ok(results.get(at).expect("it was kept").clone())
            };
            let out = folder.path().join("out");
            let sweep = |resume| super::measure(&measure, &plan, &combinations, Some((&out, resume)), &|_| {});
            let (cells, _) = sweep(false).unwrap();
            if results.iter().all(|result| result.value().is_finite()) {
                prop_assert_eq!(&sweep(true).unwrap().0, &cells);
            } else {
                // What cannot be read is not written.
                let reason = cells[0].reason.as_deref();
                prop_assert!(reason.is_some_and(|reason| reason.contains("cannot be stored")), "{:?}", reason);
            }
            let sweep = Sweep {
                schema: SCHEMA.into(),
                version: label.clone(),
                command: label.clone(),
                executed_on: crate::result::ExecutedOn::Hardware,
                unit: "s".into(),
                kernel: label.clone(),
                cpu: label.clone(),
                axes: plan.axes.clone(),
                cells,
                others: None,
                ending: None,
            };
            let file = folder.path().join("sweep.json");
            std::fs::write(&file, stored_json::stored_text(&sweep).unwrap()).unwrap();
            prop_assert_eq!(stored_json::load::<Sweep>(&file, "a sweep", SCHEMA).unwrap(), sweep);
        }
    }
}
