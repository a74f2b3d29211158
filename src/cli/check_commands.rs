//! `pipeprof check -- COMMAND`: a gate on programs.

use super::check_rules::CheckRules;
use crate::compare::{Comparison, Input, NOW, pipelines, stored};
use crate::record::MeasureRecording as _;
use crate::result::{Measurement, Outcome, SentFile};
use crate::studies::again::measure_all;
use crate::studies::against::{OtherTree, Revision};
use crate::studies::command_list::CommandList;
use crate::studies::commands::{self, CommandSettings};
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{regular, size};
use crate::vm::qemu;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Longer lists of commands are refused, bytes.
const LONGEST_LIST: u64 = 1 << 20;

/// Commands to count.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Commands")]
pub(crate) struct CommandArgs {
    /// Count the commands of this file, too: one in each line, `#` begins a comment; or of a .toml file with limits of each
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Put a file or folder that the commands read into the guest, at the same path or at DEST; repeatable
    #[arg(long, value_name = "PATH[:DEST]", value_parser = SentFile::parse)]
    file: Vec<SentFile>,
    /// Memory of the guest, such as 2G, of which files may take a quarter [default: the baseline's, or 1G]
    #[arg(long, value_parser = size::parse, value_name = "SIZE")]
    memory: Option<u64>,
    /// Counted runs of each command, each started at another moment [default: the baseline's, or 3, and up to 9
    /// if these differ]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// Compare with another revision of the tree in the current folder instead of a baseline: check it out into a temporary
    /// worktree, and count the commands in both
    #[arg(long, value_name = "git:REVISION", value_parser = Revision::parse, conflicts_with_all = ["baseline", "history"])]
    against: Option<Revision>,
    /// Shell command that builds a tree, run in both: --build 'cargo build --release'
    #[arg(long, value_name = "COMMAND", requires = "against")]
    build: Option<String>,
    /// Count this command or pipeline, as `pipeprof record` takes it, instead of a kernel's pipes
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl CommandArgs {
    pub(super) fn are_given(&self) -> bool {
        self.commands.is_some() || !self.command.is_empty()
    }

    /// What is to be counted; nothing if no flag asks for commands.
    pub(super) fn given(&self) -> Result<CommandList> {
        let lines = self.commands.as_deref().map(|path| {
            let bytes = regular::read(path, LONGEST_LIST);
            let bytes = bytes.map_err(|error| UsageError::new(format!("--commands {}: {error}", path.display())))?;
            let text = String::from_utf8(bytes);
            text.map_err(|_| UsageError::new(format!("--commands {}: it is not UTF-8 text", path.display())))
        });
        let lines = lines.transpose()?;
        let is_toml = self.commands.as_deref().is_some_and(|path| path.extension().is_some_and(|end| end == "toml"));
        let given = CommandList::parse(&self.command, lines.as_deref(), is_toml)?;
        let nothing = given.commands.is_empty();
        if nothing && self.commands.is_some() {
            return Err(UsageError::new("--commands: the file has no command").into());
        }
        let has_flags = !self.file.is_empty() || self.memory.is_some() || self.runs.is_some() || self.against.is_some();
        if nothing && has_flags {
            let problem = "--file, --memory, --runs and --against are for commands: add one after --, or --commands";
            return Err(UsageError::new(problem).into());
        }
        Ok(given)
    }

    fn settings(&self, bench: &CommandList, rules: &CheckRules) -> CommandSettings {
        // Those of the command line replace others at the same place.
        let files = bench.files.iter().chain(&self.file).cloned().collect();
        CommandSettings { kernel: rules.kernel.clone(), files, memory: self.memory, runs: self.runs }
    }

    /// Count `given`, and compare with `baseline`; without one, store the counts and return nothing.
    pub(super) fn compared(
        &self,
        bench: &CommandList,
        rules: &CheckRules,
        baseline: Option<&Path>,
    ) -> Result<Option<Comparison>> {
        qemu::version(rules.processor()).or_usage()?;
        let settings = self.settings(bench, rules);
        let given = bench.commands.clone();
        let margin = bench.margin(rules.thresholds().margin());
        if let Some(revision) = &self.against {
            return self.against(revision, commands::first(given, &settings)?, rules, margin).map(Some);
        }
        let Some(path) = baseline else {
            let wanted = commands::first(given, &settings)?;
            if let (_, Some(problem)) = measure_all(&wanted, rules.output.as_deref(), &super::command_line())? {
                return Err(problem);
            }
            let folder = rules.output.as_deref().unwrap_or(Path::new("."));
            util::outln!("stored as a baseline: {}", folder.display());
            return Ok(None);
        };
        let stored = stored::column(path).map_err(|error| UsageError::new(format!("--baseline {error:#}")))?;
        let (wanted, before) = commands::again(given, &settings, stored)?;
        let label = rules.kernel.clone().unwrap_or_else(|| NOW.to_owned());
        let stored: Vec<_> = before.runs.iter().map(|(_, run)| run).collect();
        let after: Vec<_> = rules.measured(&wanted, &stored)?.into_iter().map(|run| (label.clone(), run)).collect();
        let single = after.len() == 1;
        let mut inputs = vec![before, Input { label: None, runs: after }];
        if single {
            // The stages of another command are the same rows.
            inputs = pipelines::columns(inputs, &[path.to_owned(), PathBuf::from(&label)])?;
        }
        for (input, label) in inputs.iter_mut().zip(["baseline", &label]) {
            input.label = Some(label.to_owned());
        }
        Ok(Some(rules.compared_within(&inputs, margin)?))
    }

    /// Count `wanted` in a tree of `revision` and in this one, and compare.
    fn against(
        &self,
        revision: &Revision,
        mut wanted: Vec<Measurement>,
        rules: &CheckRules,
        margin: f64,
    ) -> Result<Comparison> {
        let other = OtherTree::new(revision)?;
        if let Some(command) = &self.build {
            other.build_both(command)?;
        }
        let (before, _) = other.within(|| measure_all(&wanted, None, &super::command_line()))?;
        let input = |label: &str, runs: Vec<Outcome>| {
            let runs = runs.into_iter().map(|run| (label.to_owned(), run)).collect();
            Input { label: Some(label.to_owned()), runs }
        };
        for (measurement, before) in wanted.iter_mut().zip(&before) {
            if let Measurement::Recording(request) = measurement {
                request.count_as_often_as(&before.document);
            }
        }
        let after = rules.measured(&wanted, &before.iter().collect::<Vec<_>>())?;
        rules.compared_within(&[input(revision.name(), before), input(NOW, after)], margin)
    }
}
