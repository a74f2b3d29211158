//! Machine settings that change the results: huge pages, clock frequency, CPUs, pipe limits.

use super::{Feature, FeatureState};
use crate::kernel::environment::selected;
use crate::kernel::{config, info::KernelInfo};

/// Pipe size that the modes request, in bytes: half of the 256 KiB buffer of the vmsplice modes.
const WANTED_PIPE: u64 = 128 << 10;

pub(crate) fn detect() -> Vec<Feature> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    vec![
        huge_pages(read("/sys/kernel/mm/transparent_hugepage/enabled").as_deref()),
        cpus_of(cpus),
        governor(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").as_deref()),
        pipe_limits(read("/proc/sys/fs/pipe-max-size").as_deref()),
        configuration(),
    ]
}

fn huge_pages(enabled: Option<&str>) -> Feature {
    let feature = |found: String| Feature::ok("huge-pages", "transparent huge pages", found);
    let impact = "vmsplice-huge and vmsplice-huge-busy get 4 KiB pages (a run warns about it)";
    match enabled.and_then(selected) {
        None => feature("not supported by this kernel".to_owned()).limited(
            FeatureState::Missing,
            impact,
            "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        ),
        Some("never") => feature("never".to_owned()).limited(
            FeatureState::Missing,
            impact,
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(choice) => feature(choice.to_owned()),
    }
}

fn cpus_of(cpus: usize) -> Feature {
    let feature = Feature::ok("cpus", "CPUs", format!("{cpus} available to this process"));
    if cpus > 1 {
        return feature;
    }
    feature.limited(
        FeatureState::Limited,
        "writer and reader share one CPU: they never run at the same time or contend for the lock",
        "use a machine with two CPUs, or allow this shell more CPUs (taskset, cpuset); in guests: --cpus 2",
    )
}

fn governor(governor: Option<&str>) -> Feature {
    let feature = |found: String| Feature::ok("governor", "CPU frequency governor", found);
    match governor.map(str::trim) {
        None => feature("not visible: controlled by the firmware or the hypervisor".to_owned()),
        Some(choice @ "performance") => feature(choice.to_owned()),
        Some(choice) => feature(choice.to_owned()).limited(
            FeatureState::Limited,
            "throughput varies with the clock frequency: wider intervals",
            "sudo cpupower frequency-set -g performance",
        ),
    }
}

fn pipe_limits(max: Option<&str>) -> Feature {
    let feature = |found: String| Feature::ok("pipe-limits", "pipe size limit", found);
    match max.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(max) if max < WANTED_PIPE => feature(format!("{max} bytes")).limited(
            FeatureState::Limited,
            "users without CAP_SYS_RESOURCE cannot create the pipes of the vmsplice modes",
            "sudo sysctl fs.pipe-max-size=1048576",
        ),
        Some(max) => feature(format!("{} KiB", max >> 10)),
        None => feature("not readable".to_owned()),
    }
}

fn configuration() -> Feature {
    let (options, source) = config::running(&KernelInfo::running().release);
    let feature = Feature::ok("config", "kernel configuration", source);
    if options.is_empty() {
        return feature.limited(
            FeatureState::Limited,
            "comparisons cannot list the options that differ",
            "put the kernel's config file into /boot, or boot a kernel with CONFIG_IKCONFIG_PROC",
        );
    }
    feature
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cost_something() {
        assert_eq!(huge_pages(Some("always [madvise] never")).state, FeatureState::Ok);
        assert_eq!(huge_pages(Some("always madvise [never]")).state, FeatureState::Missing);
        assert_eq!(huge_pages(None).state, FeatureState::Missing);
        assert_eq!(cpus_of(1).state, FeatureState::Limited);
        assert_eq!(cpus_of(2).state, FeatureState::Ok);
        assert_eq!(governor(None).state, FeatureState::Ok);
        assert_eq!(governor(Some("powersave\n")).state, FeatureState::Limited);
        assert_eq!(pipe_limits(Some("1048576\n")).state, FeatureState::Ok);
        assert_eq!(pipe_limits(Some("65536\n")).state, FeatureState::Limited);
        assert_eq!(pipe_limits(Some("x")).state, FeatureState::Ok);
    }
}
