//! The weights of one column in one case, in a table: of each function by process and role, under canonical names that
//! kernels share. Made once, of stacks.

use super::dropped::Dropped;
use crate::profile::folded::is_kernel_entry;
use crate::profile::{Attributor, ByProcess, Folded, ProcessName, Profile, SchedulingWeight, Unit, WindowPart};
use crate::result::{Document, MeasuredTarget, Outcome, PairRecord, Processes};
use crate::roles::{self, Role, RoleId, SCHEDULING, Skid};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A row's identity: function `name` (canonical) of `role` in `process`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub process: ProcessName,
    pub role: RoleId,
    pub name: String,
}

/// The weight of one function, in the profile's unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FunctionWeight {
    pub own: u64,
    /// With callees.
    pub whole: u64,
    /// The kernel's own names.
    pub names: BTreeSet<String>,
    /// Self weight by call path, in canonical names, kernel entry first.
    pub paths: BTreeMap<String, u64>,
    /// Canonical names of its callers.
    pub callers: BTreeSet<String>,
}

/// One process of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessMeasure {
    pub weight: u64,
    /// Unit per KiB for one unit of weight.
    pub scale: f64,
    /// Unit per call of this process for one unit of weight.
    pub(crate) call_scale: f64,
    pub calls: u64,
    /// Weight by role.
    pub roles: BTreeMap<RoleId, u64>,
    /// Stacks under the kernel's own names.
    pub stacks: Folded,
}

/// Sleeps and preemptions of the target's processes in a window, and their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowSchedule {
    pub sleeps: u64,
    pub preemptions: u64,
    pub weight: SchedulingWeight,
}

impl WindowSchedule {
    /// Instructions per sleep: preparing to wait, both switches, and the wake-up. `None` without sleeps.
    pub(crate) fn per_sleep(&self) -> Option<f64> {
        (self.sleeps > 0).then(|| as_f64(self.weight.sleeps) / as_f64(self.sleeps))
    }

    /// Instructions per preemption. `None` without preemptions.
    pub(crate) fn per_preemption(&self) -> Option<f64> {
        (self.preemptions > 0).then(|| as_f64(self.weight.preemptions) / as_f64(self.preemptions))
    }
}

/// What is not known of a measure at another schedule than its own: half the widths of 99 % intervals, per KiB.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScheduleDoubt {
    pub total: f64,
    pub roles: BTreeMap<RoleId, f64>,
    /// Roles that were moved to the other schedule.
    pub moved: BTreeSet<RoleId>,
    /// Windows do not show what the other schedule costs.
    pub unknown: bool,
}

/// What the values of a measure are given for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MeasuredPer {
    /// Each KiB of so many bytes.
    Moved(u64),
    WholeRun,
}

/// One column's profile in one case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measure {
    pub per: MeasuredPer,
    /// The skid of its samples.
    pub skid: Skid,
    pub processes: ByProcess<ProcessMeasure>,
    pub functions: BTreeMap<Key, FunctionWeight>,
    /// Sleeps and preemptions; exact runs only.
    pub schedule: WindowSchedule,
    /// Calls of the kernel's functions per KiB, by canonical name; empty for runs without executed code.
    pub entered: BTreeMap<String, f64>,
    /// Exact runs: all windows, of which this is one.
    pub windows: Vec<Measure>,
    /// One window of a workload: what its parts executed.
    pub parts: Vec<WindowPart>,
    /// What is not known of it, if it is given at another schedule than its own.
    pub doubt: ScheduleDoubt,
}

impl Default for MeasuredPer {
    fn default() -> Self {
        Self::Moved(0)
    }
}

impl Measure {
    /// Sum the attributed profiles of `runs` (the boots of one column in one case). `None` if no process of the target has
    /// stacks.
    pub fn of(runs: &[&Outcome]) -> Option<Self> {
        let mut measure = Self { entered: entered(runs), ..Self::default() };
        // By process, summed over the runs.
        let mut time: ByProcess<f64> = ByProcess::new();
        for outcome in runs {
            let document = &outcome.document;
            measure.add(document, &document.processes, outcome.shown_window());
            for (process, of_run) in cpu_times(document).iter() {
                *time.get_or_default(process) += of_run;
            }
        }
        if runs.iter().all(|outcome| outcome.document.unit == Unit::Instructions) {
            measure.scale_counts();
            measure.windows = runs.iter().flat_map(|outcome| windows(outcome)).collect();
            if let [outcome] = runs {
                let shown = outcome.document.ensemble.as_ref().and_then(|all| measure.windows.get(all.shown));
                measure.parts = shown.map(|window| window.parts.clone()).unwrap_or_default();
            }
        } else {
            if runs.iter().any(|outcome| outcome.document.target.workload().is_none()) {
                measure.per = MeasuredPer::WholeRun;
            }
            let runs = as_f64(runs.len() as u64);
            let of = |process| time.get(process).copied().unwrap_or(0.0) / runs;
            measure.scale_by(|process, weight| of(process) / as_f64(weight.max(1)));
        }
        measure.is_known().then_some(measure)
    }

    /// The same without the frames of `dropped`, which count with their callers.
    pub fn without(&self, dropped: &Dropped) -> Self {
        let mut measure = Self {
            functions: BTreeMap::new(),
            windows: self.windows.iter().map(|window| window.without(dropped)).collect(),
            ..self.clone()
        };
        for (process, part) in self.processes.iter() {
            let emptied = ProcessMeasure { roles: BTreeMap::new(), stacks: Folded::new(), ..part.clone() };
            measure.processes.insert(process, emptied);
            measure.add_stacks(process, &part.stacks, self.skid, dropped);
        }
        measure
    }

    /// The same with the weight of each role multiplied.
    pub(super) fn scaled(&self, factors: &BTreeMap<(ProcessName, RoleId), f64>) -> Self {
        let mut measure = Self { functions: BTreeMap::new(), windows: Vec::new(), ..self.clone() };
        for (process, part) in self.processes.iter() {
            let attributor = Attributor::new(&part.stacks, self.skid);
            let mut stacks = Folded::new();
            for (stack, weight) in part.stacks.iter() {
                let role = attributor.place_frames(stack.frames()).role.id;
                let factor = factors.get(&(process, role)).copied().unwrap_or(1.0);
                stacks.add_stack(stack.frames(), rounded(as_f64(weight) * factor));
            }
            let emptied = ProcessMeasure { roles: BTreeMap::new(), stacks: Folded::new(), ..part.clone() };
            measure.processes.insert(process, ProcessMeasure { weight: stacks.total(), ..emptied });
            measure.add_stacks(process, &stacks, self.skid, &Dropped::default());
        }
        measure
    }

    /// The bytes that went through its pipe; 0 if that is not what its values are given for.
    pub fn bytes(&self) -> u64 {
        if let MeasuredPer::Moved(bytes) = self.per { bytes } else { 0 }
    }

    /// How many times its values are in the whole.
    pub fn kib(&self) -> f64 {
        match self.per {
            MeasuredPer::Moved(bytes) => as_f64(bytes.max(1)) / 1024.0,
            MeasuredPer::WholeRun => 1.0,
        }
    }

    fn is_known(&self) -> bool {
        self.processes.of_target().next().is_some()
    }

    /// Add one window's attributed profiles.
    fn add(&mut self, document: &Document, processes: &Processes, profiles: &[Profile]) {
        self.per = MeasuredPer::Moved(self.bytes() + processes.first().bytes);
        for totals in processes.totals.values() {
            self.schedule.sleeps += totals.voluntary_switches;
            self.schedule.preemptions += totals.involuntary_switches;
        }
        for profile in profiles.iter().filter(|p| p.collector == document.attribution.collector) {
            self.skid = profile.skid;
            if profile.unit == Unit::Instructions && profile.process.is_of_target() {
                self.schedule.weight += SchedulingWeight::of(profile);
            }
            let part = self.processes.get_or_default(profile.process);
            part.weight += profile.stacks.total();
            // The weight of others is per call of the first process.
            part.calls += processes.totals.get(profile.process).unwrap_or(processes.first()).calls;
            self.add_stacks(profile.process, &profile.stacks, profile.skid, &Dropped::default());
        }
    }

    /// Add the stacks of `process` to its roles and functions.
    fn add_stacks(&mut self, process: ProcessName, stacks: &Folded, skid: Skid, dropped: &Dropped) {
        let part = self.processes.get_or_default(process);
        let attributor = Attributor::new(stacks, skid);
        let mut known = HashMap::new();
        for (stack, weight) in stacks.iter() {
            let frames = dropped.shortened(stack.frames()).unwrap_or_else(|| stack.frames().collect());
            add_stack(&mut self.functions, part, process, (&frames, weight), attributor, &mut known);
        }
    }

    /// `weight` of `process` in the unit per KiB.
    pub fn per_kib(&self, process: ProcessName, weight: u64) -> f64 {
        self.processes.get(process).map_or(0.0, |measure| as_f64(weight) * measure.scale)
    }

    /// `weight` of `process` in the unit per call of `process`.
    pub fn per_call(&self, process: ProcessName, weight: u64) -> f64 {
        self.processes.get(process).map_or(0.0, |measure| as_f64(weight) * measure.call_scale)
    }

    /// A role's value per KiB in one process.
    pub fn role(&self, process: ProcessName, role: RoleId) -> f64 {
        let weight = self.processes.get(process).and_then(|measure| measure.roles.get(&role)).copied().unwrap_or(0);
        self.per_kib(process, weight)
    }

    /// A role's value per KiB in the target's processes together.
    pub fn of_role(&self, role: RoleId) -> f64 {
        self.processes.of_target().map(|(process, _)| self.role(process, role)).sum()
    }

    /// The roles of the target's processes.
    pub fn roles(&self) -> BTreeSet<RoleId> {
        self.processes.of_target().flat_map(|(_, part)| part.roles.keys().copied()).collect()
    }

    /// The functions of the target's processes, and the value of each per KiB without callees.
    pub(crate) fn functions_of_target(&self) -> impl Iterator<Item = (&Key, &FunctionWeight, f64)> {
        let of_target = self.functions.iter().filter(|(key, _)| key.process.is_of_target());
        of_target.map(|(key, weight)| (key, weight, self.per_kib(key.process, weight.own)))
    }

    /// The function with one of its kernel's names, with its callees, in the target's processes together, per KiB.
    pub fn with_callees(&self, name: &str) -> f64 {
        let of_target = self.functions.iter().filter(|(key, _)| key.process.is_of_target());
        let named = of_target.filter(|(_, weight)| weight.names.contains(name));
        named.map(|(key, weight)| self.per_kib(key.process, weight.whole)).sum()
    }

    /// The target's processes together, per KiB, without [`SCHEDULING`].
    pub fn without_scheduling(&self) -> f64 {
        let rest = |process| {
            let scheduling: f64 = SCHEDULING.iter().map(|role| self.role(process, *role)).sum();
            self.of_process(process) - scheduling
        };
        self.processes.of_target().map(|(process, _)| rest(process)).sum()
    }

    /// The weight of the target's processes together, without [`SCHEDULING`].
    pub(crate) fn unscheduled(&self) -> u64 {
        let scheduling =
            |part: &ProcessMeasure| -> u64 { SCHEDULING.iter().filter_map(|role| part.roles.get(role)).sum() };
        self.processes.of_target().map(|(_, part)| part.weight - scheduling(part)).sum()
    }

    /// The target's processes together, per KiB.
    pub fn total(&self) -> f64 {
        self.processes.of_target().map(|(process, _)| self.of_process(process)).sum()
    }

    /// A process's total per KiB.
    pub fn of_process(&self, process: ProcessName) -> f64 {
        self.per_kib(process, self.processes.get(process).map_or(0, |measure| measure.weight))
    }

    /// The weight of the target's processes together.
    pub fn weight(&self) -> u64 {
        self.processes.of_target().map(|(_, measure)| measure.weight).sum()
    }

    /// `of` each window.
    pub(crate) fn of_windows(&self, of: &dyn Fn(&Self) -> f64) -> Vec<f64> {
        self.windows.iter().map(of).collect()
    }

    /// The smallest and the largest value of `of` in any window.
    pub fn span(&self, of: &dyn Fn(&Self) -> f64) -> [f64; 2] {
        let own = of(self);
        self.windows.iter().map(of).fold([own, own], |[low, high], value| [low.min(value), high.max(value)])
    }

    /// Set the scales of counts: they follow from the counts alone, so that equal counts give equal values.
    pub(crate) fn scale_counts(&mut self) {
        let scale = 1.0 / self.kib();
        self.scale_by(|_, _| scale);
    }

    /// Set the scales; `scale` gives that of a process with this weight.
    fn scale_by(&mut self, scale: impl Fn(ProcessName, u64) -> f64) {
        let kib = if self.per == MeasuredPer::Moved(0) { 0.0 } else { self.kib() };
        for (process, part) in self.processes.iter_mut() {
            part.scale = scale(process, part.weight);
            part.call_scale = part.scale * kib / as_f64(part.calls.max(1));
        }
    }

    /// Leave the part of user code out of the processes.
    pub fn without_user_code(&mut self) {
        for (_, part) in self.processes.iter_mut() {
            part.weight -= part.roles.remove(&RoleId::User).unwrap_or(0);
        }
    }
}

/// Weights of real profiles fit into a double's 53 bits: 2^53 instructions are a month of emulation.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub fn as_f64(weight: u64) -> f64 {
    weight as f64
}

/// The whole number nearest to a weight.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "weights are positive and below 2^53")]
fn rounded(weight: f64) -> u64 {
    weight.round() as u64
}

/// The time of each process on a CPU: ns per KiB; of a recording, ms of the whole run; of an imported profile, percent of
/// all samples.
fn cpu_times(document: &Document) -> ByProcess<f64> {
    let Document { attribution, processes, .. } = document;
    match document.target {
        MeasuredTarget::Pair { .. } => {
            attribution.processes.map(|_, shares| shares.iter().filter_map(|share| share.ns_per_kib).sum())
        }
        MeasuredTarget::Pipeline(_) | MeasuredTarget::Attached { .. } => {
            processes.totals.map(|_, totals| as_f64(totals.user_ns + totals.system_ns) / 1e6)
        }
        MeasuredTarget::Imported(_) => {
            let all: u64 = attribution.processes.names().map(|name| attribution.weight(name)).sum();
            attribution.processes.map(|name, _| 100.0 * as_f64(attribution.weight(name)) / as_f64(all.max(1)))
        }
    }
}

/// The windows of `outcome`, an exact run; the shown window if there is only one.
fn windows(outcome: &Outcome) -> Vec<Measure> {
    let document = &outcome.document;
    let window = |processes: &Processes, profiles: &[Profile]| {
        let mut measure = Measure::default();
        measure.add(document, processes, profiles);
        measure.scale_counts();
        measure.is_known().then_some(measure)
    };
    if outcome.windows.is_empty() {
        return window(&document.processes, &outcome.profiles).into_iter().collect();
    }
    let windows = outcome.windows.iter().zip(&document.runs).enumerate();
    let parts = |index: usize| outcome.parts.get(index).cloned().unwrap_or_default();
    let with_parts = |(index, (profiles, run)): (usize, (&Vec<Profile>, &PairRecord))| {
        Some(Measure { parts: parts(index), ..window(&run.processes, profiles)? })
    };
    windows.filter_map(with_parts).collect()
}

/// [`Measure::entered`] of `runs`.
fn entered(runs: &[&Outcome]) -> BTreeMap<String, f64> {
    let mut entered = BTreeMap::new();
    for outcome in runs {
        let Some(code) = &outcome.code else { return BTreeMap::new() };
        let kib = as_f64(outcome.document.processes.first().bytes.max(1)) / 1024.0 * as_f64(runs.len() as u64);
        for function in code.functions.iter().filter(|function| function.address >> 63 == 1) {
            let calls = as_f64(code.of_target(function.calls())) / kib;
            *entered.entry(roles::canonical(&function.name).to_owned()).or_default() += calls;
        }
    }
    entered
}

/// Roles of names.
type KnownRoles<'a> = HashMap<&'a str, Option<&'static Role>>;

fn add_stack<'a>(
    functions: &mut BTreeMap<Key, FunctionWeight>,
    part: &mut ProcessMeasure,
    process: ProcessName,
    (frames, weight): (&[&'a str], u64),
    attributor: Attributor,
    known: &mut KnownRoles<'a>,
) {
    let kernel = frames.iter().position(|frame| is_kernel_entry(frame));
    let start = kernel.unwrap_or(frames.len());
    // Frames of the user are unchanged.
    let canonical = |(at, frame): (usize, &&'a str)| if at >= start { roles::canonical(frame) } else { frame };
    let canonical: Vec<&str> = frames.iter().enumerate().map(canonical).collect();
    part.stacks.add_stack(frames.iter().copied(), weight);
    let own_role = attributor.place_frames(frames.iter().copied()).role.id;
    *part.roles.entry(own_role).or_insert(0) += weight;
    let (Some(leaf), Some(leaf_name)) = (canonical.last(), frames.last()) else { return };
    let key = Key { process, role: own_role, name: (*leaf).to_owned() };
    let entry = functions.entry(key).or_default();
    entry.own += weight;
    add_name(entry, leaf_name);
    *entry.paths.entry(canonical[kernel.unwrap_or(0)..].join(";")).or_insert(0) += weight;
    if kernel.is_none() {
        entry.whole += weight;
    }
    // Weight with callees: each function once per stack and role; the role is that of the stack up to this function.
    let mut role: Option<&'static Role> = None;
    let mut seen: BTreeSet<(RoleId, &str)> = BTreeSet::new();
    for (index, frame) in frames.iter().enumerate().skip(start) {
        role = known.entry(frame).or_insert_with(|| roles::of_frame(frame)).or(role);
        let last = index + 1 == frames.len();
        let id = if last { own_role } else { role.map_or(RoleId::OtherKernel, |role| role.id) };
        if seen.insert((id, canonical[index])) {
            let key = Key { process, role: id, name: canonical[index].to_owned() };
            let entry = functions.entry(key).or_default();
            entry.whole += weight;
            add_name(entry, frame);
            if index > start && !entry.callers.contains(canonical[index - 1]) {
                entry.callers.insert(canonical[index - 1].to_owned());
            }
        }
    }
}

fn add_name(entry: &mut FunctionWeight, frame: &str) {
    let name = roles::base_name(frame);
    if !entry.names.contains(name) {
        entry.names.insert(name.to_owned());
    }
}
