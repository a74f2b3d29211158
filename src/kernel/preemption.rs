//! Whether the kernel switches tasks while one of them executes kernel code. A BPF program at a function's entry is such
//! code: if it is preempted, the kernel skips it for all other tasks of that CPU until it goes on
//! (kernel/bpf/trampoline.c, `__bpf_prog_enter_recur`).

use super::tracefs;
use crate::util::text::two_numbers;

/// Whether the running kernel may do so. True if that cannot be found out.
pub fn is_possible() -> bool {
    let version = std::fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
    is_possible_in(&version, || {
        let debugfs = tracefs::mount_privately("debugfs").ok()?;
        std::fs::read_to_string(tracefs::root_of(&debugfs).join("sched/preempt")).ok()
    })
}

/// The last kernel that was seen to disable preemption around the programs of the raw tracepoint sys_exit. 7.2 does not;
/// no kernel between was tried.
const CALLS_NOT_PREEMPTED: (u32, u32) = (6, 18);

/// Whether the running kernel may preempt a program of the raw tracepoint sys_exit. False if that cannot be found out.
pub fn of_system_calls() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    two_numbers(&release).is_some_and(|release| release > CALLS_NOT_PREEMPTED) && is_possible()
}

/// `version` is the kernel's (`#1 SMP PREEMPT_DYNAMIC Debian ...`); `modes` are those that a dynamic one can choose from,
/// with the chosen one in parentheses.
fn is_possible_in(version: &str, modes: impl FnOnce() -> Option<String>) -> bool {
    if version.is_empty() {
        return true;
    }
    if version.contains("PREEMPT_DYNAMIC") {
        return !modes().is_some_and(|modes| ["(none)", "(voluntary)"].iter().any(|mode| modes.contains(mode)));
    }
    version.contains("PREEMPT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_and_the_chosen_mode_decide() {
        let of = |version: &str, modes: Option<&str>| is_possible_in(version, || modes.map(str::to_owned));
        assert!(!of("#1 SMP Debian 5.10.262-1 (2026-07-31)\n", None));
        let dynamic = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)\n";
        assert!(!of(dynamic, Some("none (voluntary) full \n")));
        assert!(of(dynamic, Some("none voluntary (full)\n")));
        assert!(of(dynamic, Some("full (lazy)\n")));
        assert!(of(dynamic, None), "unknown");
        assert!(of("#1 SMP PREEMPT_RT Debian 6.12.117-1\n", None));
        assert!(of("", None), "unknown");
    }
}
