//! List what collectors have created in this kernel: nothing, unless one is armed or was killed.

use crate::kernel::tracefs::Tracefs;
use serde::{Deserialize, Serialize};

/// Kernel objects created by collectors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftovers {
    /// BPF programs, by name.
    pub programs: Vec<String>,
    /// tracefs instances.
    pub instances: Vec<String>,
    /// Probes defined in tracefs.
    pub probes: Vec<String>,
    /// The tracer at the top of tracefs, if it is not `nop`.
    pub tracer: Option<String>,
}

impl Leftovers {
    /// List them.
    #[must_use]
    pub(crate) fn now() -> Self {
        let programs = libbpf_rs::query::ProgInfoIter::default()
            .map(|info| info.name.to_string_lossy().into_owned())
            .filter(|name| name.starts_with("pp_"))
            .collect();
        let Ok(tracefs) = Tracefs::open() else { return Self { programs, ..Self::default() } };
        let instances = std::fs::read_dir(tracefs.root().join("instances")).into_iter().flatten().flatten();
        let probes = std::fs::read_to_string(tracefs.root().join("kprobe_events")).unwrap_or_default();
        let tracer = std::fs::read_to_string(tracefs.root().join("current_tracer")).unwrap_or_default();
        Self {
            programs,
            instances: instances
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .filter(|name| name.starts_with("pipeprof"))
                .collect(),
            probes: probes.lines().filter(|line| line.contains(":pipeprof_")).map(str::to_owned).collect(),
            tracer: Some(tracer.trim().to_owned()).filter(|tracer| tracer != "nop" && !tracer.is_empty()),
        }
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
