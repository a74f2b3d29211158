//! Detects features by trying them: each function asks the kernel to attach something harmless and removes it at
//! once.

use super::calls;
use libbpf_rs::libbpf_sys as sys;
use perf_event_open_sys::bindings as perf;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

/// The running kernel's type information.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The kernel's error in words, with its name: `not permitted (EPERM)`.
pub fn plain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EINVAL) => "refused (EINVAL)".to_owned(),
        Some(libc::ENOENT) => "unknown to this kernel (ENOENT)".to_owned(),
        Some(libc::EPERM) => "not permitted (EPERM)".to_owned(),
        Some(libc::EACCES) => "not permitted (EACCES)".to_owned(),
        Some(libc::EBUSY) => "busy, or not traceable (EBUSY)".to_owned(),
        Some(libc::ENOSPC) => "all in use (ENOSPC)".to_owned(),
        Some(libc::ENODEV) => "not supported by this machine (ENODEV)".to_owned(),
        Some(libc::EADDRNOTAVAIL) => "the name does not identify one function (EADDRNOTAVAIL)".to_owned(),
        Some(libc::EOPNOTSUPP) => "not supported by this kernel (EOPNOTSUPP)".to_owned(),
        Some(libc::ENOSYS) => "not in this kernel (ENOSYS)".to_owned(),
        // ENOTSUPP, which user space has no name for.
        Some(524) => "not supported (524)".to_owned(),
        Some(number) => format!("{} ({number})", error.kind()),
        None => error.to_string(),
    }
}

/// Open an event, disabled, and close it.
fn tried(mut attributes: perf::perf_event_attr) -> io::Result<()> {
    attributes.set_disabled(1);
    calls::open_event(&mut attributes, 0, -1).map(drop)
}

/// perf's event type for kprobes.
pub(crate) fn kprobe_type() -> Result<u32, String> {
    const PATH: &str = "/sys/bus/event_source/devices/kprobe/type";
    let text = std::fs::read_to_string(PATH)
        .map_err(|_| "this kernel does not support kprobes (CONFIG_KPROBE_EVENTS is off)")?;
    text.trim().parse().map_err(|_| format!("{PATH} does not contain a number"))
}

/// Place a kprobe on `symbol` and remove it.
pub fn kprobe(kprobe_type: u32, symbol: &str) -> Result<(), String> {
    let name = CString::new(symbol).map_err(|_| "the name contains a NUL byte".to_owned())?;
    let mut attributes = calls::attributes(kprobe_type);
    attributes.__bindgen_anon_3.kprobe_func = name.as_ptr() as u64;
    attributes.__bindgen_anon_4.probe_offset = 0;
    tried(attributes).map_err(|error| plain(&error))
}

/// Set an execution breakpoint at `address` on the first CPU, disabled, and remove it. arm64 has none in the kernel for one
/// process (arch/arm64/kernel/hw_breakpoint.c).
pub fn breakpoint(address: u64) -> Result<(), String> {
    let mut attributes = calls::attributes(perf::PERF_TYPE_BREAKPOINT);
    attributes.bp_type = perf::HW_BREAKPOINT_X;
    attributes.__bindgen_anon_3.bp_addr = address;
    attributes.__bindgen_anon_4.bp_len = size_of::<libc::c_long>() as u64;
    attributes.set_disabled(1);
    calls::open_event(&mut attributes, -1, 0).map(drop).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => "this machine does not allow breakpoints in the kernel (EINVAL)".to_owned(),
        _ => plain(&error),
    })
}

/// Open a hardware cycles counter for this process.
pub(crate) fn hardware_cycles() -> Result<(), String> {
    let mut attributes = calls::attributes(perf::PERF_TYPE_HARDWARE);
    attributes.config = u64::from(perf::PERF_COUNT_HW_CPU_CYCLES);
    tried(attributes).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => "this machine has no hardware counters".to_owned(),
        _ => plain(&error),
    })
}

/// Open a cpu-clock event that samples kernel stacks of this process.
pub fn cpu_clock() -> Result<(), String> {
    let mut attributes = calls::attributes(perf::PERF_TYPE_SOFTWARE);
    attributes.config = u64::from(perf::PERF_COUNT_SW_CPU_CLOCK);
    attributes.__bindgen_anon_1.sample_period = 1_000_000;
    tried(attributes).map_err(|error| plain(&error))
}

/// The kernel's type information (BTF).
#[derive(Debug)]
pub struct Btf(std::ptr::NonNull<sys::btf>);

impl Btf {
    /// Load the running kernel's BTF.
    pub fn load() -> Result<Self, String> {
        if !std::path::Path::new(BTF).exists() {
            return Err("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF is off)".to_owned());
        }
        // SAFETY: the function has no arguments; it returns an owned object, or null with errno set.
        let btf = unsafe { sys::btf__load_vmlinux_btf() };
        std::ptr::NonNull::new(btf).map(Self).ok_or_else(|| plain(&io::Error::last_os_error()))
    }

    /// The BTF id of the function `name`.
    pub fn function(&self, name: &str) -> Option<u32> {
        const FUNCTION: u32 = 12;
        let name = CString::new(name).ok()?;
        // SAFETY: the object is alive, the name ends in NUL, and both are only read.
        let id = unsafe { sys::btf__find_by_name_kind(self.0.as_ptr(), name.as_ptr(), FUNCTION) };
        u32::try_from(id).ok().filter(|id| *id > 0)
    }
}

impl Drop for Btf {
    fn drop(&mut self) {
        // SAFETY: the object is owned and not used again.
        unsafe { sys::btf__free(self.0.as_ptr()) }
    }
}

/// An empty BPF program: `r0 = 0; exit`.
fn nothing() -> [sys::bpf_insn; 2] {
    // SAFETY: the struct holds only integers, for which all bits zero are valid.
    let mut program: [sys::bpf_insn; 2] = unsafe { std::mem::zeroed() };
    // BPF_ALU64 | BPF_MOV | BPF_K, BPF_JMP | BPF_EXIT.
    program[0].code = 0xb7;
    program[1].code = 0x95;
    program
}

/// Load an empty BPF program of this type.
fn load(kind: sys::bpf_prog_type, attach: sys::bpf_attach_type, btf_id: u32) -> io::Result<OwnedFd> {
    calls::load_program(c"pp_attempt", &nothing(), (kind, attach), btf_id)
}

/// Load an empty BPF program.
pub fn bpf() -> Result<(), String> {
    load(sys::BPF_PROG_TYPE_KPROBE, 0, 0).map(drop).map_err(|error| plain(&error))
}

/// Attach an empty BPF program to the entry of `symbol`, and remove it.
pub fn fentry(btf: &Btf, symbol: &str) -> Result<(), String> {
    let id = btf.function(symbol).ok_or("BTF does not describe this function")?;
    let program = load(sys::BPF_PROG_TYPE_TRACING, sys::BPF_TRACE_FENTRY, id).map_err(|error| plain(&error))?;
    calls::open_raw_tracepoint(program.as_fd(), None).map(drop).map_err(|error| plain(&error))
}

/// Attach an empty BPF program to `symbol` with kprobe.multi, and remove it.
pub(crate) fn kprobe_multi(symbol: &str) -> Result<(), String> {
    let name = CString::new(symbol).map_err(|_| "the name contains a NUL byte".to_owned())?;
    let program = load(sys::BPF_PROG_TYPE_KPROBE, sys::BPF_TRACE_KPROBE_MULTI, 0).map_err(|error| plain(&error))?;
    let names = [name.as_ptr()];
    let mut options =
        sys::bpf_link_create_opts { sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t, ..Default::default() };
    options.__bindgen_anon_1.kprobe_multi.cnt = 1;
    options.__bindgen_anon_1.kprobe_multi.syms = names.as_ptr().cast_mut();
    // SAFETY: the descriptor is open; the options and the names that they point to outlive the call.
    let link = unsafe { sys::bpf_link_create(program.as_raw_fd(), 0, sys::BPF_TRACE_KPROBE_MULTI, &raw const options) };
    calls::owned(link).map(drop).map_err(|error| plain(&error))
}
