//! Sum one run's stacks in a table: the weight of each function by process and role, under canonical names that
//! kernels share.

use super::dropped::Dropped;
use crate::profile::folded::is_kernel_entry;
use crate::profile::{Attributor, ByProcess, Folded, ProcessName, Profile, SchedulingWeight, Unit};
use crate::result::{Document, Outcome, Processes};
use crate::roles::{self, Role, RoleId, Skid};
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
    pub call_scale: f64,
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
    #[must_use]
    pub(crate) fn per_sleep(&self) -> Option<f64> {
        (self.sleeps > 0).then(|| as_f64(self.weight.sleeps) / as_f64(self.sleeps))
    }

    /// Instructions per preemption. `None` without preemptions.
    #[must_use]
    pub(crate) fn per_preemption(&self) -> Option<f64> {
        (self.preemptions > 0).then(|| as_f64(self.weight.preemptions) / as_f64(self.preemptions))
    }
}

/// One column's profile in one mode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measure {
    pub bytes: u64,
    /// The skid of its samples.
    pub skid: Skid,
    pub processes: ByProcess<ProcessMeasure>,
    pub functions: BTreeMap<Key, FunctionWeight>,
    /// Sleeps and preemptions; exact runs only.
    pub schedule: WindowSchedule,
    /// Exact runs: all windows, of which this is one.
    pub windows: Vec<Measure>,
}

impl Measure {
    /// `weight` of `process` in the unit per KiB.
    #[must_use]
    pub(crate) fn per_kib(&self, process: ProcessName, weight: u64) -> f64 {
        self.processes.get(process).map_or(0.0, |measure| as_f64(weight) * measure.scale)
    }

    /// `weight` of `process` in the unit per call of `process`.
    #[must_use]
    pub(crate) fn per_call(&self, process: ProcessName, weight: u64) -> f64 {
        self.processes.get(process).map_or(0.0, |measure| as_f64(weight) * measure.call_scale)
    }

    /// A role's value per KiB in one process.
    #[must_use]
    pub(crate) fn role(&self, process: ProcessName, role: RoleId) -> f64 {
        let weight = self.processes.get(process).and_then(|measure| measure.roles.get(&role)).copied().unwrap_or(0);
        self.per_kib(process, weight)
    }

    /// The target's processes together, per KiB, without [`roles::SCHEDULING`].
    #[must_use]
    pub(crate) fn without_scheduling(&self) -> f64 {
        let rest = |process| {
            let scheduling: f64 = roles::SCHEDULING.iter().map(|role| self.role(process, *role)).sum();
            self.of(process) - scheduling
        };
        self.processes.of_target().map(|(process, _)| rest(process)).sum()
    }

    /// The weight of the target's processes together, without [`roles::SCHEDULING`].
    #[must_use]
    pub(crate) fn unscheduled(&self) -> u64 {
        let scheduling =
            |part: &ProcessMeasure| -> u64 { roles::SCHEDULING.iter().filter_map(|role| part.roles.get(role)).sum() };
        self.processes.of_target().map(|(_, part)| part.weight - scheduling(part)).sum()
    }

    /// The target's processes together, per KiB.
    #[must_use]
    pub(crate) fn total(&self) -> f64 {
        self.processes.of_target().map(|(process, _)| self.of(process)).sum()
    }

    /// The weight of the target's processes together.
    #[must_use]
    pub(crate) fn weight(&self) -> u64 {
        self.processes.of_target().map(|(_, measure)| measure.weight).sum()
    }

    /// Set the scales of counts: they follow from the counts alone, so that equal counts give equal values.
    pub(crate) fn scale_counts(&mut self) {
        let scale = 1024.0 / as_f64(self.bytes.max(1));
        self.scale_by(|_, _| scale);
    }

    /// Set the scales; `scale` gives that of a process with this weight.
    fn scale_by(&mut self, scale: impl Fn(ProcessName, u64) -> f64) {
        let bytes = as_f64(self.bytes);
        for (process, part) in self.processes.iter_mut() {
            part.scale = scale(process, part.weight);
            part.call_scale = part.scale * bytes / 1024.0 / as_f64(part.calls.max(1));
        }
    }

    /// Leave the part of user code out of the processes.
    pub(crate) fn without_user_code(&mut self) {
        for (_, part) in self.processes.iter_mut() {
            part.weight -= part.roles.remove(&RoleId::User).unwrap_or(0);
        }
    }

    /// A process's total per KiB.
    #[must_use]
    pub(crate) fn of(&self, process: ProcessName) -> f64 {
        self.per_kib(process, self.processes.get(process).map_or(0, |measure| measure.weight))
    }
}

/// Weights of real profiles fit into a double's 53 bits: 2^53 instructions are a month of emulation.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub(crate) fn as_f64(weight: u64) -> f64 {
    weight as f64
}

/// The canonical names of a stack's frames; user frames are unchanged.
fn canonical_stack<'a>(frames: &[&'a str], kernel: Option<usize>) -> Vec<&'a str> {
    frames
        .iter()
        .enumerate()
        .map(|(index, frame)| if kernel.is_some_and(|start| index >= start) { roles::canonical(frame) } else { frame })
        .collect()
}

/// Sum the attributed profiles of `runs` (the boots of one column in one mode). `None` if no process of the target has
/// stacks.
#[must_use]
pub(crate) fn measure(runs: &[&Outcome]) -> Option<Measure> {
    measure_without(runs, &Dropped::default())
}

/// [`measure`] without the frames of `dropped`.
#[must_use]
pub(crate) fn measure_without(runs: &[&Outcome], dropped: &Dropped) -> Option<Measure> {
    let mut measure = Measure::default();
    // By process: nanoseconds per KiB, summed over the runs.
    let mut time: ByProcess<f64> = ByProcess::new();
    for outcome in runs {
        let document = &outcome.document;
        add(&mut measure, document, &document.processes, outcome.shown_window(), dropped);
        for (process, shares) in document.attribution.processes.iter() {
            *time.get_or_default(process) += shares.iter().filter_map(|share| share.ns_per_kib).sum::<f64>();
        }
    }
    let exact = runs.iter().all(|outcome| outcome.document.unit == Unit::Instructions);
    if exact {
        measure.scale_counts();
        measure.windows = runs.iter().flat_map(|outcome| measures(outcome, dropped)).collect();
    } else {
        // Samples: the attribution contains each process's total in ns per KiB.
        let runs = as_f64(runs.len() as u64);
        measure.scale_by(|process, weight| time.get(process).copied().unwrap_or(0.0) / runs / as_f64(weight.max(1)));
    }
    let any = measure.processes.of_target().next().is_some();
    any.then_some(measure)
}

/// The windows of `outcome`, an exact run, without the frames of `dropped`; the shown window if there is only one.
#[must_use]
pub(crate) fn measures(outcome: &Outcome, dropped: &Dropped) -> Vec<Measure> {
    let document = &outcome.document;
    if outcome.windows.is_empty() {
        return of_window(document, &document.processes, &outcome.profiles, dropped).into_iter().collect();
    }
    let windows = outcome.windows.iter().zip(&document.runs);
    windows.filter_map(|(profiles, run)| of_window(document, &run.processes, profiles, dropped)).collect()
}

fn of_window(document: &Document, processes: &Processes, profiles: &[Profile], dropped: &Dropped) -> Option<Measure> {
    let mut measure = Measure::default();
    add(&mut measure, document, processes, profiles, dropped);
    measure.scale_counts();
    let any = measure.processes.of_target().next().is_some();
    any.then_some(measure)
}

/// Add one window's attributed profiles to `measure`, without the frames of `dropped`.
fn add(measure: &mut Measure, document: &Document, processes: &Processes, profiles: &[Profile], dropped: &Dropped) {
    let mut known: HashMap<String, Option<&'static Role>> = HashMap::new();
    measure.bytes += processes.first().bytes;
    for totals in processes.totals.values() {
        measure.schedule.sleeps += totals.voluntary_switches;
        measure.schedule.preemptions += totals.involuntary_switches;
    }
    for profile in profiles.iter().filter(|p| p.collector == document.attribution.collector) {
        // The weight of others is per call of the first process.
        let calls = processes.totals.get(profile.process).unwrap_or(processes.first()).calls;
        measure.skid = profile.skid;
        if profile.unit == Unit::Instructions && profile.process.is_of_target() {
            measure.schedule.weight += SchedulingWeight::of(profile);
        }
        let part = measure.processes.get_or_default(profile.process);
        part.weight += profile.stacks.total();
        part.calls += calls;
        let attributor = Attributor::new(&profile.stacks, profile.skid);
        for (stack, weight) in profile.stacks.iter() {
            let frames = dropped.shortened(stack.frames()).unwrap_or_else(|| stack.frames().collect());
            add_stack(&mut measure.functions, part, profile.process, (&frames, weight), attributor, &mut known);
        }
    }
}

fn add_stack(
    functions: &mut BTreeMap<Key, FunctionWeight>,
    part: &mut ProcessMeasure,
    process: ProcessName,
    (frames, weight): (&[&str], u64),
    attributor: Attributor,
    known: &mut HashMap<String, Option<&'static Role>>,
) {
    let kernel = frames.iter().position(|frame| is_kernel_entry(frame));
    let canonical = canonical_stack(frames, kernel);
    part.stacks.add_stack(frames.iter().copied(), weight);
    let own_role = attributor.place_frames(frames.iter().copied()).role;
    *part.roles.entry(own_role.id).or_insert(0) += weight;

    let path_from = kernel.unwrap_or(0);
    if let (Some(leaf), Some(leaf_name)) = (canonical.last(), frames.last()) {
        let key = Key { process, role: own_role.id, name: (*leaf).to_owned() };
        let entry = functions.entry(key).or_default();
        entry.own += weight;
        add_name(entry, leaf_name);
        *entry.paths.entry(canonical[path_from..].join(";")).or_insert(0) += weight;
    }
    // Weight with callees: each function once per stack and role; the role is that of the stack up to this function.
    let mut role: Option<&'static Role> = None;
    let mut seen: BTreeSet<(RoleId, &str)> = BTreeSet::new();
    let Some(start) = kernel else {
        if let Some(leaf) = canonical.last() {
            let key = Key { process, role: own_role.id, name: (*leaf).to_owned() };
            functions.entry(key).or_default().whole += weight;
        }
        return;
    };
    for (index, frame) in frames.iter().enumerate().skip(start) {
        let of_frame = match known.get(*frame) {
            Some(role) => *role,
            None => {
                let found = roles::of_frame(frame);
                known.insert((*frame).to_owned(), found);
                found
            }
        };
        role = of_frame.or(role);
        let last = index + 1 == frames.len();
        let id = if last { own_role.id } else { role.map_or(RoleId::OtherKernel, |role| role.id) };
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
