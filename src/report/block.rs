//! What an output shows, in its order. Terminals ([`text`]), pages ([`super::html`]) and Markdown ([`super::markdown`])
//! render the same blocks, so that what one of them says, all say.

use super::table::Table;
use super::terminal::{Style, paragraph};
use crate::util::styled_text::StyledText;

/// A part of an output. Texts have words of code in backticks.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportBlock {
    /// A paragraph.
    Sentence(String),
    /// A paragraph that explains or limits others.
    Note(String),
    /// Entries of a list; blanks before one are its depth.
    Items(Vec<String>),
    Table(Table),
    /// What is below a heading. A page can link to its `id`, unless that is empty.
    Section {
        id: String,
        heading: String,
        blocks: Vec<ReportBlock>,
    },
    /// What a page shows when the reader opens it, and the others always.
    Details {
        id: String,
        summary: String,
        is_open: bool,
        blocks: Vec<ReportBlock>,
    },
    /// An SVG that is drawn here: in a page, and in Markdown if it is also a file, of this name, with this description.
    Picture {
        title: String,
        svg: String,
        file: String,
        caption: String,
    },
    /// A flame graph: in a page, and in Markdown if it is also a file.
    Graph(PackedGraph),
    /// Places of the page, with their names; only in pages.
    Links(Vec<(String, String)>),
    /// Next to each other, where there is room.
    Beside(Vec<ReportBlock>),
    /// What Markdown has as it is on a terminal, because its tables are too wide for a mail.
    Plain(Vec<ReportBlock>),
}

/// A flame graph in a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedGraph {
    pub id: String,
    pub title: String,
    /// Description for the reader; may be empty.
    pub about: String,
    /// Width on the page, in percent: the graph of the largest total has 100, so that all columns have one scale.
    pub width: f64,
    /// Its name, if it is also a file; else empty.
    pub file: String,
    /// The SVG, as [`super::html::pack`] makes it.
    pub packed: String,
}

impl ReportBlock {
    pub fn sentence(text: impl Into<String>) -> Self {
        Self::Sentence(text.into())
    }

    /// A picture of a page alone.
    pub fn picture(title: impl Into<String>, svg: String) -> Self {
        Self::Picture { title: title.into(), svg, file: String::new(), caption: String::new() }
    }

    /// Blocks below a heading.
    pub fn section(heading: impl Into<String>, blocks: Vec<Self>) -> Self {
        Self::Section { id: String::new(), heading: heading.into(), blocks }
    }

    pub(super) fn inner(&self) -> &[Self] {
        match self {
            Self::Section { blocks, .. }
            | Self::Details { blocks, .. }
            | Self::Beside(blocks)
            | Self::Plain(blocks) => blocks,
            _ => &[],
        }
    }
}

/// The blanks before an item, and the item.
pub(super) fn indent(item: &str) -> (&str, &str) {
    item.split_at(item.len() - item.trim_start_matches(' ').len())
}

/// For a terminal.
pub fn text(blocks: &[ReportBlock], style: Style) -> StyledText {
    written(blocks, style, Table::text)
}

/// Plain text, in lines of so many columns where words and names allow it: nothing is cut, so that it can be searched.
pub(super) fn uncut(blocks: &[ReportBlock], width: u16) -> String {
    written(blocks, Style { width: Some(width), colour: false }, Table::uncut).into()
}

fn written(blocks: &[ReportBlock], style: Style, of_table: fn(&Table, Style) -> StyledText) -> StyledText {
    let mut out = StyledText::default();
    for block in blocks {
        match block {
            ReportBlock::Sentence(text) | ReportBlock::Note(text) => out.push_str(&paragraph("", text, style)),
            ReportBlock::Items(items) => {
                for item in items {
                    let (blanks, item) = indent(item);
                    out.push_str(&paragraph(&format!("  {blanks}"), item, style));
                }
            }
            ReportBlock::Table(table) => {
                out.push_str("\n");
                out.append(&of_table(table, style));
            }
            ReportBlock::Section { heading, .. } | ReportBlock::Details { summary: heading, .. } => {
                out.push_str("\n");
                out.push_str(&paragraph("", &format!("{heading}:"), style));
            }
            ReportBlock::Picture { .. }
            | ReportBlock::Graph(_)
            | ReportBlock::Links(_)
            | ReportBlock::Beside(_)
            | ReportBlock::Plain(_) => {}
        }
        out.append(&written(block.inner(), style, of_table));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_headings_have_several_lines() {
        let blocks = [ReportBlock::section("6.1 1 CPU -> 6.12 2 CPUs: more, +35.5 %", Vec::new())];
        assert_eq!(uncut(&blocks, 30), "\n6.1 1 CPU -> 6.12 2 CPUs:\nmore, +35.5 %:\n");
    }
}
