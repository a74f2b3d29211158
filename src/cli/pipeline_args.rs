//! The flags that make pipelines of one's own an axis of `matrix plan` and `sweep`.

use crate::record::ApplyRemedy as _;
use crate::record::MeasureRecording as _;
use crate::record::Remedy;
use crate::result::{PipelineCommand, RecordingRequest, RecordingTarget, SentFile, stage_text};
use crate::util::usage::UsageError;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;

/// Pipelines instead of modes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct PipelineArgs {
    /// Measure this pipeline, as `pipeprof record` takes it in one word, instead of a mode; repeatable
    #[arg(long, value_name = "COMMAND")]
    pub pipeline: Vec<String>,
    /// Program and arguments of stage N of the pipelines; repeatable: --stage 2='gzip -1' --stage 2='gzip -9'
    #[arg(long, value_name = "N=COMMAND", value_parser = stage)]
    pub stage: Vec<Remedy>,
    /// Put a file or folder into the guests of all pipelines, at the same path or at DEST; repeatable
    #[arg(long, value_name = "PATH[:DEST]", value_parser = SentFile::parse)]
    pub file: Vec<SentFile>,
}

/// A pipeline of the flags.
#[derive(Debug, Clone)]
pub(super) struct GivenPipeline {
    pub command: PipelineCommand,
    /// The pipeline, and the stages that were replaced, as they were typed.
    pub values: Vec<(String, String)>,
}

/// `2=gzip -9`: another program as stage 2.
pub(super) fn stage(text: &str) -> Result<Remedy, String> {
    match Remedy::parse(&format!("stage{text}")) {
        Ok(stage @ Remedy::Stage(..)) => Ok(stage),
        _ => Err("expected N=COMMAND, such as 2='gzip -9'".to_owned()),
    }
}

impl PipelineArgs {
    /// Whether none of the flags is given.
    pub(super) fn is_empty(&self) -> bool {
        self.pipeline.is_empty() && self.stage.is_empty() && self.file.is_empty()
    }

    /// Each pipeline with each combination of stages.
    pub(super) fn typed(&self) -> Result<Vec<GivenPipeline>> {
        let given = self.is_empty() || !self.pipeline.is_empty();
        ensure!(given, UsageError::new("--stage and --file are for pipelines: add --pipeline"));
        let mut stages: BTreeMap<usize, Vec<&Remedy>> = BTreeMap::new();
        for change in &self.stage {
            if let Remedy::Stage(number, _) = change {
                stages.entry(*number).or_default().push(change);
            }
        }
        let mut all = Vec::new();
        for (index, line) in self.pipeline.iter().enumerate() {
            let twice = UsageError::new(format!("--pipeline '{line}' is given twice"));
            ensure!(!self.pipeline[..index].contains(line), twice);
            let values = vec![("pipeline".to_owned(), line.clone())];
            let command = counted(PipelineCommand::parse(std::slice::from_ref(line))?)?;
            let mut made = vec![GivenPipeline { command, values }];
            for changes in stages.values() {
                let changed = made.iter().flat_map(|before| changes.iter().map(|change| before.with(change)));
                made = changed.collect::<Result<Vec<_>>>().context("--stage")?;
            }
            // A replaced stage is another program.
            made.iter().try_for_each(|pipeline| counted(pipeline.command.clone()).map(drop))?;
            all.extend(made);
        }
        Ok(all)
    }
}

/// `pipeline` with the stages that `pipeprof record` would count.
fn counted(pipeline: PipelineCommand) -> Result<PipelineCommand> {
    let text = pipeline.text();
    let request = RecordingRequest { target: RecordingTarget::Pipeline(pipeline), ..RecordingRequest::default() };
    request.counted().with_context(|| UsageError::new(format!("--pipeline '{text}'")))
}

impl GivenPipeline {
    fn with(&self, change: &Remedy) -> Result<Self> {
        let command = change.changed(&self.command)?;
        let mut values = self.values.clone();
        if let Remedy::Stage(number, words) = change {
            values.push((format!("stage{number}"), stage_text(words)));
        }
        Ok(Self { command, values })
    }
}
