//! The inside of a guest, where this binary is process 1. [`init`] mounts file systems and sends the answer, [`job`]
//! runs the job, [`cpus`] brings up further CPUs, [`ports`] reads the job, [`cgroup`] creates the cgroup that is
//! charged for the workload's memory, [`entropy`] makes random numbers ready, and [`disk`] mounts a disk with files. The
//! host side is [`crate::vm`].

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as guest;
pub(crate) use {::arch, ::collect, ::kernel, ::result, ::run, ::util, ::vm};

pub mod cgroup;
pub mod cpus;
pub mod disk;
pub mod entropy;
pub mod init;
pub mod job;
pub mod ports;
