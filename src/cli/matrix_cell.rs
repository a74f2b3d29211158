//! Measures a cell: a run, or a counted pipeline.

use crate::campaign::CampaignCell;
use crate::campaign::cell::CellPipeline;
use crate::record::MeasureRecording as _;
use crate::record::inside::PipelinePlace;
use crate::result::{Measurement, Outcome, RecordingRequest};
use crate::run::MeasurePair as _;
use crate::util::sha256;
use crate::vm::Kernel;
use anyhow::{Context as _, Result, bail};

/// Run a cell in this process.
pub(super) fn measure(cell: &CampaignCell, kernel: &Kernel) -> Result<Outcome> {
    let mut request = cell.request.clone();
    request.set_kernel(kernel.image.to_str().context("the kernel's path is not UTF-8")?);
    let mut outcome = match (&request, &cell.pipeline) {
        (Measurement::Pair(options), None) => options.measure(&options.request(cell.command())?)?,
        (Measurement::Recording(request), Some(pipeline)) => record(request, pipeline)?,
        _ => bail!("the cell has a pipeline without what its processes find: plan again with this pipeprof"),
    };
    outcome.document.command = cell.command();
    // The same on all machines.
    outcome.document.request = Some(cell.request.clone());
    Ok(outcome)
}

fn record(request: &RecordingRequest, pipeline: &CellPipeline) -> Result<Outcome> {
    let place = PipelinePlace { folder: pipeline.folder.clone(), path: pipeline.path.clone(), input: None };
    let prepared = request.prepared(&pipeline.command, place)?;
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
    prepared.counted(request.counted_runs())
}
