//! The ids of roles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// How the error begins where no id has the text.
pub const UNKNOWN_ROLE: &str = "unknown role";

macro_rules! role_ids {
    ($($variant:ident = $text:literal,)+) => {
        /// A role's stable id. Documents hold its text in kebab case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(inline)]
        pub enum RoleId {
            $($variant,)+
        }

        impl RoleId {
            /// All ids.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The text: `page-alloc`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

role_ids! {
    User = "user",
    Syscall = "syscall",
    Vfs = "vfs",
    Lsm = "lsm",
    IoUring = "io-uring",
    PipeWrite = "pipe-write",
    PipeRead = "pipe-read",
    Vmsplice = "vmsplice",
    Splice = "splice",
    PipeBuffers = "pipe-buffers",
    Device = "device",
    CopyIn = "copy-in",
    CopyOut = "copy-out",
    UserPages = "user-pages",
    PageAlloc = "page-alloc",
    PageFree = "page-free",
    MemcgCharge = "memcg-charge",
    MemcgUncharge = "memcg-uncharge",
    PageFault = "page-fault",
    Mutex = "mutex",
    MutexSlow = "mutex-slow",
    MutexSpin = "mutex-spin",
    MutexSleep = "mutex-sleep",
    Wait = "wait",
    WakeUp = "wake-up",
    Scheduler = "scheduler",
    Psi = "psi",
    Idle = "idle",
    Timestamps = "timestamps",
    Irq = "irq",
    Timer = "timer",
    Softirq = "softirq",
    IrqOff = "irq-off",
    Tracing = "tracing",
    OtherKernel = "other-kernel",
}

/// Alphabetical by the text: rows of equal weight stand in this order.
impl Ord for RoleId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for RoleId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for RoleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RoleId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|id| id.as_str() == text);
        found.copied().ok_or_else(|| format!("{UNKNOWN_ROLE} {text:?}"))
    }
}

impl TryFrom<String> for RoleId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RoleId> for String {
    fn from(id: RoleId) -> Self {
        id.as_str().to_owned()
    }
}
