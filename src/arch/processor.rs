//! The processors that this program knows.

use serde::{Deserialize, Serialize};

/// A processor whose kernels are profiled. To add one, add its module here, one in the plugin and one in bpf/.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Processor {
    #[default]
    #[serde(rename = "x86_64")]
    X86_64,
    #[serde(rename = "aarch64")]
    Aarch64,
}

impl Processor {
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// That of this machine.
    pub const HERE: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// The number in the file of QEMU's plugin (`struct arch` in src/collect/insn/plugin/decode.h).
    pub fn of_number(number: usize) -> Option<Self> {
        Self::ALL.get(number).copied()
    }

    /// Debian's name for the architecture, and that of the end of a kernel's name: `6.12:arm64`.
    pub const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Its name in targets of Rust and in QEMU.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Its name in Linux's build (`ARCH=`).
    pub const fn linux(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The processor with this name of Debian's.
    pub fn of_debian(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|processor| processor.debian() == name)
    }

    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The processor with this name of `uname -m`; this machine's for others.
    pub fn of_machine(machine: &str) -> Self {
        Self::ALL.into_iter().find(|processor| processor.name() == machine).unwrap_or(Self::HERE)
    }

    /// Whether it is this machine's, for files that leave that out.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
