//! Whose is what a run makes in the kernel: told by its name, so that the next run can remove what a killed one left.

use crate::kernel::namespace::PidNamespace;

/// This process, for names of what it makes: `PID_START`, its number and when it started (in the kernel's ticks), which
/// no other process has in common with it; behind its PID namespace where that is not the first.
#[must_use]
pub fn own() -> String {
    let pid = std::process::id();
    let own = format!("{pid}_{}", started(pid).unwrap_or(0));
    PidNamespace::own().map_or_else(|| own.clone(), |namespace| format!("{}_{own}", namespace.inode))
}

/// Whether the process that [`own`] named has ended. Not said of one of another PID namespace, which cannot be looked up
/// from here, nor of names of another form.
#[must_use]
pub fn is_dead(owner: &str) -> bool {
    let numbers: Option<Vec<u64>> = owner.split('_').map(|part| part.parse().ok()).collect();
    let (pid, start) = match (numbers.as_deref(), PidNamespace::own()) {
        (Some([pid, start]), None) => (*pid, *start),
        (Some([inode, pid, start]), Some(namespace)) if *inode == namespace.inode => (*pid, *start),
        _ => return false,
    };
    u32::try_from(pid).ok().and_then(started) != Some(start)
}

/// When process `pid` started, in ticks after boot (proc_pid_stat(5), field 22).
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(19)?.parse().ok()
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
