//! The result of a comparison. `report.json` contains it, and all other outputs are rendered from it.

mod about;
mod causes;
mod parts;
mod word;

pub use about::{Caveat, CaveatCase, Difference, MissingCell, Shared};
pub use causes::{CauseNames, CausePart, CauseResidual, CauseRow, CauseSplit, CauseValue};
pub use parts::{
    Blame, CallList, CallRow, ChangedCount, CpuReason, CpuSplit, CpuSplitRole, CycleChange, CycleDelta, FunctionSum,
    HeldChange, Inlined, LimitedCount, LockChange, PathChange, PipeChange, PipeUse, PipelineChange, RepChange,
    RoleCycleDelta, RolePart, RoleWork, ScheduleChange, ShareChange, SwitchRates, SystemCallChange, UserWork, WorkUnit,
};
pub use word::Word;

use crate::profile::{ByProcess, ProcessName};
use crate::result::ExecutedOn;
use crate::roles::RoleId;
use crate::util::stored_json::or_no_number;
use crate::util::text::counted;
use serde::{Deserialize, Serialize};

/// The `schema` of comparisons that this version writes.
pub const SCHEMA: &str = "pipeprof.compare/3";

/// How differences were distinguished from noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Instructions counted in several windows of deterministic guests: differences beyond those between windows are
    /// real.
    Exact,
    /// Times of separate runs: statistics decide.
    Timed,
    /// Times of recorded pipelines, of a whole run each: as [`Self::Timed`].
    Recorded,
}

impl Method {
    /// The unit of the values: `instructions` or `ns` per KiB, or `ms`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Exact => "instructions",
            Self::Timed => "ns",
            Self::Recorded => "ms",
        }
    }
}

/// The unit of counts of commands that move too little for values per KiB.
pub(crate) const PER_RUN: &str = "instructions per run";

impl Verdict {
    /// The unit of counts, in words.
    pub fn counted_in(&self) -> &'static str {
        if self.of_run { PER_RUN } else { "instructions per KiB" }
    }
}

/// A whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub schema: String,
    /// pipeprof's version.
    pub version: String,
    pub command: String,
    pub method: Method,
    /// Unit of all values per KiB and per call: `instructions` or `ns`. `instructions per run` where little went through
    /// pipes. Of whole recordings, which have values of a run
    /// instead: `ms`, and `percent` of all samples if they are imported.
    pub unit: String,
    pub executed_on: ExecutedOn,
    pub columns: Vec<Column>,
    /// What differs between the columns, the kernel's release first.
    pub differences: Vec<Difference>,
    /// Settings that are the same in all columns.
    pub shared: Vec<Shared>,
    /// Built-in options of the kernels that differ and are not known to matter to pipes; `-` is off, or a module.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_options: Vec<Difference>,
    /// One per mode, or per mode and number of CPUs.
    pub sections: Vec<Section>,
    /// Steps whose verdicts differ by the number of CPUs, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_splits: Vec<CpuSplit>,
    /// Caveats about these numbers.
    pub caveats: Vec<Caveat>,
    /// What could not be measured.
    pub missing: Vec<MissingCell>,
}

/// One kernel, or one setting of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Short and distinct.
    pub label: String,
    /// `uname -r`.
    pub release: String,
    /// The files of its runs.
    pub sources: Vec<String>,
}

/// One mode in all columns, on one number of CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    pub mode: String,
    /// Of the guests, if the comparison has several numbers of CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// In the order of the columns; absent if the column has no such run.
    pub cells: Vec<Option<Cell>>,
    /// Comparisons of two columns: neighbours, then the last with the first.
    pub steps: Vec<Step>,
    /// Why the two kernels differ, if kernels were built to find out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<CauseSplit>,
}

/// `1 CPU`.
pub(crate) fn cpus_text(cpus: u32) -> String {
    counted(u64::from(cpus), "CPU")
}

/// `write`, or `write, 2 CPUs`.
pub fn section_title(mode: &str, cpus: Option<u32>) -> String {
    cpus.map_or_else(|| mode.to_owned(), |cpus| format!("{mode}, {}", cpus_text(cpus)))
}

impl Section {
    /// Its heading.
    pub fn title(&self) -> String {
        section_title(&self.mode, self.cpus)
    }

    /// ` on 1 CPU`; nothing if the comparison has one number of CPUs.
    pub fn place(&self) -> String {
        self.cpus.map(|cpus| format!(" on {}", cpus_text(cpus))).unwrap_or_default()
    }

    /// The processes of all columns, in the order in which bytes flow.
    pub fn processes(&self) -> Vec<ProcessName> {
        let mut names: Vec<ProcessName> = Vec::new();
        for name in self.cells.iter().flatten().flat_map(|cell| cell.processes.names()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// One column's figures in one mode. Values are per KiB moved, or of a whole recording, unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Bytes that the first process moved in the window.
    pub bytes: u64,
    /// The target's processes together.
    pub total: f64,
    /// By process, in the order in which bytes flow.
    pub processes: ByProcess<CellProcess>,
    /// Counted runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<ExactCell>,
    /// Outside the target's processes: idle, kernel threads. Not part of the total.
    pub other: f64,
    /// Per call of the first process; 0 for whole recordings.
    pub per_call: f64,
    /// The target's processes together, in the profile's unit.
    pub weight: u64,
    /// By role, largest first, the target's processes together.
    pub roles: Vec<RoleValue>,
    /// Number of voluntary context switches, all processes together.
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// Timed runs only: ns per KiB of each run, or ms, by boot.
    pub pairs: Vec<Vec<f64>>,
    /// Timed runs only: GiB/s, median.
    pub gib_s: Option<f64>,
    /// Recordings: what the wall time was made of, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_of: Option<String>,
}

/// What only counted runs have: the median window without scheduling, the span over all windows, and the cost of the
/// schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExactCell {
    /// The total without the roles that depend on scheduling (scheduler, wake-up, PSI, waiting, the contended mutex, idle,
    /// ticks, interrupts, softirqs).
    pub without_scheduling: f64,
    /// Number of windows.
    pub windows: usize,
    /// The smallest and the largest value in any window.
    pub without_scheduling_span: [f64; 2],
    pub(crate) total_span: [f64; 2],
    pub sleeps_per_mib: f64,
    pub preemptions_per_mib: f64,
    /// Instructions per sleep: preparing to wait, both switches, and the wake-up; absent with fewer than ten sleeps.
    pub(crate) per_sleep: Option<f64>,
    /// Likewise.
    pub(crate) per_preemption: Option<f64>,
    /// Bytes that `rep` instructions moved, without scheduling; absent if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rep_bytes: Option<f64>,
}

/// One process's part of a [`Cell`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CellProcess {
    pub value: f64,
    /// System calls.
    pub calls: u64,
}

impl Cell {
    /// The value of a role.
    pub fn of_role(&self, role: RoleId) -> f64 {
        self.roles.iter().find(|value| value.role == role).map_or(0.0, |value| value.value)
    }
}

/// The value of one role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleValue {
    pub role: RoleId,
    pub title: String,
    pub colour: String,
    pub value: f64,
}

/// The comparison of two columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Indexes of columns.
    pub from: usize,
    pub to: usize,
    pub verdict: Verdict,
    /// The largest contributor in the direction of the total; absent if nothing differs.
    pub blame: Option<Blame>,
    /// Counted runs: the totals, with scheduling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<TotalChange>,
    /// Counted runs: how the schedule was held equal; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleChange>,
    /// Counted runs: estimated cycles next to instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<CycleChange>,
    /// Counted runs: what `rep` instructions moved, each of which counts as one instruction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rep: Option<RepChange>,
    /// Other work than the other column's, because the kernel cannot do what was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unequal: Vec<String>,
    /// Whether the kernels are for different processors, so that their instructions are not compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_processor: bool,
    /// The sizes of the kernels' pages, bytes, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_sizes: Option<[u64; 2]>,
    /// Explanations beyond roles: how often the processes slept and were preempted.
    pub remarks: Vec<String>,
    /// Functions that one kernel's compiler inlined; the rows below attribute them to their callers on both sides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<Inlined>,
    /// Largest change first; in counted runs, roles that depend on the schedule come last.
    pub roles: Vec<RoleRow>,
    /// Largest change of self weight first.
    pub functions: Vec<FunctionRow>,
    /// Functions summed over all roles and processes, largest change of self weight first.
    #[serde(default)]
    pub sums: Vec<FunctionSum>,
    /// What is done while the pipe's locks are held; exact profiles only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockChange>,
    #[serde(flatten)]
    pub pipeline: PipelineChange,
    /// The functions called by the pipe's system calls, in the order of the code, if they differ.
    pub calls: Vec<CallList>,
    /// Number of changed functions that are not in `functions`, and the sum of their changes.
    pub functions_left_out: usize,
    pub left_out_delta: f64,
}

impl Step {
    /// Whether it compares counted runs.
    pub fn exact(&self) -> bool {
        self.total.is_some()
    }

    /// The verdict in a word or two.
    pub fn word(&self) -> &'static str {
        if self.other_processor { "not compared" } else { self.verdict.word.text() }
    }
}

/// The totals of two counted runs, the target's processes together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TotalChange {
    pub before: f64,
    pub after: f64,
    /// `after`, if the processes had slept and been preempted as often as before; absent if the cost of one is unknown.
    pub(crate) at_equal_schedule: Option<f64>,
}

/// The verdict: faster or slower, and by how much.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub word: Word,
    /// Per KiB. Timed: medians of the elapsed time. Exact: instructions without scheduling, median of the windows.
    pub before: f64,
    /// Values are those of a run instead: too little went through pipes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_run: bool,
    pub after: f64,
    pub delta: f64,
    /// `after / before`; in JSON `null` if there was nothing before.
    #[serde(deserialize_with = "or_no_number")]
    pub ratio: f64,
    /// Exact: half the width of the 99 % interval of the change, as a part of the value before, from the windows of both
    /// sides; absent if one side has a single window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f64>,
    /// Of the ratio; absent where exact, and of fewer than 3 runs.
    pub ci95: Option<[f64; 2]>,
    /// Mann-Whitney, two-sided.
    pub p: Option<f64>,
    /// The same after Holm's correction over all verdicts of the comparison.
    pub p_holm: Option<f64>,
    /// The noise floor: the ratio's distance from 1 when nothing differs (A/A). Absent where exact, and of too few runs.
    pub noise_floor: Option<f64>,
    /// What the noise floor was measured from, or why it is unknown; empty for verdicts that do not use one.
    pub noise_from: String,
    /// Number of runs of both columns.
    pub pairs: [usize; 2],
    pub boots: [usize; 2],
    /// Further runs per column that would probably give a verdict; only with `undecided`.
    pub more_runs: Option<usize>,
    /// The verdict in words.
    pub text: String,
}

impl Verdict {
    /// None, for the reason in `text`, and no values.
    pub fn none(text: &str) -> Self {
        Self { ratio: 1.0, text: text.to_owned(), ..Self::default() }
    }

    /// The same in words; `None` for verdicts that do not use one.
    pub fn noise(&self) -> Option<String> {
        match (&*self.noise_from, self.noise_floor) {
            ("", _) => None,
            (source, Some(_)) => Some(format!("noise floor from {source}")),
            (why, None) => Some(format!("noise floor unknown: {why}")),
        }
    }
}

/// One role before and after, the target's processes together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleRow {
    pub role: RoleId,
    pub title: String,
    pub colour: String,
    pub before: f64,
    pub after: f64,
    pub delta: f64,
    /// The change by process.
    pub deltas: ByProcess<f64>,
    /// Whether the change is larger than its uncertainty. Timed profiles: the two shares' intervals. Exact profiles: the
    /// differences between windows; never for roles that depend on the schedule.
    pub certain: bool,
    /// Exact profiles: half the width of the interval of the change, from the windows of both sides; absent if one side has
    /// a single window, and for roles that depend on the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f64>,
    /// Exact profiles: `after` is as if the processes had slept, been preempted and reused pages as often as before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moved: bool,
    /// Exact profiles: calls, and the cost of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<RoleWork>,
}

/// How a function before and one after were found to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matched {
    /// The same name before and after.
    Name,
    /// A rename that the role tables know.
    Rename,
    /// Similar names with the same role and caller.
    Path,
    /// Of a stripped program that was built again: at this place in the order of its functions.
    Place,
    /// Before and after, but in different roles: its caller changed.
    Moved,
    /// Only before: gone, inlined, or called no longer.
    OnlyBefore,
    /// Only after.
    OnlyAfter,
}

/// One function in one role before and after. Per KiB unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionRow {
    pub process: ProcessName,
    pub role: RoleId,
    /// One name for both in this report.
    pub name: String,
    /// The kernels' own names; empty where a kernel has none.
    pub before_names: Vec<String>,
    pub after_names: Vec<String>,
    pub matched: Matched,
    pub self_before: f64,
    pub self_after: f64,
    pub self_delta: f64,
    pub inclusive_before: f64,
    pub inclusive_after: f64,
    pub inclusive_delta: f64,
    /// Self weight per system call of its process.
    pub(crate) call_before: f64,
    pub call_after: f64,
    /// Total weight, with callees, per system call of its process.
    pub(crate) inclusive_call_before: f64,
    pub(crate) inclusive_call_after: f64,
    /// Exact profiles: whether the change of self weight is larger than its uncertainty. Others: true.
    #[serde(default = "yes")]
    pub certain: bool,
    /// The call paths with the largest change of self weight, kernel entry first.
    pub paths: Vec<PathRow>,
    /// Functions that are inlined into it on one side; its weights contain them on both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<String>,
}

fn yes() -> bool {
    true
}

/// One call path to a function, canonical names, kernel entry first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathRow {
    pub path: String,
    pub before: f64,
    pub after: f64,
}

impl FunctionRow {
    /// Both names if they differ: `pipe_write / anon_pipe_write`. `pipe_write (similar: anon_pipe_write)` marks a match by
    /// similar names and call path.
    pub fn shown(&self) -> String {
        let join = |names: &[String]| names.join("+");
        match (self.before_names.is_empty(), self.after_names.is_empty()) {
            (false, false) if self.before_names != self.after_names => {
                let (before, after) = (join(&self.before_names), join(&self.after_names));
                if self.matched == Matched::Path {
                    format!("{before} (similar: {after})")
                } else {
                    format!("{before} / {after}")
                }
            }
            (false, _) => join(&self.before_names),
            (true, false) => join(&self.after_names),
            (true, true) => self.name.clone(),
        }
    }

    /// [`Self::shown`], followed by ` (inlined on one side: add_to_pipe)` where that is so.
    pub(crate) fn shown_with_inlined(&self) -> String {
        match self.inlined.as_slice() {
            [] => self.shown(),
            names => format!("{} (inlined on one side: {})", self.shown(), names.join(", ")),
        }
    }
}

impl Comparison {
    /// `instr/KiB`, `instructions per run` or `ns/KiB`; `ms` or `percent` of whole recordings.
    pub fn per_kib(&self) -> &str {
        match self.method {
            Method::Exact if self.unit == PER_RUN => PER_RUN,
            Method::Exact => "instr/KiB",
            Method::Timed => "ns/KiB",
            Method::Recorded => &self.unit,
        }
    }

    /// `instr/KiB without scheduling`, `ns/KiB` or `ms`: the unit of verdicts.
    pub(crate) fn verdict_unit(&self) -> String {
        match self.method {
            Method::Exact => format!("{} without scheduling", self.per_kib()),
            Method::Timed | Method::Recorded => self.per_kib().to_owned(),
        }
    }

    /// A step's two labels.
    pub(crate) fn step_labels(&self, step: &Step) -> (&str, &str) {
        (&self.columns[step.from].label, &self.columns[step.to].label)
    }
}
