//! System calls that only older processors have. Others have later ones that do the same, such as openat for open.

#[cfg(target_arch = "x86_64")]
pub use libc::{
    SYS_epoll_wait, SYS_open, SYS_pause, SYS_poll, SYS_rename, SYS_select, SYS_stat, SYS_unlink, SYS_vfork,
};

/// Numbers that no call has.
#[cfg(target_arch = "aarch64")]
mod absent {
    #![allow(non_upper_case_globals)]
    pub const SYS_epoll_wait: libc::c_long = -101;
    pub const SYS_open: libc::c_long = -102;
    pub const SYS_pause: libc::c_long = -103;
    pub const SYS_poll: libc::c_long = -104;
    pub const SYS_rename: libc::c_long = -105;
    pub const SYS_select: libc::c_long = -106;
    pub const SYS_stat: libc::c_long = -107;
    pub const SYS_unlink: libc::c_long = -108;
    pub const SYS_vfork: libc::c_long = -109;
}
#[cfg(target_arch = "aarch64")]
pub use absent::*;
