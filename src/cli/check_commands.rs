//! `pipeprof check -- COMMAND`: a gate on programs.

use super::check_comment::{JudgedStep, comment};
use super::check_rules::CheckRules;
use crate::compare::{Comparison, Input, pipelines, stored};
use crate::result::{PipelineCommand, SentFile};
use crate::studies::again::measure_all;
use crate::studies::commands::{self, CommandSettings};
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{progress, regular};
use crate::vm::qemu;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// Longer lists of commands are refused, bytes.
const LONGEST_LIST: u64 = 1 << 20;

/// Commands to count.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Commands")]
pub(crate) struct CommandArgs {
    /// Count the commands of this file, too: one in each line, `#` begins a comment
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// Put a file or folder that the commands read into the guest, at the same path or at DEST; repeatable
    #[arg(long, value_name = "PATH[:DEST]", value_parser = SentFile::parse)]
    file: Vec<SentFile>,
    /// Counted runs of each command, each started at another moment [default: the baseline's, or 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// Write the verdict as Markdown, for a comment on a pull request
    #[arg(long, value_name = "FILE")]
    comment: Option<PathBuf>,
    /// Count this command or pipeline, as `pipeprof record` takes it, instead of a kernel's pipes
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl CommandArgs {
    /// What is to be counted; nothing if no flag asks for commands.
    pub(super) fn given(&self) -> Result<Vec<PipelineCommand>> {
        let lines = self.commands.as_deref().map(|path| {
            let bytes = regular::read(path, LONGEST_LIST);
            let bytes = bytes.map_err(|error| UsageError::new(format!("--commands {}: {error}", path.display())))?;
            let text = String::from_utf8(bytes);
            text.map_err(|_| UsageError::new(format!("--commands {}: it is not UTF-8 text", path.display())))
        });
        let lines = lines.transpose()?;
        let given = commands::commands(&self.command, lines.as_deref())?;
        if given.is_empty() && self.commands.is_some() {
            return Err(UsageError::new("--commands: the file has no command").into());
        }
        if given.is_empty() && !(self.file.is_empty() && self.runs.is_none()) {
            return Err(UsageError::new("--file and --runs are for commands: add one after --, or --commands").into());
        }
        Ok(given)
    }

    fn settings(&self, rules: &CheckRules) -> CommandSettings {
        CommandSettings { kernel: rules.kernel.clone(), files: self.file.clone(), runs: self.runs }
    }

    /// Count `given`, and compare with `baseline`; without one, store the counts and return nothing.
    pub(super) fn compared(
        &self,
        given: Vec<PipelineCommand>,
        rules: &CheckRules,
        baseline: Option<&Path>,
    ) -> Result<Option<Comparison>> {
        qemu::version().or_usage()?;
        let settings = self.settings(rules);
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
        let label = rules.kernel.clone().unwrap_or_else(|| "now".to_owned());
        let after: Vec<_> = rules.measured(&wanted)?.into_iter().map(|run| (label.clone(), run)).collect();
        let single = after.len() == 1;
        let mut inputs = vec![before, Input { label: None, runs: after }];
        if single {
            // The stages of another command are the same rows.
            inputs = pipelines::columns(inputs, &[path.to_owned(), PathBuf::from(&label)])?;
        }
        for (input, label) in inputs.iter_mut().zip(["baseline", &label]) {
            input.label = Some(label.to_owned());
        }
        Ok(Some(rules.compared(&inputs)?))
    }

    /// Write the verdicts on all commands of `comparison`, if a file is wanted.
    pub(super) fn write(&self, comparison: &Comparison, judged: Vec<JudgedStep<'_>>, rules: &CheckRules) -> Result<()> {
        let Some(path) = &self.comment else { return Ok(()) };
        let text = comment(comparison, judged, &rules.thresholds());
        std::fs::write(path, text).with_context(|| format!("--comment {}", path.display()))?;
        progress::note(&format!("the comment is in {}", path.display()));
        Ok(())
    }
}
