//! What is asked for of the built-in writer and reader.

use super::GuestMachine;
use crate::experiment::StopRule;
use crate::result::{Loader, Probe, Selection};
use crate::workload::WorkloadRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What `pipeprof run` measures. Absent fields leave the default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunOptions {
    pub workload: WorkloadRequest,
    /// The guest's kernel as given; absent: the kernel of this machine.
    pub kernel: Option<String>,
    pub machine: GuestMachine,
    /// Absent: [`Selection::Auto`].
    pub collect: Option<Selection>,
    pub loader: Loader,
    /// Absent: the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// Runs per measurement.
    pub runs: Option<u32>,
    /// What ends the run by its precision or its time.
    #[serde(default, skip_serializing_if = "StopRule::is_none")]
    pub stop: StopRule,
    pub seed: u64,
    /// How long counted windows are, unless the workload's amount is given.
    #[serde(default)]
    pub sizing: WindowSizing,
    /// Whether the memory of a guest's workload is charged to a cgroup.
    pub memcg: bool,
    /// Image with the symbols of a guest's kernel that has no kallsyms.
    pub vmlinux: Option<PathBuf>,
    /// File with a model of estimated cycles; absent: the standard model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_model: Option<PathBuf>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            workload: WorkloadRequest::default(),
            kernel: None,
            machine: GuestMachine::default(),
            collect: None,
            loader: Loader::default(),
            probe: None,
            runs: None,
            stop: StopRule::default(),
            seed: 1,
            sizing: WindowSizing::default(),
            memcg: true,
            vmlinux: None,
            cycle_model: None,
        }
    }
}

/// How long counted windows become.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowSizing {
    /// The wanted range over the windows of the instructions without scheduling, as a part of their median.
    pub precision: f64,
    /// No window is made larger if it is expected to execute more instructions than this.
    pub limit: u64,
}

impl Default for WindowSizing {
    fn default() -> Self {
        Self { precision: 0.002, limit: 100_000_000 }
    }
}
