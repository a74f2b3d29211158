//! System calls that fail in the programs of a pipeline and in no other one: a filter of system calls (seccomp).
//!
//! The filter is made before the fork; between fork and exec, two system calls install it. All that the programs start has it,
//! too. A setuid program has no more rights than its user, because the kernel demands that of who may not administrate the
//! machine.

use crate::result::{RefusableCall, RefusalError, RefusedCall};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// linux/audit.h: what the kernel calls the processor of a 64-bit program.
#[cfg(target_arch = "x86_64")]
const PROCESSOR: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const PROCESSOR: u32 = 0xc000_00b7;

/// linux/seccomp.h, `struct seccomp_data`: where the number of the call and the processor are.
const NUMBER_AT: u32 = 0;
const PROCESSOR_AT: u32 = 4;

/// The number of a call on this processor.
pub(crate) fn number(call: RefusableCall) -> i64 {
    match call {
        RefusableCall::Splice => libc::SYS_splice,
        RefusableCall::Vmsplice => libc::SYS_vmsplice,
        RefusableCall::Tee => libc::SYS_tee,
        RefusableCall::CopyFileRange => libc::SYS_copy_file_range,
        RefusableCall::Sendfile => libc::SYS_sendfile,
    }
}

pub(crate) fn error_number(error: RefusalError) -> i32 {
    match error {
        RefusalError::Enosys => libc::ENOSYS,
        RefusalError::Einval => libc::EINVAL,
        RefusalError::Eperm => libc::EPERM,
    }
}

/// A step of a filter: linux/filter.h.
type FilterStep = libc::sock_filter;

const fn load(at: u32) -> FilterStep {
    FilterStep { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: at }
}

/// Skip so many steps if the loaded value is, or is not, this one.
const fn skip_if(value: u32, is: u8, is_not: u8) -> FilterStep {
    FilterStep { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: is, jf: is_not, k: value }
}

const fn answer(action: u32) -> FilterStep {
    FilterStep { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: action }
}

/// The filter by which `calls` fail. Programs of other processors, such as 32-bit ones, have other numbers: all of theirs are
/// allowed.
fn filter(calls: &[RefusedCall]) -> Vec<FilterStep> {
    let mut steps =
        vec![load(PROCESSOR_AT), skip_if(PROCESSOR, 1, 0), answer(libc::SECCOMP_RET_ALLOW), load(NUMBER_AT)];
    for RefusedCall { call, error } in calls {
        let fails = libc::SECCOMP_RET_ERRNO | (error_number(*error).cast_unsigned() & libc::SECCOMP_RET_DATA);
        steps.extend([skip_if(number(*call) as u32, 0, 1), answer(fails)]);
    }
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    steps
}

/// Let these calls fail in `command` and what it starts.
pub(crate) fn refuse(command: &mut Command, calls: &[RefusedCall]) {
    let mut steps = filter(calls);
    let install = move || {
        let length = u16::try_from(steps.len()).map_err(|_| io::Error::other("too many system calls"))?;
        let program = libc::sock_fprog { len: length, filter: steps.as_mut_ptr() };
        // SAFETY: the filter outlives the call, which copies it.
        let set = || unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
        if set() == 0 {
            return Ok(());
        }
        // Without CAP_SYS_ADMIN, only who can get no more rights may have a filter.
        // SAFETY: changes a flag of this process, which is about to execute the program.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 || set() != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: only system calls between fork and exec; the filter was made before.
    unsafe { command.pre_exec(install) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `steps` answer to this call.
    fn run(steps: &[FilterStep], processor: u32, number: u32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = &steps[at];
            at += 1;
            match u32::from(step.code) & 7 {
                libc::BPF_LD => value = if step.k == NUMBER_AT { number } else { processor },
                libc::BPF_JMP => at += usize::from(if value == step.k { step.jt } else { step.jf }),
                _ => return step.k,
            }
        }
    }

    #[test]
    fn only_these_calls_of_this_processor_fail() {
        let call = |call, error| RefusedCall { call, error };
        let steps = filter(&[
            call(RefusableCall::Splice, RefusalError::Enosys),
            call(RefusableCall::Sendfile, RefusalError::Eperm),
        ]);
        let fails = |errno: i32| libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
        for (number, expected) in [
            (libc::SYS_splice, fails(libc::ENOSYS)),
            (libc::SYS_sendfile, fails(libc::EPERM)),
            (libc::SYS_tee, libc::SECCOMP_RET_ALLOW),
            (libc::SYS_read, libc::SECCOMP_RET_ALLOW),
        ] {
            assert_eq!(run(&steps, PROCESSOR, number as u32), expected, "{number}");
            assert_eq!(run(&steps, 0x4000_0003, number as u32), libc::SECCOMP_RET_ALLOW, "a 32-bit program");
        }
    }

    #[test]
    fn the_kernel_takes_the_filter() {
        // GNU cp copies by copy_file_range, and by other calls if it fails.
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        std::fs::write(&from, b"text").unwrap();
        let mut command = Command::new("cp");
        command.args([&from, &to]);
        let all = [RefusableCall::CopyFileRange, RefusableCall::Splice, RefusableCall::Sendfile]
            .map(|call| RefusedCall { call, error: RefusalError::Enosys });
        refuse(&mut command, &all);
        assert!(command.status().unwrap().success());
        assert_eq!(std::fs::read(&to).unwrap(), b"text");
    }
}
