//! Roles to symbols: which of a role's candidates this kernel has, and how each can be reached.

use super::{Reach, Resolution, Role, all};
use crate::kernel::reach::Ways;
use crate::kernel::symbols::{Symbol, Symbols};

/// The four functions that pipeprof is named for, by role: pipe_write, __alloc_pages, __mutex_lock and
/// iov_iter_get_pages2.
pub const NAMED_TARGETS: [&str; 4] = ["pipe-write", "page-alloc", "mutex-slow", "user-pages"];

/// A function of a role that this kernel has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// As the kernel has it, suffixes included: `__mutex_lock.constprop.0`.
    pub symbol: String,
    /// 0 where addresses are hidden.
    pub address: u64,
    /// Ways that are open, best first; [`Reach::SamplingOnly`] alone where none is.
    pub reach: Vec<Reach>,
    /// Ways that are closed, each with the reason.
    pub why_not: Vec<String>,
}

impl Candidate {
    /// Whether something can count its calls.
    #[must_use]
    pub fn probeable(&self) -> bool {
        self.reach.iter().any(|way| *way != Reach::SamplingOnly)
    }
}

/// A role to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeTarget {
    pub role: &'static Role,
    /// Whether it is one of [`NAMED_TARGETS`].
    pub named: bool,
    /// What this kernel has, best first: when the first is attached and never hit, try the next.
    pub candidates: Vec<Candidate>,
    /// Candidates that cannot be taken, each with the reason: `pipe_write: not in this kernel`.
    pub rejected: Vec<String>,
}

impl ProbeTarget {
    fn new(role: &'static Role, symbols: &Symbols, ways: &dyn Ways) -> Self {
        let mut target =
            Self { role, named: NAMED_TARGETS.contains(&role.id), candidates: Vec::new(), rejected: Vec::new() };
        for name in role.candidates {
            match pick(name, symbols) {
                Ok(symbol) => target.candidates.push(candidate(&symbol, symbols.hidden(), ways)),
                Err(reason) => target.rejected.push(format!("{name}: {reason}")),
            }
        }
        target
    }

    /// The candidate to take before anything is known of hits: the first that something can count, else the first.
    #[must_use]
    pub fn first_choice(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.probeable()).or(self.candidates.first())
    }

    /// What to write into the document when `symbol` was taken, with the `hits` it had; `passed_over` are candidates
    /// that were tried before it, each with what was seen: `__alloc_pages_noprof: attached, never hit`.
    #[must_use]
    pub fn resolution(&self, symbol: Option<&str>, hits: Option<u64>, passed_over: &[String]) -> Resolution {
        let chosen = self.candidates.iter().find(|candidate| Some(candidate.symbol.as_str()) == symbol);
        let mut rejected = self.rejected.clone();
        rejected.extend_from_slice(passed_over);
        for candidate in &self.candidates {
            let said = passed_over.iter().any(|text| text.starts_with(&format!("{}:", candidate.symbol)));
            if Some(candidate) != chosen && !said {
                let reason = if candidate.probeable() { "not needed" } else { "cannot be counted" };
                rejected.push(format!("{}: {reason}", candidate.symbol));
            }
        }
        Resolution {
            role: self.role.id.to_owned(),
            article_name: self.role.article_name.to_owned(),
            symbol: chosen.map(|candidate| candidate.symbol.clone()),
            reach: chosen.map_or_else(Vec::new, |candidate| candidate.reach.clone()),
            why_not: chosen.map_or_else(Vec::new, |candidate| candidate.why_not.clone()),
            rejected,
            hits,
        }
    }
}

/// The function of this kernel that `name` stands for.
fn pick<'a>(name: &'a str, symbols: &'a Symbols) -> Result<Symbol<'a>, String> {
    let found = symbols.functions(name);
    let whole: Vec<_> = found.iter().filter(|symbol| !symbol.name.contains(".part")).collect();
    match (whole.as_slice(), found.as_slice()) {
        (_, []) => Err("not in this kernel".to_owned()),
        ([], _) => Err("inlined but for a part of it".to_owned()),
        ([one], _) => Ok(**one),
        ([first, second, ..], _) if first.name != second.name => Ok(**first),
        (several, _) => Err(format!("{} functions have this name", several.len())),
    }
}

fn candidate(symbol: &Symbol<'_>, hidden: bool, ways: &dyn Ways) -> Candidate {
    let mut reach = Vec::new();
    let mut why_not = Vec::new();
    let mut book = |way, label: &str, result: Result<(), String>| match result {
        Ok(()) => reach.push(way),
        Err(reason) => why_not.push(format!("{label}: {reason}")),
    };
    book(Reach::Kprobe, "kprobe", ways.kprobe(symbol));
    book(Reach::Fentry, "fentry", ways.fentry(symbol));
    let breakpoint = if hidden { Err("the address is hidden".to_owned()) } else { ways.breakpoint(symbol) };
    book(Reach::HardwareBreakpoint, "breakpoint", breakpoint);
    if reach.is_empty() {
        reach.push(Reach::SamplingOnly);
    }
    Candidate { symbol: symbol.name.to_owned(), address: symbol.address, reach, why_not }
}

/// The roles that have functions to probe, the four named ones first, then in the order of [`all`].
#[must_use]
pub fn probe_targets(symbols: &Symbols, ways: &dyn Ways) -> Vec<ProbeTarget> {
    let probed = all().iter().filter(|role| !role.candidates.is_empty());
    let mut targets: Vec<_> = probed.map(|role| ProbeTarget::new(role, symbols, ways)).collect();
    targets.sort_by_key(|target| NAMED_TARGETS.iter().position(|id| *id == target.role.id).unwrap_or(usize::MAX));
    targets
}

/// All roles with what they are called on this kernel and how that can be reached, before any run.
#[must_use]
pub fn resolve(symbols: &Symbols, ways: &dyn Ways) -> Vec<Resolution> {
    all()
        .iter()
        .map(|role| {
            let target = ProbeTarget::new(role, symbols, ways);
            let choice = target.first_choice().map(|candidate| candidate.symbol.clone());
            let mut resolution = target.resolution(choice.as_deref(), None, &[]);
            if role.candidates.is_empty() {
                resolution.reach = vec![Reach::SamplingOnly];
                resolution.why_not = vec!["known by its frames in stacks; it has no function to probe".to_owned()];
            }
            resolution
        })
        .collect()
}
