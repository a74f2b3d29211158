//! Settings of the machine that change what is measured: huge pages, clock speed, CPUs, limits of pipes.

use super::{Feature, State};
use crate::kernel::environment::selected;
use crate::kernel::{config, info::KernelInfo};

/// What the presets ask of a pipe, in bytes: vmsplice sets it to half of its 256 KiB buffer.
const WANTED_PIPE: u64 = 128 << 10;

pub fn detect() -> Vec<Feature> {
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
    let costs = "vmsplice-huge and vmsplice-huge-busy get 4 KiB pages (the run says so)";
    match enabled.and_then(selected) {
        None => feature("not in this kernel".to_owned()).lacking(
            State::Missing,
            costs,
            "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        ),
        Some("never") => feature("never".to_owned()).lacking(
            State::Missing,
            costs,
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(choice) => feature(choice.to_owned()),
    }
}

fn cpus_of(cpus: usize) -> Feature {
    let feature = Feature::ok("cpus", "CPUs", format!("{cpus} for this process"));
    if cpus > 1 {
        return feature;
    }
    feature.lacking(
        State::Limited,
        "writer and reader share one CPU: they never run at once, nor contend for the lock",
        "use a machine with two CPUs, or widen the affinity (taskset) or cpuset of this shell; in guests: --cpus 2",
    )
}

fn governor(governor: Option<&str>) -> Feature {
    let feature = |found: String| Feature::ok("governor", "CPU frequency governor", found);
    match governor.map(str::trim) {
        None => feature("none to be seen: firmware or hypervisor decide".to_owned()),
        Some(choice @ "performance") => feature(choice.to_owned()),
        Some(choice) => feature(choice.to_owned()).lacking(
            State::Limited,
            "throughput varies with the clock's speed: wider intervals",
            "sudo cpupower frequency-set -g performance",
        ),
    }
}

fn pipe_limits(max: Option<&str>) -> Feature {
    let feature = |found: String| Feature::ok("pipe-limits", "pipe size limit", found);
    match max.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(max) if max < WANTED_PIPE => feature(format!("{max} bytes")).lacking(
            State::Limited,
            "users without CAP_SYS_RESOURCE cannot have the pipes that the vmsplice modes want",
            "sudo sysctl fs.pipe-max-size=1048576",
        ),
        Some(max) => feature(format!("{} KiB", max >> 10)),
        None => feature("not to be read".to_owned()),
    }
}

fn configuration() -> Feature {
    let (options, source) = config::running(&KernelInfo::running().release);
    let feature = Feature::ok("config", "kernel configuration", source);
    if options.is_empty() {
        return feature.lacking(
            State::Limited,
            "comparisons cannot say which options differ",
            "install the kernel's config file in /boot, or boot a kernel with CONFIG_IKCONFIG_PROC",
        );
    }
    feature
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cost_something() {
        assert_eq!(huge_pages(Some("always [madvise] never")).state, State::Ok);
        assert_eq!(huge_pages(Some("always madvise [never]")).state, State::Missing);
        assert_eq!(huge_pages(None).state, State::Missing);
        assert_eq!(cpus_of(1).state, State::Limited);
        assert_eq!(cpus_of(2).state, State::Ok);
        assert_eq!(governor(None).state, State::Ok);
        assert_eq!(governor(Some("powersave\n")).state, State::Limited);
        assert_eq!(pipe_limits(Some("1048576\n")).state, State::Ok);
        assert_eq!(pipe_limits(Some("65536\n")).state, State::Limited);
        assert_eq!(pipe_limits(Some("x")).state, State::Ok);
    }
}
