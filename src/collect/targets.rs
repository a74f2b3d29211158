//! The functions that [`super::kprobe`] can watch, and the choice among them: every candidate of every role that this
//! kernel has, or those of `--probe`.

use super::bpf::shared::PP_SLOTS;
use crate::kernel::resolve;
use crate::kernel::resolve::{NAMED_TARGETS, Reach, Resolution};
use crate::kernel::symbols::Symbols;
use crate::profile::{ByProcess, ProcessName};
use crate::result::{FunctionCalls, Probe};
use crate::roles::{self, RoleId};
use std::collections::HashSet;

/// How a target's calls are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMethod {
    /// A copy of the programs for this function, called by it directly.
    Fentry,
    /// Kprobe, and kretprobe if calls are timed.
    Kprobe,
    /// Execution breakpoint of the CPU: calls and stacks.
    Breakpoint,
    /// Not counted; see the reason.
    None,
}

impl AttachMethod {
    /// The text in `FunctionCalls.how`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fentry => "fentry",
            Self::Kprobe => "kprobe",
            Self::Breakpoint => "hardware-breakpoint",
            Self::None => "none",
        }
    }
}

/// One function; its index is its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeTarget {
    pub role: RoleId,
    pub symbol: String,
    pub address: u64,
    pub wanted: bool,
    /// Whether its calls are timed too.
    pub timed: bool,
    pub method: AttachMethod,
    /// Why it is not watched by a kprobe, and why not by a breakpoint.
    pub why: Vec<String>,
    /// Calls by all processes, in all runs so far.
    pub hits: u64,
}

impl ProbeTarget {
    /// Why it is not watched, or not by a kprobe.
    fn reason(&self) -> Option<String> {
        Some(self.why.join("; ")).filter(|why| !why.is_empty())
    }
}

/// Roles whose functions are called rarely, or take long: their calls are timed. Timing a call costs about three times
/// as much as counting it.
const TIMED: [RoleId; 12] = [
    RoleId::Vfs,
    RoleId::PipeWrite,
    RoleId::PipeRead,
    RoleId::Vmsplice,
    RoleId::Splice,
    RoleId::PageFault,
    RoleId::MutexSlow,
    RoleId::MutexSpin,
    RoleId::MutexSleep,
    RoleId::Wait,
    RoleId::WakeUp,
    RoleId::Scheduler,
];

/// The functions that `probe` may need in `symbols`, by role, best first; and why others of its list are missing.
pub fn all(symbols: &Symbols, probe: &Probe) -> (Vec<ProbeTarget>, Vec<String>) {
    let mut seen = HashSet::new();
    let mut targets = Vec::new();
    let mut add = |role: RoleId, name: &str, timed: bool, wanted: bool| -> Result<(), String> {
        let symbol = resolve::pick(name, symbols)?;
        if targets.len() >= PP_SLOTS {
            return Err(format!("more than {PP_SLOTS} functions"));
        }
        if seen.insert(symbol.address) {
            let symbol_name = symbol.name.to_owned();
            targets.push(ProbeTarget {
                role,
                symbol: symbol_name,
                address: symbol.address,
                wanted,
                timed,
                method: AttachMethod::Kprobe,
                why: Vec::new(),
                hits: 0,
            });
        }
        Ok(())
    };
    let mut missing = Vec::new();
    // Named functions first, so that they are timed.
    for name in probe.functions() {
        let role = roles::of_frame(name).map_or(RoleId::OtherKernel, |role| role.id);
        let names = std::iter::once(name).chain(roles::names_of(name).iter().copied());
        let found: Vec<_> = names.map(|name| add(role, name, true, true)).collect();
        if let (false, Some(Err(why))) = (found.iter().any(Result::is_ok), found.first()) {
            missing.push(format!("{name} not probed: {why}"));
        }
    }
    for role in roles::all().iter().filter(|role| probe.has_role(role.id)) {
        for candidate in role.candidates {
            let timed = TIMED.contains(&role.id) || probe.times_all();
            // Candidates that this kernel does not have are expected.
            let _ = add(role.id, candidate, timed, false);
        }
    }
    (targets, missing)
}

/// Choose the targets to probe, of those that can be probed, by the `hits` of each slot in a trial. Of each role the
/// [`best`] one that each process called; without hits the first, and without a trial all. Returns the roles that are left
/// out, because only breakpoints reach them, which cost more than other probes.
pub fn choose(targets: &mut [ProbeTarget], probe: &Probe, hits: &ByProcess<Vec<u64>>) -> Vec<RoleId> {
    let mut left_out = Vec::new();
    for role in roles::all().iter().filter(|role| probe.has_role(role.id)) {
        let watched: Vec<usize> = (0..targets.len())
            .filter(|slot| targets[*slot].role == role.id && targets[*slot].method != AttachMethod::None)
            .collect();
        if *probe == Probe::All {
            watched.iter().for_each(|slot| targets[*slot].wanted = true);
            continue;
        }
        let usable = |slot: &&usize| {
            targets[**slot].method != AttachMethod::Breakpoint
                || *probe != Probe::Roles
                || NAMED_TARGETS.contains(&role.id)
        };
        let usable: Vec<usize> = watched.iter().filter(usable).copied().collect();
        if usable.is_empty() && !watched.is_empty() {
            left_out.push(role.id);
        }
        let called = hits.values().filter_map(|hits| best(&usable, |slot| hits.get(*slot).copied().unwrap_or(0)));
        let mut chosen: Vec<usize> = called.copied().collect();
        if chosen.is_empty() {
            let trial = hits.names().next().is_some();
            chosen.extend(usable.iter().take(if trial { 1 } else { usize::MAX }));
        }
        chosen.iter().for_each(|slot| targets[*slot].wanted = true);
    }
    left_out
}

/// The first of `candidates` (best first) that is called at least a tenth as often as the most frequent one.
pub fn best<T>(candidates: &[T], calls: impl Fn(&T) -> u64) -> Option<&T> {
    let most = candidates.iter().map(&calls).max()?;
    candidates.iter().find(|candidate| calls(candidate) > 0 && calls(candidate).saturating_mul(10) >= most)
}

/// Calls per MiB of `role` by a process that moved `bytes`: those of the role's [`best`] candidate. Candidates often
/// call each other, so a sum would count calls twice.
pub fn calls_per_mib<'f>(
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

/// The targets to try breakpoints on, most important first: named functions, and the best candidate of each role, if they
/// accept no other probe.
pub(crate) fn for_breakpoints(targets: &[ProbeTarget]) -> Vec<usize> {
    let mut of_role = HashSet::new();
    let first = |index: &usize| of_role.insert(targets[*index].role) || targets[*index].wanted;
    let mut best: Vec<usize> = (0..targets.len()).filter(first).collect();
    best.retain(|index| targets[*index].method == AttachMethod::None);
    let rank = |role: RoleId| FIRST.iter().position(|first| *first == role).unwrap_or(FIRST.len());
    best.sort_by_key(|index| (!targets[*index].wanted, rank(targets[*index].role)));
    best
}

/// The roles with functions in this kernel, none of which is watched, each with the reason.
pub(crate) fn unwatched_roles(targets: &[ProbeTarget]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for target in targets {
        let watched = |other: &ProbeTarget| other.role == target.role && other.method != AttachMethod::None;
        if seen.insert(target.role) && !targets.iter().any(watched) {
            let why = target.reason().unwrap_or_else(|| target.symbol.clone());
            reasons.push(format!("{} not watched: {why}", target.role));
        }
    }
    reasons
}

/// The result for each role's candidates. The chosen one is the [`best`] that was hit, or else the best that is
/// watched.
pub fn resolutions(targets: &[ProbeTarget], symbols: &Symbols) -> Vec<Resolution> {
    let resolution = |role: &'static roles::Role| {
        let of_role: Vec<&ProbeTarget> = targets.iter().filter(|target| target.role == role.id).collect();
        let watched = |target: &&&ProbeTarget| target.wanted && target.method != AttachMethod::None;
        let called = best(&of_role, |target| target.hits);
        let chosen = called.or_else(|| of_role.iter().find(watched)).copied();
        let missing = |name: &&str| Some(format!("{name}: {}", resolve::pick(name, symbols).err()?));
        let mut rejected: Vec<String> = role.candidates.iter().filter_map(missing).collect();
        for target in &of_role {
            if chosen.is_some_and(|chosen| chosen.address == target.address) {
                continue;
            }
            rejected.push(match (target.method, target.hits) {
                (AttachMethod::None, _) => target.reason().unwrap_or_else(|| format!("{}: not watched", target.symbol)),
                (_, 0) if !target.wanted => format!("{}: not chosen by --probe", target.symbol),
                (_, 0) => format!("{}: watched, never called", target.symbol),
                (_, hits) => {
                    format!("{}: also called ({hits} times), as an inner or additional function", target.symbol)
                }
            });
        }
        let reach = match chosen.map(|target| target.method) {
            Some(AttachMethod::Fentry) => vec![Reach::Fentry, Reach::Kprobe],
            Some(AttachMethod::Kprobe) => vec![Reach::Kprobe],
            Some(AttachMethod::Breakpoint) => vec![Reach::HardwareBreakpoint],
            Some(AttachMethod::None) | None => vec![Reach::SamplingOnly],
        };
        Resolution {
            role: role.id,
            article_name: role.article_name.to_owned(),
            symbol: chosen.map(|target| target.symbol.clone()),
            reach,
            why_not: chosen.and_then(|target| target.reason()).into_iter().collect(),
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
ffffffff81000700 T copy_page_from_iter
";

    fn symbols() -> Symbols {
        Symbols::read(KALLSYMS.as_bytes()).unwrap()
    }

    /// The targets of `probe` in [`KALLSYMS`], and the symbols that are chosen with these calls of the writer.
    fn chosen(probe: &str, calls: &[(&str, u64)]) -> (Vec<ProbeTarget>, Vec<String>) {
        let probe: Probe = probe.parse().unwrap();
        let (mut targets, _) = all(&symbols(), &probe);
        for target in targets.iter_mut().filter(|target| target.symbol.contains("_iter")) {
            target.method = AttachMethod::Breakpoint;
        }
        let hits = |target: &ProbeTarget| calls.iter().find(|call| call.0 == target.symbol).map_or(0, |call| call.1);
        let hits = targets.iter().map(hits).collect();
        choose(&mut targets, &probe, &[(ProcessName::WRITER, hits)].into_iter().collect());
        let names = targets.iter().filter(|target| target.wanted).map(|target| target.symbol.clone()).collect();
        (targets, names)
    }

    #[test]
    fn named_targets_are_found_with_their_suffixes() {
        let (targets, names) = chosen("targets", &[]);
        assert_eq!(names, ["pipe_write", "iov_iter_get_pages2", "__alloc_pages", "__mutex_lock.constprop.0"]);
        assert!(targets.iter().filter(|target| target.wanted).all(|target| target.timed));
    }

    #[test]
    fn one_function_per_role_is_chosen_by_its_calls() {
        let (targets, names) = chosen("roles", &[]);
        assert!(names.contains(&"__alloc_pages".to_owned()) && !names.contains(&"get_page_from_freelist".to_owned()));
        let timed = |symbol: &str| targets.iter().find(|target| target.symbol == symbol).unwrap().timed;
        assert!(timed("pipe_write") && !timed("__alloc_pages"), "page allocations are frequent and short");
        assert!(!targets.iter().any(|target| target.symbol.contains(".part")), "{targets:?}");
        let (_, names) = chosen("roles", &[("__alloc_pages", 3), ("get_page_from_freelist", 900)]);
        assert!(names.contains(&"get_page_from_freelist".to_owned()) && !names.contains(&"__alloc_pages".to_owned()));
        let (_, names) = chosen("all", &[]);
        assert_eq!(names.len(), 6, "{names:?}");
    }

    #[test]
    fn breakpoints_are_for_named_targets_unless_asked_for() {
        let (_, names) = chosen("roles", &[]);
        assert!(names.contains(&"iov_iter_get_pages2".to_owned()));
        assert!(chosen("copy-in", &[]).1.contains(&"copy_page_from_iter".to_owned()));
        assert!(!names.contains(&"copy_page_from_iter".to_owned()));
    }

    #[test]
    fn listed_functions_are_found_under_their_names_on_this_kernel() {
        let (_, names) = chosen("anon_pipe_write,__mutex_lock", &[]);
        assert_eq!(names, ["pipe_write", "__mutex_lock.constprop.0"]);
        let (targets, missing) = all(&symbols(), &"page_cache_pipe_buf_release".parse().unwrap());
        assert!(targets.is_empty());
        assert_eq!(missing, ["page_cache_pipe_buf_release not probed: not in this kernel"]);
    }

    #[test]
    fn a_candidate_called_by_the_way_is_not_the_best() {
        assert_eq!(best(&[0, 5, 1200, 1300], |calls| *calls), Some(&1200));
        assert_eq!(best(&[0, 0], |calls| *calls), None);
        assert_eq!(best::<u64>(&[], |calls| *calls), None);
    }

    #[test]
    fn chosen_is_what_was_hit() {
        let (mut targets, _) = chosen("roles", &[]);
        let extra = ProbeTarget {
            role: RoleId::PageAlloc,
            symbol: "__alloc_pages_bulk".to_owned(),
            address: 1,
            method: AttachMethod::Kprobe,
            why: Vec::new(),
            hits: 7,
            wanted: true,
            timed: false,
        };
        targets.push(extra);
        let resolutions = resolutions(&targets, &symbols());
        let page_alloc = resolutions.iter().find(|one| one.role == RoleId::PageAlloc).unwrap();
        assert_eq!(page_alloc.symbol.as_deref(), Some("__alloc_pages_bulk"));
        assert_eq!(page_alloc.hits, Some(7));
        assert!(page_alloc.rejected.iter().any(|why| why == "__alloc_pages: watched, never called"), "{page_alloc:?}");
    }
}
