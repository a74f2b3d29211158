//! `report.md`: the comparison for a mailing list, in 78 columns, with tables as plain text in code blocks.

use super::tables::{self, StepExtent};
use super::terminal;
use crate::compare::model::{Comparison, Method};
use crate::report::block::ReportBlock;
use crate::report::markdown;

/// Columns of a mail.
pub const WIDTH: usize = markdown::WIDTH as usize;

/// What the numbers and verdicts are.
pub(super) fn how(comparison: &Comparison) -> &'static str {
    match comparison.method {
        Method::Exact => {
            "Instructions of all measured processes per KiB moved, counted in several windows of deterministic guests. \
             Verdicts are about instructions without scheduling, from the 99 % interval of the change. Instructions are not \
             time."
        }
        Method::Timed => {
            "Nanoseconds per KiB moved, medians of unprofiled runs; Mann-Whitney with Holm's correction, changes under 2 % \
             count as the same."
        }
        Method::Recorded => {
            "Wall time of recorded pipelines and CPU time of their processes, in ms of a whole run; of imported profiles, \
             percent of all samples. Verdicts need 10 runs of each: Mann-Whitney with Holm's correction, \
             changes under 2 % count as the same."
        }
    }
}

/// The whole report.
pub fn render(comparison: &Comparison) -> String {
    let labels: Vec<&str> = comparison.columns.iter().map(|column| column.label.as_str()).collect();
    let shown = StepExtent { roles: 12, functions: 15, page: false };
    let mut blocks = vec![ReportBlock::sentence(labels.join(", ")), ReportBlock::sentence(how(comparison))];
    blocks.push(ReportBlock::section("Answer", terminal::answer_blocks(comparison)));
    blocks.extend(comparison.sections.iter().map(|section| {
        let cells = ReportBlock::Plain(vec![ReportBlock::Table(tables::cells(comparison, section, false))]);
        let steps = section.steps.iter().map(|step| {
            let (from, to) = comparison.step_labels(step);
            let calls = tables::calls(comparison, step).into_iter().map(ReportBlock::Table);
            let step = terminal::step_block(comparison, section, step, shown);
            ReportBlock::section(
                format!("{from} to {to}"),
                vec![ReportBlock::Plain(std::iter::once(step).chain(calls).collect())],
            )
        });
        let causes = section.causes.is_some().then(|| ReportBlock::Plain(terminal::causes(section)));
        ReportBlock::section(section.title(), std::iter::once(cells).chain(causes).chain(steps).collect())
    }));
    let environment = ReportBlock::Plain(terminal::environment_blocks(comparison));
    blocks.push(ReportBlock::section("Environment", vec![environment]));
    markdown::document("pipeprof compare", &blocks)
}
