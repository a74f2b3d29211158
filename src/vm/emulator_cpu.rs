//! The CPU of this machine on which an emulator runs.
//!
//! Under `-icount`, one thread of QEMU executes all CPUs of the guest in turn, and the main thread handles a guest that
//! sleeps. Reaching a timer also wakes the main thread. If it then looks at the guest's timers while the other thread
//! runs, the other thread's turn may end early, at a moment that depends on this machine: QEMU's
//! accel/tcg/tcg-accel-ops-rr.c and softmmu/icount.c (7.2). With both threads on one CPU, and the main thread preempting
//! the other one, the order is fixed. docs/exactness.md, "Booted and restored guests", has the figures.

use crate::util::own_child::pin;
use crate::util::process_stat;
use anyhow::{Context as _, Result};
use rustix::thread::CpuSet;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The CPUs that emulators of this process use, once for each emulator.
static TAKEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A CPU for one emulator, given back on drop.
#[derive(Debug)]
pub(crate) struct EmulatorCpu {
    cpu: usize,
}

impl EmulatorCpu {
    /// Take the CPU that the fewest emulators use; of several, this thread's, on which nothing else runs at this moment.
    pub(crate) fn take() -> Result<Self> {
        let allowed = rustix::thread::sched_getaffinity(None).context("cannot read this process's CPU affinity")?;
        let here = rustix::thread::sched_getcpu();
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<usize> = taken.iter().copied().chain(foreign()).collect();
        let cpu = (0..CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.is_set(cpu))
            .min_by_key(|&cpu| (all.iter().filter(|&&other| other == cpu).count(), cpu != here))
            .unwrap_or(here);
        taken.push(cpu);
        Ok(Self { cpu })
    }

    /// Let `command` run there, with its main thread before its others.
    pub(crate) fn bind(&self, command: &mut Command) {
        pin(command, self.cpu);
        let parameters = libc::sched_param { sched_priority: 1 };
        // Threads that the main thread creates get the default policy.
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        // SAFETY: only system calls between fork and exec, and no memory is allocated. sched_setscheduler reads the
        // structure that the closure owns.
        unsafe {
            command.pre_exec(move || {
                // This needs CAP_SYS_NICE. Without it, guests are equal on a machine without other load.
                let _ = libc::sched_setscheduler(0, policy, &raw const parameters);
                Ok(())
            });
        }
    }
}

/// The CPUs of emulators that other processes of pipeprof have started. What cannot be read does not count.
fn foreign() -> Vec<usize> {
    let own = std::process::id();
    let emulators = process_stat::all().filter(|(_, stat)| stat.parent != own && stat.name.starts_with("qemu-system"));
    let cpu_of = |(pid, _): (u32, _)| {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed());
        let set = rustix::thread::sched_getaffinity(pid).ok()?;
        (set.count() == 1).then(|| (0..CpuSet::MAX_CPU).find(|&cpu| set.is_set(cpu)))?
    };
    emulators.filter_map(cpu_of).collect()
}

impl Drop for EmulatorCpu {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = taken.iter().position(|&cpu| cpu == self.cpu) {
            taken.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulators_share_the_cpus_evenly_and_run_on_one() {
        // Emulators of other tests may run now; so only one's own CPUs are compared.
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let own: Vec<EmulatorCpu> = (0..allowed.count()).map(|_| EmulatorCpu::take().unwrap()).collect();
        assert!(own.iter().all(|own| allowed.is_set(own.cpu)));
        let busy = foreign();
        if busy.is_empty() {
            let cpus: std::collections::BTreeSet<usize> = own.iter().map(|own| own.cpu).collect();
            assert_eq!(cpus.len(), own.len());
        }
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        own[0].bind(&mut command);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(said.split_whitespace().last(), Some(own[0].cpu.to_string().as_str()));
        drop(own);
        assert!(TAKEN.lock().unwrap().is_empty());
    }
}
