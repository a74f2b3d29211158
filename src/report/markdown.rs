//! Blocks as Markdown (CommonMark, and GitHub's tables).

use super::block::{self, ReportBlock};
use super::table::{Table, TableCell};
use super::terminal::text::filled;
use crate::util::text::clean;

/// Columns of prose, and of tables as they are on a terminal: those of a mail.
pub const WIDTH: u16 = 78;

pub fn document(title: &str, blocks: &[ReportBlock]) -> String {
    format!("# {}\n{}", escaped(title), below(blocks, 2))
}

/// Blocks below a heading of the level before.
fn below(blocks: &[ReportBlock], level: usize) -> String {
    let mut out = String::new();
    for block in blocks {
        match block {
            ReportBlock::Sentence(text) | ReportBlock::Note(text) => out.push_str(&format!("\n{}", wrapped(text, ""))),
            ReportBlock::Items(items) if items.is_empty() => {}
            ReportBlock::Items(items) => {
                out.push('\n');
                for (blanks, item) in items.iter().map(|item| block::indent(item)) {
                    out.push_str(&wrapped(item, &format!("{blanks}- ")));
                }
            }
            ReportBlock::Table(table) => out.push_str(&self::table(table, level)),
            ReportBlock::Section { heading, blocks, .. } | ReportBlock::Details { summary: heading, blocks, .. } => {
                out.push_str(&format!("\n{} {}\n{}", "#".repeat(level), escaped(heading), below(blocks, level + 1)));
            }
            ReportBlock::Plain(blocks) => {
                let text = block::uncut(blocks, WIDTH);
                // Without marks that would end it.
                out.push_str(&format!("\n```text\n{}```\n", text.trim_start_matches('\n').replace("```", "'''")));
            }
            ReportBlock::Beside(blocks) => out.push_str(&below(blocks, level)),
            ReportBlock::Picture { title, file, caption, .. } if !file.is_empty() => {
                out.push_str(&format!("\n![{}]({file})\n", escaped(title)));
                out.push_str(&format!("\n{}", wrapped(&format!("{title}. {caption}"), "")));
            }
            ReportBlock::Graph(graph) if !graph.file.is_empty() => {
                let (title, about) = (escaped(&graph.title), escaped(&graph.about));
                out.push_str(&format!("\n[{title}]({}): {about}\n", graph.file));
            }
            ReportBlock::Picture { .. } | ReportBlock::Graph(_) | ReportBlock::Links(_) => {}
        }
    }
    out
}

/// A paragraph or an item.
fn wrapped(text: &str, first: &str) -> String {
    filled(&inline(text), first, first.len(), WIDTH.into())
}

/// [`escaped`], with what is in backticks as code.
fn inline(text: &str) -> String {
    // Code is as it is, but no name of others is HTML.
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => escaped(part),
        _ if part.contains('<') => format!("\\`{}\\`", escaped(part)),
        _ => format!("`{}`", clean(part)),
    });
    parts.collect()
}

fn table(table: &Table, level: usize) -> String {
    let mut out = String::new();
    if !table.title.is_empty() {
        out.push_str(&format!("\n{} {}\n", "#".repeat(level), escaped(&table.title)));
    }
    let row = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let figures = (0..table.columns.len()).map(|column| table.is_of_figures(column));
    let rule: Vec<&str> = figures.map(|right| if right { "---:" } else { "---" }).collect();
    out.push('\n');
    out.push_str(&row(&mut table.columns.iter().map(|column| escaped(&column.heading.replace('\n', " ")))));
    out.push_str(&format!("|{}|\n", rule.join("|")));
    for cells in &table.rows {
        out.push_str(&row(&mut cells.iter().map(|cell| match cell {
            TableCell::Link { text, to } => format!("[{}]({to})", escaped(text)),
            TableCell::Text(text) => inline(text).replace("\\|", "|").replace('|', "\\|"),
            cell => escaped(&cell.text()),
        })));
    }
    table.notes.iter().for_each(|note| out.push_str(&format!("\n{}", wrapped(note, ""))));
    out
}

/// Text from outside without markup and HTML: a backslash before punctuation (CommonMark, section 2.4), which also reads
/// well as text.
pub fn escaped(text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len());
    let mut last = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // Within a word, an underscore is no mark.
        let in_word = last.is_alphanumeric() && chars.peek().is_some_and(|next| next.is_alphanumeric());
        let is_arrow = c == '>' && last == '-';
        if "<>&`*[]\\|~".contains(c) && !is_arrow || c == '_' && !in_word {
            out.push('\\');
        }
        out.push(c);
        last = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        assert_eq!(escaped("a|b <i> *x* `y` [z](u) & \\"), "a\\|b \\<i\\> \\*x\\* \\`y\\` \\[z\\](u) \\& \\\\");
        assert_eq!(escaped("get_page _x_ __init\u{7}"), "get_page \\_x\\_ \\_\\_init?");
    }

    #[test]
    fn blocks_are_sections_lists_and_tables() {
        let rows = vec![vec![TableCell::Link { text: "a|b".into(), to: "#a".into() }, 1.5.into()]];
        let table = ReportBlock::Table(Table::new(["kernel", "x"], rows).note("a note"));
        let items = ReportBlock::Items(vec!["word ".repeat(40)]);
        let text =
            document("A <b>", &[ReportBlock::sentence("Of `a_`."), ReportBlock::section("S", vec![items, table])]);
        assert!(text.starts_with("# A \\<b\\>\n\nOf `a_`.\n\n## S\n\n- word"), "{text}");
        assert!(text.ends_with("\n\n| kernel | x |\n|---|---:|\n| [a\\|b](#a) | 1.50 |\n\na note\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH.into()) && text.contains("\n  word"), "{text}");
        let plain = document("t", &[ReportBlock::Plain(vec![ReportBlock::Table(Table::new(["```"], vec![]))])]);
        assert_eq!(plain, "# t\n\n```text\n '''\n```\n");
    }

    #[test]
    fn no_name_is_cut() {
        let name =
            "core::iter::adapters::map::Map<std::vec::IntoIter<alloc::string::String>, closure>::try_fold_of_all";
        let names = ["__alloc_frozen_pages_noprof", name];
        let table = || {
            let table = Table::of(name, names).column("function", |name| TableCell::Name((*name).to_owned()));
            let table =
                table.column("calls", |_| 1.5).less(1, "share", |_| TableCell::Share(0.5)).column("by", |_| name);
            vec![ReportBlock::Table(table.done())]
        };
        for blocks in [table(), vec![ReportBlock::Plain(table())]] {
            // Titles are wrapped.
            let text = document("t", &blocks).replace('\\', "").replace(",\nclosure", ", closure");
            assert!(!text.contains('…') && text.matches(name).count() == 4 && text.contains(names[0]), "{text}");
        }
    }
}
