//! The functions that [`super::kprobe`] watches: every candidate of every role that this kernel has.

use super::bpf::shared::PP_SLOTS;
use crate::document::FunctionCalls;
use crate::kernel::resolve;
use crate::kernel::resolve::{Reach, Resolution};
use crate::kernel::symbols::Symbols;
use crate::profile::ProcessName;
use crate::roles::{self, RoleId};
use std::collections::HashSet;

/// How a target's calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Kprobe and kretprobe: calls and times.
    Kprobe,
    /// Execution breakpoint of the CPU: calls and stacks.
    Breakpoint,
    /// Not counted; see the reason.
    None,
}

impl Way {
    /// The text in `FunctionCalls.how`.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kprobe => "kprobe",
            Self::Breakpoint => "hardware-breakpoint",
            Self::None => "none",
        }
    }
}

/// One function; its index is its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeTarget {
    pub role: RoleId,
    pub symbol: String,
    pub address: u64,
    pub way: Way,
    /// The reason why it is not watched, or not by a kprobe.
    pub why: Option<String>,
    /// Calls by all processes, in all runs so far.
    pub hits: u64,
}

/// All candidates of all roles in `symbols`, by role, best first.
#[must_use]
pub(crate) fn all(symbols: &Symbols) -> Vec<ProbeTarget> {
    let mut seen = HashSet::new();
    let mut targets = Vec::new();
    for role in roles::all() {
        for candidate in role.candidates {
            let Ok(symbol) = resolve::pick(candidate, symbols) else { continue };
            if seen.insert(symbol.address) && targets.len() < PP_SLOTS {
                targets.push(ProbeTarget {
                    role: role.id,
                    symbol: symbol.name.to_owned(),
                    address: symbol.address,
                    way: Way::Kprobe,
                    why: None,
                    hits: 0,
                });
            }
        }
    }
    targets
}

/// The first of `candidates` (best first) that is called at least a tenth as often as the most frequent one.
#[must_use]
pub(crate) fn best<T>(candidates: &[T], calls: impl Fn(&T) -> u64) -> Option<&T> {
    let most = candidates.iter().map(&calls).max()?;
    candidates.iter().find(|candidate| calls(candidate) > 0 && calls(candidate).saturating_mul(10) >= most)
}

/// Calls per MiB of `role` by a process that moved `bytes`: those of the role's [`best`] candidate. Candidates often
/// call each other, so a sum would count calls twice.
#[must_use]
pub(crate) fn calls_per_mib<'f>(
    role: RoleId,
    functions: impl Iterator<Item = &'f FunctionCalls>,
    process: ProcessName,
    bytes: u64,
) -> Option<f64> {
    let candidates = roles::by_id(role).candidates;
    let place = |symbol: &str| candidates.iter().position(|name| symbol == *name || roles::base_name(symbol) == *name);
    let of_role = functions.filter(|function| function.role == role && function.process == process);
    let mut rows: Vec<_> = of_role.filter_map(|function| Some((place(&function.symbol)?, function.calls))).collect();
    rows.sort_unstable();
    let (_, calls) = best(&rows, |(_, calls)| *calls)?;
    (bytes > 0).then(|| *calls as f64 * f64::from(1 << 20) / bytes as f64)
}

/// Important roles whose functions accept no probe on any kernel. They get the first breakpoints.
const FIRST: [RoleId; 3] = [RoleId::UserPages, RoleId::CopyIn, RoleId::CopyOut];

/// The targets to set breakpoints on, most important first: the best candidate of each role that is not watched yet.
#[must_use]
pub(crate) fn for_breakpoints(targets: &[ProbeTarget]) -> Vec<usize> {
    let mut of_role = HashSet::new();
    let mut best: Vec<usize> = (0..targets.len()).filter(|index| of_role.insert(targets[*index].role)).collect();
    best.retain(|index| targets[*index].way == Way::None);
    best.sort_by_key(|index| FIRST.iter().position(|role| *role == targets[*index].role).unwrap_or(FIRST.len()));
    best
}

/// The roles with functions in this kernel, none of which is watched, each with the reason.
#[must_use]
pub(crate) fn unwatched_roles(targets: &[ProbeTarget]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for target in targets {
        let watched = |other: &ProbeTarget| other.role == target.role && other.way != Way::None;
        if seen.insert(target.role) && !targets.iter().any(watched) {
            let why = target.why.clone().unwrap_or_else(|| target.symbol.clone());
            reasons.push(format!("{} not watched: {why}", target.role));
        }
    }
    reasons
}

/// The result for each role's candidates. The chosen one is the [`best`] that was hit, or else the best that is
/// watched.
#[must_use]
pub(crate) fn resolutions(targets: &[ProbeTarget], symbols: &Symbols) -> Vec<Resolution> {
    let resolution = |role: &'static roles::Role| {
        let of_role: Vec<&ProbeTarget> = targets.iter().filter(|target| target.role == role.id).collect();
        let watched = |target: &&&ProbeTarget| target.way != Way::None;
        let called = best(&of_role, |target| target.hits);
        let chosen = called.or_else(|| of_role.iter().find(watched)).copied();
        let missing = |name: &&str| Some(format!("{name}: {}", resolve::pick(name, symbols).err()?));
        let mut rejected: Vec<String> = role.candidates.iter().filter_map(missing).collect();
        for target in &of_role {
            if chosen.is_some_and(|chosen| chosen.address == target.address) {
                continue;
            }
            rejected.push(match (target.way, target.hits) {
                (Way::None, _) => target.why.clone().unwrap_or_else(|| format!("{}: not watched", target.symbol)),
                (_, 0) => format!("{}: watched, never called", target.symbol),
                (_, hits) => {
                    format!("{}: also called ({hits} times), as an inner or additional function", target.symbol)
                }
            });
        }
        let reach = match chosen.map(|target| target.way) {
            Some(Way::Kprobe) => vec![Reach::Kprobe],
            Some(Way::Breakpoint) => vec![Reach::HardwareBreakpoint],
            Some(Way::None) | None => vec![Reach::SamplingOnly],
        };
        Resolution {
            role: role.id,
            article_name: role.article_name.to_owned(),
            symbol: chosen.map(|target| target.symbol.clone()),
            reach,
            why_not: chosen.and_then(|target| target.why.clone()).into_iter().collect(),
            rejected,
            hits: chosen.map(|target| target.hits),
        }
    };
    roles::all().iter().filter(|role| !role.candidates.is_empty()).map(resolution).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000000 T _stext
ffffffff81000100 t pipe_write
ffffffff81000200 t __mutex_lock.constprop.0
ffffffff81000300 T iov_iter_get_pages2
ffffffff81000400 T __alloc_pages
ffffffff81000500 T get_page_from_freelist
ffffffff81000600 t vfs_read.part.0
";

    fn symbols() -> Symbols {
        Symbols::read(KALLSYMS.as_bytes()).unwrap()
    }

    #[test]
    fn named_targets_are_found_with_their_suffixes() {
        let targets = all(&symbols());
        for symbol in ["pipe_write", "__alloc_pages", "__mutex_lock.constprop.0", "iov_iter_get_pages2"] {
            assert!(targets.iter().any(|target| target.symbol == symbol), "{symbol} of {targets:?}");
        }
        assert!(!targets.iter().any(|target| target.symbol.contains(".part")), "{targets:?}");
    }

    #[test]
    fn a_candidate_called_by_the_way_is_not_the_best() {
        assert_eq!(best(&[0, 5, 1200, 1300], |calls| *calls), Some(&1200));
        assert_eq!(best(&[0, 0], |calls| *calls), None);
        assert_eq!(best::<u64>(&[], |calls| *calls), None);
    }

    #[test]
    fn chosen_is_what_was_hit() {
        let mut targets = all(&symbols());
        let extra = ProbeTarget {
            role: RoleId::PageAlloc,
            symbol: "__alloc_pages_bulk".to_owned(),
            address: 1,
            way: Way::Kprobe,
            why: None,
            hits: 7,
        };
        targets.push(extra);
        let resolutions = resolutions(&targets, &symbols());
        let page_alloc = resolutions.iter().find(|one| one.role == RoleId::PageAlloc).unwrap();
        assert_eq!(page_alloc.symbol.as_deref(), Some("__alloc_pages_bulk"));
        assert_eq!(page_alloc.hits, Some(7));
        assert!(page_alloc.rejected.iter().any(|why| why == "__alloc_pages: watched, never called"), "{page_alloc:?}");
    }
}
