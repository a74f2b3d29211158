//! System calls of perf events and BPF for which no library has a safe function.

use libbpf_rs::libbpf_sys::{self, bpf_attach_type, bpf_insn, bpf_prog_load_opts, bpf_prog_type, size_t};
use perf_event_open_sys::bindings as perf;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// The description of an event of this type: only its size is set.
pub fn attributes(kind: u32) -> perf::perf_event_attr {
    let size = u32::try_from(size_of::<perf::perf_event_attr>()).unwrap_or(0);
    perf::perf_event_attr { type_: kind, size, ..Default::default() }
}

/// perf_event_open(2) with close-on-exec.
pub fn open_event(attributes: &mut perf::perf_event_attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let flags = u64::from(perf::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attributes` is a complete perf_event_attr with its size set; names that it points to outlive the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(attributes, pid, cpu, -1, flags) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { owned(fd) }
}

/// The descriptor that a function of libbpf has made, or the error that it returns as a negative number.
pub fn owned(fd: i32) -> io::Result<OwnedFd> {
    match fd {
        // SAFETY: the descriptor is new and has no other owner.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Load `instructions` as program `name`; `btf_id`: of the function that it is for, or 0.
pub fn load_program(
    name: &CStr,
    instructions: &[bpf_insn],
    (kind, attach): (bpf_prog_type, bpf_attach_type),
    btf_id: u32,
) -> io::Result<OwnedFd> {
    let mut options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as size_t,
        expected_attach_type: attach,
        attach_btf_id: btf_id,
        ..Default::default()
    };
    let (start, length) = (instructions.as_ptr(), instructions.len() as size_t);
    // SAFETY: the instructions, their number, the name, the licence and the options are valid and outlive the call.
    owned(unsafe {
        libbpf_sys::bpf_prog_load(kind, name.as_ptr(), c"Dual MIT/GPL".as_ptr(), start, length, &raw mut options)
    })
}

/// Attach `program` to the raw tracepoint `name`, or to the tracepoint or function that it was loaded for.
pub fn open_raw_tracepoint(program: BorrowedFd<'_>, name: Option<&CStr>) -> io::Result<OwnedFd> {
    let name = name.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the name, if there is one, outlives the call, and the descriptor is open.
    owned(unsafe { libbpf_sys::bpf_raw_tracepoint_open(name, program.as_raw_fd()) })
}
