//! Brings up the guest's CPUs other than the first.
//!
//! Under icount, QEMU before 8.1 runs its CPUs alternately, each until the next timer deadline. A CPU that spins uses
//! all of this time; the next CPU runs only when it executes PAUSE, HLT or an IPI (accel/tcg, `rr_cpu_thread_fn`;
//! since 8.1 each CPU gets a share). Kernels before 6.5 wait for a new CPU in a loop around `schedule()` without
//! PAUSE, in which 5.10 hangs. So the guest boots with one CPU. While init brings up the others, a child process
//! spins on PAUSE: `schedule()` switches to it, and so the other CPUs get to run.

use crate::collect::attach;
use anyhow::{Context, Result, bail};
use std::fs;

/// Bring up CPUs until `wanted` are online.
pub(crate) fn bring_up(wanted: u32) -> Result<()> {
    if online() < wanted {
        let spinner = Spinner::start()?;
        for cpu in 1..wanted {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
            // CPUs that are already online return an error or ignore it.
            if let Err(error) = fs::write(&path, "1") {
                util::errln!("pipeprof: {path}: {error}");
            }
        }
        drop(spinner);
    }
    let got = online();
    if got != wanted {
        bail!("--cpus {wanted}: this kernel has {got} (CONFIG_SMP, CONFIG_HOTPLUG_CPU, CONFIG_NR_CPUS, nosmp)");
    }
    Ok(())
}

fn online() -> u32 {
    counted("online")
}

/// CPUs of the machine, as far as this kernel supports them.
pub fn present() -> u32 {
    counted("present")
}

fn counted(list: &str) -> u32 {
    // A kernel without SMP may not have this file.
    attach::listed_cpus(list).map_or(1, |cpus| cpus.len() as u32)
}

/// The instruction by which a CPU lets the next one run.
fn pause() {
    #[cfg(target_arch = "x86_64")]
    std::hint::spin_loop();
    // The hint of the standard library is another one here.
    #[cfg(target_arch = "aarch64")]
    // SAFETY: `yield` changes no register, flag or memory.
    unsafe {
        std::arch::asm!("yield", options(nomem, nostack, preserves_flags));
    }
}

/// A process that only gives other CPUs a chance to run.
struct Spinner {
    pid: libc::pid_t,
}

impl Spinner {
    fn start() -> Result<Self> {
        // SAFETY: init has one thread at this time, and the child calls nothing.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(std::io::Error::last_os_error()).context("cannot fork"),
            0 => loop {
                // Each PAUSE switches to another CPU, which is slow in QEMU: one in some thousand instructions is
                // enough.
                for turn in 0..1000 {
                    std::hint::black_box(turn);
                }
                pause();
            },
            pid => Ok(Self { pid }),
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // SAFETY: this is our own child, not waited for yet.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}
