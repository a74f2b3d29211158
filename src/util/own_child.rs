//! Child processes: on which CPU they run, and how they end.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// A child process that is killed and reaped when this is dropped.
#[derive(Debug)]
pub struct OwnChild(Child);

impl OwnChild {
    pub fn spawn(command: &mut Command) -> std::io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Kill and reap it.
    pub fn end(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Deref for OwnChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for OwnChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        self.end();
    }
}

/// Let `command` run on this CPU only.
pub fn pin(command: &mut Command, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // SAFETY: one system call between fork and exec.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &set)?)) };
}

/// Let `command` be killed when this process dies. An exec of a file that gives rights ends that, so such a program has to
/// ask for it itself.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: only async-signal-safe calls (prctl, getppid) between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // The parent died before prctl took effect, so no signal will come.
            if std::os::unix::process::parent_id() != parent {
                return Err(std::io::Error::other("the parent process has ended"));
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::process_stat::ProcessStat;

    #[test]
    fn a_child_ends_with_its_owner() {
        let mut command = Command::new("sleep");
        command.arg("100");
        die_with_parent(&mut command);
        let child = OwnChild::spawn(&mut command).unwrap();
        let id = child.id();
        assert_eq!(ProcessStat::of(id).unwrap().parent, std::process::id());
        drop(child);
        assert_eq!(ProcessStat::of(id), None);
    }
}
