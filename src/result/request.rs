//! A request: what to run, after parsing the command line. It is sent to guests unchanged.

use super::Probe;
use crate::experiment::StopRule;
use crate::workload::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

/// A collector, by name.
// Messages are for the help of `record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Collector {
    /// perf_event sampling, stacks counted in the kernel by BPF.
    #[strum(message = "Samples of the kernel's stacks, taken while the pipeline is recorded on this machine")]
    Sample,
    /// BPF kprobes and hardware breakpoints: calls, times.
    #[strum(
        message = "Calls and times of the kernel's functions that have a role (kprobes, fentry), while the pipeline is \
                       recorded"
    )]
    Kprobe,
    /// ftrace function_graph: the complete call tree.
    #[strum(
        message = "Every call of a function of the kernel, as a call tree with times (function_graph), while the pipeline \
                       is recorded"
    )]
    Fgraph,
    /// Exact instruction counts by a QEMU plugin, in TCG guests only.
    #[strum(message = "Every executed instruction, counted in a run of its own; with --kernel")]
    Insn,
}

/// What differs by collector outside of its own file.
#[derive(Debug, Clone, Copy)]
pub struct CollectorFacts {
    /// What it counts.
    pub unit: &'static str,
    /// Whether its stacks give shares. The first of those that have any does.
    pub has_shares: bool,
    /// Whether `--collect auto` includes it.
    pub is_automatic: bool,
}

impl Collector {
    pub fn facts(self) -> CollectorFacts {
        let facts = |unit, has_shares, is_automatic| CollectorFacts { unit, has_shares, is_automatic };
        match self {
            Self::Sample => facts("samples", true, true),
            Self::Kprobe => facts("calls", false, true),
            Self::Fgraph => facts("calls", true, true),
            Self::Insn => facts("instructions", false, false),
        }
    }

    /// Those that `wanted` holds for, in their order.
    pub fn those(wanted: impl Fn(CollectorFacts) -> bool) -> impl Iterator<Item = Self> {
        Self::VARIANTS.iter().copied().filter(move |kind| wanted(kind.facts()))
    }

    /// The name on the command line and in files: `sample`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// `--collect`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// All that this kernel allows, except `insn`.
    Auto,
    /// These only; may be empty.
    List(Vec<Collector>),
}

/// `--loader`: the library that loads the BPF object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[derive(strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Loader {
    #[default]
    Libbpf,
    Aya,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The preset's name, such as `write`.
    pub mode: String,
    pub workload: Spec,
    pub collect: Selection,
    pub loader: Loader,
    pub probe: Probe,
    /// Runs per measurement.
    pub runs: u32,
    /// When to stop by precision or time.
    #[serde(default, skip_serializing_if = "StopRule::is_none")]
    pub stop: StopRule,
    /// Seed of the order of unprofiled and profiled runs.
    pub seed: u64,
    /// Whether the processes run in a child cgroup with memory accounting (guests only; hosts have their own cgroups).
    pub memcg: bool,
    /// The command line as typed, for titles.
    pub command: String,
}
