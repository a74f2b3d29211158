//! What `pipeprof check` tests, and how it says its verdict, for a baseline as for a history.

use super::check_document::ShownVerdicts;
use super::global::UNTESTABLE;
use crate::arch::Processor;
use crate::compare::model::{RoleRow, Section, Step};
use crate::compare::render::tables::function_name;
use crate::compare::render::terminal;
use crate::compare::{CompareOptions, Comparison, Input, compare};
use crate::profile::listed;
use crate::report::number;
use crate::report::terminal::text::shortened;
use crate::result::{Measurement, Outcome};
use crate::roles::{self, RoleId, SCHEDULING};
use crate::studies::again::measure_against;
use crate::studies::verdict::{CheckThresholds, CheckVerdict};
use crate::util::progress;
use crate::util::text::clean;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::vm::image::Kernel;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is tested, what is a regression, and where the runs are stored.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckRules {
    /// Kernel to test: a bzImage, a .deb, or a series or release of `pipeprof kernel list` [default: the running one]
    #[arg(long, value_name = "PATH|NAME")]
    pub(super) kernel: Option<String>,
    /// Regression threshold: increase of instructions without scheduling (or of time) per KiB, in percent [default: 1%;
    /// with --fail-below: none]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Exit with 1 if they decreased by more than this, to bisect for an improvement [default: none]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_below: Option<f64>,
    /// With a command, also a regression: system calls of its stages increased by more than this, in percent of all of them
    /// [default: none]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above_calls: Option<f64>,
    /// Judge the instructions of this role alone, such as page-alloc; thresholds are in percent of the role
    #[arg(long, value_name = "ROLE", value_parser = role, conflicts_with = "history")]
    pub(super) role: Option<RoleId>,
    /// Folder to store the runs in [default: not stored]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) shown: ShownVerdicts,
}

impl CheckRules {
    /// The processor of the tested kernel, or of this machine if that kernel cannot be found: a later step says so.
    pub(super) fn processor(&self) -> Processor {
        let kernel = self.kernel.as_deref().and_then(|name| Kernel::find(name).ok());
        kernel.map_or(Processor::HERE, |kernel| kernel.processor)
    }

    /// The name of the tested kernel, which can exist.
    pub(super) fn label(&self) -> Result<String> {
        if let Some(name) = &self.kernel {
            self::kernel(name)?;
        }
        Ok(self.kernel.as_deref().unwrap_or("this kernel").to_owned())
    }

    /// The results of `wanted`. Why they are not stored where they should be is only printed: what was measured decides.
    /// `stored` are the results to compare them with, in the same order; a history gives none.
    pub(super) fn measured(&self, wanted: &[Measurement], stored: &[&Outcome]) -> Result<Vec<Outcome>> {
        let output = self.output.as_deref();
        let (runs, problem) = measure_against(wanted, stored, output, &super::command_line())?;
        if let Some(problem) = problem {
            progress::problem(&format!("{problem:#}"));
        }
        Ok(runs)
    }

    pub(super) fn compared(&self, inputs: &[Input]) -> Result<Comparison> {
        self.compared_within(inputs, self.thresholds().margin())
    }

    /// The same; changes within `margin`, a part of the whole, do not matter.
    pub(super) fn compared_within(&self, inputs: &[Input], margin: f64) -> Result<Comparison> {
        let command = super::command_line();
        Ok(compare(inputs, &CompareOptions { command, seed: 1, margin, ..CompareOptions::default() })?.comparison)
    }

    /// Print the verdict on all cases.
    pub(super) fn say(
        &self,
        thresholds: &CheckThresholds,
        verdicts: impl IntoIterator<Item = CheckVerdict>,
    ) -> CheckVerdict {
        let verdict = CheckVerdict::worst(verdicts);
        util::outln!("{}", thresholds.sentence(verdict));
        verdict
    }

    pub(super) fn thresholds(&self) -> CheckThresholds {
        CheckThresholds {
            fail_above: self.fail_above,
            fail_below: self.fail_below,
            fail_above_calls: self.fail_above_calls,
            role: self.role,
            of_commands: false,
        }
    }
}

/// The exit code of `git bisect run`.
pub(super) fn exit_code(verdict: CheckVerdict) -> ExitCode {
    match verdict {
        CheckVerdict::Regression | CheckVerdict::Improvement => ExitCode::FAILURE,
        CheckVerdict::Undecided => ExitCode::from(UNTESTABLE),
        CheckVerdict::Warned
        | CheckVerdict::Worse
        | CheckVerdict::WithinThreshold
        | CheckVerdict::Better
        | CheckVerdict::Same => ExitCode::SUCCESS,
    }
}

/// Whether a kernel called `name` can exist for other revisions.
fn kernel(name: &str) -> Result<()> {
    let path = Path::new(name);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            bail!(UsageError::new(format!("--kernel {name}: the folder {} does not exist", folder.display())))
        }
        Some(_) if !path.is_dir() => Ok(()),
        _ if path.is_file() => Ok(()),
        _ => Kernel::find(name).map(drop).or_usage(),
    }
}

/// A role whose instructions do not depend on the schedule, by its id or its title.
pub(super) fn role(text: &str) -> Result<RoleId, String> {
    let named = |id: &&RoleId| id.as_str() == text || roles::by_id(**id).title.replace([' ', '/'], "-") == text;
    let all = || RoleId::ALL.iter().filter(|id| !SCHEDULING.contains(id)).map(|id| id.as_str());
    let unknown = || format!("there is no role {text}; the roles are {}", listed(all()));
    let role = *RoleId::ALL.iter().find(named).ok_or_else(unknown)?;
    if SCHEDULING.contains(&role) {
        return Err(format!(
            "the instructions of {text} depend on the schedule, which no two runs need have in common"
        ));
    }
    Ok(role)
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(value) if (0.0..=1000.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not a percentage: use a form such as 1% or 0.5%")),
    }
}

/// The first step of each section.
pub(super) fn first_steps(comparison: &Comparison) -> Vec<(&Section, &Step)> {
    comparison.sections.iter().filter_map(|section| Some((section, section.steps.first()?))).collect()
}

/// The answers, and the roles and functions that changed: only this `role`, if one is judged.
pub(super) fn print_changes(comparison: &Comparison, steps: &[(&Section, &Step)], role: Option<RoleId>) {
    util::out!("{}", terminal::answers(comparison, super::compare::width()));
    for (section, step) in steps {
        let judged = |row: &RoleRow| role.is_none_or(|role| row.role == role);
        let changed = |row: &&RoleRow| row.delta != 0.0 && (row.certain || !step.exact()) && judged(row);
        let mut rows = step.roles.iter().filter(changed).take(8).peekable();
        if rows.peek().is_some() {
            let title = clean(&section.title());
            util::outln!("{title}, by role and function (self), {}:", comparison.per_kib());
        }
        for row in rows {
            util::outln!("  {:<44} {:>12}", row.title, number::signed(row.delta));
            for function in step.functions.iter().filter(|f| f.role == row.role && f.self_delta != 0.0).take(4) {
                util::outln!(
                    "    {:<42} {:>12}",
                    shortened(&function_name(function), 60),
                    number::signed(function.self_delta)
                );
            }
        }
    }
    if comparison.differences.iter().any(|difference| difference.what == "version") {
        util::outln!("  another build of pipeprof made the baseline: repeat its run with this build");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_their_titles_as_names() {
        assert_eq!(role("page-allocation"), Ok(RoleId::PageAlloc));
        assert!(role("scheduler").is_err() && role("gup").is_err());
    }
}
