//! Options for booting a guest.

use crate::result::Accel;
use crate::vm::{Kernel, hardware};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A QEMU plugin and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginArgs {
    /// The shared object.
    pub so: PathBuf,
    /// `name=value` pairs, passed in this order. Values may contain commas.
    pub args: Vec<(String, String)>,
}

/// How to boot a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestOptions {
    pub kernel: Kernel,
    pub accel: Accel,
    pub cpus: u32,
    pub memory_mib: u64,
    /// QEMU's CPU model with its flags; by default that of its [`hardware`] under TCG, and `host` under KVM.
    pub cpu: Option<String>,
    /// Kernel arguments, added after pipeprof's own.
    pub append: Vec<String>,
    /// Time limit for reaching `/init`, in CPU time of the emulator; with KVM, elapsed time.
    pub boot_limit: Duration,
    /// Time limit for the job, from then on; likewise.
    pub time_limit: Duration,
    /// TCG only.
    pub plugin: Option<PluginArgs>,
    /// Start from a snapshot if there is one, and make one if not; TCG only.
    pub snapshot: bool,
    /// The static binary to run as the guest's init; by default this program, for the guest's processor.
    pub init: PathBuf,
    /// A tar archive that init unpacks before the job.
    pub files: Option<Arc<Vec<u8>>>,
    /// The image of a disk that the guest can read. Such a guest always boots.
    pub disk: Option<PathBuf>,
}

impl GuestOptions {
    /// Defaults for `kernel`.
    pub fn of(kernel: Kernel) -> Self {
        Self {
            init: hardware::binary_for(kernel.processor),
            kernel,
            accel: Accel::default(),
            cpus: 1,
            memory_mib: 1024,
            cpu: None,
            append: Vec::new(),
            boot_limit: Duration::from_secs(120),
            time_limit: Duration::from_secs(900),
            plugin: None,
            snapshot: true,
            files: None,
            disk: None,
        }
    }
}
