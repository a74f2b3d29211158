//! The recordings of a merged store: each pipeline on all kernels, and what changed from one to the next.

use super::cell::{CampaignCell, kernel_names};
use super::store::CellStore;
use crate::record::change::RecordingChange;
use crate::record::model::StageInstructions;
use crate::record::{Recording, change_text};
use crate::report;
use crate::report::block::ReportBlock;
use crate::report::number::millions;
use crate::report::table::{Table, TableCell};
use crate::util::text::clean;
use anyhow::Result;
use std::fmt::Write as _;

/// The file of a merged store with the comparisons.
pub(crate) const PIPELINES_FILE: &str = "pipelines.md";

/// One pipeline on several kernels.
#[derive(Debug)]
pub(crate) struct PipelineSeries {
    /// The pipeline, the setting and the number of CPUs.
    pub title: String,
    /// That of the pipeline's cells.
    digest: String,
    /// Columns' names and their recordings, in the order of the list.
    pub columns: Vec<(String, Recording)>,
}

/// The pipelines of these cells.
///
/// # Errors
/// When a recording cannot be read.
pub(crate) fn series(store: &CellStore, cells: &[CampaignCell]) -> Result<Vec<PipelineSeries>> {
    let names = kernel_names(cells.iter().map(|cell| &cell.kernel));
    let mut all: Vec<PipelineSeries> = Vec::new();
    for cell in cells {
        let Some(pipeline) = &cell.pipeline else { continue };
        let digest = pipeline.digest();
        let setting = if cell.setting.is_empty() { String::new() } else { format!(", {}", cell.setting) };
        let title = format!("{}{setting}", cell.section());
        let name = names.get(&cell.kernel.sha256).unwrap_or(&cell.kernel.label);
        let column = (name.clone(), store.recording(&cell.id)?);
        match all.iter_mut().find(|series| series.title == title && series.digest == digest) {
            Some(series) => series.columns.push(column),
            None => all.push(PipelineSeries { title, digest, columns: vec![column] }),
        }
    }
    // The same text with other programs or files is another pipeline.
    let titles: Vec<String> = all.iter().map(|series| series.title.clone()).collect();
    for series in &mut all {
        if titles.iter().filter(|title| **title == series.title).count() > 1 {
            series.title = format!("{} ({})", series.title, series.digest);
        }
    }
    Ok(all)
}

impl PipelineSeries {
    /// What changed from each column to the next, or why that cannot be said.
    fn changes(&self) -> impl Iterator<Item = Result<RecordingChange>> {
        self.columns.windows(2).filter_map(|pair| {
            let [(before_name, before), (after_name, after)] = pair else { return None };
            Some(RecordingChange::named([before, after], [before_name, after_name].map(Clone::clone)))
        })
    }

    /// The answers, for a terminal.
    #[must_use]
    pub(crate) fn answers(&self) -> String {
        let mut text = format!("{}:\n", clean(&self.title));
        for (change, pair) in self.changes().zip(self.columns.windows(2)) {
            let (line, cautions) = match &change {
                Ok(change) => (change.about_instructions().join(" "), change.about_work(&pair[0].1, &pair[1].1)),
                Err(error) => (format!("{error:#}"), Vec::new()),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {}", clean(&line));
            for caution in &cautions {
                let _ = writeln!(text, "    {}", clean(caution));
            }
        }
        if let [(name, recording)] = &self.columns[..] {
            let _ = writeln!(text, "  {}: {} instructions", clean(name), millions(instructions(recording)));
        }
        text
    }

    fn blocks(&self) -> ReportBlock {
        let stages = |recording: &Recording| -> Vec<u64> {
            let counted = recording.instructions.iter().flat_map(|counted| &counted.stages);
            counted.map(StageInstructions::without_scheduling).collect()
        };
        let counts: Vec<Vec<u64>> = self.columns.iter().map(|(_, recording)| stages(recording)).collect();
        let first = self.columns.first().and_then(|(_, recording)| recording.instructions.as_ref());
        let stages = first.into_iter().flat_map(|counted| &counted.stages).enumerate();
        let rows = stages.map(|(at, stage)| (stage.name.clone(), Some(at))).chain([("all".to_owned(), None)]);
        let mut table = Table::of("", rows).column("stage", |(name, _)| name.clone());
        for ((name, recording), counts) in self.columns.iter().zip(&counts) {
            table = table.column(name, |(_, stage)| match stage {
                Some(stage) => counts.get(*stage).map(|count| TableCell::Number(*count as f64 / 1e6)),
                None => Some(TableCell::Number(instructions(recording) as f64 / 1e6)),
            });
        }
        let unit = "Instructions of user code and kernel without scheduling, in millions:";
        let mut blocks = vec![ReportBlock::sentence(unit), ReportBlock::Table(table.done())];
        for (change, pair) in self.changes().zip(self.columns.windows(2)) {
            let inside = match change {
                Ok(change) => ReportBlock::Plain(change_text::blocks(&change)),
                Err(error) => ReportBlock::Sentence(format!("{error:#}.")),
            };
            blocks.push(ReportBlock::section(format!("{} to {}", pair[0].0, pair[1].0), vec![inside]));
        }
        ReportBlock::section(&self.title, blocks)
    }
}

/// All pipelines as a page.
#[must_use]
pub(crate) fn markdown(all: &[PipelineSeries]) -> String {
    let about =
        "Each pipeline was recorded and its instructions were counted on each kernel. Instructions are not time.";
    let series = all.iter().map(PipelineSeries::blocks);
    report::markdown::document(
        "Pipelines",
        &std::iter::once(ReportBlock::sentence(about)).chain(series).collect::<Vec<_>>(),
    )
}

/// Of all stages, without scheduling.
fn instructions(recording: &Recording) -> u64 {
    let counted = recording.instructions.iter().flat_map(|counted| &counted.stages);
    counted.map(|stage| stage.without_scheduling()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PipelineCommand;

    #[test]
    fn unequal_work_is_said_below_the_answer() {
        let recording = |code| Recording {
            pipeline: PipelineCommand { stages: vec![vec!["dd".to_owned()]], shell: false },
            exit_codes: vec![code],
            ..Recording::default()
        };
        let columns = [("6.1", 0), ("6.12", 0), ("7.2", 1)].map(|(name, code)| (name.to_owned(), recording(code)));
        let series = PipelineSeries { title: "dd".to_owned(), digest: String::new(), columns: columns.to_vec() };
        let text = series.answers();
        assert_eq!(text.matches("They ended differently: exit codes [0] and [1].").count(), 1, "{text}");
        assert!(text.ends_with("    They ended differently: exit codes [0] and [1].\n"), "{text}");
    }
}
