//! The weights of one column in one case, in a table: of each function by process and role, under canonical names that
//! kernels share. Made once, of stacks.

use super::dropped::Dropped;
use super::function_weights::{FunctionWeight, GatheredFunctions, Key};
use crate::profile::{Attributor, ByProcess, Folded, ProcessName, Profile, SchedulingWeight, Unit, WindowPart};
use crate::result::{Document, MeasuredTarget, Outcome, PairRecord, Processes};
use crate::roles::{self, RoleId, SCHEDULING, Skid};
use crate::util::decision::WindowOrder;
use crate::util::warning::WarningCode;
use crate::vm::side_by_side;
use std::collections::{BTreeMap, BTreeSet};

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
    /// Counts of whole runs: what went through pipes is too little for values per KiB. Its bytes are then one KiB.
    pub(crate) is_whole: bool,
    /// How its windows belong to those of another.
    pub(crate) order: WindowOrder,
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
    /// stacks. Of a counted pipeline, these are all windows, but only the first `most`: a window of one column belongs to that
    /// of the same number in another.
    pub fn of(runs: &[&Outcome], most: usize) -> Option<Self> {
        let mut measure = Self { entered: entered(runs), ..Self::default() };
        let counted = runs.iter().all(|outcome| outcome.document.unit == Unit::Instructions);
        // By process, summed over the runs.
        let mut time: ByProcess<f64> = ByProcess::new();
        for outcome in runs {
            let document = &outcome.document;
            let windows = if counted { windows(outcome, most) } else { Vec::new() };
            if document.target.workload().is_some() || outcome.windows.is_empty() {
                measure.add(document, &document.processes, outcome.shown_window());
            } else if counted {
                windows.iter().for_each(|window| measure.merge(window));
            } else {
                for (profiles, run) in outcome.windows.iter().zip(&document.runs).take(most) {
                    measure.add(document, &run.processes, profiles);
                }
            }
            measure.windows.extend(windows.into_iter().filter(Self::is_known));
            for (process, of_run) in cpu_times(document).iter() {
                *time.get_or_default(process) += of_run;
            }
        }
        if counted {
            measure.scale_counts();
            if runs.iter().all(|outcome| outcome.document.target.workload().is_none()) {
                // Each run of a pipeline starts from the same snapshot of a guest, and at the moment of its number.
                measure.order = WindowOrder::Paired;
            }
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

    /// Whether all that [`Self::of`] reads is the same in `runs` and `others`.
    pub(crate) fn is_of_both(runs: &[&Outcome], others: &[&Outcome]) -> bool {
        let same = |(a, b): (&&Outcome, &&Outcome)| {
            let (one, other) = (&a.document, &b.document);
            (&one.processes, &one.runs, &one.ensemble) == (&other.processes, &other.runs, &other.ensemble)
                && (&one.target, one.unit, &one.attribution) == (&other.target, other.unit, &other.attribution)
                && one.warnings == other.warnings
                && (&a.profiles, &a.windows, &a.parts, &a.code) == (&b.profiles, &b.windows, &b.parts, &b.code)
        };
        runs.len() == others.len() && runs.iter().zip(others).all(same)
    }

    /// The same without the frames of `dropped`, which count with their callers.
    pub fn without(&self, dropped: &Dropped) -> Self {
        Self {
            windows: self.windows.iter().map(|window| window.without(dropped)).collect(),
            ..self.sum_without(dropped)
        }
    }

    /// The same as [`Self::without`] but for its windows, of which it has none.
    pub(crate) fn sum_without(&self, dropped: &Dropped) -> Self {
        let mut measure = self.emptied();
        for (process, part) in self.processes.iter() {
            measure.add_stacks(process, &part.stacks, self.skid, dropped);
        }
        measure
    }

    /// The same without stacks, functions, roles and windows.
    fn emptied(&self) -> Self {
        let emptied = |_, part: &ProcessMeasure| ProcessMeasure {
            weight: part.weight,
            scale: part.scale,
            call_scale: part.call_scale,
            calls: part.calls,
            ..ProcessMeasure::default()
        };
        Self {
            per: self.per,
            skid: self.skid,
            processes: self.processes.map(emptied),
            functions: BTreeMap::new(),
            schedule: self.schedule,
            entered: self.entered.clone(),
            windows: Vec::new(),
            parts: self.parts.clone(),
            is_whole: self.is_whole,
            order: self.order,
            doubt: self.doubt.clone(),
        }
    }

    /// The same with the weight of each role multiplied.
    pub(super) fn scaled(&self, factors: &BTreeMap<(ProcessName, RoleId), f64>) -> Self {
        let mut measure = self.emptied();
        for (process, part) in self.processes.iter() {
            let attributor = Attributor::new(&part.stacks, self.skid);
            let mut stacks = Folded::new();
            for (stack, weight) in part.stacks.iter() {
                let role = attributor.place_frames(stack.frames()).role.id;
                let factor = factors.get(&(process, role)).copied().unwrap_or(1.0);
                stacks.add_stack(stack.frames(), rounded(as_f64(weight) * factor));
            }
            measure.processes.get_or_default(process).weight = stacks.total();
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

    /// Add what was executed in another window.
    fn merge(&mut self, window: &Self) {
        self.per = MeasuredPer::Moved(self.bytes() + window.bytes());
        self.is_whole |= window.is_whole;
        self.skid = window.skid;
        self.schedule.sleeps += window.schedule.sleeps;
        self.schedule.preemptions += window.schedule.preemptions;
        self.schedule.weight += window.schedule.weight;
        for (process, of_window) in window.processes.iter() {
            let part = self.processes.get_or_default(process);
            part.weight += of_window.weight;
            part.calls += of_window.calls;
            part.stacks.merge(&of_window.stacks);
            for (role, weight) in &of_window.roles {
                *part.roles.entry(*role).or_insert(0) += weight;
            }
        }
        for (key, of_window) in &window.functions {
            match self.functions.get_mut(key) {
                Some(weight) => weight.merge(of_window),
                None => drop(self.functions.insert(key.clone(), of_window.clone())),
            }
        }
    }

    /// Add one window's attributed profiles.
    fn add(&mut self, document: &Document, processes: &Processes, profiles: &[Profile]) {
        self.per = MeasuredPer::Moved(self.bytes() + processes.first().bytes);
        self.is_whole |= counts_whole_runs(document);
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
        let mut gathered = GatheredFunctions::default();
        for (stack, weight) in stacks.iter() {
            let frames = dropped.shortened(stack.frames()).unwrap_or_else(|| stack.frames().collect());
            let role = attributor.place_frames(frames.iter().copied()).role.id;
            part.stacks.add_stack(frames.iter().copied(), weight);
            *part.roles.entry(role).or_insert(0) += weight;
            gathered.add(&frames, weight, role);
        }
        gathered.put_into(&mut self.functions, process);
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

/// Whether the counts of `document` are those of whole runs, not per KiB.
pub(crate) fn counts_whole_runs(document: &Document) -> bool {
    document.unit == Unit::Instructions && document.warnings.iter().any(|warning| warning.code == WarningCode::NoPipes)
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

/// The first windows of `outcome`, an exact run, at most `most`; the shown window if there is only one.
fn windows(outcome: &Outcome, most: usize) -> Vec<Measure> {
    let document = &outcome.document;
    let window = |processes: &Processes, profiles: &[Profile]| {
        let mut measure = Measure::default();
        measure.add(document, processes, profiles);
        measure.scale_counts();
        measure
    };
    if outcome.windows.is_empty() {
        return vec![window(&document.processes, &outcome.profiles)];
    }
    let windows = outcome.windows.iter().zip(&document.runs).enumerate().take(most);
    let parts = |index: usize| outcome.parts.get(index).cloned().unwrap_or_default();
    let with_parts = |(index, (profiles, run)): (usize, (&Vec<Profile>, &PairRecord))| Measure {
        parts: parts(index),
        ..window(&run.processes, profiles)
    };
    let windows: Vec<_> = windows.collect();
    side_by_side::map(&windows, |window| with_parts(*window))
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
