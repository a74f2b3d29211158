//! Names of kernel objects that contain their owner, so that the next run can remove what a killed run left.

use crate::kernel::namespace::PidNamespace;
use crate::util::process_stat::ProcessStat;

/// This process as part of a name: `PID_START`, its id and start time in kernel ticks, which together are unique.
/// Outside the initial PID namespace, the namespace comes first.
pub(crate) fn own() -> String {
    let pid = std::process::id();
    let own = format!("{pid}_{}", started(pid).unwrap_or(0));
    PidNamespace::own().map_or_else(|| own.clone(), |namespace| format!("{}_{own}", namespace.inode))
}

/// Whether the process named by [`own`] has ended. False for names of another form, and for processes of another PID
/// namespace, which cannot be looked up.
pub(crate) fn is_dead(owner: &str) -> bool {
    let numbers: Option<Vec<u64>> = owner.split('_').map(|part| part.parse().ok()).collect();
    let (pid, start) = match (numbers.as_deref(), PidNamespace::own()) {
        (Some([pid, start]), None) => (*pid, *start),
        (Some([inode, pid, start]), Some(namespace)) if *inode == namespace.inode => (*pid, *start),
        _ => return false,
    };
    u32::try_from(pid).ok().and_then(started) != Some(start)
}

/// When process `pid` started, in ticks after boot.
fn started(pid: u32) -> Option<u64> {
    Some(ProcessStat::of(pid)?.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dead_are_dead() {
        assert!(!is_dead(&own()), "{}", own());
        let (start, pid) = (started(std::process::id()).unwrap(), std::process::id());
        let prefix = PidNamespace::own().map_or_else(String::new, |namespace| format!("{}_", namespace.inode));
        assert!(is_dead(&format!("{prefix}{pid}_{}", start + 1)), "the number was given to another since");
        assert!(is_dead(&format!("{prefix}{}_{start}", u32::MAX - 1)));
        for foreign in ["", "x", "7", "1_2_3_4", &format!("99{prefix}1_{pid}_1")] {
            assert!(!is_dead(foreign), "{foreign}");
        }
    }
}
