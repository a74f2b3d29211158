//! Lists what collectors have created in this kernel: nothing, unless one is armed or was killed.

use super::printed::KernelObjects;
use anyhow::Result;
use pipeprof::kernel::tracefs::Tracefs;
use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::path::Path;

impl KernelObjects {
    /// List them all.
    pub(crate) fn now() -> Self {
        Self::of(|_| true, |_| true)
    }

    /// List those that belong to no living process. The collectors of other tests may be at work.
    fn abandoned() -> Self {
        let held = held_programs();
        let is_dead = |owner: &str| {
            let pid = owner.split('_').next().unwrap_or_default();
            !Path::new("/proc").join(pid).exists()
        };
        Self { tracer: None, ..Self::of(|program| !held.contains(&program), is_dead) }
    }

    /// Those programs, by id, and those objects in tracefs, by the owner in their names, that are counted.
    fn of(counts: impl Fn(u32) -> bool, is_counted: impl Fn(&str) -> bool) -> Self {
        let programs = libbpf_rs::query::ProgInfoIter::default()
            .map(|info| (info.name.to_string_lossy().into_owned(), info.id))
            .filter(|(name, id)| name.starts_with("pp_") && counts(*id))
            .map(|(name, _)| name)
            .collect();
        let Ok(tracefs) = Tracefs::open() else { return Self { programs, ..Self::default() } };
        let read = |name: &str| read_to_string(tracefs.root().join(name)).unwrap_or_default();
        let instances = read_dir(tracefs.root().join("instances")).into_iter().flatten().flatten();
        let probe_owner = |line: &str| Some(line.split_once(":pipeprof_")?.1.split('/').next()?.to_owned());
        Self {
            programs,
            instances: instances
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .filter(|name| name.strip_prefix("pipeprof-").is_some_and(&is_counted))
                .collect(),
            probes: read("kprobe_events")
                .lines()
                .filter(|line| probe_owner(line).is_some_and(|owner| is_counted(&owner)))
                .map(str::to_owned)
                .collect(),
            tracer: Some(read("current_tracer").trim().to_owned())
                .filter(|tracer| tracer != "nop" && !tracer.is_empty()),
        }
    }
}

/// The BPF programs that processes have open, by id (`bpf_prog_show_fdinfo` and `bpf_link_show_fdinfo` in
/// kernel/bpf/syscall.c).
fn held_programs() -> BTreeSet<u32> {
    let processes = read_dir("/proc").into_iter().flatten().flatten();
    let open = processes.flat_map(|process| read_dir(process.path().join("fdinfo")).into_iter().flatten().flatten());
    let texts = open.filter_map(|descriptor| read_to_string(descriptor.path()).ok());
    let ids =
        |text: String| text.lines().filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok()).collect();
    texts.flat_map::<Vec<u32>, _>(ids).collect()
}

/// `test-programs kernel-objects`.
pub(crate) fn print_abandoned() -> Result<()> {
    println!("{}", serde_json::to_string(&KernelObjects::abandoned())?);
    Ok(())
}
