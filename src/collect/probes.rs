//! Attach the probes of [`super::kprobe`]: by fentry and fexit where the kernel allows it, else by kprobes, else by
//! execution breakpoints. What works is found by trying, once per function.

use super::attach::{self, Attached};
use super::bpf::Object;
use super::bpf::shared::Function;
use super::fentry::{self, Fentry};
use super::targets::{self, AttachMethod, ProbeTarget};
use super::tracefs::ReturnProbes;
use crate::roles::{self, RoleId};
use anyhow::Result;
use std::collections::BTreeMap;

pub(super) const COUNT: &str = "pp_count";
pub(super) const ENTER: &str = "pp_enter";
pub(super) const LEAVE: &str = "pp_leave";
pub(super) const BREAKPOINT: &str = "pp_breakpoint";

/// x86 has four debug address registers.
const BREAKPOINTS: usize = 4;

/// Attached probes. Dropping this removes them.
#[derive(Debug, Default)]
pub(super) struct Probes {
    fentry: Vec<fentry::Traced>,
    entries: Vec<Attached>,
    returns: Vec<Attached>,
    // Declared last, so that it is dropped after what is attached to it.
    return_probes: Option<ReturnProbes>,
    /// Functions whose returns are not watched, with the reason.
    pub(crate) without_return: Vec<String>,
    /// Functions without fentry, by reason.
    pub refused: BTreeMap<String, Vec<String>>,
}

/// What remains to be reported of probes that were removed.
#[derive(Debug)]
pub(super) struct Removed {
    /// Failures, which the next run retries.
    pub kept: Vec<String>,
    /// Whether return probes were made in tracefs.
    pub traced: bool,
    /// Events that the kernel did not give to fentry programs, because they were running already.
    pub passed_over: u64,
}

/// The place of a slot's function among those of a thread, in bytes. The programs identify functions by it.
pub(super) fn place(slot: usize) -> u64 {
    (slot * size_of::<Function>()) as u64
}

/// Find out which targets can be probed: attach a kprobe that counts to each, else a breakpoint. Their calls are counted
/// until this is dropped.
pub(super) fn try_all(targets: &mut [ProbeTarget], object: &Object, cookies: bool) -> Result<Probes> {
    let mut probes = Probes::default();
    let program = object.program(COUNT)?;
    for (slot, target) in targets.iter_mut().enumerate() {
        let cookie = cookies.then_some(place(slot));
        match attach::kprobe(program, &target.symbol, target.address, false, cookie) {
            Ok(entry) => probes.entries.push(entry),
            Err(error) => {
                target.why = vec![format!("{error:#}")];
                target.method = AttachMethod::None;
            }
        }
    }
    probes.try_breakpoints(targets, object)?;
    Ok(probes)
}

impl Probes {
    /// Attach to all targets that are wanted, each in the best way that works. In functions in which tasks switch that is
    /// a kprobe, if fentry programs may be skipped.
    pub(super) fn attach(
        targets: &mut [ProbeTarget],
        object: &Object,
        cookies: bool,
        fentry: Option<&Fentry>,
    ) -> Result<Self> {
        let mut probes = Self { return_probes: ReturnProbes::open().ok(), ..Self::default() };
        for (slot, target) in targets.iter_mut().enumerate().filter(|(_, target)| target.wanted) {
            match target.method {
                AttachMethod::Breakpoint => {
                    let program = object.program(BREAKPOINT)?;
                    probes.entries.extend(attach::breakpoint(program, target.address, &attach::online_cpus()?)?);
                }
                AttachMethod::None => {}
                AttachMethod::Fentry | AttachMethod::Kprobe => {
                    let switches = roles::SCHEDULING.contains(&target.role);
                    let fentry = fentry.filter(|fentry| !(switches && fentry.loses_calls()));
                    let attached =
                        fentry.map(|fentry| fentry.attach(object, &target.symbol, place(slot), target.timed));
                    match attached {
                        Some(Ok(attached)) => {
                            target.method = AttachMethod::Fentry;
                            probes.fentry.push(attached);
                        }
                        refused => {
                            if let Some(Err(error)) = refused {
                                probes.refused.entry(format!("{error:#}")).or_default().push(target.symbol.clone());
                            }
                            probes.attach_kprobe(target, slot, object, cookies)?;
                        }
                    }
                }
            }
        }
        Ok(probes)
    }

    /// Attach a kprobe, and a kretprobe if the target is timed.
    fn attach_kprobe(&mut self, target: &mut ProbeTarget, slot: usize, object: &Object, cookies: bool) -> Result<()> {
        let cookie = cookies.then_some(place(slot));
        let (symbol, address) = (&target.symbol, target.address);
        let mut program = COUNT;
        if target.timed {
            let leave = object.program(LEAVE)?;
            // The return is enabled first, so that no call is seen without its return.
            let exit = match &mut self.return_probes {
                Some(probes) => {
                    probes.add(slot, symbol, room(target.role)).and_then(|id| attach::traced_event(leave, id))
                }
                None => attach::kprobe(leave, symbol, address, true, None),
            };
            match exit {
                Ok(exit) => {
                    self.returns.push(exit);
                    program = ENTER;
                }
                Err(error) => self.without_return.push(format!("{error:#}")),
            }
        }
        match attach::kprobe(object.program(program)?, symbol, address, false, cookie) {
            Ok(entry) => {
                self.entries.push(entry);
                target.method = AttachMethod::Kprobe;
            }
            Err(error) => {
                target.why = vec![format!("{error:#}")];
                target.method = AttachMethod::None;
            }
        }
        Ok(())
    }

    /// Set breakpoints on the best targets that accept no kprobe. Breakpoints are few, so roles that cannot be counted
    /// otherwise come first.
    fn try_breakpoints(&mut self, targets: &mut [ProbeTarget], object: &Object) -> Result<()> {
        let cpus = attach::online_cpus()?;
        let mut left = BREAKPOINTS;
        for index in targets::for_breakpoints(targets) {
            let target = &mut targets[index];
            if left == 0 {
                break;
            }
            match attach::breakpoint(object.program(BREAKPOINT)?, target.address, &cpus) {
                Ok(attached) => {
                    left -= 1;
                    target.method = AttachMethod::Breakpoint;
                    self.entries.extend(attached);
                }
                Err(error) => target.why.push(format!("{error:#}")),
            }
        }
        Ok(())
    }

    /// Whether nothing is attached.
    pub(super) fn is_empty(&self) -> bool {
        self.fentry.is_empty() && self.entries.is_empty()
    }

    /// Remove all of them. What is known about them stays.
    pub(super) fn remove(&mut self) -> Removed {
        let passed_over = self.fentry.iter().map(fentry::Traced::passed_over).sum();
        self.fentry.clear();
        self.entries.clear();
        self.returns.clear();
        let return_probes = self.return_probes.take();
        let traced = return_probes.as_ref().is_some_and(|probes| !probes.is_empty());
        Removed { kept: return_probes.map(ReturnProbes::close).unwrap_or_default(), traced, passed_over }
    }
}

/// Number of simultaneous calls of a function of this role, by all tasks of the machine. Every sleeping task is inside
/// the scheduler. The kernel allows 4096.
fn room(role: RoleId) -> u32 {
    if role == RoleId::Scheduler { 4096 } else { 256 }
}
