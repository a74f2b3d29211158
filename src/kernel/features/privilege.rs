//! Privileges: capabilities, restrictions of sysctls, lockdown.

use super::{Feature, FeatureState, IN_A_GUEST};
use crate::kernel::environment::selected;
use crate::kernel::namespace::{self, PidNamespace};
use crate::kernel::symbols::{Symbols, SymbolsError};
use crate::util::text::read_lossy;
use rustix::thread::{CapabilitySet, capabilities};

/// The capabilities of this process, by which fixes do not advise what the user has already. Those of another user
/// namespace than the first one do not count: they give no right to trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    capabilities: CapabilitySet,
    first_namespace: bool,
    /// Whether some system calls are refused whatever the capabilities are, as by the profile of a container.
    filtered: bool,
}

/// Whether a process has filters of system calls, by a text as proc_pid_status(5) has it.
fn is_filtered(status: &str) -> bool {
    status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() == "2")
}

impl Rights {
    pub fn own() -> Self {
        let first_namespace = !namespace::in_other_user_namespace();
        let own = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let filtered = read_lossy("/proc/self/status").is_ok_and(|status| is_filtered(&status));
        Self { capabilities: if first_namespace { own } else { CapabilitySet::empty() }, first_namespace, filtered }
    }

    /// Root, or as good as root.
    pub fn is_root(self) -> bool {
        self.capabilities.contains(CapabilitySet::SYS_ADMIN)
    }

    /// Whether no limit holds for the pages of this process's pipes (fs/pipe.c, `pipe_is_unprivileged_user`).
    pub fn has_no_limit_of_pipes(self) -> bool {
        self.capabilities.intersects(CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN)
    }

    /// Whether they suffice for BPF programs that read kernel memory, and for sampling the kernel.
    pub fn may_trace(self) -> bool {
        self.is_root() || self.capabilities.contains(CapabilitySet::BPF | CapabilitySet::PERFMON)
    }

    /// What to do if the kernel refuses something although they suffice: a container's profile of system calls may do so.
    pub fn refused(self) -> Option<&'static str> {
        (self.may_trace() && self.filtered).then_some(
            "start this container with --security-opt seccomp=unconfined, or with a profile that allows bpf and \
             perf_event_open to the capabilities that it has",
        )
    }

    /// Why they do not suffice, and the way out.
    pub fn missing(self) -> String {
        let why = if self.first_namespace {
            "BPF programs need root (or CAP_BPF and CAP_PERFMON): run with sudo, allow it for this program \
             (docs/security.md), give both to its container (--cap-add)"
        } else {
            "BPF programs need rights that a user namespace does not have, even as root (a rootless container, \
             `unshare -U`): run outside of it"
        };
        format!("{why}, or use a guest with --kernel")
    }

    /// A fix by a kernel with `options`, or by rights if the user is not `allowed`.
    pub fn kernel_with(allowed: bool, options: &str) -> String {
        let sudo = if allowed { "use" } else { "run with sudo, on" };
        format!("{sudo} a kernel with {options}; or {IN_A_GUEST}")
    }
}

/// The command that lets every user of this program record and sample.
pub(crate) fn setcap() -> String {
    let path = std::env::current_exe().map_or_else(|_| "pipeprof".to_owned(), |path| path.display().to_string());
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/-_=,.+@".contains(c));
    let path = if plain { path } else { format!("'{path}'") };
    format!("sudo setcap cap_bpf,cap_perfmon,cap_syslog=ep {path}")
}

pub(crate) fn detect(symbols: &Result<Symbols, SymbolsError>, rights: Rights) -> Vec<Feature> {
    let paranoid = sysctl("/proc/sys/kernel/perf_event_paranoid");
    let restrict = sysctl("/proc/sys/kernel/kptr_restrict");
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").ok();
    vec![
        privilege(rights),
        perf_event_paranoid(paranoid, rights),
        sample_rate(sysctl(super::MOST_SAMPLES)),
        kptr_restrict(restrict, paranoid, symbols),
        lockdown_of(lockdown.as_deref()),
        pid_namespace(PidNamespace::own()),
    ]
}

fn sysctl(path: &str) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn privilege(rights: Rights) -> Feature {
    let feature = |found: &str| Feature::ok("privilege", "privilege", found);
    let missing = |found: &str, fix: String| {
        let impact = "collectors do not work on this kernel; throughput and guests do";
        feature(found).limited(FeatureState::Missing, impact, format!("{fix}; or {IN_A_GUEST}"))
    };
    if rights.is_root() {
        feature("root, or CAP_SYS_ADMIN")
    } else if rights.may_trace() {
        let syslog = if rights.capabilities.contains(CapabilitySet::SYSLOG) { ", CAP_SYSLOG" } else { "" };
        feature(&format!("CAP_BPF, CAP_PERFMON{syslog}")).limited(
            FeatureState::Limited,
            "the fgraph collector does not work, and runs cannot have their own memory cgroup",
            "run with sudo",
        )
    } else if rights.first_namespace {
        let fix = format!("{} lets all users record and sample; or run with sudo", setcap());
        missing("neither root nor CAP_BPF and CAP_PERFMON", fix)
    } else {
        missing("that of a user namespace, such as a rootless container's", "run outside of it".to_owned())
    }
}

fn perf_event_paranoid(level: Option<i64>, rights: Rights) -> Feature {
    let privileged = rights.is_root() || rights.capabilities.contains(CapabilitySet::PERFMON);
    let feature = |found: String| Feature::ok("perf-event-paranoid", "perf_event_paranoid", found);
    match level {
        None => feature("this setting does not exist".to_owned()).limited(
            FeatureState::Missing,
            "sampling and hardware counters do not work: this kernel has no perf events",
            format!("boot a kernel with CONFIG_PERF_EVENTS; or {IN_A_GUEST}"),
        ),
        Some(level) if privileged => feature(format!("{level} (ignored: privileged user)")),
        Some(level) if level <= 1 => feature(format!("{level}: users may profile the kernel")),
        Some(level) => feature(format!("{level}: users may not profile the kernel")).limited(
            FeatureState::Limited,
            // A run uses counters that include the kernel, or none.
            "hardware counters (cycles, instructions) are not available to this user",
            "sudo sysctl kernel.perf_event_paranoid=1",
        ),
    }
}

fn sample_rate(most: Option<i64>) -> Feature {
    let wanted = super::WANTED_SAMPLES;
    let feature = |found: String| Feature::ok("sample-rate", "perf_event_max_sample_rate", found);
    match most {
        Some(most) if most < wanted.cast_signed() => feature(format!("at most {most} samples per second and CPU")).limited(
            FeatureState::Limited,
            format!("sampling runs at {most} Hz instead of {wanted}: fewer samples, wider intervals"),
            "sudo sysctl kernel.perf_event_max_sample_rate=100000 (the kernel lowers this limit when samples take too long)",
        ),
        Some(most) => feature(format!("at most {most} samples per second and CPU")),
        None => feature("this setting does not exist".to_owned()),
    }
}

/// How to see the addresses that this user does not see. The kernel shows them to users with CAP_SYSLOG if the level is
/// 0 or 1, and to all users if it is 0 and they may profile the kernel (kallsyms_show_value in kernel/ksyms_common.c).
fn show_addresses(level: Option<i64>, paranoid: Option<i64>) -> String {
    let mut settings = Vec::new();
    if level != Some(0) {
        settings.push("kernel.kptr_restrict=0");
    }
    if paranoid.is_none_or(|paranoid| paranoid > 1) {
        settings.push("kernel.perf_event_paranoid=1");
    }
    let sysctl = format!("sudo sysctl {}", settings.join(" "));
    match (level, settings.is_empty()) {
        // Not even root sees them.
        (Some(2..), _) => sysctl,
        (_, true) => format!("{}; or run with sudo", setcap()),
        (_, false) => format!("{}; or run with sudo; or {sysctl}", setcap()),
    }
}

fn kptr_restrict(level: Option<i64>, paranoid: Option<i64>, symbols: &Result<Symbols, SymbolsError>) -> Feature {
    let feature = |found: String| Feature::ok("kptr-restrict", "kernel symbols (kptr_restrict)", found);
    let fix = show_addresses(level, paranoid);
    let level =
        level.map_or_else(|| "kptr_restrict does not exist".to_owned(), |level| format!("kptr_restrict {level}"));
    match symbols {
        Ok(symbols) if symbols.hidden() => feature(format!("{level}: addresses are hidden from this user")).limited(
            FeatureState::Limited,
            "kernel stacks have no function names, and breakpoints cannot be set",
            fix,
        ),
        Ok(symbols) => feature(format!("{level}: {} symbols with addresses", symbols.len())),
        Err(error) => feature(error.to_string()).limited(
            FeatureState::Missing,
            "kernel stacks have no function names, and roles cannot be resolved",
            format!("mount /proc, or boot a kernel with CONFIG_KALLSYMS; or {IN_A_GUEST}"),
        ),
    }
}

fn pid_namespace(own: Option<PidNamespace>) -> Feature {
    let feature = |found: &str| Feature::ok("pid-namespace", "PID namespace", found);
    match own {
        None => feature("the first"),
        Some(_) => feature("separate (a container)").limited(
            FeatureState::Limited,
            "the fgraph collector does not work: ftrace needs the host's PIDs",
            format!("run outside the container, or with the host's PIDs (docker run --pid=host); or {IN_A_GUEST}"),
        ),
    }
}

/// `text` is the content of /sys/kernel/security/lockdown: `[none] integrity confidentiality`.
fn lockdown_of(text: Option<&str>) -> Feature {
    let feature = |found: String| Feature::ok("lockdown", "lockdown", found);
    match text.map(|text| selected(text).unwrap_or("unknown")) {
        None => feature("not supported by this kernel".to_owned()),
        Some("none") => feature("none".to_owned()),
        Some(level @ "confidentiality") => feature(level.to_owned()).limited(
            FeatureState::Missing,
            "collectors do not work on this kernel: BPF programs may not read its memory, and kprobes are refused",
            format!("boot without lockdown=confidentiality (Secure Boot may set it); or {IN_A_GUEST}"),
        ),
        Some(level) => feature(format!("{level}: does not affect pipeprof")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NONE: Rights = rights(CapabilitySet::empty());
    const BOTH: CapabilitySet = CapabilitySet::BPF.union(CapabilitySet::PERFMON);

    const fn rights(capabilities: CapabilitySet) -> Rights {
        Rights { capabilities, first_namespace: true, filtered: false }
    }

    #[test]
    fn capabilities_decide() {
        let all = rights(CapabilitySet::all());
        assert_eq!(privilege(all).state, FeatureState::Ok);
        assert_eq!(privilege(rights(BOTH)).state, FeatureState::Limited);
        assert_eq!(privilege(rights(CapabilitySet::BPF)).state, FeatureState::Missing);
        assert_eq!(perf_event_paranoid(Some(3), all).state, FeatureState::Ok);
        assert_eq!(perf_event_paranoid(Some(3), NONE).state, FeatureState::Limited);
        assert_eq!(perf_event_paranoid(Some(1), NONE).state, FeatureState::Ok);
        assert_eq!(perf_event_paranoid(None, NONE).state, FeatureState::Missing);
        // More capabilities do not help there.
        let inside = Rights { first_namespace: false, ..NONE };
        assert!(privilege(inside).fix.starts_with("run outside of it; or use a guest"), "{:?}", privilege(inside));
        assert!(inside.missing().contains("user namespace") && !inside.missing().contains("sudo"));
        assert!(NONE.missing().contains("sudo"));
    }

    #[test]
    fn a_filter_of_system_calls_is_known() {
        assert!(is_filtered("Name:\tSeccomp:\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\n") && !is_filtered("Seccomp:\t1\n") && !is_filtered(""));
        let all = Rights { filtered: true, ..rights(BOTH) };
        assert!(all.refused().is_some_and(|fix| fix.contains("seccomp=unconfined")));
        assert_eq!([Rights { filtered: true, ..NONE }, rights(BOTH)].map(Rights::refused), [None; 2]);
    }

    #[test]
    fn hidden_symbols_and_lockdown() {
        let read = |text: &str| Symbols::read(text.as_bytes());
        assert_eq!(kptr_restrict(Some(1), Some(2), &read("0 T a\n")).state, FeatureState::Limited);
        assert_eq!(kptr_restrict(Some(0), Some(2), &read("1 T a\n")).state, FeatureState::Ok);
        assert_eq!(kptr_restrict(None, None, &read("")).state, FeatureState::Missing);
        assert_eq!(lockdown_of(None).state, FeatureState::Ok);
        assert_eq!(lockdown_of(Some("[none] integrity confidentiality")).state, FeatureState::Ok);
        assert_eq!(lockdown_of(Some("none [integrity] confidentiality")).state, FeatureState::Ok);
        assert_eq!(lockdown_of(Some("none integrity [confidentiality]")).state, FeatureState::Missing);
    }

    #[test]
    fn a_fix_advises_only_what_is_not_so() {
        let [kptr, paranoid] = ["kernel.kptr_restrict=0", "kernel.perf_event_paranoid=1"];
        let has = |fix: &str, words: [bool; 4]| {
            let found = ["run with sudo", "setcap", kptr, paranoid].map(|word| fix.contains(word));
            assert_eq!(found, words, "{fix}");
        };
        has(&show_addresses(Some(1), Some(3)), [true, true, true, true]);
        has(&show_addresses(Some(0), Some(2)), [true, true, false, true]);
        has(&show_addresses(Some(1), Some(1)), [true, true, true, false]);
        has(&show_addresses(Some(0), Some(1)), [true, true, false, false]);
        // At level 2, root does not see them either.
        has(&show_addresses(Some(2), Some(2)), [false, false, true, true]);
        assert!(privilege(NONE).fix.contains("cap_bpf,cap_perfmon,cap_syslog=ep /"), "{}", privilege(NONE).fix);
        assert!(!privilege(rights(BOTH | CapabilitySet::SYSLOG)).fix.contains("setcap"));
        assert!(!Rights::kernel_with(true, "CONFIG_BTF").contains("sudo"));
        assert!(Rights::kernel_with(false, "CONFIG_BTF").contains("sudo"));
    }

    proptest! {
        #[test]
        fn an_arbitrary_lockdown_does_not_panic(text: String) {
            let _ = lockdown_of(Some(&text));
        }
    }
}
