//! The namespaces of this process. BPF and ftrace use the PIDs of the initial one.

use std::os::unix::fs::MetadataExt as _;

/// The inodes of the initial PID and user namespaces (include/linux/proc_ns.h, `PROC_PID_INIT_INO` and
/// `PROC_USER_INIT_INO`): kernel ABI.
const FIRST: u64 = 0xefff_fffc;
const FIRST_USER: u64 = 0xefff_fffd;

/// Whether this process is in another user namespace than the initial one; false if /proc is not available.
pub(crate) fn in_other_user_namespace() -> bool {
    std::fs::metadata("/proc/self/ns/user").is_ok_and(|file| file.ino() != FIRST_USER)
}

/// A PID namespace other than the initial one: device and inode of its file, as `bpf_get_ns_current_pid_tgid`
/// expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PidNamespace {
    pub device: u64,
    pub inode: u64,
}

impl PidNamespace {
    /// This process's namespace; `None` if it is the initial one, or if /proc is not available.
    pub fn own() -> Option<Self> {
        let file = std::fs::metadata("/proc/self/ns/pid").ok()?;
        (file.ino() != FIRST).then(|| Self { device: file.dev(), inode: file.ino() })
    }
}
