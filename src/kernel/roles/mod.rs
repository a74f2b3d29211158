//! Roles: what kernel time is spent on, by purpose and not by symbol. The tables beside this file, one per area,
//! hold what each role's functions are called on which kernel; this file reads them.

use serde::{Deserialize, Serialize};

/// A purpose that kernel time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// Stable, in kebab case: `page-alloc`.
    pub id: &'static str,
    /// For people: `page allocation`.
    pub title: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Fill in a flame graph, `#rrggbb`.
    pub colour: &'static str,
    /// What the articles called it; empty where they did not.
    pub article_name: &'static str,
    /// Frames that book a stack to this role when they are its deepest frame with a role.
    pub frames: &'static [Pattern],
    /// Functions to probe, best first; the first that this kernel has and that is hit is taken.
    pub candidates: &'static [&'static str],
}

/// How a frame's name is matched, after [`base_name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Exact(&'static str),
    Prefix(&'static str),
}

/// A frame's name without the suffixes that compilers add (`.constprop.0`, `.isra.0`, `.part.0`, `.llvm.123`) and
/// without inferno's annotations (`_[k]`); `.cold` stays, as it is another piece of code.
#[must_use]
pub fn base_name(frame: &str) -> &str {
    let _ = frame;
    todo!("roles")
}

/// All roles, in the order of legends and tables.
#[must_use]
pub fn all() -> &'static [Role] {
    todo!("roles")
}

/// The role with this id.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Role> {
    all().iter().find(|role| role.id == id)
}

/// The role that a kernel frame of this name stands for, if any (suffixes understood).
#[must_use]
pub fn of_frame(frame: &str) -> Option<&'static Role> {
    let _ = frame;
    todo!("roles")
}

/// The role of a whole stack, root first and joined by `;`, and the frame that decided it: its deepest frame with a
/// role; `user` where the stack never enters the kernel, `other-kernel` where no frame has a role.
#[must_use]
pub fn of_stack(stack: &str) -> (&'static Role, &str) {
    let _ = stack;
    todo!("roles")
}

/// One name for a function that kernels renamed: `pipe_write` for `anon_pipe_write`, `__alloc_pages` for
/// `__alloc_frozen_pages_noprof`; the base name itself where nothing is known of a rename.
#[must_use]
pub fn canonical(frame: &str) -> &str {
    let _ = frame;
    todo!("roles")
}

/// How a symbol can be reached on this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    Kprobe,
    Fentry,
    HardwareBreakpoint,
    SamplingOnly,
}

/// What a role's functions are called on the kernel at hand, what was rejected, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Resolution {
    pub role: String,
    pub article_name: String,
    /// The symbol chosen; absent where this kernel has none of the candidates.
    pub symbol: Option<String>,
    pub reach: Vec<Reach>,
    /// Ways that are closed and the reason: `fentry: notrace function`.
    pub why_not: Vec<String>,
    /// Candidates that were passed over, each with the reason.
    pub rejected: Vec<String>,
    /// Calls seen through the chosen symbol in the run; absent where nothing could count them.
    pub hits: Option<u64>,
}
