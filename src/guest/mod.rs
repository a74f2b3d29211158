//! The inside of a guest, where this binary is process 1. [`init`] mounts file systems and sends the answer, [`job`]
//! runs the job, [`cpus`] brings up further CPUs, [`ports`] reads the job, [`cgroup`] creates the cgroup that is
//! charged for the workload's memory, [`entropy`] makes random numbers ready, and [`disk`] mounts a disk with files. The
//! host side is [`crate::vm`].

pub(crate) mod cgroup;
pub(crate) mod cpus;
pub(crate) mod disk;
pub(crate) mod entropy;
pub(crate) mod init;
pub(crate) mod job;
pub(crate) mod ports;
