//! Why a role's share differs from the article's: the functions that make the difference, and what of this machine is
//! known to move them. Pure: nothing is said that the two profiles and the run's document do not show.

use super::stacks;
use crate::document::{Document, Environment, ProcessTotals};
use crate::profile::{Attributor, Folded};
use crate::roles::{self, RoleId, Skid};
use std::collections::BTreeMap;

/// Our side of the comparison.
#[derive(Debug, Clone, Copy)]
pub struct Ours<'a> {
    /// Options of the kernel, by name.
    pub config: &'a BTreeMap<String, String>,
    pub environment: &'a Environment,
    pub writer: &'a ProcessTotals,
    /// What is compared: the writer's, or a whole that it is part of.
    pub stacks: &'a Folded,
    /// The skid of its samples.
    pub skid: Skid,
}

impl<'a> Ours<'a> {
    /// The writer's side of a run.
    #[must_use]
    pub fn of(document: &'a Document, stacks: &'a Folded) -> Self {
        let (config, writer) = (&document.kernel.config, document.processes.writer());
        Self { config, environment: &document.environment, writer, stacks, skid: stacks::skid(document) }
    }

    fn has(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.stacks.iter().any(|(stack, _)| stack.split(';').any(|frame| wanted(roles::canonical(frame))))
    }

    /// How the two processes stand to each other.
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
            "the writer here sleeps {:.0} and is preempted {:.0} times per 1000 calls",
            per_thousand(self.writer.voluntary_switches),
            per_thousand(self.writer.involuntary_switches)
        )
    }
}

/// Functions named in a reason.
const NAMED: usize = 2;

/// The reason for the difference in `role` between the article's writer and ours.
#[must_use]
pub fn reason(role: RoleId, theirs: &Folded, ours: &Ours<'_>) -> String {
    let (their, our) = (functions(theirs, Skid::None, role), functions(ours.stacks, ours.skid, role));
    let mut changes: Vec<(&str, f64, f64)> = Vec::new();
    for name in their.keys().chain(our.keys().filter(|name| !their.contains_key(*name))) {
        let of = |shares: &BTreeMap<String, f64>| shares.get(name).copied().unwrap_or_default();
        changes.push((name, of(&their), of(&our)));
    }
    changes.sort_by(|a, b| (b.2 - b.1).abs().total_cmp(&(a.2 - a.1).abs()).then_with(|| a.0.cmp(b.0)));
    changes.truncate(NAMED);
    let named: Vec<String> = changes
        .iter()
        .filter(|(_, their, our)| (our - their).abs() >= 0.5)
        .map(|(name, their, our)| format!("{name} {their:.1} to {our:.1} %"))
        .collect();
    let mut parts = vec![named.join(", ")];
    // A role that grew has the work under another name.
    if our.values().sum::<f64>() < their.values().sum::<f64>() {
        let large = changes.iter().filter(|change| change.1 >= 1.0);
        parts.extend(large.filter_map(|change| absorbed(change.0, theirs, ours)));
    }
    let shown = parts.len();
    parts.extend(known(role, &their, &our, ours));
    parts.extend(displaced(role, theirs, ours));
    if parts.len() == shown {
        parts.push("nothing that this run shows says why".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// Self shares, in per cent of the whole profile, of the functions whose stacks go to `role`.
fn functions(stacks: &Folded, skid: Skid, role: RoleId) -> BTreeMap<String, f64> {
    let total = stacks.total().max(1) as f64;
    let attributor = Attributor::new(stacks, skid);
    let mut shares = BTreeMap::new();
    for (stack, weight) in stacks.iter() {
        if attributor.place(stack).role.id == role {
            let leaf = roles::canonical(stack.rsplit(';').next().unwrap_or(stack));
            *shares.entry(leaf.to_owned()).or_insert(0.0) += weight as f64 / total * 100.0;
        }
    }
    shares
}

/// Locks are functions of their own on every kernel, and page clearing is left out by configuration, not inlined.
fn never_inlined(name: &str) -> bool {
    name.starts_with("_raw_") || name == "clear_page"
}

/// What became of the article's function `name` where it is no frame of ours: its caller's own time, if that has some.
fn absorbed(name: &str, theirs: &Folded, ours: &Ours<'_>) -> Option<String> {
    if never_inlined(name) || ours.has(|frame| frame == name) {
        return None;
    }
    let mut callers: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, weight) in theirs.iter() {
        let frames: Vec<&str> = stack.split(';').map(roles::canonical).collect();
        if let Some(at) = frames.iter().position(|frame| *frame == name).filter(|at| *at > 0) {
            *callers.entry(frames[at - 1]).or_default() += weight;
        }
    }
    let (caller, _) = callers.into_iter().max_by_key(|(_, weight)| *weight)?;
    if !ours.has(|frame| frame == caller) {
        return Some(format!("neither {name} nor {caller}, which calls it there, runs here"));
    }
    let own = |stacks: &Folded, name: &str| stacks::leaf(stacks, name) as f64 / stacks.total().max(1) as f64 * 100.0;
    let (both, one) = (own(theirs, name) + own(theirs, caller), own(ours.stacks, caller));
    Some(format!(
        "{name} is never a frame here: inlined into {caller}, or not run; own time of the two {both:.1} to {one:.1} %"
    ))
}

/// Points that another role has to gain before it is said to take the place of others.
const DISPLACES: f64 = 10.0;

/// Shares of a whole shrink when something else grows: what is left of the difference without that.
fn displaced(role: RoleId, theirs: &Folded, ours: &Ours<'_>) -> Option<String> {
    let (their, our) = (stacks::by_role(theirs, Skid::None), stacks::by_role(ours.stacks, ours.skid));
    let of = |shares: &BTreeMap<RoleId, f64>, role: RoleId| shares.get(&role).copied().unwrap_or_default();
    // What is only there to fill a whole up is no role.
    let grown = our
        .keys()
        .copied()
        .filter(|other| *other != RoleId::User)
        .map(|other| (of(&our, other) - of(&their, other), other));
    let (gain, other) = grown.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if other == role || gain < DISPLACES || of(&our, role) >= of(&their, role) {
        return None;
    }
    let rest =
        |shares: &BTreeMap<RoleId, f64>| of(shares, role) / (100.0 - of(shares, other)).max(f64::MIN_POSITIVE) * 100.0;
    let title = roles::by_id(other).title;
    let there = match of(&their, other) {
        share if share < 0.05 => "the article shows none".to_owned(),
        share => format!("{share:.1} there"),
    };
    let here = of(&our, other);
    Some(format!(
        "{title} takes {here:.1} % here, {there}; of all else it is {:.1} to {:.1} %",
        rest(&their),
        rest(&our)
    ))
}

/// What this run shows that moves such a role, whose functions take these shares of their own.
fn known(role: RoleId, their: &BTreeMap<String, f64>, our: &BTreeMap<String, f64>, ours: &Ours<'_>) -> Option<String> {
    let environment = ours.environment;
    let config = |name: &str| ours.config.get(name).map(String::as_str);
    let more = our.values().sum::<f64>() > their.values().sum::<f64>();
    let text = match role {
        RoleId::PipeWrite => queue_lock(their, ours),
        RoleId::PipeBuffers
            if !ours.has(|frame| frame == "add_to_pipe") && ours.has(|frame| frame == "__do_sys_vmsplice") =>
        {
            "vmsplice cannot do without add_to_pipe, so that its time is part of that of the role vmsplice here"
                .to_owned()
        }
        RoleId::UserPages => format!(
            "getting a page adds to its count atomically, on a cache line that the other process changes as well when it \
             lets the page go{}",
            ours.aside()
        ),
        RoleId::PageAlloc if their.contains_key("clear_page") => match config("CONFIG_INIT_ON_ALLOC_DEFAULT_ON") {
            Some("y") => {
                "this kernel clears new pages as the article's does (CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y)".into()
            }
            Some(_) => {
                "this kernel does not clear new pages (CONFIG_INIT_ON_ALLOC_DEFAULT_ON is off); the article's does"
                    .into()
            }
            None => String::new(),
        },
        RoleId::MemcgCharge | RoleId::MemcgUncharge => match config("CONFIG_MEMCG") {
            Some("y") if our.is_empty() => {
                "pages are not charged here: the root memory cgroup is not, nor any with cgroup_disable=memory".into()
            }
            Some("y") => "pages are charged to a memory cgroup here as well".into(),
            Some(_) => "this kernel has no memory cgroups".into(),
            None => String::new(),
        },
        RoleId::Syscall => {
            let on: Vec<&str> = environment
                .mitigations
                .iter()
                .filter(|(name, state)| *name != "mitigations" && state.contains("Mitigation"))
                .map(|(name, _)| name.as_str())
                .collect();
            match (on.is_empty(), more) {
                (false, true) => format!("mitigations that are on here: {}", on.join(", ")),
                (true, true) => ours.relation(),
                (_, false) => String::new(),
            }
        }
        RoleId::Mutex => format!(
            "taking and releasing a free mutex are one atomic operation each, on a cache line that the other process takes \
             as well{}",
            ours.aside()
        ),
        RoleId::MutexSpin | RoleId::MutexSlow => {
            let place = ours.aside();
            format!("spinning takes an owner that runs on another CPU at the same time{place}; {}", ours.switches())
        }
        RoleId::WakeUp => match (&environment.hypervisor, more) {
            (Some(hypervisor), true) => format!(
                "waking up a process on an idle CPU takes an interrupt to it, which {hypervisor} has to deliver; {}",
                ours.switches()
            ),
            _ => ours.switches(),
        },
        RoleId::Wait | RoleId::Scheduler | RoleId::Psi | RoleId::MutexSleep | RoleId::Idle => ours.switches(),
        RoleId::CopyIn => {
            let flags = environment.cpu_flags.iter().map(String::as_str);
            let flags: Vec<&str> = flags.filter(|flag| matches!(*flag, "erms" | "fsrm" | "smap")).collect();
            let flags =
                if flags.is_empty() { String::new() } else { format!(", its flags for copying {}", flags.join(" ")) };
            format!("another CPU and memory{flags}")
        }
        RoleId::Lsm if !more => "the article's kernel asks AppArmor and BPF at each call".to_owned(),
        RoleId::Timestamps if !more => "newer kernels keep no timestamps on anonymous pipes".to_owned(),
        RoleId::Timer | RoleId::Irq | RoleId::Softirq => ours.relation(),
        _ => String::new(),
    };
    (!text.is_empty()).then_some(text)
}

/// The spin lock that older kernels' pipe_write takes for each page.
fn queue_lock(their: &BTreeMap<String, f64>, ours: &Ours<'_>) -> String {
    const LOCK: &str = "_raw_spin_lock_irq";
    if !their.contains_key(LOCK) {
        return String::new();
    }
    // Taken with interrupts off: cpu-clock shows it where it is released, a PMU in itself.
    let taken = ours.stacks.iter().any(|(stack, _)| {
        let frames: Vec<&str> = stack.split(';').map(roles::canonical).collect();
        let lock = |frame: &str| frame == LOCK || frame == "_raw_spin_unlock_irq";
        frames.windows(2).any(|pair| pair[0] == "pipe_write" && lock(pair[1]))
    });
    if taken {
        return "this kernel takes the wait queue's lock in pipe_write as well, as the samples at its release show"
            .to_owned();
    }
    "the article's kernel takes the readers' wait queue's lock for each page that it adds; this one does not: no sample \
     stands where pipe_write would release it"
        .to_owned()
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
                Ours { config: &config, environment: &environment, writer: &writer, stacks: &ours, skid: Skid::None };
            reason(RoleId::PageAlloc, &theirs, &ours)
        };
        let text = say(Some("n"));
        assert!(text.starts_with("clear_page 60.0 to 0.0 %, __alloc_pages 0.0 to 10.0 %"), "{text}");
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
            &Ours { config: &config, environment: &environment, writer: &writer, stacks: &stacks, skid: Skid::None },
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
            text.contains("inlined into __do_sys_vmsplice, or not run; own time of the two 100.0 to 100.0 %"),
            "{text}"
        );
        assert!(text.contains("cannot do without add_to_pipe"), "{text}");
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
        assert!(text.contains("this one does not") && !text.contains("inlined"), "{text}");
        let text = between(RoleId::PipeWrite, theirs, "anon_pipe_write;_raw_spin_unlock_irq 1\nanon_pipe_write 99");
        assert!(text.contains("as well, as the samples"), "{text}");
    }

    #[test]
    fn what_grew_takes_the_place_of_the_rest() {
        let theirs = "pipe_write;__memcg_kmem_charge_page 40\npipe_write 60";
        let ours = "pipe_write;__memcg_kmem_charge_page 20\npipe_write 30\npipe_write;__wake_up 50";
        let text = between(RoleId::MemcgCharge, theirs, ours);
        assert!(text.contains("charged to a memory cgroup here as well"), "{text}");
        assert!(
            text.contains("wake-up takes 50.0 % here, the article shows none; of all else it is 40.0 to 40.0 %"),
            "{text}"
        );
    }
}
