//! The workload's cgroup inside a guest. What init starts is in the root of the hierarchy, which the memory
//! controller does not charge; a real user's processes are in a child, which it does.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;

/// Where init mounts the cgroup2 hierarchy.
pub const ROOT: &str = "/sys/fs/cgroup";

/// A child cgroup with memory accounting; it stays until the guest ends.
#[derive(Debug)]
pub struct GuestCgroup {
    folder: PathBuf,
}

impl GuestCgroup {
    /// Make it.
    ///
    /// # Errors
    /// When this kernel has no memory controller, or this is not a guest of ours.
    pub fn create() -> Result<Self> {
        let read = |name: &str| fs::read_to_string(format!("{ROOT}/{name}"));
        let controllers = read("cgroup.controllers").context("no cgroup2 here: is CONFIG_CGROUPS in this kernel?")?;
        if !controllers.split_whitespace().any(|name| name == "memory") {
            bail!("this kernel has no memory controller for cgroups (CONFIG_MEMCG, cgroup_disable=): use --no-memcg");
        }
        let control = format!("{ROOT}/cgroup.subtree_control");
        fs::write(&control, "+memory")
            .with_context(|| format!("cannot switch the memory controller on in {control}"))?;
        let folder = PathBuf::from(ROOT).join("pipeprof");
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot make cgroup {}", folder.display()));
            }
            _ => {}
        }
        Ok(Self { folder })
    }

    /// Move process `pid` into it, with all its threads. What it has allocated before stays charged to the root.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn add(&self, pid: u32) -> Result<()> {
        let procs = self.folder.join("cgroup.procs");
        fs::write(&procs, pid.to_string()).with_context(|| format!("cannot move process {pid} to {}", procs.display()))
    }

    /// Bytes charged to it now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn charged(&self) -> Result<u64> {
        let path = self.folder.join("memory.current");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.trim().parse().with_context(|| format!("{}: '{text}'", path.display()))
    }
}
