//! Why a role's share differs from the article's: the functions that differ most, and the properties of this machine that
//! are known to matter. Pure: every reason is visible in the two profiles and the run's document.

use super::stacks;
use crate::profile::{Attributor, Folded};
use crate::result::{Document, Environment, ProcessTotals};
use crate::roles::{self, RoleId, Skid};
use std::collections::BTreeMap;

/// The profile of this machine.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredProfile<'a> {
    /// Options of the kernel, by name.
    pub config: &'a BTreeMap<String, String>,
    pub environment: &'a Environment,
    pub writer: &'a ProcessTotals,
    /// The stacks of the writer, or of a whole that includes it.
    pub stacks: &'a Folded,
    /// The skid of its samples.
    pub skid: Skid,
}

impl<'a> MeasuredProfile<'a> {
    /// The writer's profile of a run.
    pub fn of(document: &'a Document, stacks: &'a Folded) -> Self {
        let (config, writer) = (&document.kernel.config, document.processes.writer());
        Self { config, environment: &document.environment, writer, stacks, skid: stacks::skid(document) }
    }

    fn has(&self, wanted: &str) -> bool {
        stacks::total(self.stacks, wanted) > 0
    }

    /// How the CPUs of the two processes are related.
    fn relation(&self) -> String {
        match (&self.environment.topology, &self.environment.hypervisor) {
            (Some(topology), Some(hypervisor)) => format!("the two processes run on {topology} under {hypervisor}"),
            (Some(topology), None) => format!("the two processes run on {topology}"),
            (None, Some(hypervisor)) => format!("this machine is virtual ({hypervisor})"),
            (None, None) => String::new(),
        }
    }

    /// ` (the two ...)`, or nothing.
    fn aside(&self) -> String {
        let relation = self.relation();
        if relation.is_empty() { relation } else { format!(" ({relation})") }
    }

    fn switches(&self) -> String {
        let per_thousand = |count: u64| count as f64 / self.writer.calls.max(1) as f64 * 1000.0;
        format!(
            "on this machine the writer sleeps {:.0} times and is preempted {:.0} times per 1000 calls",
            per_thousand(self.writer.voluntary_switches),
            per_thousand(self.writer.involuntary_switches)
        )
    }
}

/// Functions named in a reason.
const NAMED: usize = 2;

/// The reason for the difference in `role` between the article's writer and this machine's.
pub fn reason(role: RoleId, article: &Folded, here: &MeasuredProfile<'_>) -> String {
    let (before, after) = (functions(article, Skid::None, role), functions(here.stacks, here.skid, role));
    let mut changes: Vec<(&str, f64, f64)> = Vec::new();
    for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
        let of = |shares: &BTreeMap<String, f64>| shares.get(name).copied().unwrap_or_default();
        changes.push((name, of(&before), of(&after)));
    }
    changes.sort_by(|a, b| (b.2 - b.1).abs().total_cmp(&(a.2 - a.1).abs()).then_with(|| a.0.cmp(b.0)));
    changes.truncate(NAMED);
    let named: Vec<String> = changes
        .iter()
        .filter(|(_, before, after)| (after - before).abs() >= 0.5)
        .map(|(name, before, after)| format!("{name} {before:.1} → {after:.1} %"))
        .collect();
    let mut parts = vec![named.join(", ")];
    // A role that grew has the work under another name.
    if after.values().sum::<f64>() < before.values().sum::<f64>() {
        let large = changes.iter().filter(|change| change.1 >= 1.0);
        parts.extend(large.filter_map(|change| absorbed(change.0, article, here)));
    }
    let shown = parts.len();
    parts.extend(known(role, &before, &after, here));
    parts.extend(displaced(role, article, here));
    if parts.len() == shown {
        parts.push("no cause is visible in this run".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// Self shares, as percentages of the whole profile, of the functions whose stacks are attributed to `role`.
fn functions(stacks: &Folded, skid: Skid, role: RoleId) -> BTreeMap<String, f64> {
    let total = stacks.total().max(1) as f64;
    let attributor = Attributor::new(stacks, skid);
    let mut shares = BTreeMap::new();
    for (stack, weight) in stacks.iter().filter(|(stack, _)| attributor.place(*stack).role.id == role) {
        let leaf = roles::canonical(stack.leaf());
        *shares.entry(leaf.to_owned()).or_insert(0.0) += weight as f64 / total * 100.0;
    }
    shares
}

/// Locks are functions of their own on every kernel, and page clearing is left out by configuration, not inlined.
fn never_inlined(name: &str) -> bool {
    name.starts_with("_raw_") || name == "clear_page"
}

/// What became of the article's function `name` if it has no frame on this machine: its caller's self time, if that has some.
fn absorbed(name: &str, article: &Folded, here: &MeasuredProfile<'_>) -> Option<String> {
    if never_inlined(name) || here.has(name) {
        return None;
    }
    let mut callers: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, weight) in article.iter() {
        let frames: Vec<&str> = stack.frames().map(roles::canonical).collect();
        if let Some(at) = frames.iter().position(|frame| *frame == name).filter(|at| *at > 0) {
            *callers.entry(frames[at - 1]).or_default() += weight;
        }
    }
    let (caller, _) = callers.into_iter().max_by_key(|(_, weight)| *weight)?;
    if !here.has(caller) {
        return Some(format!("neither {name} nor its caller {caller} runs on this machine"));
    }
    let own = |stacks: &Folded, name: &str| stacks::own(stacks, name) as f64 / stacks.total().max(1) as f64 * 100.0;
    let (both, one) = (own(article, name) + own(article, caller), own(here.stacks, caller));
    Some(format!(
        "{name} has no samples on this machine: inlined into {caller}, or not called; self share of both {both:.1} → {one:.1} %"
    ))
}

/// Points that another role has to gain before it counts as the reason for the decrease of others.
const DISPLACES: f64 = 10.0;

/// All other shares shrink when one role grows: the difference that remains without that role.
fn displaced(role: RoleId, article: &Folded, here: &MeasuredProfile<'_>) -> Option<String> {
    let (before, after) = (stacks::shares(article, Skid::None), stacks::shares(here.stacks, here.skid));
    let of = |shares: &BTreeMap<RoleId, f64>, role: RoleId| shares.get(&role).copied().unwrap_or_default() * 100.0;
    // The role `user` contains what completes a whole.
    let others = after.keys().copied().filter(|other| *other != RoleId::User);
    let grown = others.map(|other| (of(&after, other) - of(&before, other), other));
    let (gain, other) = grown.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if other == role || gain < DISPLACES || of(&after, role) >= of(&before, role) {
        return None;
    }
    let rest =
        |shares: &BTreeMap<RoleId, f64>| of(shares, role) / (100.0 - of(shares, other)).max(f64::MIN_POSITIVE) * 100.0;
    let title = roles::by_id(other).title;
    let was = match of(&before, other) {
        share if share < 0.05 => "0".to_owned(),
        share => format!("{share:.1}"),
    };
    Some(format!(
        "{title} takes more time ({was} → {:.1} %); of the time without it, this role takes {:.1} → {:.1} %",
        of(&after, other),
        rest(&before),
        rest(&after)
    ))
}

/// What this run shows that is known to change a role, whose functions have these self shares.
fn known(
    role: RoleId,
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    here: &MeasuredProfile<'_>,
) -> Option<String> {
    const CLEARING: &str = "CONFIG_INIT_ON_ALLOC_DEFAULT_ON";
    let environment = here.environment;
    let config = |name: &str| here.config.get(name).map(String::as_str);
    let more = after.values().sum::<f64>() > before.values().sum::<f64>();
    let text = match role {
        RoleId::PipeWrite => queue_lock(before, here).to_owned(),
        RoleId::PipeBuffers if !here.has("add_to_pipe") && here.has("__do_sys_vmsplice") => {
            "vmsplice always calls add_to_pipe, so its time is part of the role vmsplice on this machine".to_owned()
        }
        RoleId::UserPages => format!(
            "getting a page increments its reference count atomically, in a cache line that the other process also writes when \
             it releases the page{}",
            here.aside()
        ),
        RoleId::PageAlloc if before.contains_key("clear_page") => match config(CLEARING) {
            Some("y") => format!("this kernel clears new pages, like the article's ({CLEARING}=y)"),
            Some(_) => format!("this kernel does not clear new pages ({CLEARING} is off); the article's does"),
            None => String::new(),
        },
        RoleId::MemcgCharge | RoleId::MemcgUncharge => match config("CONFIG_MEMCG") {
            Some("y") if after.is_empty() => {
                "pages are not charged on this machine: root memory cgroup, or cgroup_disable=memory".into()
            }
            Some("y") => "pages are charged to a memory cgroup on both machines".into(),
            Some(_) => "this kernel has no memory cgroups".into(),
            None => String::new(),
        },
        RoleId::Syscall if more => {
            let states = environment.mitigations.iter().filter(|(name, _)| *name != "mitigations");
            let on: Vec<&str> =
                states.filter(|(_, state)| state.contains("Mitigation")).map(|(name, _)| name.as_str()).collect();
            if on.is_empty() { here.relation() } else { format!("active mitigations: {}", on.join(", ")) }
        }
        RoleId::Mutex => format!(
            "locking and unlocking a free mutex is one atomic operation each, in a cache line that the other process also \
             writes{}",
            here.aside()
        ),
        RoleId::MutexSpin | RoleId::MutexSlow => {
            format!("spinning requires an owner that runs on another CPU{}; {}", here.aside(), here.switches())
        }
        RoleId::WakeUp => match (&environment.hypervisor, more) {
            (Some(hypervisor), true) => format!(
                "waking up a process on an idle CPU requires an interrupt, which {hypervisor} has to deliver; {}",
                here.switches()
            ),
            _ => here.switches(),
        },
        RoleId::Wait | RoleId::Scheduler | RoleId::Psi | RoleId::MutexSleep | RoleId::Idle => here.switches(),
        RoleId::CopyIn => {
            let flags = environment.cpu_flags.iter().map(String::as_str);
            let flags: Vec<&str> = flags.filter(|flag| matches!(*flag, "erms" | "fsrm" | "smap")).collect();
            let flags =
                if flags.is_empty() { String::new() } else { format!(" (flags for copying: {})", flags.join(" ")) };
            format!("different CPU{flags} and memory")
        }
        RoleId::Lsm if !more => "the article's kernel calls hooks of AppArmor and BPF".to_owned(),
        RoleId::Timestamps if !more => "newer kernels do not update timestamps of anonymous pipes".to_owned(),
        RoleId::Timer | RoleId::Irq | RoleId::Softirq => here.relation(),
        _ => String::new(),
    };
    (!text.is_empty()).then_some(text)
}

/// The spin lock that pipe_write of older kernels takes for each page.
fn queue_lock(before: &BTreeMap<String, f64>, here: &MeasuredProfile<'_>) -> &'static str {
    const LOCK: &str = "_raw_spin_lock_irq";
    if !before.contains_key(LOCK) {
        return "";
    }
    // Taken with interrupts off: cpu-clock samples it where it is released, a PMU where it is taken.
    let taken = here.stacks.iter().any(|(stack, _)| {
        let frames: Vec<&str> = stack.frames().map(roles::canonical).collect();
        let lock = |frame: &str| frame == LOCK || frame == "_raw_spin_unlock_irq";
        frames.windows(2).any(|pair| pair[0] == "pipe_write" && lock(pair[1]))
    });
    if taken {
        "this kernel also takes the wait queue's lock in pipe_write: there are samples at its release"
    } else {
        "the article's kernel takes the lock of the readers' wait queue for each page; this kernel does not: there are no \
         samples at its release in pipe_write"
    }
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
            let ours = MeasuredProfile {
                config: &config,
                environment: &environment,
                writer: &writer,
                stacks: &ours,
                skid: Skid::None,
            };
            reason(RoleId::PageAlloc, &theirs, &ours)
        };
        let text = say(Some("n"));
        assert!(text.starts_with("clear_page 60.0 → 0.0 %, __alloc_pages 0.0 → 10.0 %"), "{text}");
        assert!(text.contains("does not clear new pages"), "{text}");
        assert!(!say(None).contains("clear new pages"), "nothing is known of this kernel's configuration");
    }

    /// The reason for `role` between two profiles, each a text of stacks below the system call's entry.
    fn between(role: RoleId, theirs: &str, ours: &str) -> String {
        let whole = |text: &str| {
            let lines: Vec<String> = text.lines().map(|l| format!("w;entry_SYSCALL_64_after_hwframe;{l}")).collect();
            Folded::parse(&lines.join("\n")).unwrap()
        };
        let (theirs, stacks) = (whole(theirs), whole(ours));
        let (config, writer) =
            (BTreeMap::from([("CONFIG_MEMCG".to_owned(), "y".to_owned())]), ProcessTotals::default());
        let environment = Environment { topology: Some("one cache".into()), ..Environment::default() };
        reason(
            role,
            &theirs,
            &MeasuredProfile {
                config: &config,
                environment: &environment,
                writer: &writer,
                stacks: &stacks,
                skid: Skid::None,
            },
        )
    }

    #[test]
    fn an_inlined_function_is_looked_for_in_its_caller() {
        let text = between(
            RoleId::PipeBuffers,
            "__do_sys_vmsplice;add_to_pipe 20\n__do_sys_vmsplice 80",
            "__do_sys_vmsplice 100",
        );
        assert!(
            text.contains("inlined into __do_sys_vmsplice, or not called; self share of both 100.0 → 100.0 %"),
            "{text}"
        );
        assert!(text.contains("always calls add_to_pipe"), "{text}");
    }

    #[test]
    fn each_kind_of_mutex_has_its_own_reason() {
        let of = |role, name: &str| between(role, &format!("pipe_write;{name} 90\npipe_write 10"), "pipe_write 100");
        assert!(
            of(RoleId::Mutex, "mutex_unlock").contains("one atomic operation")
                && !of(RoleId::Mutex, "mutex_unlock").contains("spinning")
        );
        assert!(of(RoleId::MutexSpin, "mutex_spin_on_owner").contains("(the two processes run on one cache)"));
    }

    #[test]
    fn a_spin_lock_is_not_inlined_but_not_taken() {
        let theirs = "pipe_write;_raw_spin_lock_irq 30\npipe_write 70";
        let text = between(RoleId::PipeWrite, theirs, "anon_pipe_write 100");
        assert!(text.contains("this kernel does not") && !text.contains("inlined"), "{text}");
        let text = between(RoleId::PipeWrite, theirs, "anon_pipe_write;_raw_spin_unlock_irq 1\nanon_pipe_write 99");
        assert!(text.contains("also takes the wait queue's lock"), "{text}");
    }

    #[test]
    fn what_grew_takes_the_place_of_the_rest() {
        let theirs = "pipe_write;__memcg_kmem_charge_page 40\npipe_write 60";
        let ours = "pipe_write;__memcg_kmem_charge_page 20\npipe_write 30\npipe_write;__wake_up 50";
        let text = between(RoleId::MemcgCharge, theirs, ours);
        assert!(text.contains("charged to a memory cgroup on both machines"), "{text}");
        assert!(
            text.contains(
                "wake-up takes more time (0 → 50.0 %); of the time without it, this role takes 40.0 → 40.0 %"
            ),
            "{text}"
        );
    }
}
