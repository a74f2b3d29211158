//! `pipeprof repeat`: measure a stored result again, as it was or with changes, and compare the two.

use super::compare::width;
use super::pipeline_args::stage;
use super::record::RecordArgs;
use super::run::{RunArgs, parsed};
use crate::compare::render::terminal;
use crate::compare::{CompareOptions, Input, NOW, compare, pipelines};
use crate::record::ApplyRemedy as _;
use crate::record::MeasureRecording as _;
use crate::result::{self, Measurement, Outcome, RecordingTarget, Remedy};
use crate::studies::again::allowed;
use crate::util::progress;
use crate::util::text::clean;
use crate::util::usage::UsageError;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure a stored result again, as it was or with changes, and compare the two
///
/// A result holds what was asked for. The same is measured again: the same workload or pipeline,
/// kernel, guest and collectors. Flags of the command that measured it replace parts of that:
///
///   pipeprof repeat r1
///   pipeprof repeat r1 --kernel 7.2
///   pipeprof repeat p1 --stage 2='zstd -T0' --runs 10
///
/// At the end, the result is compared with the stored one.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RepeatArgs {
    /// The result: its folder or result.json, or a cell of a campaign's store
    #[arg(value_name = "RESULT")]
    result: PathBuf,
    /// Flags of `pipeprof run` or `pipeprof record`, whichever measured it. For recordings also --stage N=COMMAND (another
    /// program as stage N); --run-stored-command measures what another user's result asks for
    #[arg(value_name = "FLAGS", trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<String>,
}

/// The flags of a repeated recording.
#[derive(Debug, clap::Args)]
struct RepeatedRecordArgs {
    #[command(flatten)]
    record: RecordArgs,
    /// Program and arguments of stage N
    #[arg(long, value_name = "N=COMMAND", value_parser = stage)]
    stage: Vec<Remedy>,
}

/// Allows what a result of another user asks for.
const ALLOW: &str = "--run-stored-command";

impl RepeatArgs {
    pub(super) fn run(mut self) -> Result<ExitCode> {
        let path = self.result.display().to_string();
        let stored = result::open(&self.result)?;
        let request = stored.document.request.clone().with_context(|| {
            UsageError::new(format!(
                "{path} does not say what was asked for, as an imported profile: nothing to repeat"
            ))
        })?;
        if self.flags.first().is_some_and(|first| !first.starts_with('-')) {
            // The mark before another pipeline was taken as that of the end of flags.
            self.flags.insert(0, "--".to_owned());
        }
        let own = self.flags.iter().position(|flag| flag == "--").unwrap_or(self.flags.len());
        let others = self.flags.split_off(own);
        let given = self.flags.len();
        self.flags.retain(|flag| flag != ALLOW);
        let is_allowed = self.flags.len() < given;
        self.flags.extend(others);
        // It names programs, and files such as kernels.
        allowed(&path, &stored, &request, is_allowed)?;
        match request {
            Measurement::Pair(mut options) => {
                let args = parsed::<RunArgs>("pipeprof run", &self.flags)?;
                if args.has_several_modes() {
                    bail!(UsageError::new("--mode: give one, and no --without-splice"));
                }
                args.apply(&mut options);
                let (code, outcome) = args.measured(&options)?;
                let text = compared(path, stored, outcome)?;
                if args.is_json() {
                    util::err!("\n{text}");
                } else {
                    util::out!("\n{text}");
                }
                Ok(code)
            }
            Measurement::Recording(mut request) => {
                let args = parsed::<RepeatedRecordArgs>("pipeprof record", &self.flags)?;
                args.record.apply(&mut request)?;
                ensure!(
                    request.target != RecordingTarget::All,
                    UsageError::new("a view of a whole machine cannot be repeated: it is another one each time")
                );
                if let RecordingTarget::Pipeline(pipeline) = &mut request.target {
                    for change in &args.stage {
                        let stages = pipeline.as_stages().unwrap_or_else(|| pipeline.clone());
                        *pipeline = change.changed(&stages).context("--stage")?;
                    }
                }
                request.wanted()?;
                progress::note(&format!("repeating {}", clean(&Measurement::Recording(request.clone()).command())));
                let shown = match args.record.measured(&request)? {
                    Ok(shown) => shown,
                    Err(code) => return Ok(code),
                };
                // Standard output is that of the pipeline.
                util::err!("\n{}", compared(path, stored, shown.outcome)?);
                Ok(shown.code)
            }
        }
    }
}

/// What differs between the result stored at `path` and the new one.
fn compared(path: String, stored: Outcome, now: Outcome) -> Result<String> {
    let is_pair = now.document.target.workload().is_some();
    let mut inputs = vec![column("stored", &path, stored), column(NOW, NOW, now)];
    if !is_pair {
        inputs = pipelines::columns(inputs, &[path.into(), NOW.into()])?;
    }
    difference(&inputs)
}

/// The column `label` of a comparison: `run`, which is called `name`.
pub(super) fn column(label: &str, name: &str, run: Outcome) -> Input {
    Input { label: Some(label.to_owned()), runs: vec![(name.to_owned(), run)] }
}

/// What differs between columns.
pub(super) fn difference(inputs: &[Input]) -> Result<String> {
    let options = CompareOptions { command: super::command_line(), seed: 1, ..CompareOptions::default() };
    Ok(terminal::render(&compare(inputs, &options)?.comparison, width(), terminal::SHOWN))
}
