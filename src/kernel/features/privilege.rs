//! Privileges: capabilities, restrictions of sysctls, lockdown.

use super::{Feature, FeatureState, IN_A_GUEST};
use crate::kernel::environment::selected;
use crate::kernel::namespace::PidNamespace;
use crate::kernel::symbols::{Symbols, SymbolsError};
use std::io::{self, Read};

const CAP_SYS_ADMIN: u32 = 21;
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

pub(crate) fn detect(symbols: &Result<Symbols, SymbolsError>) -> Vec<Feature> {
    let status = std::fs::File::open("/proc/self/status").and_then(effective_capabilities);
    let capabilities = status.ok().flatten().unwrap_or(0);
    let paranoid = sysctl("/proc/sys/kernel/perf_event_paranoid");
    let restrict = sysctl("/proc/sys/kernel/kptr_restrict");
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").ok();
    vec![
        privilege(capabilities),
        perf_event_paranoid(paranoid, capabilities),
        sample_rate(sysctl(super::MOST_SAMPLES)),
        kptr_restrict(restrict, symbols),
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
    } else if has(capabilities, CAP_BPF) && has(capabilities, CAP_PERFMON) {
        feature("CAP_BPF and CAP_PERFMON").limited(
            FeatureState::Limited,
            "the fgraph collector does not work, and runs cannot have their own memory cgroup",
            "run with sudo",
        )
    } else {
        feature("neither root nor CAP_BPF and CAP_PERFMON").limited(
            FeatureState::Missing,
            "collectors do not work on this kernel; throughput and guests do",
            format!("run with sudo; or {IN_A_GUEST}"),
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

fn kptr_restrict(level: Option<i64>, symbols: &Result<Symbols, SymbolsError>) -> Feature {
    let feature = |found: String| Feature::ok("kptr-restrict", "kernel symbols (kptr_restrict)", found);
    let level =
        level.map_or_else(|| "kptr_restrict does not exist".to_owned(), |level| format!("kptr_restrict {level}"));
    match symbols {
        Ok(symbols) if symbols.hidden() => feature(format!("{level}: addresses are hidden from this user")).limited(
            FeatureState::Limited,
            "kernel stacks have no function names, and breakpoints cannot be set",
            "run with sudo; or sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
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
        assert_eq!(kptr_restrict(Some(1), &read("0 T a\n")).state, FeatureState::Limited);
        assert_eq!(kptr_restrict(Some(0), &read("1 T a\n")).state, FeatureState::Ok);
        assert_eq!(kptr_restrict(None, &read("")).state, FeatureState::Missing);
        assert_eq!(lockdown_of(None).state, FeatureState::Ok);
        assert_eq!(lockdown_of(Some("[none] integrity confidentiality")).state, FeatureState::Ok);
        assert_eq!(lockdown_of(Some("none [integrity] confidentiality")).state, FeatureState::Ok);
        assert_eq!(lockdown_of(Some("none integrity [confidentiality]")).state, FeatureState::Missing);
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
