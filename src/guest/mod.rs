//! The inside of a guest, where this binary is process 1: [`init`] mounts what is needed and sends the answer, [`job`]
//! does what the guest was started for, [`cpus`] brings up the CPUs beyond the first, [`cgroup`] is where the workload
//! is charged for its memory. The host's side is [`crate::vm`].

pub mod cgroup;
pub mod cpus;
pub mod init;
pub mod job;
