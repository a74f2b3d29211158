//! Why a role's share differs from the article's: the functions that make the difference, and what of this machine is
//! known to move them. Pure: nothing is said that the two profiles and the run's document do not show.

use crate::document::{Document, Environment, ProcessTotals};
use crate::kernel::roles::{self, Skew};
use crate::profile::Folded;
use std::collections::BTreeMap;

/// Our side of the comparison.
#[derive(Debug, Clone, Copy)]
pub struct Ours<'a> {
    /// Options of the kernel, by name.
    pub config: &'a BTreeMap<String, String>,
    pub environment: &'a Environment,
    pub writer: &'a ProcessTotals,
    /// The writer's.
    pub stacks: &'a Folded,
    pub skew: Skew,
}

impl<'a> Ours<'a> {
    /// The writer's side of a run.
    #[must_use]
    pub fn of(document: &'a Document, stacks: &'a Folded, skew: Skew) -> Self {
        let (config, writer) = (&document.kernel.config, &document.processes.writer);
        Self { config, environment: &document.environment, writer, stacks, skew }
    }
}

/// Functions named in a reason.
const NAMED: usize = 2;

/// The reason for the difference in `role` between the article's writer and ours.
#[must_use]
pub fn reason(role: &str, theirs: &Folded, ours: &Ours<'_>) -> String {
    let (their, our) = (functions(theirs, Skew::None, role), functions(ours.stacks, ours.skew, role));
    let mut changes: Vec<(&str, f64, f64)> = Vec::new();
    for name in their.keys().chain(our.keys().filter(|name| !their.contains_key(*name))) {
        let of = |shares: &BTreeMap<String, f64>| shares.get(name).copied().unwrap_or_default();
        changes.push((name, of(&their), of(&our)));
    }
    changes.sort_by(|a, b| (b.2 - b.1).abs().total_cmp(&(a.2 - a.1).abs()).then_with(|| a.0.cmp(b.0)));
    let named: Vec<String> = changes
        .iter()
        .take(NAMED)
        .filter(|(_, their, our)| (our - their).abs() >= 0.5)
        .map(|(name, their, our)| format!("{name} {their:.1} to {our:.1} %"))
        .collect();
    let elsewhere =
        |name: &str| ours.stacks.iter().any(|(stack, _)| stack.split(';').any(|f| roles::canonical(f) == name));
    let gone: Vec<&str> =
        changes.iter().take(NAMED).filter(|(name, their, _)| *their >= 1.0 && !elsewhere(name)).map(|c| c.0).collect();
    let more = our.values().sum::<f64>() > their.values().sum::<f64>();
    let mut parts = vec![named.join(", ")];
    if !gone.is_empty() {
        parts.push(format!("no stack of ours holds {}: inlined into its caller, or not run", gone.join(" or ")));
    }
    parts.extend(known(role, more, ours));
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// Self shares, in per cent of the whole profile, of the functions whose stacks go to `role`.
fn functions(stacks: &Folded, skew: Skew, role: &str) -> BTreeMap<String, f64> {
    let total = stacks.total().max(1) as f64;
    let mut shares = BTreeMap::new();
    for (stack, weight) in stacks.iter() {
        if roles::of_stack_with(stack, skew).0.id == role {
            let leaf = roles::canonical(stack.rsplit(';').next().unwrap_or(stack));
            *shares.entry(leaf.to_owned()).or_insert(0.0) += weight as f64 / total * 100.0;
        }
    }
    shares
}

/// What this run shows that moves such a role.
fn known(role: &str, more: bool, ours: &Ours<'_>) -> Option<String> {
    let (writer, environment) = (ours.writer, ours.environment);
    let config = |name: &str| ours.config.get(name).map(String::as_str);
    let per_thousand = |count: u64| count as f64 / writer.calls.max(1) as f64 * 1000.0;
    let switches = || {
        format!(
            "the writer here sleeps {:.0} and is preempted {:.0} times per 1000 calls",
            per_thousand(writer.voluntary_switches),
            per_thousand(writer.involuntary_switches)
        )
    };
    let relation = || match (&environment.topology, &environment.hypervisor) {
        (Some(topology), Some(hypervisor)) => format!("the two processes run on {topology} under {hypervisor}"),
        (Some(topology), None) => format!("the two processes run on {topology}"),
        (None, Some(hypervisor)) => format!("this machine is virtual ({hypervisor})"),
        (None, None) => String::new(),
    };
    let text = match role {
        roles::IRQ_OFF => "cpu-clock samples of time spent with interrupts off land where they come back on; the \
             article sampled by a hardware counter, which sees them in place"
            .to_owned(),
        "page-alloc" => match config("CONFIG_INIT_ON_ALLOC_DEFAULT_ON") {
            Some("y") => {
                "this kernel clears new pages as the article's does (CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y)".into()
            }
            Some(_) => {
                "this kernel does not clear new pages (CONFIG_INIT_ON_ALLOC_DEFAULT_ON is off); the article's does"
                    .into()
            }
            None => String::new(),
        },
        "memcg-charge" | "memcg-uncharge" => match config("CONFIG_MEMCG") {
            Some("y") => String::new(),
            Some(_) => "this kernel has no memory cgroups".into(),
            None => String::new(),
        },
        "syscall" => {
            let on: Vec<&str> = environment
                .mitigations
                .iter()
                .filter(|(name, state)| *name != "mitigations" && state.contains("Mitigation"))
                .map(|(name, _)| name.as_str())
                .collect();
            match (on.is_empty(), more) {
                (false, _) => format!("the article ran with mitigations=off; here on: {}", on.join(", ")),
                (true, true) => relation(),
                (true, false) => String::new(),
            }
        }
        "mutex-spin" | "mutex-slow" | "mutex" => {
            let relation = relation();
            let place = if relation.is_empty() { String::new() } else { format!(": {relation}") };
            format!("spinning takes an owner that runs on another CPU at the same time{place}; {}", switches())
        }
        "wait" | "scheduler" | "wake-up" | "psi" | "mutex-sleep" | "idle" => switches(),
        "copy-in" => {
            let flags: Vec<&str> = environment
                .cpu_flags
                .iter()
                .map(String::as_str)
                .filter(|flag| matches!(*flag, "erms" | "fsrm" | "smap"))
                .collect();
            let flags =
                if flags.is_empty() { String::new() } else { format!(", its flags for copying {}", flags.join(" ")) };
            format!("another CPU and memory{flags}")
        }
        "lsm" if !more => "the article's kernel asks AppArmor and BPF at each call".to_owned(),
        "timestamps" if !more => "newer kernels keep no timestamps on anonymous pipes".to_owned(),
        "timer" | "irq" | "softirq" => relation(),
        _ => String::new(),
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_that_make_the_difference_are_named() {
        let entry = "w;entry_SYSCALL_64_after_hwframe;pipe_write";
        let theirs = Folded::parse(&format!("{entry};__alloc_pages;clear_page_erms 60\n{entry};x 40\n")).unwrap();
        let ours = Folded::parse(&format!("{entry};__alloc_pages 10\n{entry};x 90\n")).unwrap();
        let say = |value: Option<&str>| {
            let config = value.map(|value| ("CONFIG_INIT_ON_ALLOC_DEFAULT_ON".to_owned(), value.to_owned()));
            let config = config.into_iter().collect();
            let (environment, writer) = (Environment::default(), ProcessTotals::default());
            let ours =
                Ours { config: &config, environment: &environment, writer: &writer, stacks: &ours, skew: Skew::None };
            reason("page-alloc", &theirs, &ours)
        };
        let text = say(Some("n"));
        assert!(text.starts_with("clear_page 60.0 to 0.0 %, __alloc_pages 0.0 to 10.0 %"), "{text}");
        assert!(text.contains("does not clear new pages"), "{text}");
        assert!(!say(None).contains("clear new pages"), "nothing is known of this kernel's configuration");
    }
}
