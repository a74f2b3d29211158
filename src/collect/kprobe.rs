//! Probes: count calls and times of the roles' functions in the kernel, with kprobes (bpf/calls.bpf.h), or with
//! execution breakpoints (bpf/sample.bpf.h) on functions that accept no kprobe.

use super::attach::{self, Attached};
use super::bpf::Object;
use super::bpf::shared::{Function, Losses, PP_DEPTH, PP_FAST, PP_SLOTS, PP_STACKS, Stack, Task};
use super::calibrate::{self, Cost};
use super::follow::{self, Following};
use super::stacks::{self, UserNames};
use super::targets::{self, ProbeTarget, Way};
use super::tracefs::ReturnProbes;
use super::{Collect, Collected, Watched, loss_warning, restore_warning};
use crate::document::{FunctionCalls, Loader, Log2Histogram, Status, Warning};
use crate::kernel::resolve::Resolution;
use crate::kernel::symbols::Symbols;
use crate::profile::{ByProcess, ProcessName, Unit};
use crate::roles::{RoleId, Skid};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const ENTER: &str = "pp_enter";
pub(super) const LEAVE: &str = "pp_leave";
const BREAKPOINT: &str = "pp_breakpoint";

/// x86 has four debug address registers.
const BREAKPOINTS: usize = 4;

/// The `kprobe` collector.
pub(crate) struct Kprobe {
    loader: Loader,
    symbols: Arc<Symbols>,
    targets: Vec<ProbeTarget>,
    cost: Option<Cost>,
    /// Whether it is decided how each target is watched.
    armed_once: bool,
    armed: Option<ArmedProbes>,
}

struct ArmedProbes {
    watched: Watched,
    object: Object,
    cookies: bool,
    entries: Vec<Attached>,
    returns: Vec<Attached>,
    // Declared last, so that it is dropped after what is attached to it.
    return_probes: Option<ReturnProbes>,
    following: Following,
    user: UserNames,
    /// Functions whose returns are not watched, with the reason.
    without_return: Vec<String>,
}

impl Kprobe {
    /// Probes on the functions of each role in `symbols`.
    #[must_use]
    pub(crate) fn new(loader: Loader, symbols: Arc<Symbols>) -> Self {
        let targets = targets::all(&symbols);
        Self { loader, symbols, targets, cost: None, armed_once: false, armed: None }
    }

    /// Attach a probe, or else a breakpoint, to each target that has not failed before.
    fn attach_all(&mut self, armed: &mut ArmedProbes) -> Result<()> {
        let enter = armed.object.program(ENTER)?;
        let leave = armed.object.program(LEAVE)?;
        for (slot, target) in self.targets.iter_mut().enumerate() {
            let cookie = armed.cookies.then_some(slot as u64);
            if target.way == Way::Kprobe {
                let (symbol, address) = (&target.symbol, target.address);
                match attach::kprobe(enter, symbol, address, false, cookie) {
                    Ok(entry) => {
                        // The return is enabled first, so that no call is seen without its return.
                        let exit = match &mut armed.return_probes {
                            Some(probes) => probes
                                .add(slot, symbol, room(target.role))
                                .and_then(|id| attach::traced_return(leave, id)),
                            None => attach::kprobe(leave, symbol, address, true, None),
                        };
                        match exit {
                            Ok(exit) => armed.returns.push(exit),
                            Err(error) => armed.without_return.push(format!("{error:#}")),
                        }
                        armed.entries.push(entry);
                    }
                    Err(error) => {
                        target.why = Some(format!("{error:#}"));
                        target.way = Way::None;
                    }
                }
            }
        }
        self.attach_breakpoints(armed)?;
        anyhow::ensure!(!armed.entries.is_empty(), "{}", self.first_reason());
        Ok(())
    }

    /// Set breakpoints on the best candidates that accept no kprobe. Breakpoints are few, so roles that cannot be
    /// counted otherwise come first.
    fn attach_breakpoints(&mut self, armed: &mut ArmedProbes) -> Result<()> {
        if self.armed_once {
            for target in self.targets.iter().filter(|target| target.way == Way::Breakpoint) {
                let program = armed.object.program(BREAKPOINT)?;
                armed.entries.extend(attach::breakpoint(program, target.address, &attach::online_cpus()?)?);
            }
            return Ok(());
        }
        self.armed_once = true;
        let cpus = attach::online_cpus()?;
        let mut left = BREAKPOINTS;
        for index in targets::for_breakpoints(&self.targets) {
            let target = &mut self.targets[index];
            if left == 0 {
                break;
            }
            match attach::breakpoint(armed.object.program(BREAKPOINT)?, target.address, &cpus) {
                Ok(attached) => {
                    left -= 1;
                    target.way = Way::Breakpoint;
                    armed.entries.extend(attached);
                }
                Err(error) => {
                    let kprobe = target.why.take().unwrap_or_default();
                    target.why = Some(format!("{kprobe}; {error:#}"));
                }
            }
        }
        Ok(())
    }

    /// The reason why nothing is watched: the kernel's error for the first function.
    fn first_reason(&self) -> &str {
        let why = self.targets.iter().find_map(|target| target.why.as_deref());
        why.and_then(|why| why.split("; ").next()).unwrap_or("none of the functions to probe exists in this kernel")
    }

    /// The functions that were called, by process. `others`: whether threads were watched that the programs do not
    /// compare with directly.
    fn rows(&mut self, armed: &ArmedProbes, others: bool) -> Result<Vec<FunctionCalls>> {
        let direct = follow::numbered(&armed.watched).into_iter().map(|(_, process)| process).take(PP_FAST);
        let mut rows: Vec<(usize, u32, Vec<Task>)> = Vec::new();
        for (row, process) in direct.enumerate() {
            rows.push((row, process, vec![armed.object.element("tasks", row as u32)?]));
        }
        if others {
            let tasks: Vec<Task> = armed.object.values::<u64, Task>("threads")?;
            for process in 0..armed.watched.processes.len() as u32 {
                let own = tasks.iter().filter(|task| task.process == u64::from(process)).copied();
                rows.push((PP_FAST + process as usize, process, own.collect()));
            }
        }
        let mut counted: ByProcess<BTreeMap<usize, (Function, u64)>> = armed.watched.by_process();
        for (row, process, tasks) in &rows {
            let name = armed.watched.processes[*process as usize].name;
            let inside = || tasks.iter().flat_map(|task| &task.calls[..(task.depth as usize).min(PP_DEPTH)]);
            for slot in 0..self.targets.len() {
                let function: Function = armed.object.element("functions", (row * PP_SLOTS + slot) as u32)?;
                if function.calls == 0 {
                    continue;
                }
                let unfinished = inside().filter(|call| call.slot as usize == slot).count() as u64;
                let slots = counted.get_or_default(name);
                let entry = slots.entry(slot).or_insert((bytemuck::Zeroable::zeroed(), 0));
                add(&mut entry.0, &function);
                entry.1 += unfinished;
            }
        }
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
        let timed = target.way == Way::Kprobe && function.returns > 0;
        let buckets = function.log2.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        FunctionCalls {
            process,
            role: target.role,
            symbol: target.symbol.clone(),
            how: target.way.name().to_owned(),
            calls: function.calls,
            total_ns: timed.then_some(function.total_ns),
            self_ns: timed.then_some(function.self_ns),
            corrected_self_ns: self.cost.filter(|_| timed).and_then(|cost| cost.correct(function)),
            log2_ns: Log2Histogram(function.log2[..buckets].to_vec()),
            missed: if target.way == Way::Kprobe {
                function.calls.saturating_sub(function.returns + unfinished)
            } else {
                0
            },
        }
    }
}

/// Number of simultaneous calls of a function of this role, by all tasks of the machine. Every sleeping task is inside
/// the scheduler. The kernel allows 4096.
fn room(role: RoleId) -> u32 {
    if role == RoleId::Scheduler { 4096 } else { 256 }
}

fn add(sum: &mut Function, one: &Function) {
    sum.calls += one.calls;
    sum.returns += one.returns;
    sum.total_ns += one.total_ns;
    sum.self_ns += one.self_ns;
    sum.children += one.children;
    for (sum, one) in sum.log2.iter_mut().zip(&one.log2) {
        *sum += one;
    }
}

/// The loaded programs.
pub(super) struct Loaded {
    pub object: Object,
    /// Whether their probes have attach cookies.
    pub cookies: bool,
    /// The reason if forks and threads cannot be followed.
    refused: Option<String>,
}

/// Load the programs, with attach cookies if the kernel supports them.
pub(super) fn load(loader: Loader, watched: &Watched, stacks: u32) -> Result<Loaded> {
    let load = |cookies| {
        let settings = follow::settings(watched, cookies);
        let (object, refused) = follow::load(loader, &settings, &[ENTER, LEAVE, BREAKPOINT], stacks)?;
        Ok(Loaded { object, cookies, refused })
    };
    load(true).or_else(|_: anyhow::Error| load(false))
}

/// Give the programs the slot of each address.
pub(super) fn tell_slots(object: &mut Object, addresses: impl Iterator<Item = u64>) -> Result<()> {
    for (slot, address) in (0u32..).zip(addresses) {
        object.insert("slots", address, slot)?;
        // With CONFIG_X86_KERNEL_IBT a function begins with endbr64, and the probe is after it.
        object.insert("slots", address + 4, slot)?;
    }
    Ok(())
}

impl Collect for Kprobe {
    fn arm(&mut self, watched: &Watched) -> Result<()> {
        if self.cost.is_none() {
            self.cost = calibrate::cost(self.loader, &self.symbols).ok();
        }
        let user = UserNames::of(watched);
        let Loaded { mut object, cookies, refused } = load(self.loader, watched, PP_STACKS as u32)?;
        let following = Following::start(&mut object, watched, refused)?;
        tell_slots(&mut object, self.targets.iter().map(|target| target.address))?;
        let mut armed = ArmedProbes {
            watched: watched.clone(),
            object,
            cookies,
            entries: Vec::new(),
            returns: Vec::new(),
            return_probes: ReturnProbes::open().ok(),
            following,
            user,
            without_return: Vec::new(),
        };
        self.attach_all(&mut armed)?;
        self.armed = Some(armed);
        Ok(())
    }

    fn finish(&mut self) -> Result<Collected> {
        let mut armed = self.armed.take().context("the probes were not armed")?;
        let (entries, returns) = (armed.entries.len(), armed.returns.len());
        armed.entries.clear();
        armed.returns.clear();
        let return_probes = armed.return_probes.take();
        let traced = return_probes.is_some();
        let kept = return_probes.map(ReturnProbes::close).unwrap_or_default();
        let followed = armed.following.finish(&armed.object)?;
        let functions = self.rows(&armed, followed.others)?;
        let losses: Losses = armed.object.element("losses", 0)?;
        let counted: Vec<Stack> = armed.object.values::<u64, Stack>("stacks")?;
        armed.user.look_again(&counted);
        let readable = stacks::readable(&counted, &armed.watched, &self.symbols, &armed.user);

        let calls = functions.iter().map(|row| row.calls).sum();
        let missed: u64 = functions.iter().map(|row| row.missed).sum();
        let passed_over: u64 = [ENTER, LEAVE].iter().filter_map(|name| armed.object.passed_over(name)).sum();
        let lost_stacks = losses.full + losses.busy;
        let mut notes = vec![
            format!("loaded by {}", armed.object.loaded_by()),
            format!("{entries} attachments for entries, {returns} for returns"),
            if armed.cookies { "probes identified by attach cookies" } else { "probes identified by address" }
                .to_owned(),
        ];
        if traced {
            notes.push("return probes in tracefs".to_owned());
        }
        notes.extend(self.cost.map(|cost| cost.to_string()));
        let by_breakpoint: Vec<&str> =
            self.targets.iter().filter(|target| target.way == Way::Breakpoint).map(|target| &*target.symbol).collect();
        if !by_breakpoint.is_empty() {
            notes.push(format!(
                "counted by hardware breakpoints (kprobes are not allowed): {}",
                by_breakpoint.join(", ")
            ));
        }
        notes.extend(followed.notes);
        let mut warnings = followed.warnings;
        warnings.extend(kept.into_iter().map(restore_warning));
        if missed > 0 {
            let message = format!("the kernel did not report the return of {missed} of {calls} probed calls");
            let action = "stop other programs, so that fewer tasks sleep in these functions".to_owned();
            warnings.push(Warning { code: "returns-missed".to_owned(), message, action });
        }
        if lost_stacks + passed_over > 0 {
            let message = format!(
                "probes: {lost_stacks} stacks lost (map full), {passed_over} events skipped (another BPF program was running)"
            );
            warnings.push(loss_warning("probe-events-lost", message));
        }
        let given_up: Vec<String> =
            targets::unwatched_roles(&self.targets).into_iter().chain(armed.without_return).collect();
        Ok(Collected {
            status: if given_up.is_empty() && missed + lost_stacks + followed.unfollowed == 0 {
                Status::Ok
            } else {
                Status::Partial
            },
            reason: (!given_up.is_empty())
                .then(|| given_up.join("; "))
                .or_else(|| (missed > 0).then(|| format!("the kernel did not report {missed} returns"))),
            unit: Unit::Samples,
            skid: Skid::None,
            stacks: readable.stacks,
            functions,
            samples: calls,
            lost: missed + lost_stacks + passed_over,
            unresolved: readable.unresolved,
            notes,
            warnings,
        })
    }

    fn resolutions(&self) -> Vec<Resolution> {
        targets::resolutions(&self.targets, &self.symbols)
    }
}
