//! What was measured.

use crate::profile::few;
use crate::util::text::quoted;
use crate::workload::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Characters that a shell interprets, for which one word is given to it.
pub(crate) const SHELL_SYNTAX: &str = " \t\n|&;<>()$`\\\"'*?[]#~{}!";

/// Whether `text` has characters that only a shell interprets, other than spaces.
pub(crate) fn needs_shell(text: &str) -> bool {
    text.contains(|c: char| c != ' ' && SHELL_SYNTAX.contains(c))
}

/// What was measured. A result has the parts that apply to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MeasuredTarget {
    /// The built-in writer and reader.
    Pair { workload: Spec },
    /// A pipeline that pipeprof started.
    Pipeline(PipelineCommand),
    /// Processes that were running before.
    Attached {
        /// Those that were asked for.
        pids: Vec<u32>,
    },
    /// A profile that another tool took.
    Imported(ImportedFrom),
}

/// A pipeline as it was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineCommand {
    /// The words of each stage.
    pub stages: Vec<Vec<String>>,
    /// Whether the only stage is a shell, which starts the processes of the pipeline itself.
    pub shell: bool,
}

/// A profile that another tool took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedFrom {
    /// The file.
    pub file: String,
    /// `perf script` or `folded stacks`.
    pub format: String,
    /// What was sampled, such as `cpu-clock`, if the file says so.
    pub event: Option<String>,
}

impl Default for MeasuredTarget {
    fn default() -> Self {
        Self::Pipeline(PipelineCommand::default())
    }
}

impl MeasuredTarget {
    /// The workload of a built-in pair.
    pub fn workload(&self) -> Option<&Spec> {
        if let Self::Pair { workload } = self { Some(workload) } else { None }
    }

    /// [`Self::workload`], to change it.
    pub fn workload_mut(&mut self) -> Option<&mut Spec> {
        if let Self::Pair { workload } = self { Some(workload) } else { None }
    }

    /// The words of each stage of a pipeline; empty for others.
    pub fn stages(&self) -> &[Vec<String>] {
        if let Self::Pipeline(pipeline) = self { &pipeline.stages } else { &[] }
    }

    /// The processes that were asked for, if they were running before.
    pub fn pids(&self) -> &[u32] {
        if let Self::Attached { pids } = self { pids } else { &[] }
    }

    /// Where an imported profile comes from.
    pub fn imported(&self) -> Option<&ImportedFrom> {
        if let Self::Imported(from) = self { Some(from) } else { None }
    }

    /// What was recorded, in titles; empty for a built-in pair, which has a mode.
    pub fn text(&self) -> String {
        match self {
            Self::Pair { .. } => String::new(),
            Self::Pipeline(pipeline) => pipeline.text(),
            Self::Attached { pids } if pids.len() == 1 => format!("process {}", few(pids)),
            Self::Attached { pids } => format!("processes {}", few(pids)),
            Self::Imported(from) => from.file.clone(),
        }
    }
}

impl PipelineCommand {
    /// The pipeline as one would type it.
    pub fn text(&self) -> String {
        match (&self.stages[..], self.shell) {
            ([words], true) => words.last().cloned().unwrap_or_default(),
            (stages, _) => {
                let stage = |words: &Vec<String>| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
                stages.iter().map(stage).collect::<Vec<_>>().join(" | ")
            }
        }
    }
}
