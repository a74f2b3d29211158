//! Probes: count calls and times of the roles' functions in the kernel (bpf/calls.bpf.h), by [`super::probes`].

use super::bpf::Object;
use super::bpf::shared::{Call, Fast, Function, PP_FAST, PP_SLOTS, PP_STACKS, Settings, Task};
use super::calibrate::{self, Costs};
use super::fentry::Fentry;
use super::follow::{self, Following};
use super::load_probes::{Loaded, load, tell_slots};
use super::probes::{self, COUNT, ENTER, LEAVE, Probes};
use super::samples;
use super::targets::{self, AttachMethod, ProbeTarget};
use super::user_code::UserCode;
use super::{Collect, CollectPrograms, Collected, Programs, Watched, loss_warning, restore_warning};
use crate::kernel::resolve::Resolution;
use crate::kernel::symbols::Symbols;
use crate::profile::{ByProcess, ProcessName, Unit};
use crate::result::{FunctionCalls, Loader, Log2Histogram, Probe, Status, Warning};
use crate::roles::{RoleId, Skid};
use crate::util::warning::WarningCode;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOT_ARMED: &str = "the probes were not armed";

/// The `kprobe` collector.
pub struct Kprobe {
    loader: Loader,
    symbols: Arc<Symbols>,
    probe: Probe,
    targets: Vec<ProbeTarget>,
    /// Functions that were asked for and do not exist, with the reason.
    missing: Vec<String>,
    /// Absent before the first run.
    prepared: Option<Prepared>,
    trial: Option<Armed>,
    armed: Option<Armed>,
}

/// What is found out once.
struct Prepared {
    /// If the kernel may support it and the library can copy programs.
    fentry: Option<Fentry>,
    costs: Costs,
    /// Roles that `--probe roles` leaves out, because only breakpoints reach them.
    left_out: Vec<RoleId>,
}

/// Loaded programs and attached probes.
struct Armed {
    watched: Watched,
    // Dropped before the programs.
    probes: Probes,
    object: Object,
    cookies: bool,
    following: Following,
    code: UserCode,
}

impl Kprobe {
    /// Probes on the functions in `symbols` that `probe` selects.
    pub fn new(loader: Loader, symbols: Arc<Symbols>, probe: &Probe) -> Self {
        let (targets, missing) = targets::all(&symbols, probe);
        let probe = probe.clone();
        Self { loader, symbols, probe, targets, missing, prepared: None, trial: None, armed: None }
    }

    /// Load the programs for `watched`, without probes.
    fn load(&self, watched: &Watched) -> Result<Armed> {
        let code = UserCode::follow(watched.all().map(|(pid, _)| pid));
        let costs = self.prepared.as_ref().map(|prepared| prepared.costs).unwrap_or_default();
        let settings = |cookies| Settings {
            kprobe_count_ns: whole(costs.kprobe.map(|cost| cost.count)),
            breakpoint_ns: whole(costs.breakpoint),
            kprobe_outside_ns: whole(costs.kprobe.map(|cost| cost.outside)),
            ..follow::settings(watched, cookies)
        };
        let Loaded { mut object, cookies, refused } = load(self.loader, settings, PP_STACKS as u32)?;
        let following = Following::start(&mut object, watched, refused)?;
        tell_slots(&mut object, self.targets.iter().map(|target| target.address))?;
        Ok(Armed { watched: watched.clone(), probes: Probes::default(), object, cookies, following, code })
    }

    /// Attach to all functions that may be probed, to count their calls.
    fn attach_trial(&mut self, watched: &Watched) -> Result<Armed> {
        let mut armed = self.load(watched)?;
        armed.probes = probes::try_all(&mut self.targets, &armed.object, armed.cookies)?;
        ensure!(!armed.probes.is_empty(), "{}", self.first_reason());
        Ok(armed)
    }

    /// End a trial: choose the functions by their calls, and measure what probes cost.
    fn prepare(&mut self, armed: Armed) -> Result<()> {
        let names = follow::names(&armed.object, &armed.watched, &Programs::default())?;
        let calls = armed.calls(self.targets.len(), true, &names)?;
        drop(armed);
        let slots = self.targets.len();
        let by_slot =
            |calls: &SlotCalls| (0..slots).map(|slot| calls.get(&slot).map_or(0, |(one, _)| one.calls)).collect();
        let hits: ByProcess<Vec<u64>> = calls.iter().map(|(process, calls)| (process, by_slot(calls))).collect();
        let left_out = targets::choose(&mut self.targets, &self.probe, &hits);
        let mut fentry =
            Some(()).filter(|()| self.loader == Loader::Libbpf).and_then(|()| Fentry::new(&self.symbols).ok());
        let costs = calibrate::costs(self.loader, &self.symbols, fentry.as_ref());
        if let (Some(fentry), Some(cost)) = (&mut fentry, costs.fentry) {
            fentry.set_costs(whole(Some(cost.count)), whole(Some(cost.outside)));
        }
        self.prepared = Some(Prepared { fentry, costs, left_out });
        Ok(())
    }

    /// The reason why nothing is watched: the kernel's error for the first function.
    fn first_reason(&self) -> &str {
        let why = self.targets.iter().find_map(|target| target.why.first()).or(self.missing.first());
        why.map_or("none of the functions to probe exists in this kernel", |why| why)
    }

    /// The ways in which targets are watched.
    fn used(&self) -> Vec<AttachMethod> {
        let watched = self.targets.iter().filter(|target| target.wanted && target.method != AttachMethod::None);
        watched.map(|target| target.method).collect()
    }

    /// The functions that were called, by process.
    fn rows(&mut self, armed: &Armed, others: bool, names: &[Option<ProcessName>]) -> Result<Vec<FunctionCalls>> {
        let counted = armed.calls(self.targets.len(), others, names)?;
        for (slot, (function, _)) in counted.values().flatten() {
            self.targets[*slot].hits += function.calls;
        }
        Ok(counted
            .iter()
            .flat_map(|(process, slots)| slots.iter().map(move |(slot, counts)| (process, *slot, counts)))
            .map(|(process, slot, (function, unfinished))| self.row(process, slot, function, *unfinished))
            .collect())
    }

    fn row(&self, process: ProcessName, slot: usize, function: &Function, unfinished: u64) -> FunctionCalls {
        let target = &self.targets[slot];
        let returns = calibrate::returns(function);
        let timed = returns > 0;
        let buckets = function.log2.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let corrected = || self.prepared.as_ref()?.costs.correct(target.method, function, &self.used());
        FunctionCalls {
            process,
            role: target.role,
            symbol: target.symbol.clone(),
            how: target.method.name().to_owned(),
            calls: function.calls,
            total_ns: timed.then_some(function.total_ns),
            self_ns: timed.then_some(function.self_ns),
            corrected_self_ns: if timed { corrected() } else { None },
            log2_ns: Log2Histogram(function.log2[..buckets].to_vec()),
            missed: if timed { function.calls.saturating_sub(returns + unfinished) } else { 0 },
        }
    }

    /// What was probed, and how to probe more.
    fn notes(&self, armed: &Armed) -> Vec<String> {
        let mut notes = Vec::new();
        let watched = || self.targets.iter().filter(|target| target.wanted && target.method != AttachMethod::None);
        let names = |list: Vec<&ProbeTarget>| list.iter().map(|target| &*target.symbol).collect::<Vec<_>>().join(", ");
        let timed = watched().filter(|target| target.timed && target.method != AttachMethod::Breakpoint).count();
        let (all, fentry) =
            (watched().count(), watched().filter(|target| target.method == AttachMethod::Fentry).count());
        notes.push(format!("--probe {}: {all} functions, {timed} of them timed, {fentry} by fentry", self.probe));
        let never: Vec<&ProbeTarget> = watched().filter(|target| target.hits == 0).collect();
        if !never.is_empty() {
            notes.push(format!("probed but never called: {}", names(never)));
        }
        let by_breakpoint: Vec<&ProbeTarget> =
            watched().filter(|target| target.method == AttachMethod::Breakpoint).collect();
        if !by_breakpoint.is_empty() {
            notes.push(format!("counted by hardware breakpoints (no probe attaches): {}", names(by_breakpoint)));
        }
        let others = self.targets.iter().filter(|target| !target.wanted && target.method != AttachMethod::None).count();
        if others > 0 {
            notes.push(format!("not probed: {others} other functions of these roles; --probe all probes them too"));
        }
        if let Some(prepared) = &self.prepared {
            if !prepared.left_out.is_empty() {
                let ids: Vec<&str> = prepared.left_out.iter().map(|role| role.as_str()).collect();
                notes.push(format!(
                    "not probed: {} (only breakpoints reach them, which cost more; to count them: --probe {})",
                    ids.join(", "),
                    ids.join(",")
                ));
            }
            notes.extend(prepared.costs.note(&self.used()));
        }
        for (why, functions) in &armed.probes.refused {
            let list =
                if functions.len() > 3 { format!("{} functions", functions.len()) } else { functions.join(", ") };
            notes.push(format!("kprobe instead of fentry on {list}: {why}"));
        }
        notes
    }
}

/// Calls by slot, and how many of them had not returned.
type SlotCalls = BTreeMap<usize, (Function, u64)>;

impl Armed {
    /// The calls of each process of `names`, by number. `others`: whether threads were watched that the programs do not
    /// compare with directly.
    fn calls(&self, slots: usize, others: bool, names: &[Option<ProcessName>]) -> Result<ByProcess<SlotCalls>> {
        let mut counted: ByProcess<SlotCalls> = names.iter().flatten().map(|name| (*name, SlotCalls::new())).collect();
        let mut add = |name: ProcessName, slot: usize, function: &Function, tasks: &[Task]| {
            let inside = tasks.iter().flat_map(open_calls);
            let pushed = inside.filter(|call| call.function == probes::place(slot)).count() as u64;
            let unfinished = pushed + u64::from(function.open.frame != 0) + function.left;
            let slots = counted.get_or_default(name);
            let entry = slots.entry(slot).or_insert((bytemuck::Zeroable::zeroed(), 0));
            sum(&mut entry.0, function);
            entry.1 += unfinished;
        };
        let fast: Box<[Fast; PP_FAST]> = Box::new(self.object.variables()?);
        for ((_, process), own) in follow::direct(&self.watched).into_iter().zip(fast.iter()) {
            let name = self.watched.processes[process as usize].name;
            for (slot, function) in own.functions.iter().enumerate().filter(|(_, function)| function.calls > 0) {
                add(name, slot, function, &[own.task]);
            }
        }
        if others {
            let tasks = self.object.entries::<u64, Task>("threads")?;
            for (process, name) in (0u32..).zip(names).filter_map(|(number, name)| Some((number, (*name)?))) {
                let own: Vec<Task> =
                    tasks.iter().map(|(_, task)| *task).filter(|task| task.process == u64::from(process)).collect();
                for slot in 0..slots {
                    let cell = process * PP_SLOTS as u32 + slot as u32;
                    let function: Function = self.object.element("functions", cell)?;
                    if function.calls > 0 {
                        add(name, slot, &function, &own);
                    }
                }
            }
        }
        Ok(counted)
    }
}

/// The calls of a thread that have not returned.
fn open_calls(task: &Task) -> &[Call] {
    let open = task.top as usize / size_of::<Call>();
    task.calls.get(1..=open).unwrap_or_default()
}

fn sum(sum: &mut Function, one: &Function) {
    sum.calls += one.calls;
    sum.total_ns += one.total_ns;
    sum.self_ns += one.self_ns;
    sum.overhead_ns += one.overhead_ns;
    for (sum, one) in sum.log2.iter_mut().zip(&one.log2) {
        *sum += one;
    }
}

/// Whole nanoseconds; 0 if unknown.
fn whole(ns: Option<f64>) -> u32 {
    ns.unwrap_or(0.0).round() as u32
}

impl Collect for Kprobe {
    fn wants_trial(&self) -> bool {
        self.prepared.is_none() && self.probe.has_choice()
    }

    fn arm_trial(&mut self, watched: &Watched) -> Result<()> {
        self.trial = Some(self.attach_trial(watched)?);
        Ok(())
    }

    fn finish_trial(&mut self) -> Result<()> {
        let trial = self.trial.take().context("there was no trial")?;
        self.prepare(trial)
    }

    fn arm(&mut self, watched: &Watched) -> Result<()> {
        if self.prepared.is_none() {
            // There was no trial: choose without it.
            let armed = self.attach_trial(watched)?;
            self.prepare(armed)?;
        }
        let mut armed = self.load(watched)?;
        // Where programs are skipped, many watched threads lose most of their calls.
        let few = follow::only_direct(watched);
        let fentry = self.prepared.as_ref().and_then(|prepared| prepared.fentry.as_ref());
        let fentry = fentry.filter(|fentry| few || !fentry.loses_calls());
        armed.probes = Probes::attach(&mut self.targets, &armed.object, armed.cookies, fentry)?;
        ensure!(!armed.probes.is_empty(), "{}", self.first_reason());
        armed.following.resume(&mut armed.object)?;
        self.armed = Some(armed);
        Ok(())
    }

    fn finish(&mut self) -> Result<Collected> {
        self.stop()?;
        self.results(&Programs::default())
    }

    fn resolutions(&self) -> Vec<Resolution> {
        targets::resolutions(&self.targets, &self.symbols)
    }
}

impl CollectPrograms for Kprobe {
    fn stop(&mut self) -> Result<()> {
        let armed = self.armed.as_mut().context(NOT_ARMED)?;
        armed.following.pause(&mut armed.object)
    }

    fn results(&mut self, programs: &Programs) -> Result<Collected> {
        let mut armed = self.armed.take().context(NOT_ARMED)?;
        let removed = armed.probes.remove();
        let followed = armed.following.finish(&armed.object)?;
        let without_return = std::mem::take(&mut armed.probes.without_return);
        let names = follow::names(&armed.object, &armed.watched, programs)?;
        let functions = self.rows(&armed, followed.others, &names)?;
        let mut notes = vec![format!("loaded by {}", armed.object.loaded_by())];
        notes.extend(self.notes(&armed));
        let (stacks, folded) = samples::of_target(&armed.object, &names, &self.symbols, armed.code)?;

        let calls = functions.iter().map(|row| row.calls).sum();
        let missed: u64 = functions.iter().map(|row| row.missed).sum();
        let skipped = [COUNT, ENTER, LEAVE].iter().filter_map(|name| armed.object.passed_over(name)).sum::<u64>();
        let passed_over = skipped + removed.passed_over;
        let lost_stacks = folded.lost.samples + folded.lost.stacks;
        notes.push(
            if armed.cookies { "kprobes identified by attach cookies" } else { "kprobes identified by address" }
                .to_owned(),
        );
        if removed.traced {
            notes.push("return probes in tracefs".to_owned());
        }
        notes.extend(followed.notes);
        let mut warnings = followed.warnings;
        warnings.extend(removed.kept.into_iter().map(restore_warning));
        if missed > 0 {
            let message = format!("the kernel did not report the return of {missed} of {calls} probed calls");
            let action = "stop other programs, so that fewer tasks sleep in these functions".to_owned();
            warnings.push(Warning { code: WarningCode::ReturnsMissed, message, action });
        }
        if lost_stacks + passed_over > 0 {
            let message = format!(
                "probes: {lost_stacks} stacks lost (map full), {passed_over} events skipped (another BPF program was running)"
            );
            warnings.push(loss_warning(WarningCode::ProbeEventsLost, message));
        }
        let given_up: Vec<String> =
            self.missing.iter().cloned().chain(targets::unwatched_roles(&self.targets)).chain(without_return).collect();
        Ok(Collected {
            status: if given_up.is_empty() && missed + lost_stacks + passed_over + followed.unfollowed == 0 {
                Status::Ok
            } else {
                Status::Partial
            },
            reason: (!given_up.is_empty())
                .then(|| given_up.join("; "))
                .or_else(|| (missed > 0).then(|| format!("the kernel did not report {missed} returns"))),
            unit: Unit::Samples,
            skid: Skid::None,
            stacks,
            functions,
            samples: calls,
            lost: missed + lost_stacks + passed_over,
            unresolved: folded.unresolved,
            notes,
            warnings,
        })
    }
}
