//! The parts of a step that further analyses make.

use super::word::Word;
use crate::profile::ProcessName;
pub use crate::record::model::work::PipeUse;
use crate::result::LockKind;
use crate::roles::RoleId;
use crate::util::text::grouped;
use serde::{Deserialize, Serialize};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// The largest contributor: a role and functions within it, helpers and the roles that call them, or another number of pages
/// that are allocated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// Absent for helpers of several roles, and for pages.
    pub role: Option<RoleId>,
    /// The role's title, the helpers' names, or what happens to pages.
    pub title: String,
    pub delta: f64,
    /// Pages: how many are allocated per MiB, before and after; the others are reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<[f64; 2]>,
    /// Helpers and pages: the change by role, largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<RolePart>,
    /// The functions within the role with the largest change of self weight: name and change.
    pub functions: Vec<(String, f64)>,
    /// The function within the role with the largest change of its total, if self changes explain less than half.
    pub whole: Option<(String, f64)>,
}

/// The part of a change that one role has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolePart {
    pub role: RoleId,
    pub title: String,
    pub delta: f64,
}

/// One function in all roles and processes, before and after. Per KiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionSum {
    /// One name for both in this report.
    pub name: String,
    /// The kernels' own names; empty where a kernel has none.
    pub before_names: Vec<String>,
    pub after_names: Vec<String>,
    pub self_before: f64,
    pub self_after: f64,
    pub self_delta: f64,
    pub(crate) total_before: f64,
    pub(crate) total_after: f64,
    pub total_delta: f64,
    /// Exact profiles: whether the change without the roles that depend on scheduling is larger than its uncertainty.
    pub certain: bool,
    /// The change of self weight by role, largest first.
    pub roles: Vec<RolePart>,
}

/// A function that is inlined into its caller on one side only. Names are those of this report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inlined {
    pub function: String,
    pub caller: String,
    /// Whether it is inlined before; otherwise after.
    pub before: bool,
    /// Its self weight below this caller where it is not inlined, per KiB.
    pub weight: f64,
}

/// One process and kind of lock, before and after; zero where it was not taken. Per call of the first process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockChange {
    pub process: ProcessName,
    pub lock: LockKind,
    /// How often functions of the pipe took it.
    pub taken: [f64; 2],
    /// Instructions executed while it was held, without the roles that depend on scheduling; absent if unknown.
    pub instructions: [Option<f64>; 2],
    /// One function per role, most calls first.
    pub calls: Vec<HeldChange>,
}

/// Calls of one role's function. Per call of the first process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldChange {
    pub role: RoleId,
    pub title: String,
    /// Canonical.
    pub function: String,
    /// While the lock was held.
    pub held: [f64; 2],
    /// In all.
    pub all: [f64; 2],
}

/// The calls that one function makes, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallList {
    /// The function's name before.
    pub before: String,
    pub after: String,
    pub rows: Vec<CallRow>,
}

/// One call in a function's code: what is called, and how often per call of the first process; absent where it makes none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRow {
    pub(crate) before_name: String,
    pub(crate) after_name: String,
    pub before: Option<f64>,
    pub after: Option<f64>,
}

/// How often the functions of one role are called, before and after, and the instructions of one call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RoleWork {
    #[serde(default)]
    pub unit: WorkUnit,
    /// Per MiB, the target's processes together.
    pub calls_before: f64,
    pub calls_after: f64,
    /// Instructions per call, page or wake-up.
    pub(crate) each_before: f64,
    pub each_after: f64,
}

/// What a role's work is counted in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum WorkUnit {
    /// Calls of the role's functions from outside of the role.
    #[default]
    Call,
    /// The same, where there is one such call for each page.
    Page,
    /// Calls of the function that wakes up the other process.
    WakeUp,
}

impl WorkUnit {
    /// To follow "per".
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// What `rep` instructions copied, cleared or searched, per KiB moved, the target's processes together, without the roles
/// that depend on scheduling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepChange {
    /// Bytes.
    pub before: f64,
    pub after: f64,
    /// Whether the change, in words of 8 bytes, is larger than the margin of the instructions.
    pub matters: bool,
    /// The verdict on the instructions if a `rep` instruction counted once for each 8 bytes, as plain code does.
    pub word: Word,
    /// These instructions, before and after.
    pub weighed: [f64; 2],
    /// Half the width of the interval of their change, as a part of those before; absent if one side has a single window.
    pub uncertainty: Option<f64>,
    /// The functions whose bytes changed most, with the change.
    pub functions: Vec<(String, f64)>,
}

/// How the second of two counted columns was judged: at the schedule of the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleChange {
    /// Instructions without scheduling per KiB, as counted at its own schedule.
    pub counted: f64,
    /// Half the width of the 99 % interval of what the other schedule changes, per KiB.
    pub uncertainty: f64,
    /// Whether the windows do not show what the other schedule costs.
    pub unknown: bool,
}

/// A step whose verdicts differ by the number of CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuSplit {
    pub mode: String,
    /// Indexes of columns.
    pub from: usize,
    pub to: usize,
    /// The two numbers of CPUs with the smallest and the largest change, ascending. All pairs below are in this order.
    pub cpus: [u32; 2],
    pub reason: CpuReason,
    /// The roles whose changes differ most.
    pub roles: Vec<CpuSplitRole>,
    pub switches: [SwitchRates; 2],
}

/// What is known of why a change depends on the number of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuReason {
    /// On one of the two, the processes are switched at another rate than before.
    Schedule,
    /// Mostly the roles that allocate and free pages: each CPU has its own lists of free pages.
    PageLists,
    /// Only the roles.
    Roles,
}

/// The change of one role on two numbers of CPUs, instructions per KiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuSplitRole {
    pub role: RoleId,
    pub title: String,
    pub deltas: [f64; 2],
}

/// Switches per MiB, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SwitchRates {
    pub sleeps: [f64; 2],
    pub preemptions: [f64; 2],
}

/// The change of estimated cycles between two columns, per KiB moved, the target's processes together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CycleChange {
    /// The model that priced both: its name, and the hash of its file.
    pub model: String,
    pub hash: String,
    /// Without the roles that depend on scheduling, as the verdict.
    pub without_scheduling: CycleDelta,
    /// The range of that change as a part of the cycles before.
    #[serde(default)]
    pub part: [f64; 2],
    /// Whether all of that is beyond the margin. No verdict depends on it.
    #[serde(default)]
    pub word: Word,
    /// In the order of the step's roles.
    pub roles: Vec<RoleCycleDelta>,
}

/// One role's part of a [`CycleChange`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleCycleDelta {
    pub role: RoleId,
    pub title: String,
    pub change: CycleDelta,
}

/// Instructions and estimated cycles per KiB: how they change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CycleDelta {
    /// The change of instructions.
    pub instructions: f64,
    /// Estimated cycles.
    pub before: f64,
    pub after: f64,
    /// The smallest and the largest change if each weight but that of `other` is halved, kept, or doubled.
    pub range: [f64; 2],
    /// What both say together: `undecided` if the signs differ, or the range contains 0. Absent if the change of
    /// instructions may not come from the kernel, or if the run's executed code, by which inlined functions are counted
    /// with their callers, is missing.
    pub word: Option<Word>,
}

/// What changed between two recordings of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineChange {
    /// What the wall time was made of: the parts of the critical path, largest change first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathChange>,
    /// Shares of samples, if both have them. Certain differences first, and the largest of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareChange>,
    /// The pipes that both have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipes: Vec<PipeChange>,
    /// All system calls of counted stages; those whose number changed for certain first, and of these the largest change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system_calls: Vec<SystemCallChange>,
    /// Other counts of all stages together, as far as both have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<ChangedCount>,
    /// Whether the programs of counted stages did other work, where that is known and user code explains the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_work: Option<UserWork>,
}

/// What a command may have limits for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, VariantArray, EnumMessage, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LimitedCount {
    /// instructions
    Instructions,
    /// system calls
    SystemCalls,
    /// page faults
    PageFaults,
    /// bytes moved by system calls
    Bytes,
    /// sleeps per MiB
    #[serde(rename = "sleeps-per-MiB")]
    #[strum(serialize = "sleeps-per-MiB")]
    SleepsPerMib,
}

/// A count before and after: fewest and most in the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedCount {
    pub what: LimitedCount,
    pub before: [f64; 2],
    pub after: [f64; 2],
}

impl ChangedCount {
    /// How many more there are in any case.
    pub fn least_more(&self) -> f64 {
        self.after[0] - self.before[1]
    }
}

/// What explains a change of user code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserWork {
    /// Loops run as often, with other instructions in them: another compiler, other options, other inlining.
    OtherCode,
    /// A loop of `function` that runs `turns` times is new. `line` is where it is in the source, as `sort.c:12`, if the file
    /// on this machine is that which was counted, with debug information.
    Loop { function: String, line: Option<String>, turns: u64 },
}

/// System calls of one kind by one process, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemCallChange {
    pub process: ProcessName,
    pub name: String,
    pub calls: [u64; 2],
    /// Kernel instructions of one call without entry and exit; `None` without calls.
    pub per_call: [Option<f64>; 2],
    /// Those that failed in the recorded runs; `None` if not seen.
    #[serde(default)]
    pub errors: [Option<u64>; 2],
    /// Bytes that they moved in the recorded runs; `None` of calls that move none.
    #[serde(default)]
    pub bytes: [Option<u64>; 2],
    /// Whether no run before had as many as any run after.
    pub certain: bool,
}

/// Fewer calls that fail or not may do so by chance, as those that others interrupt.
const FEW_ERRORS: u64 = 10;

impl SystemCallChange {
    /// How many more there are.
    pub fn more(&self) -> i128 {
        i128::from(self.calls[1]) - i128::from(self.calls[0])
    }

    /// Whether other numbers of them failed, which cannot be chance: many more, or all of them.
    pub(crate) fn fails_otherwise(&self) -> bool {
        let [Some(before), Some(after)] = self.errors else { return false };
        before.abs_diff(after) >= FEW_ERRORS && before.abs_diff(after) * 2 >= before.max(after)
    }

    /// `read +3,306`.
    pub fn text(&self) -> String {
        let sign = if self.more() < 0 { '-' } else { '+' };
        format!("{} {sign}{}", self.name, grouped(self.calls[0].abs_diff(self.calls[1])))
    }
}

/// A part of the critical path, ms; 0 in the recording that does not have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathChange {
    /// A process and what it did.
    pub part: String,
    pub before: f64,
    pub after: f64,
}

/// A role's share of the samples of one process, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShareChange {
    pub process: ProcessName,
    pub role: RoleId,
    /// Parts of the samples of the process, 0 to 1.
    pub shares: [f64; 2],
    /// The 95 % interval of their difference, if samples are independent of one another.
    pub(crate) difference_ci95: [f64; 2],
}

/// A pipe, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipeChange {
    /// `dd to wc`.
    pub name: String,
    /// `None` of a recording that has no calls.
    pub bytes: [Option<u64>; 2],
    pub writers: [PipeUse; 2],
    pub readers: [PipeUse; 2],
}
