//! The workload's cgroup inside a guest. Processes in the root cgroup are not charged for memory. A real user's
//! processes are in a child cgroup and are charged, so the workload runs in one too.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;

/// Where init mounts cgroup2.
pub(crate) const ROOT: &str = "/sys/fs/cgroup";

/// A child cgroup with memory accounting. It exists until the guest ends.
#[derive(Debug)]
pub struct GuestCgroup {
    folder: PathBuf,
}

impl GuestCgroup {
    pub fn create() -> Result<Self> {
        let read = |name: &str| fs::read_to_string(format!("{ROOT}/{name}"));
        let controllers = read("cgroup.controllers")
            .context("cgroup2 is not available in the guest: use a kernel with CONFIG_CGROUPS, or --no-memcg")?;
        if !controllers.split_whitespace().any(|name| name == "memory") {
            bail!(
                "this kernel has no memory controller for cgroups (see CONFIG_MEMCG, cgroup_disable=): use --no-memcg"
            );
        }
        let control = format!("{ROOT}/cgroup.subtree_control");
        fs::write(&control, "+memory").with_context(|| format!("cannot enable the memory controller in {control}"))?;
        let folder = PathBuf::from(ROOT).join("pipeprof");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create cgroup {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Move process `pid` with all its threads into the cgroup. Memory that it allocated before stays charged to the
    /// root.
    pub fn add(&self, pid: u32) -> Result<()> {
        let procs = self.folder.join("cgroup.procs");
        fs::write(&procs, pid.to_string()).with_context(|| format!("cannot move process {pid} to {}", procs.display()))
    }
}
