//! The CPUs beyond the first.
//!
//! Under icount, QEMU before 8.1 runs its CPUs by turns, each up to the next timer's deadline: a CPU that spins takes
//! all of it, and the next one gets nothing unless the spinning one executes PAUSE, HLT or an IPI (accel/tcg,
//! `rr_cpu_thread_fn`; 8.1 gives each CPU its share). Kernels before 6.5 wait for a new CPU in a loop around
//! `schedule()` that has no PAUSE in it: 5.10 hangs there. So the kernel starts with one CPU, and while init brings up
//! the others, a child of it spins on PAUSE; `schedule()` takes turns with that child, and so do the CPUs.

use anyhow::{Context, Result, bail};
use std::fs;

const FOLDER: &str = "/sys/devices/system/cpu";

/// Bring up CPUs until there are `wanted`.
///
/// # Errors
/// When the kernel does not give so many.
pub fn bring_up(wanted: u32) -> Result<()> {
    if online() < wanted {
        let spinner = Spinner::start()?;
        for cpu in 1..wanted {
            let path = format!("{FOLDER}/cpu{cpu}/online");
            // Those that are up refuse, or take it as it is.
            if let Err(error) = fs::write(&path, "1") {
                eprintln!("pipeprof: {path}: {error}");
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
    let text = fs::read_to_string(format!("{FOLDER}/online"));
    // A kernel without SMP may not have the file.
    text.map_or(1, |text| count(text.trim()))
}

/// The CPUs in a list such as `0-2,5`.
fn count(list: &str) -> u32 {
    let range = |part: &str| -> Option<u32> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    list.split(',').filter_map(range).fold(0, u32::saturating_add)
}

/// A process that does nothing but yield its CPU's turn now and then.
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
                // Each PAUSE leaves emulation for the scheduler of CPUs, which takes long: one in some thousand
                // instructions is enough.
                for turn in 0..1000 {
                    std::hint::black_box(turn);
                }
                std::hint::spin_loop();
            },
            pid => Ok(Self { pid }),
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // SAFETY: our own child, not waited for yet.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(count("0"), 1);
        assert_eq!(count("0-3"), 4);
        assert_eq!(count("0-2,5,7-8"), 6);
        assert_eq!(count(""), 0);
        assert_eq!(count("3-1,x"), 0);
    }
}
