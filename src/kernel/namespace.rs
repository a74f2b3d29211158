//! The PID namespace of this process. BPF and ftrace know tasks by their numbers in the first one.

use std::os::unix::fs::MetadataExt as _;

/// The inode of the first PID namespace (include/linux/proc_ns.h, `PROC_PID_INIT_INO`): kernel ABI.
const FIRST: u64 = 0xefff_fffc;

/// A PID namespace that is not the first, by device and inode of its file, as `bpf_get_ns_current_pid_tgid` wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PidNamespace {
    pub device: u64,
    pub inode: u64,
}

impl PidNamespace {
    /// That of this process; `None` in the first one, and where /proc does not tell.
    #[must_use]
    pub fn own() -> Option<Self> {
        let file = std::fs::metadata("/proc/self/ns/pid").ok()?;
        (file.ino() != FIRST).then(|| Self { device: file.dev(), inode: file.ino() })
    }
}
