//! Give up the rights that only attaching to the kernel needs.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// The first release on which programs without CAP_BPF may use the maps that they have open, whatever
/// kernel.unprivileged_bpf_disabled says (kernel/bpf/syscall.c, `__sys_bpf`).
const MAPS_OF_ALL: (u32, u32) = (5, 19);

/// Give up, for this thread and those that it starts, what loading and attaching BPF programs, opening performance
/// events and reading kernel symbols need. Programs that it starts as root get it again. Returns whether the kernel took
/// it.
pub(crate) fn drop_attaching() -> bool {
    let mut unneeded = CapabilitySet::PERFMON | CapabilitySet::SYSLOG | CapabilitySet::SYS_MODULE;
    if uses_maps_without_bpf() {
        // CAP_SYS_ADMIN stands for CAP_BPF.
        unneeded |= CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
    }
    remove(unneeded)
}

/// Give up everything that the file of this program may have given to a user other than root.
pub(crate) fn drop_given() -> bool {
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
    uname.release().to_str().ok().and_then(version).is_some_and(|version| version >= MAPS_OF_ALL)
}

/// Major and minor number of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(version("6.1.0-56-cloud-amd64"), Some((6, 1)));
        assert_eq!(version("7.3-rc1"), Some((7, 3)));
        assert!(version("5.19.0").unwrap() >= MAPS_OF_ALL && version("5.4.0").unwrap() < MAPS_OF_ALL);
        assert_eq!(version("next"), None);
    }

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
