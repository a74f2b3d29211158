//! Attach copies of BPF programs (the templates of bpf/calls.bpf.h) to functions with fentry and fexit. The kernel calls
//! them directly from the function, without the breakpoint and handler chain of a kprobe. Each function needs its own
//! program, because the verifier checks a program against the function's type, and cookies for these need Linux 6.0.

use super::bpf::{
    self, Object,
    shared::{PP_COST_MARK, PP_PLACE_MARK},
};
use crate::kernel::attempt::{self, Btf};
use crate::kernel::calls;
use crate::kernel::preemption;
use crate::kernel::symbols::Symbols;
use anyhow::{Context as _, Result, anyhow, bail};
use libbpf_rs::libbpf_sys as sys;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// The templates.
pub(super) const COUNT: &str = "pp_fcount";
pub(super) const ENTER: &str = "pp_fenter";
pub(super) const LEAVE: &str = "pp_fleave";

/// The kernel function that keeps a trampoline in memory while a call through it sleeps. Without it (5.10), a fexit
/// program on a function that sleeps can crash the kernel when it is removed (commit e21aa341785c, "bpf: Fix fexit
/// trampoline").
const TRAMPOLINES_STAY: &str = "__bpf_tramp_enter";

/// A kernel that may support fentry.
#[derive(Debug)]
pub(super) struct Fentry {
    btf: Btf,
    /// Whether returns may be probed too.
    returns: bool,
    /// Whether a task can be preempted inside a program, which the kernel then skips for the other tasks of that CPU.
    preempted: bool,
    /// Nanoseconds that a program that counts, and a pair that also times, add to the time of the function's caller.
    costs: [u32; 2],
}

/// Programs attached to one function. Dropping this detaches and unloads them.
#[derive(Debug)]
pub(super) struct Traced {
    // Dropped before the programs that they attach.
    _links: Vec<OwnedFd>,
    programs: Vec<OwnedFd>,
}

impl Traced {
    /// How often the kernel skipped the programs because they were running already.
    pub(super) fn passed_over(&self) -> u64 {
        self.programs.iter().filter_map(|program| bpf::passed_over(program.as_fd())).sum()
    }
}

impl Fentry {
    pub(super) fn new(symbols: &Symbols) -> Result<Self> {
        let btf = Btf::load().map_err(anyhow::Error::msg)?;
        let returns = !symbols.functions(TRAMPOLINES_STAY).is_empty();
        Ok(Self { btf, returns, preempted: preemption::is_possible(), costs: [0; 2] })
    }

    /// Whether the kernel may skip programs of tasks that run at the same time as others, or while others wait.
    pub(super) fn loses_calls(&self) -> bool {
        self.preempted
    }

    /// From now on, programs add these nanoseconds to the cost that a caller's time contains: `count` for a call that is
    /// only counted, `timed` for one that is timed.
    pub(super) fn set_costs(&mut self, count: u32, timed: u32) {
        self.costs = [count, timed];
    }

    /// Whether the kernel's type information contains the function.
    pub(super) fn knows(&self, symbol: &str) -> bool {
        self.btf.function(symbol).is_some()
    }

    /// Attach to the entry of `symbol`, and to its return if `timed`. `place`: of the function among those of a thread, in
    /// bytes.
    pub(super) fn attach(&self, object: &Object, symbol: &str, place: u64, timed: bool) -> Result<Traced> {
        if timed && !self.returns {
            bail!("fexit is not safe on this kernel for functions that sleep");
        }
        let id = self.btf.function(symbol).context("BTF does not describe this function")?;
        let mut attached = Traced { _links: Vec::new(), programs: Vec::new() };
        let cost = self.costs[usize::from(timed)];
        // The return first, so that no call is seen without its return.
        let both = [(LEAVE, sys::BPF_TRACE_FEXIT), (ENTER, sys::BPF_TRACE_FENTRY)];
        let programs = if timed { &both[..] } else { &[(COUNT, sys::BPF_TRACE_FENTRY)] };
        for (template, kind) in programs {
            let refused = |error: io::Error| anyhow!("{}", attempt::plain(&error));
            let (name, instructions) = (CString::new(*template)?, copy(object, template, place, cost)?);
            let kind = (sys::BPF_PROG_TYPE_TRACING, *kind);
            let program = calls::load_program(&name, &instructions, kind, id).map_err(refused)?;
            attached._links.push(calls::open_raw_tracepoint(program.as_fd(), None).map_err(refused)?);
            attached.programs.push(program);
        }
        Ok(attached)
    }
}

/// The instructions of a template, with these constants.
fn copy(object: &Object, template: &str, place: u64, cost: u32) -> Result<Vec<sys::bpf_insn>> {
    let known = object.instructions(template);
    let mut instructions = known.with_context(|| format!("{} cannot copy programs", object.loaded_by()))?.to_vec();
    fill_in(&mut instructions, i32::try_from(place)?, i32::try_from(cost)?);
    Ok(instructions)
}

/// Put constants in place of the marks.
fn fill_in(instructions: &mut [sys::bpf_insn], place: i32, cost: i32) {
    // BPF_ALU64 | BPF_MOV | BPF_K
    for one in instructions.iter_mut().filter(|one| one.code == 0xb7) {
        match one.imm as usize {
            PP_PLACE_MARK => one.imm = place,
            PP_COST_MARK => one.imm = cost,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u8, imm: i32) -> sys::bpf_insn {
        // SAFETY: the struct holds only integers, for which all bits zero are valid.
        let mut one: sys::bpf_insn = unsafe { std::mem::zeroed() };
        (one.code, one.imm) = (code, imm);
        one
    }

    #[test]
    fn marks_are_replaced() {
        let (place, cost) = (PP_PLACE_MARK as i32, PP_COST_MARK as i32);
        let marked = [(0x95, place), (0xb7, place), (0xb7, cost), (0xb7, 1)];
        let mut program = marked.map(|(code, imm)| instruction(code, imm));
        fill_in(&mut program, 7, 9);
        assert_eq!(program.map(|one| one.imm), [place, 7, 9, 1]);
    }
}
