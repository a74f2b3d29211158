//! CPUs: which ones this process may use, how they are related, and which ones to pin to.

use super::spec::{Pin, Spec};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// The CPUs that this process may run on, ascending.
pub fn allowed() -> Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(None).context("cannot read this process's CPU affinity")?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// Bind the calling thread to `cpu`.
pub fn bind(cpu: u32) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("--pin: cannot run on CPU {cpu}"))
}

/// The CPU of one process; `None` if it is not pinned.
pub type Place = Option<u32>;

/// The CPUs of one pair's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub writers: Vec<Place>,
    pub readers: Vec<Place>,
}

/// Choose the CPUs for all pairs of `spec` on this machine.
pub fn places(spec: &Spec) -> Result<Vec<Places>> {
    place(spec, &allowed()?, Path::new("/sys/devices/system/cpu"))
}

fn place(spec: &Spec, allowed: &[u32], sys: &Path) -> Result<Vec<Places>> {
    let (writers, readers) = (spec.writers as usize, spec.readers as usize);
    match spec.pin {
        Pin::None => {
            let pair = Places { writers: vec![None; writers], readers: vec![None; readers] };
            Ok(vec![pair; spec.pairs as usize])
        }
        Pin::Cpus { writer, reader } => {
            for cpu in [writer, reader] {
                if !allowed.contains(&cpu) {
                    let list = allowed.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                    bail!(
                        "--pin {writer},{reader}: CPU {cpu} does not exist, or this process may not use it; available: {list}"
                    );
                }
            }
            let pair = Places { writers: vec![Some(writer); writers], readers: vec![Some(reader); readers] };
            Ok(vec![pair; spec.pairs as usize])
        }
        Pin::Auto => {
            let order = order(allowed, sys);
            let pairs = spec.pairs as usize;
            let processes = pairs * (writers + readers);
            if pairs > 1 && order.len() < processes {
                bail!(
                    "--pairs {pairs}: pinning {processes} processes needs {processes} CPUs, but this machine has {}: use fewer pairs, or --pin none",
                    order.len()
                );
            }
            let mut next = order.iter().cycle().copied();
            Ok((0..pairs)
                .map(|_| {
                    // Alternate writers and readers, so that neighbouring CPUs are the two ends of one pipe.
                    let (mut pair, mut left) =
                        (Places { writers: Vec::new(), readers: Vec::new() }, (writers, readers));
                    while left != (0, 0) {
                        if left.0 > 0 {
                            pair.writers.push(next.next());
                            left.0 -= 1;
                        }
                        if left.1 > 0 {
                            pair.readers.push(next.next());
                            left.1 -= 1;
                        }
                    }
                    pair
                })
                .collect())
        }
    }
}

/// The CPU of `allowed` to use for a single thread.
pub fn first(allowed: &[u32]) -> u32 {
    order(allowed, Path::new("/sys/devices/system/cpu")).first().copied().unwrap_or(0)
}

/// `allowed` in order of preference: first one thread of each core, keeping together cores that share a package and a
/// last-level cache. With four or more cores, CPU 0 comes last among these, because it handles most interrupts.
fn order(allowed: &[u32], sys: &Path) -> Vec<u32> {
    let mut cpus: Vec<(u32, Topology)> = allowed.iter().map(|&cpu| (cpu, Topology::read(cpu, sys))).collect();
    cpus.sort_by_key(|(cpu, topology)| (topology.package, topology.cache.clone(), *cpu));
    let mut first_threads = Vec::new();
    let mut siblings = Vec::new();
    let mut cores = std::collections::BTreeSet::new();
    for (cpu, topology) in cpus {
        let core = (topology.package, topology.core.unwrap_or(u64::from(cpu) | 1 << 32));
        if cores.insert(core) { first_threads.push(cpu) } else { siblings.push(cpu) }
    }
    if first_threads.len() >= 4 && first_threads[0] == 0 {
        first_threads.rotate_left(1);
    }
    first_threads.extend(siblings);
    first_threads
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Topology {
    package: Option<u64>,
    core: Option<u64>,
    /// `shared_cpu_list` of the largest cache.
    cache: Option<String>,
}

impl Topology {
    fn read(cpu: u32, sys: &Path) -> Self {
        let base = sys.join(format!("cpu{cpu}"));
        let text = |path: &str| std::fs::read_to_string(base.join(path)).ok().map(|text| text.trim().to_owned());
        let number = |path: &str| text(path).and_then(|text| text.parse().ok());
        Self {
            package: number("topology/physical_package_id"),
            core: number("topology/core_id"),
            cache: (0..8).rev().find_map(|index| text(&format!("cache/index{index}/shared_cpu_list"))),
        }
    }
}

/// How two CPUs are related: `one CPU`, `SMT siblings`, `one cache`, `one package`, `two packages`; `None` if /sys
/// does not tell.
pub fn relation(a: u32, b: u32) -> Option<&'static str> {
    relation_in(a, b, Path::new("/sys/devices/system/cpu"))
}

fn relation_in(a: u32, b: u32, sys: &Path) -> Option<&'static str> {
    if a == b {
        return Some("one CPU");
    }
    let (a, b) = (Topology::read(a, sys), Topology::read(b, sys));
    let (package, other) = (a.package?, b.package?);
    Some(if package != other {
        "two packages"
    } else if a.core? == b.core? {
        "SMT siblings"
    } else if a.cache.is_some() && a.cache == b.cache {
        "one cache"
    } else {
        "one package"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two packages, two cores each, two threads per core.
    fn machine() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for cpu in 0..8u32 {
            let base = sys.path().join(format!("cpu{cpu}"));
            std::fs::create_dir_all(base.join("topology")).unwrap();
            std::fs::create_dir_all(base.join("cache/index3")).unwrap();
            std::fs::write(base.join("topology/physical_package_id"), format!("{}\n", cpu / 4)).unwrap();
            std::fs::write(base.join("topology/core_id"), format!("{}\n", cpu / 2 % 2)).unwrap();
            std::fs::write(base.join("cache/index3/shared_cpu_list"), if cpu < 4 { "0-3\n" } else { "4-7\n" }).unwrap();
        }
        sys
    }

    #[test]
    fn neighbours_are_cores_of_one_package_before_siblings() {
        let sys = machine();
        assert_eq!(order(&[0, 1, 2, 3, 4, 5, 6, 7], sys.path()), [2, 4, 6, 0, 1, 3, 5, 7]);
        assert_eq!(order(&[0, 1, 2, 3], sys.path()), [0, 2, 1, 3]);
        assert_eq!(relation_in(0, 2, sys.path()), Some("one cache"));
        assert_eq!(relation_in(0, 1, sys.path()), Some("SMT siblings"));
        assert_eq!(relation_in(0, 4, sys.path()), Some("two packages"));
        assert_eq!(relation_in(0, 9, sys.path()), None);
    }

    #[test]
    fn a_machine_without_sys_is_used_in_order() {
        assert_eq!(order(&[0, 1], Path::new("/nowhere")), [0, 1]);
    }

    #[test]
    fn places_are_found_or_refused_by_flag() {
        let sys = machine();
        let spec = Spec { pairs: 2, ..Spec::default() };
        let pairs = place(&spec, &[0, 1, 2, 3], sys.path()).unwrap();
        assert_eq!(pairs[1], Places { writers: vec![Some(1)], readers: vec![Some(3)] });
        let error = place(&spec, &[0, 1], sys.path()).unwrap_err().to_string();
        assert!(error.contains("--pairs 2") && error.contains("--pin none"), "{error}");
        let one = place(&Spec::default(), &[5], sys.path()).unwrap();
        assert_eq!(one[0], Places { writers: vec![Some(5)], readers: vec![Some(5)] });
        let spec = Spec { pin: Pin::Cpus { writer: 0, reader: 9 }, ..Spec::default() };
        let error = place(&spec, &[0, 1], sys.path()).unwrap_err().to_string();
        assert!(error.contains("--pin 0,9") && error.contains("CPU 9"), "{error}");
    }
}
