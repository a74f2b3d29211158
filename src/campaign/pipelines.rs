//! The recordings of a merged store: each pipeline on all kernels, and what changed from one to the next.

use super::cell::{CampaignCell, kernel_names};
use super::store::CellStore;
use crate::record::change::RecordingChange;
use crate::record::{Recording, change_text};
use crate::report::number::number;
use crate::report::terminal::Style;
use crate::util::text::{clean, markdown_escaped};
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
            let _ = writeln!(text, "  {}: {} million instructions", clean(name), millions(instructions(recording)));
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!(
            "## {}\n\nInstructions of user code and kernel without scheduling, in millions:\n\n| stage |",
            markdown_escaped(&self.title)
        );
        self.columns.iter().for_each(|(name, _)| {
            // Writing to a String cannot fail.
            let _ = write!(text, " {} |", markdown_escaped(name));
        });
        let _ = writeln!(text, "\n|---|{}", "---:|".repeat(self.columns.len()));
        let stages = |recording: &Recording| -> Vec<(String, u64)> {
            let counted = recording.instructions.iter().flat_map(|counted| &counted.stages);
            counted.map(|stage| (stage.name.clone(), stage.without_scheduling())).collect()
        };
        let counts: Vec<Vec<(String, u64)>> = self.columns.iter().map(|(_, recording)| stages(recording)).collect();
        for (at, (name, _)) in counts.first().into_iter().flatten().enumerate() {
            let _ = write!(text, "| {} |", markdown_escaped(name));
            for column in &counts {
                let _ = write!(text, " {} |", column.get(at).map_or("-".to_owned(), |(_, count)| millions(*count)));
            }
            text.push('\n');
        }
        text.push_str("| all |");
        for (_, recording) in &self.columns {
            let _ = write!(text, " {} |", millions(instructions(recording)));
        }
        text.push('\n');
        for change in self.changes() {
            let change = match change {
                Ok(change) => change,
                Err(error) => {
                    let _ = writeln!(text, "\n{}.", markdown_escaped(&format!("{error:#}")));
                    continue;
                }
            };
            let [before, after] = &change.names;
            let plain = change_text::render(&change, Style::PLAIN);
            let _ = write!(
                text,
                "\n### {} to {}\n\n```text\n{}```\n",
                markdown_escaped(before),
                markdown_escaped(after),
                plain
            );
        }
        text
    }
}

/// All pipelines as a page.
#[must_use]
pub(crate) fn markdown(all: &[PipelineSeries]) -> String {
    let mut text = "# Pipelines\n\nEach pipeline was recorded and its instructions were counted on each kernel. \
                    Instructions are not time.\n"
        .to_owned();
    all.iter().for_each(|series| {
        text.push('\n');
        text.push_str(&series.markdown());
    });
    text
}

/// Of all stages, without scheduling.
fn instructions(recording: &Recording) -> u64 {
    let counted = recording.instructions.iter().flat_map(|counted| &counted.stages);
    counted.map(|stage| stage.without_scheduling()).sum()
}

fn millions(count: u64) -> String {
    number(count as f64 / 1e6)
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
