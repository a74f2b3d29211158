//! Give up the rights that only attaching to the kernel needs.

use super::text::two_numbers;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// The first release on which programs without CAP_BPF may use the maps that they have open, whatever
/// kernel.unprivileged_bpf_disabled says (kernel/bpf/syscall.c, `__sys_bpf`).
const MAPS_OF_ALL: (u32, u32) = (5, 19);

/// Give up, for this thread and those that it starts, what loading and attaching BPF programs, opening performance
/// events and reading kernel symbols need. Programs that it starts as root get it again. Returns whether the kernel took
/// it.
pub fn drop_attaching() -> bool {
    let mut unneeded = CapabilitySet::PERFMON | CapabilitySet::SYSLOG | CapabilitySet::SYS_MODULE;
    if uses_maps_without_bpf() {
        // CAP_SYS_ADMIN stands for CAP_BPF.
        unneeded |= CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
    }
    remove(unneeded)
}

/// Give up everything that the file of this program may have given to a user other than root.
pub fn drop_given() -> bool {
    rustix::process::geteuid().is_root() || remove(CapabilitySet::all())
}

fn remove(unneeded: CapabilitySet) -> bool {
    let Ok(mut sets) = capabilities(None) else { return false };
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        set.remove(unneeded);
    }
    set_capabilities(None, sets).is_ok()
}

fn uses_maps_without_bpf() -> bool {
    let uname = rustix::system::uname();
    uname.release().to_str().ok().and_then(two_numbers).is_some_and(|version| version >= MAPS_OF_ALL)
}

/// Whether a file of the user `owner` is the caller's own. As root, those of the user who called sudo are, too: that is
/// the same person.
pub fn is_callers(owner: u32) -> bool {
    let caller = rustix::process::geteuid();
    let person = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    owner == caller.as_raw() || (caller.is_root() && person == Some(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_thread_loses_them() {
        let before = capabilities(None).unwrap().effective;
        std::thread::spawn(|| {
            assert!(drop_attaching());
            let left = capabilities(None).unwrap();
            assert!(!(left.effective | left.permitted).intersects(CapabilitySet::PERFMON | CapabilitySet::SYSLOG));
        })
        .join()
        .unwrap();
        assert_eq!(capabilities(None).unwrap().effective, before);
    }
}
