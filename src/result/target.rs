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
        /// The cgroup or container whose processes they were.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<ProcessGroup>,
    },
    /// A profile that another tool took.
    Imported(ImportedFrom),
}

/// A group of processes that were running before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessGroup {
    /// The processes of a cgroup and of those below, by its path.
    Cgroup(String),
    Container(Container),
    /// All processes of the machine.
    Machine,
}

/// A container, as far as its name is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Container {
    /// As in the path of its cgroup.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Container {
    /// Digits of an id that tools show.
    const SHORT: usize = 12;

    /// `web`, or the first digits of its id.
    pub fn title(&self) -> &str {
        let short = self.id.get(..Self::SHORT).filter(|_| self.is_hexadecimal()).unwrap_or(&self.id);
        self.name.as_deref().unwrap_or(short)
    }

    fn is_hexadecimal(&self) -> bool {
        self.id.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
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
        if let Self::Attached { pids, .. } = self { pids } else { &[] }
    }

    /// Whether several processes were asked for that may have nothing to do with each other.
    pub fn is_several(&self) -> bool {
        matches!(self, Self::Attached { pids, group: None } if pids.len() > 1)
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
            Self::Attached { group: Some(ProcessGroup::Cgroup(path)), .. } => format!("cgroup {path}"),
            Self::Attached { group: Some(ProcessGroup::Container(container)), .. } => {
                format!("container {}", container.title())
            }
            Self::Attached { group: Some(ProcessGroup::Machine), .. } => "all processes of this machine".to_owned(),
            Self::Attached { pids, .. } if pids.len() == 1 => format!("process {}", few(pids)),
            Self::Attached { pids, .. } => format!("processes {}", few(pids)),
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
