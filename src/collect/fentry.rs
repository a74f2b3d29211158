//! Attach copies of BPF programs (the templates of bpf/calls.bpf.h) to functions with fentry and fexit. The kernel calls
//! them directly from the function, without the breakpoint and handler chain of a kprobe. Each function needs its own
//! program, because the verifier checks a program against the function's type, and cookies for these need Linux 6.0.

use super::bpf::{self, Object, shared::PP_SLOT_MARK};
use crate::kernel::attempt::{self, Btf};
use crate::kernel::symbols::Symbols;
use anyhow::{Context as _, Result, anyhow, bail};
use libbpf_rs::libbpf_sys as sys;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

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
    /// # Errors
    /// When this kernel has no type information.
    pub(super) fn new(symbols: &Symbols) -> Result<Self> {
        let btf = Btf::load().map_err(anyhow::Error::msg)?;
        Ok(Self { btf, returns: !symbols.functions(TRAMPOLINES_STAY).is_empty() })
    }

    /// Whether the kernel's type information contains the function.
    pub(super) fn knows(&self, symbol: &str) -> bool {
        self.btf.function(symbol).is_some()
    }

    /// Attach to the entry of `symbol`, and to its return if `timed`, as `slot`.
    ///
    /// # Errors
    /// The reason, without the symbol: the kernel refuses, or the library that loaded `object` cannot copy programs.
    pub(super) fn attach(&self, object: &Object, symbol: &str, slot: usize, timed: bool) -> Result<Traced> {
        if timed && !self.returns {
            bail!("fexit is not safe on this kernel for functions that sleep");
        }
        let id = self.btf.function(symbol).context("BTF does not describe this function")?;
        let mut attached = Traced { _links: Vec::new(), programs: Vec::new() };
        // The return first, so that no call is seen without its return.
        let both = [(LEAVE, sys::BPF_TRACE_FEXIT), (ENTER, sys::BPF_TRACE_FENTRY)];
        let programs = if timed { &both[..] } else { &[(COUNT, sys::BPF_TRACE_FENTRY)] };
        for (template, kind) in programs {
            let refused = |error: io::Error| anyhow!("{}", attempt::plain(&error));
            let program = load(template, &copy(object, template, slot)?, *kind, id).map_err(refused)?;
            attached._links.push(link(&program).map_err(refused)?);
            attached.programs.push(program);
        }
        Ok(attached)
    }
}

/// The instructions of a template, for `slot`.
fn copy(object: &Object, template: &str, slot: usize) -> Result<Vec<sys::bpf_insn>> {
    let known = object.instructions(template);
    let mut instructions = known.with_context(|| format!("{} cannot copy programs", object.loaded_by()))?.to_vec();
    fill_in(&mut instructions, slot)?;
    Ok(instructions)
}

/// Put `slot` in place of its marks. Programs at returns have none: an open call contains its slot.
fn fill_in(instructions: &mut [sys::bpf_insn], slot: usize) -> Result<()> {
    let slot = i32::try_from(slot)?;
    // BPF_ALU64 | BPF_MOV | BPF_K
    let marked = |one: &&mut sys::bpf_insn| one.code == 0xb7 && one.imm as usize == PP_SLOT_MARK;
    instructions.iter_mut().filter(marked).for_each(|one| one.imm = slot);
    Ok(())
}

/// Load `instructions` as program `name`, for the function of this BTF id.
fn load(name: &str, instructions: &[sys::bpf_insn], kind: sys::bpf_attach_type, id: u32) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as sys::size_t,
        expected_attach_type: kind,
        attach_btf_id: id,
        ..Default::default()
    };
    // SAFETY: the instructions, their number, the licence and the options are valid and outlive the call.
    let fd = unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_TRACING,
            name.as_ptr(),
            c"Dual MIT/GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as sys::size_t,
            &raw mut options,
        )
    };
    owned(fd)
}

/// Attach a program to the function that it was loaded for.
fn link(program: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: this program type requires a null name; the descriptor is open.
    owned(unsafe { sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
        let mark = PP_SLOT_MARK as i32;
        let mut program = [instruction(0x95, mark), instruction(0xb7, mark), instruction(0xb7, 1)];
        fill_in(&mut program, 7).unwrap();
        assert_eq!(program.map(|one| one.imm), [mark, 7, 1]);
    }
}
