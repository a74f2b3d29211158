//! Maps roles to symbols: which candidates of a role this kernel has, and how they can be probed.

use super::reach::Ways;
use super::symbols::{Symbol, Symbols};
use crate::roles::{Role, RoleId, all};
use serde::{Deserialize, Serialize};

/// A way to observe a symbol on this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    Kprobe,
    Fentry,
    HardwareBreakpoint,
    SamplingOnly,
}

/// The function of a role on this kernel, and the candidates that were rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Resolution {
    pub role: RoleId,
    pub article_name: String,
    /// The chosen symbol; absent if this kernel has none of the candidates.
    pub symbol: Option<String>,
    pub reach: Vec<Reach>,
    /// Ways that do not work, with the reason: `fentry: notrace function`.
    pub why_not: Vec<String>,
    /// Candidates that were not chosen, with the reason.
    pub rejected: Vec<String>,
    /// Calls of the chosen symbol during the run; absent if they could not be counted.
    pub hits: Option<u64>,
}

/// The four functions that pipeprof was made for, by role: pipe_write, __alloc_pages, __mutex_lock and
/// iov_iter_get_pages2.
pub const NAMED_TARGETS: [RoleId; 4] = [RoleId::PipeWrite, RoleId::PageAlloc, RoleId::MutexSlow, RoleId::UserPages];

/// Find the candidate `name` in this kernel; the compiler's suffixes are accepted.
pub fn pick<'a>(name: &'a str, symbols: &'a Symbols) -> Result<Symbol<'a>, String> {
    let found = symbols.functions(name);
    let whole: Vec<_> = found.iter().filter(|symbol| !symbol.name.contains(".part")).collect();
    match (whole.as_slice(), found.as_slice()) {
        (_, []) => Err("not in this kernel".to_owned()),
        ([], _) => Err("inlined, except for a part".to_owned()),
        ([one], _) => Ok(**one),
        ([first, second, ..], _) if first.name != second.name => Ok(**first),
        (several, _) => Err(format!("{} functions have this name", several.len())),
    }
}

/// How a function can be observed: the ways that work, best first ([`Reach::SamplingOnly`] if none does), and those
/// that do not, with the reason.
fn reach(symbol: &Symbol<'_>, hidden: bool, ways: &dyn Ways) -> (Vec<Reach>, Vec<String>) {
    let mut reach = Vec::new();
    let mut why_not = Vec::new();
    let mut book = |way, label: &str, result: Result<(), String>| match result {
        Ok(()) => reach.push(way),
        Err(reason) => why_not.push(format!("{label}: {reason}")),
    };
    book(Reach::Kprobe, "kprobe", ways.kprobe(symbol));
    book(Reach::Fentry, "fentry", ways.fentry(symbol));
    let breakpoint = if hidden { Err("kernel addresses are hidden".to_owned()) } else { ways.breakpoint(symbol) };
    book(Reach::HardwareBreakpoint, "breakpoint", breakpoint);
    if reach.is_empty() {
        reach.push(Reach::SamplingOnly);
    }
    (reach, why_not)
}

/// A role on this kernel: the first candidate whose calls can be counted, or else the first that exists.
fn resolution(role: &Role, symbols: &Symbols, ways: &dyn Ways) -> Resolution {
    let mut resolution = Resolution {
        role: role.id,
        article_name: role.article_name.to_owned(),
        symbol: None,
        reach: Vec::new(),
        why_not: Vec::new(),
        rejected: Vec::new(),
        hits: None,
    };
    if role.candidates.is_empty() {
        resolution.reach = vec![Reach::SamplingOnly];
        resolution.why_not = vec!["recognised by stack frames only: it has no function to probe".to_owned()];
    }
    let mut here = Vec::new();
    for name in role.candidates {
        match pick(name, symbols) {
            Ok(symbol) => here.push((symbol.name, reach(&symbol, symbols.hidden(), ways))),
            Err(reason) => resolution.rejected.push(format!("{name}: {reason}")),
        }
    }
    let countable = |reach: &[Reach]| reach.iter().any(|way| *way != Reach::SamplingOnly);
    let chosen = here.iter().position(|(_, (reach, _))| countable(reach)).unwrap_or(0);
    for (index, (symbol, (reach, why_not))) in here.into_iter().enumerate() {
        if index == chosen {
            resolution.symbol = Some(symbol.to_owned());
            (resolution.reach, resolution.why_not) = (reach, why_not);
        } else {
            let reason = if countable(&reach) { "not needed" } else { "cannot be counted" };
            resolution.rejected.push(format!("{symbol}: {reason}"));
        }
    }
    resolution
}

/// Resolve all roles on this kernel, before any run.
pub fn resolve(symbols: &Symbols, ways: &dyn Ways) -> Vec<Resolution> {
    all().iter().map(|role| resolution(role, symbols, ways)).collect()
}

/// How a line of a list of symbols begins that holds [`Resolution`]s. Readers of the list skip it.
const COMMENT: &str = "# roles ";

/// To be changed when [`resolve`] gives other results for the same kernel and roles.
const RULES: u32 = 1;

/// Identifies what resolutions depend on besides the kernel.
fn rules() -> String {
    let mut crc = flate2::Crc::new();
    for role in all() {
        crc.update(format!("{:?} {} {:?};", role.id, role.article_name, role.candidates).as_bytes());
    }
    format!("{RULES}-{:08x}", crc.sum())
}

/// `resolutions` as a line for a list of symbols.
pub fn to_comment(resolutions: &[Resolution]) -> String {
    // Names and reasons can always be written as JSON.
    let text = serde_json::to_string(resolutions).unwrap_or_default();
    format!("{COMMENT}{} {text}\n", rules())
}

/// The resolutions in a list of symbols; `None` if it has none of this version's roles.
pub fn from_comment(list: &str) -> Option<Vec<Resolution>> {
    let line = list.lines().take_while(|line| line.starts_with('#')).find_map(|line| line.strip_prefix(COMMENT))?;
    let (made_by, text) = line.split_once(' ')?;
    (made_by == rules()).then(|| serde_json::from_str(text).ok())?
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
