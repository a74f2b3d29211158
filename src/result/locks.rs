//! What is done while the pipe's locks are held.

use crate::profile::ProcessName;
use crate::roles::{self, RoleId, SCHEDULING};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The kinds of locks that the pipe's functions take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LockKind {
    Mutex,
    Spinlock,
}

/// What one process executed in a window while functions of the pipe held locks of one kind. The lock function's own
/// instructions are not part of it, those of the unlock function are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockUse {
    pub process: ProcessName,
    pub lock: LockKind,
    /// Calls of the lock functions by functions of the pipe.
    pub taken: u64,
    /// Instructions executed while at least one was held.
    pub instructions: u64,
    /// Of these: without the roles that depend on scheduling.
    pub without_scheduling: u64,
    /// Instructions of the pipe's functions, and below them, of which it is not known; 0 if all is known.
    pub unknown: u64,
    /// Calls of functions that have a role, most calls while held first.
    pub calls: Vec<HeldCalls>,
}

/// The calls of one function below functions of the pipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldCalls {
    pub function: String,
    pub role: RoleId,
    /// Calls while a lock was held.
    pub held: u64,
    /// All calls.
    pub all: u64,
}

impl LockUse {
    /// The roles whose functions are called, without those that depend on scheduling, and without the lock's own.
    pub fn roles(&self) -> BTreeSet<RoleId> {
        let counts = |role: &RoleId| !SCHEDULING.contains(role) && *role != RoleId::Mutex;
        self.calls.iter().map(|calls| calls.role).filter(counts).collect()
    }

    /// The calls of the function that most represents `role`: its first candidate, else the one called most.
    pub fn of_role(&self, role: RoleId) -> Option<&HeldCalls> {
        let candidates = roles::by_id(role).candidates;
        let place = |calls: &HeldCalls| {
            let name = roles::base_name(&calls.function);
            candidates.iter().position(|candidate| *candidate == name).unwrap_or(usize::MAX)
        };
        let found = self.calls.iter().filter(|calls| calls.role == role);
        found.min_by_key(|calls| (place(calls), u64::MAX - calls.all))
    }
}
