//! How to boot a guest.

use crate::vm::Kernel;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;

/// This program's own file.
const OWN_BINARY: &str = "/proc/self/exe";

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// KVM if a guest starts with it within a time limit, else emulation
    Auto,
    /// The host's processor
    Kvm,
    /// Emulation, deterministic: the same on every machine
    #[default]
    Tcg,
}

/// A QEMU plugin and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginArgs {
    /// The shared object.
    pub so: PathBuf,
    /// `name=value` pairs, handed over in this order. Commas are understood.
    pub args: Vec<(String, String)>,
}

/// How to boot a guest, all settled.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestOptions {
    pub kernel: Kernel,
    pub accel: Accel,
    pub cpus: u32,
    pub memory_mib: u64,
    /// QEMU's CPU model with its flags; absent: `qemu64` emulated, `host` under KVM.
    pub cpu: Option<String>,
    /// Kernel arguments, after pipeprof's own.
    pub append: Vec<String>,
    /// How long the guest may take to reach its `/init`.
    pub boot_limit: Duration,
    /// How long the job may take from then on.
    pub time_limit: Duration,
    /// TCG only.
    pub plugin: Option<PluginArgs>,
    /// The static binary that is the guest's init; this very program unless a test says otherwise.
    pub init: PathBuf,
}

impl GuestOptions {
    /// Defaults for the kernel that `name` stands for; see [`Kernel::find`].
    ///
    /// # Errors
    /// When there is no such kernel.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self::of(Kernel::find(name)?))
    }

    /// Defaults for `kernel`.
    #[must_use]
    pub fn of(kernel: Kernel) -> Self {
        Self {
            kernel,
            accel: Accel::default(),
            cpus: 1,
            memory_mib: 1024,
            cpu: None,
            append: Vec::new(),
            boot_limit: Duration::from_secs(120),
            time_limit: Duration::from_secs(900),
            plugin: None,
            init: PathBuf::from(OWN_BINARY),
        }
    }
}
