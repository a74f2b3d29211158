//! What the page and the Markdown of a history show.

use super::{about, charts, largest, sentences, shown};
use crate::history::neighbours::Neighbours;
use crate::history::{History, HistoryLine, HistoryPoint};
use crate::report::block::Block;
use crate::report::html::Page;
use crate::report::markdown;
use crate::report::table::{Cell, Table};
use crate::roles::{self, RoleId};
use anyhow::Result;

/// `history.html`: one file that needs no network.
///
/// # Errors
/// When a chart cannot be drawn.
pub(super) fn page(history: &History, link: &dyn Fn(&Neighbours) -> Option<String>) -> Result<String> {
    let answers = sentences::all(history, link);
    let overview = Table::of("", (1..).zip(&answers))
        .column("workload", |(number, answer)| Cell::Link { text: answer.title.clone(), to: format!("#line-{number}") })
        .column("what changed", |(_, answer)| &answer.sentence[..])
        .done();
    let mut blocks = Vec::new();
    for (number, (line, answer)) in (1..).zip(history.lines.iter().zip(answers)) {
        let heading = answer.title.clone();
        let mut below = line_blocks(answer);
        below.extend(
            [
                ("All roles", charts::areas(history, line)?),
                ("The roles that change most", charts::lines(history, line)?),
            ]
            .into_iter()
            .filter(|(_, svg)| !svg.is_empty())
            .map(|(title, svg)| Block::picture(title, svg)),
        );
        below.push(Block::Details {
            id: String::new(),
            summary: "Values of each kernel".to_owned(),
            is_open: false,
            blocks: vec![Block::Table(values(history, line, usize::MAX))],
        });
        blocks.push(Block::Section { id: format!("line-{number}"), heading, blocks: below });
    }
    let kernels = Table::of("", &history.kernels)
        .column("kernel", |kernel| &kernel.label[..])
        .column("release", |kernel| &kernel.release[..])
        .column("SHA-256 of the image", |kernel| kernel.sha256.get(..16).unwrap_or_default())
        .done();
    blocks.push(Block::section("Kernels", vec![Block::Table(kernels)]));
    let label = |kernel: Option<&crate::history::HistoryKernel>| kernel.map_or("", |kernel| &kernel.label).to_owned();
    let kernels = format!("{} kernels", history.kernels.len());
    let page = Page {
        title: format!("pipeprof history: {kernels}"),
        heading: format!("{kernels}, {} to {}", label(history.kernels.first()), label(history.kernels.last())),
        about: vec![introduction(history), Block::Table(overview)],
        blocks,
        made_by: format!("pipeprof {}, `{}`", history.version, history.command),
    };
    Ok(page.html())
}

/// `history.md`: the answers, and a table for each workload.
pub(super) fn markdown(history: &History, link: &dyn Fn(&Neighbours) -> Option<String>) -> String {
    let mut blocks = vec![introduction(history)];
    for (line, answer) in history.lines.iter().zip(sentences::all(history, link)) {
        let heading = answer.title.clone();
        let values = Block::Table(values(history, line, ROLES));
        blocks.push(Block::section(heading, line_blocks(answer).into_iter().chain([values]).collect()));
    }
    markdown::document("Kernels over time", &blocks)
}

/// Roles in a table of the Markdown.
const ROLES: usize = 8;

fn introduction(history: &History) -> Block {
    Block::Sentence(format!("{} {}", about(history), sentences::counted_by(history)))
}

/// The answer of one line, and its steps.
fn line_blocks(answer: sentences::LineAnswer) -> Vec<Block> {
    let steps = Table::of("", answer.steps)
        .column("step", |step| match &step.link {
            Some(to) => Cell::Link { text: step.kernels.clone(), to: to.clone() },
            None => Cell::Text(step.kernels.clone()),
        })
        .column("per KiB", |step| Cell::Figure(step.change.clone()))
        .column("roles", |step| step.roles.clone())
        .done();
    let steps = (!steps.is_empty()).then_some(Block::Table(steps));
    std::iter::once(Block::Sentence(format!("{}.", answer.sentence))).chain(steps).collect()
}

/// The values of each kernel: those of so many roles.
fn values(history: &History, line: &HistoryLine, roles: usize) -> Table {
    let label = |point: &HistoryPoint| history.kernels.get(point.kernel).map_or("", |kernel| &kernel.label).to_owned();
    let of = |point: &HistoryPoint, role: RoleId| point.roles.get(&role).map(|span| Cell::Figure(shown(span)));
    let mut table = Table::of("", &line.points)
        .column("kernel", |point| label(point))
        .column("without scheduling", |point| Cell::Figure(shown(&point.without_scheduling)))
        .column("total", |point| Cell::Figure(shown(&point.total)));
    for role in largest(line, roles) {
        table = table.column(roles::by_id(role).title, |point| of(point, role));
    }
    table.done()
}
