//! The command of a cell: `pipeprof run` or `pipeprof record --collect insn`.

use super::record::RecordArgs;
use super::run::{parse_words, parsed};
use crate::campaign::CampaignCell;
use crate::campaign::cell::CellPipeline;
use crate::record::inside::{PipelinePlace, PreparedPipeline};
use crate::result::Outcome;
use crate::util::sha256;
use crate::vm::Kernel;
use anyhow::{Context as _, Result, bail};

/// Run a cell in this process.
pub(super) fn measure(cell: &CampaignCell, kernel: &Kernel) -> Result<Outcome> {
    let image = kernel.image.to_str().context("the kernel's path is not UTF-8")?;
    let command = cell.command();
    let words = cell.argv.split_first().map(|(first, words)| (first.as_str(), words));
    match (words, &cell.pipeline) {
        (Some(("run", words)), None) => run(words, image, command),
        (Some(("record", words)), Some(pipeline)) => record(words, pipeline, image, command),
        _ => bail!("the cell's command is neither `run` nor `record`: plan again with this pipeprof"),
    }
}

fn run(words: &[String], image: &str, command: String) -> Result<Outcome> {
    let mut options = parse_words("the cell", words)?;
    options.kernel = Some(image.to_owned());
    let request = options.request(command)?;
    options.measure(&request)
}

fn record(words: &[String], pipeline: &CellPipeline, image: &str, command: String) -> Result<Outcome> {
    let (mut args, _) = parsed::<RecordArgs>("the cell", words)?;
    args.guest.kernel = Some(image.to_owned());
    let guest = args.guest(true)?.context("a cell names its kernel")?;
    let place = PipelinePlace { folder: pipeline.folder.clone(), path: pipeline.path.clone(), input: None };
    let prepared = PreparedPipeline::new(args.in_guest(&pipeline.command, place), guest)?;
    if prepared.has_disk() || sha256::of_bytes(prepared.contents()) != pipeline.contents {
        let here = PipelinePlace::without_input()?;
        let difference = if here.folder != pipeline.folder {
            format!("; the list was planned in the folder {}: run it there", pipeline.folder.display())
        } else if here.path != pipeline.path {
            format!("; PATH was {}: set it so", pipeline.path)
        } else {
            ": install the same packages, or share the files, or plan again here".to_owned()
        };
        bail!("the programs or files of this pipeline are not those with which the list was planned{difference}");
    }
    let mut recorded = prepared.counted(args.counted_runs())?;
    recorded.document.command = command;
    Ok(recorded)
}
