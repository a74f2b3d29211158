//! The cost of a probe on this kernel, measured on a system call that does almost nothing.

use super::Watched;
use super::attach;
use super::bpf::shared::Function;
use super::kprobe::{ENTER, LEAVE, Loaded, load, tell_slots};
use crate::document::Loader;
use crate::kernel::symbols::Symbols;
use crate::profile::ProcessName;
use anyhow::{Context as _, Result};
use std::time::Instant;

/// Calls in one round.
const CALLS: u32 = 2000;
/// Number of rounds. The fastest counts, because disturbances only add time.
const ROUNDS: u32 = 5;
/// Larger corrections, as part of a function's time, are not made: the result would describe the probes more than the
/// function.
const LIMIT: f64 = 0.2;

/// The cost of one call's probes, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    /// Overhead in the function's own time: between the two clock readings.
    pub inside: f64,
    /// Further overhead in the caller's time.
    pub outside: f64,
}

impl Cost {
    /// The self time of `function` without the cost of its probes and of its callees' probes. Absent if that cost is a
    /// fifth of it or more.
    #[must_use]
    pub(crate) fn correct(&self, function: &Function) -> Option<u64> {
        let correction = function.returns as f64 * self.inside + function.children as f64 * self.outside;
        let own = function.self_ns as f64;
        (correction < LIMIT * own).then(|| (own - correction).round() as u64)
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "probes add {:.0} ns to a call (clock of this kernel): {:.0} to the function, {:.0} to its caller",
            self.inside + self.outside,
            self.inside,
            self.outside
        )
    }
}

/// Measure the cost in this thread.
///
/// # Errors
/// When the system call cannot be probed, or its probe was not hit.
pub(crate) fn cost(loader: Loader, symbols: &Symbols) -> Result<Cost> {
    let symbol = symbols.functions("__x64_sys_getppid").into_iter().next().context("no __x64_sys_getppid")?;
    // SAFETY: gettid has no preconditions.
    let thread = unsafe { libc::gettid() };
    let watched = Watched::one(ProcessName::OTHER, thread.try_into()?);
    let Loaded { mut object, cookies, .. } = load(loader, &watched, 1)?;
    tell_slots(&mut object, std::iter::once(symbol.address))?;

    let alone = fastest_round();
    let returns = attach::kprobe(object.program(LEAVE)?, symbol.name, symbol.address, true, None)?;
    let entries = attach::kprobe(object.program(ENTER)?, symbol.name, symbol.address, false, cookies.then_some(0))?;
    let probed = fastest_round();
    drop((entries, returns));

    let function: Function = object.element("functions", 0)?;
    anyhow::ensure!(function.returns > 0, "the calibration's probe was not hit");
    let inside = function.total_ns as f64 / function.returns as f64;
    let whole = (probed - alone).max(0.0);
    Ok(Cost { inside: inside.min(whole), outside: (whole - inside).max(0.0) })
}

/// Nanoseconds per call in the fastest round.
fn fastest_round() -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: getppid has no preconditions.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(returns: u64, children: u64, self_ns: u64) -> Function {
        Function { returns, children, self_ns, ..bytemuck::Zeroable::zeroed() }
    }

    #[test]
    fn small_costs_are_taken_off_large_ones_are_not() {
        let cost = Cost { inside: 10.0, outside: 20.0 };
        assert_eq!(cost.correct(&function(10, 5, 10_000)), Some(9_800));
        assert_eq!(cost.correct(&function(10, 5, 1_000)), None);
        assert_eq!(cost.correct(&function(10, 0, 500)), None);
        assert_eq!(cost.correct(&function(0, 0, 0)), None);
    }
}
