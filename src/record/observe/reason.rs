//! Why threads sleep, and what the kernel calls them.

use crate::arch::old_calls;
use crate::record::observe::raw::{PR_CLOSING, PR_ENDING, PR_FROZEN, PR_NO_CALL, PR_STOPPED, PR_TRACED, PR_UNUSED};
use crate::result::WaitReason;

/// The text of a name as the kernel has it.
pub(crate) fn name_of(words: [u64; 2]) -> String {
    text_of(bytemuck::bytes_of(&words))
}

/// A text that ends at the first zero, if there is one.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A name as the kernel has it.
pub(crate) fn words_of(name: &str) -> [u64; 2] {
    let mut words = [0_u64; 2];
    let bytes: &mut [u8] = bytemuck::bytes_of_mut(&mut words);
    bytes[..15].iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
    words
}

/// The reason of a sleep in system call `call` on a file of type `file` (the upper four bits of its mode).
pub(crate) fn why(call: u32, file: u32) -> WaitReason {
    const FIFO: u32 = 1;
    const REGULAR: u32 = 8;
    const BLOCK: u32 = 6;
    const FOLDER: u32 = 4;
    const CHARACTER: u32 = 2;
    const SOCKET: u32 = 12;
    match call as usize {
        PR_NO_CALL => return WaitReason::Memory,
        PR_STOPPED => return WaitReason::Stopped,
        PR_TRACED => return WaitReason::Traced,
        PR_FROZEN => return WaitReason::Frozen,
        PR_ENDING => return WaitReason::Ending,
        PR_CLOSING => return WaitReason::Exit,
        PR_UNUSED => return WaitReason::Thread,
        _ => {}
    }
    match (i64::from(call), file) {
        (libc::SYS_nanosleep | libc::SYS_clock_nanosleep, _) => WaitReason::Timer,
        (old_calls::SYS_open | libc::SYS_openat, FIFO) => WaitReason::Open,
        // With vfork, until the child executes a program or ends.
        (libc::SYS_wait4 | libc::SYS_waitid | old_calls::SYS_vfork | libc::SYS_clone | libc::SYS_clone3, _) => {
            WaitReason::Child
        }
        (libc::SYS_flock | libc::SYS_fcntl, _) => WaitReason::FileLock,
        (libc::SYS_connect, _) => WaitReason::Connect,
        (libc::SYS_futex, _) => WaitReason::Thread,
        (libc::SYS_exit | libc::SYS_exit_group, _) => WaitReason::Ending,
        (
            old_calls::SYS_poll
            | libc::SYS_ppoll
            | old_calls::SYS_select
            | libc::SYS_pselect6
            | old_calls::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2,
            _,
        ) => WaitReason::Poll,
        (old_calls::SYS_pause | libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait, _) => WaitReason::Signal,
        (
            libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_accept
            | libc::SYS_accept4,
            _,
        )
        | (_, SOCKET) => WaitReason::Network,
        (
            libc::SYS_fsync
            | libc::SYS_fdatasync
            | old_calls::SYS_open
            | libc::SYS_openat
            | libc::SYS_execve
            | old_calls::SYS_stat
            | libc::SYS_newfstatat
            | libc::SYS_getdents64
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | old_calls::SYS_rename
            | old_calls::SYS_unlink
            | libc::SYS_unlinkat
            | libc::SYS_close,
            _,
        )
        | (_, REGULAR | BLOCK | FOLDER) => WaitReason::Disk,
        (_, CHARACTER) => WaitReason::Device,
        (libc::SYS_mmap | libc::SYS_munmap | libc::SYS_brk | libc::SYS_mprotect | libc::SYS_madvise, _) => {
            WaitReason::Memory
        }
        _ => WaitReason::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_closed_only_once_that_has_begun() {
        let ending = [libc::SYS_exit_group as u32, libc::SYS_exit as u32, PR_ENDING as u32].map(|call| why(call, 0));
        assert_eq!(ending, [WaitReason::Ending; 3]);
        assert_eq!(why(PR_CLOSING as u32, 0), WaitReason::Exit);
    }
}
