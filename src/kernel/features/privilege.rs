//! Privileges: capabilities, restrictions of sysctls, lockdown.

use super::{Feature, FeatureState, IN_A_GUEST};
use crate::kernel::environment::selected;
use crate::kernel::namespace::PidNamespace;
use crate::kernel::symbols::{Symbols, SymbolsError};
use std::io::{self, Read};

const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYSLOG: u32 = 34;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The effective capabilities as bits, from the format of /proc/self/status; `None` if the line is missing.
///
/// # Errors
/// When reading fails.
pub(crate) fn effective_capabilities(mut reader: impl Read) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    Ok(line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()))
}

/// The capabilities of this process, by which fixes do not advise what the user has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights(u64);

impl Rights {
    pub(crate) fn own() -> Self {
        let status = std::fs::File::open("/proc/self/status").and_then(effective_capabilities);
        Self(status.ok().flatten().unwrap_or(0))
    }

    /// Root, or as good as root.
    pub(crate) fn is_root(self) -> bool {
        has(self.0, CAP_SYS_ADMIN)
    }

    /// Whether they suffice for BPF programs that read kernel memory, and for sampling the kernel.
    pub(crate) fn may_trace(self) -> bool {
        self.is_root() || has(self.0, CAP_BPF) && has(self.0, CAP_PERFMON)
    }

    /// A fix by a kernel with `options`, or by rights if the user is not `allowed`.
    pub(crate) fn kernel_with(allowed: bool, options: &str) -> String {
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
    let capabilities = rights.0;
    let paranoid = sysctl("/proc/sys/kernel/perf_event_paranoid");
    let restrict = sysctl("/proc/sys/kernel/kptr_restrict");
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").ok();
    vec![
        privilege(capabilities),
        perf_event_paranoid(paranoid, capabilities),
        sample_rate(sysctl(super::MOST_SAMPLES)),
        kptr_restrict(restrict, paranoid, symbols),
        lockdown_of(lockdown.as_deref()),
        pid_namespace(PidNamespace::own()),
    ]
}

fn sysctl(path: &str) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn has(capabilities: u64, bit: u32) -> bool {
    capabilities >> bit & 1 == 1
}

fn privilege(capabilities: u64) -> Feature {
    let feature = |found: &str| Feature::ok("privilege", "privilege", found);
    if has(capabilities, CAP_SYS_ADMIN) {
        feature("root, or CAP_SYS_ADMIN")
    } else if Rights(capabilities).may_trace() {
        let syslog = if has(capabilities, CAP_SYSLOG) { ", CAP_SYSLOG" } else { "" };
        feature(&format!("CAP_BPF, CAP_PERFMON{syslog}")).limited(
            FeatureState::Limited,
            "the fgraph collector does not work, and runs cannot have their own memory cgroup",
            "run with sudo",
        )
    } else {
        feature("neither root nor CAP_BPF and CAP_PERFMON").limited(
            FeatureState::Missing,
            "collectors do not work on this kernel; throughput and guests do",
            format!("{} lets all users record and sample; or run with sudo; or {IN_A_GUEST}", setcap()),
        )
    }
}

fn perf_event_paranoid(level: Option<i64>, capabilities: u64) -> Feature {
    let privileged = has(capabilities, CAP_SYS_ADMIN) || has(capabilities, CAP_PERFMON);
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

    #[test]
    fn capabilities_decide() {
        let status = b"Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\n";
        let all = effective_capabilities(&status[..]).unwrap().unwrap();
        assert_eq!(privilege(all).state, FeatureState::Ok);
        assert_eq!(privilege(1 << CAP_BPF | 1 << CAP_PERFMON).state, FeatureState::Limited);
        assert_eq!(privilege(1 << CAP_BPF).state, FeatureState::Missing);
        assert_eq!(perf_event_paranoid(Some(3), all).state, FeatureState::Ok);
        assert_eq!(perf_event_paranoid(Some(3), 0).state, FeatureState::Limited);
        assert_eq!(perf_event_paranoid(Some(1), 0).state, FeatureState::Ok);
        assert_eq!(perf_event_paranoid(None, 0).state, FeatureState::Missing);
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
        assert!(privilege(0).fix.contains("cap_bpf,cap_perfmon,cap_syslog=ep /"), "{}", privilege(0).fix);
        assert!(!privilege(1 << CAP_BPF | 1 << CAP_PERFMON | 1 << CAP_SYSLOG).fix.contains("setcap"));
        assert!(!Rights::kernel_with(true, "CONFIG_BTF").contains("sudo"));
        assert!(Rights::kernel_with(false, "CONFIG_BTF").contains("sudo"));
    }

    proptest! {
        #[test]
        fn arbitrary_status_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), text: String) {
            let _ = effective_capabilities(&bytes[..]);
            let _ = effective_capabilities(format!("CapEff:{text}").as_bytes());
            let _ = lockdown_of(Some(&text));
        }
    }
}
