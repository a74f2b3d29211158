//! What the processes did in each part of a counted window. The first process's system calls divide a window into parts of
//! equal work, in which the processes sleep and are preempted more or less often.

use super::ByProcess;
use crate::roles::RoleId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One process in one part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartWork {
    /// System calls.
    pub calls: u64,
    /// Calls of the scheduler: to wait, and out of the way back to user code or of an interrupt.
    pub sleeps: u64,
    pub preemptions: u64,
    /// Pages that it allocated or freed.
    pub pages: u64,
    /// Instructions.
    pub roles: BTreeMap<RoleId, u64>,
}

/// One part.
pub type WindowPart = ByProcess<PartWork>;
