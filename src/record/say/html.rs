//! `record.html`: the recording as one page that needs no network.

use crate::record::say::{graphs, text, timeline_svg};
use crate::report::block::{PackedGraph, ReportBlock};
use crate::report::files;
use crate::report::html::{HtmlPage, pack};
use crate::result::Document;
use crate::result::stack_files::CRITICAL_PATH;
use anyhow::{Context as _, Result};

/// The page's name in its folder.
pub(crate) const PAGE_FILE: &str = "record.html";

/// Graphs in the page: the others are in the folder. A shell can start many programs.
const GRAPHS: usize = 8;

/// The page. `contents`: the other files of the folder, of which it shows the graphs.
pub fn page(recording: &Document, contents: &[(String, Vec<u8>)]) -> Result<String> {
    let (command, answer) = match recording.target.imported() {
        Some(_) => ("attribute", "Answer"),
        None if recording.machine.is_some() => ("record", "Where time is lost"),
        None => ("record", "What its time was made of"),
    };
    let section = |id: &str, heading: &str, blocks| ReportBlock::Section {
        id: id.to_owned(),
        heading: heading.to_owned(),
        blocks,
    };
    let mut blocks = vec![section("answer", answer, text::answer(recording))];
    blocks.extend(
        timeline_svg::svg(recording).map(|svg| section("timeline", "Over time", vec![ReportBlock::picture("", svg)])),
    );
    blocks.extend(text::details(recording));
    // The path, and those of several programs first.
    let mut drawn: Vec<&(String, Vec<u8>)> = contents.iter().filter(|(name, _)| name.ends_with(".svg")).collect();
    drawn.sort_by_cached_key(|(name, _)| {
        (
            name.strip_suffix(".svg") != Some(CRITICAL_PATH),
            graphs::is_of_one(name, contents.iter().map(|(name, _)| &name[..])),
        )
    });
    let mut graphs = Vec::new();
    for (number, (name, svg)) in drawn.into_iter().take(GRAPHS).enumerate() {
        graphs.push(ReportBlock::Graph(PackedGraph {
            id: format!("graph-{number}"),
            title: name.trim_end_matches(".svg").to_owned(),
            about: String::new(),
            width: 100.0,
            file: String::new(),
            packed: pack(std::str::from_utf8(svg).context("a flame graph is text")?)?,
        }));
    }
    if !graphs.is_empty() {
        blocks.push(section("graphs", "Flame graphs", graphs));
    }
    blocks.extend(text::limits(recording));
    let subject = files::title(recording);
    let page = HtmlPage {
        title: format!("pipeprof {command}: {subject}"),
        heading: format!("`{subject}`"),
        about: vec![ReportBlock::sentence(text::about(recording))],
        blocks,
        made_by: format!(
            "{}, pipeprof {}, {}, `{}`",
            recording.schema, recording.version, recording.started, recording.command
        ),
    };
    Ok(page.html())
}
