//! Blocks as a page: one file that needs no network, with light and dark colours, and a script that shows packed flame
//! graphs.

use super::block::{PackedGraph, ReportBlock};
use super::flamegraph::escape;
use super::table::{Table, TableCell};
use crate::util::text::clean_lines;
use anyhow::{Context as _, Result};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use flate2::{Compression, GzBuilder};
use std::fmt::Write as _;
use std::io::Write as _;

/// Texts that are longer are wrapped in tables.
const LONG_TEXT: usize = 28;

#[derive(Debug, Clone, Default)]
pub struct HtmlPage {
    /// The window's title.
    pub title: String,
    pub heading: String,
    /// Below the heading.
    pub about: Vec<ReportBlock>,
    pub blocks: Vec<ReportBlock>,
    /// What made the page, at its end.
    pub made_by: String,
}

impl HtmlPage {
    /// The file.
    pub fn html(&self) -> String {
        let mut out = format!(
            "{}<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n",
            include_str!("head.html"),
            escaped(&self.title),
            include_str!("style.css"),
            inline(&self.heading)
        );
        write_all(&mut out, &self.about, 2);
        out.push_str("</header>\n\n<main>\n");
        write_all(&mut out, &self.blocks, 2);
        let _ = write!(out, "<p class=\"dim\">{}</p>\n</main>\n\n", inline(&self.made_by));
        packed(&mut out, &self.about);
        packed(&mut out, &self.blocks);
        let _ = write!(out, "<script>\n{}</script>\n</body>\n</html>\n", include_str!("graphs.js"));
        out
    }
}

/// Text of a page. Names are from other programs: as in terminals, what is hidden is replaced.
fn escaped(text: &str) -> String {
    escape(text)
}

/// [`escaped`], with what is in backticks as code.
fn inline(text: &str) -> String {
    let parts = text.split('`').map(escaped).enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part }).collect()
}

/// ` id="..."`; nothing if it is empty.
fn id_of(id: &str) -> String {
    if id.is_empty() { String::new() } else { format!(" id=\"{}\"", escaped(id)) }
}

fn write_all(out: &mut String, blocks: &[ReportBlock], level: usize) {
    for block in blocks {
        write_block(out, block, level);
    }
}

fn write_block(out: &mut String, block: &ReportBlock, level: usize) {
    // Writing to a String cannot fail.
    let _ = match block {
        ReportBlock::Sentence(text) => writeln!(out, "<p>{}</p>", inline(text)),
        ReportBlock::Note(text) => writeln!(out, "<p class=\"dim\">{}</p>", inline(text)),
        ReportBlock::Items(items) if items.is_empty() => Ok(()),
        ReportBlock::Items(items) => {
            let items = items.iter().map(|item| format!("<li>{}</li>\n", inline(item.trim_start_matches(' '))));
            writeln!(out, "<ul>{}</ul>", items.collect::<String>())
        }
        ReportBlock::Table(table) => writeln!(out, "{}", table_of(table, level)),
        ReportBlock::Section { id, heading, blocks } => {
            let _ = writeln!(out, "<section{}><h{level}>{}</h{level}>", id_of(id), inline(heading));
            write_all(out, blocks, level + 1);
            writeln!(out, "</section>")
        }
        ReportBlock::Details { id, summary, is_open, blocks } => {
            let open = if *is_open { " open" } else { "" };
            let _ = writeln!(out, "<details{}{open}>\n<summary>{}</summary>", id_of(id), inline(summary));
            out.push_str("<div class=\"inside\">\n");
            write_all(out, blocks, level + 1);
            writeln!(out, "</div></details>")
        }
        ReportBlock::Picture { svg, .. } if svg.is_empty() => Ok(()),
        ReportBlock::Picture { title, svg, .. } => {
            let title = if title.is_empty() {
                String::new()
            } else {
                format!("<figcaption><b>{}</b></figcaption>", inline(title))
            };
            // Within a page, without prolog and document type.
            let svg = clean_lines(svg.get(svg.find("<svg").unwrap_or(0)..).unwrap_or_default());
            writeln!(out, "<figure class=\"chart\">{title}<div class=\"scroll\">{svg}</div></figure>")
        }
        ReportBlock::Graph(graph) => writeln!(out, "{}", graph_of(graph)),
        ReportBlock::Links(links) => {
            let link = |(name, to): &(String, String)| format!("<a href=\"{}\">{}</a>", escaped(to), inline(name));
            writeln!(out, "<p>{}</p>", links.iter().map(link).collect::<Vec<_>>().join(", "))
        }
        ReportBlock::Beside(blocks) => {
            out.push_str("<div class=\"two\">\n");
            for block in blocks {
                out.push_str("<div>");
                write_block(out, block, level);
                out.push_str("</div>\n");
            }
            writeln!(out, "</div>")
        }
        ReportBlock::Plain(blocks) => {
            write_all(out, blocks, level);
            Ok(())
        }
    };
}

fn graph_of(PackedGraph { id, title, about, width, .. }: &PackedGraph) -> String {
    let (id, name, title) = (escaped(id), escaped(title), inline(title));
    let about =
        if about.is_empty() { String::new() } else { format!(" <span class=\"dim\">({})</span>", inline(about)) };
    let width = if *width < 100.0 { format!(" style=\"width:{width:.1}%\"") } else { String::new() };
    format!(
        "<figure><figcaption><b>{title}</b>{about} <button class=\"link\" data-alone=\"{id}\">open in a new tab</button>\
         </figcaption><div class=\"frame\"{width}><iframe data-graph=\"{id}\" title=\"{name}\"></iframe></div></figure>"
    )
}

/// The graphs of `blocks`, for `graphs.js`.
fn packed(out: &mut String, blocks: &[ReportBlock]) {
    for block in blocks {
        if let ReportBlock::Graph(graph) = block {
            let (id, packed) = (escaped(&graph.id), escaped(&graph.packed));
            let _ = writeln!(out, "<script type=\"text/plain\" id=\"{id}\">{packed}</script>");
        }
        self::packed(out, block.inner());
    }
}

fn table_of(table: &Table, level: usize) -> String {
    let mut out = String::new();
    if !table.title.is_empty() {
        let _ = writeln!(out, "<h{level}>{}</h{level}>", inline(&table.title));
    }
    let class = |column: usize| match column {
        0 => "",
        _ if table.is_of_figures(column) => "",
        _ if table
            .rows
            .iter()
            .filter_map(|row| row.get(column))
            .any(|cell| cell.text().chars().count() > LONG_TEXT) =>
        {
            " class=\"text\""
        }
        _ => " class=\"left\"",
    };
    let classes: Vec<&str> = (0..table.columns.len()).map(class).collect();
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for (column, class) in table.columns.iter().zip(&classes) {
        let _ = write!(out, "<th{class}>{}</th>", inline(&column.heading));
    }
    out.push_str("</tr></thead>\n<tbody>");
    for (at, row) in table.rows.iter().enumerate() {
        let _ = write!(out, "<tr{}>", id_of(table.ids.get(at).map_or("", String::as_str)));
        row.iter().zip(&classes).for_each(|(cell, class)| out.push_str(&cell_of(cell, class)));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    for note in &table.notes {
        let _ = write!(out, "\n<p class=\"dim\">{}</p>", inline(note));
    }
    out
}

fn cell_of(cell: &TableCell, class: &str) -> String {
    let text = escaped(&cell.text());
    match cell {
        TableCell::Name(_) => format!("<td class=\"name\">{text}</td>"),
        TableCell::Role { colour, .. } => {
            format!("<td{class}><span class=\"chip\" style=\"background:{}\"></span>{text}</td>", escaped(colour))
        }
        TableCell::Unfold { mark, summary, lines, .. } => {
            let mark = if mark.is_empty() { String::new() } else { format!(" <span class=\"dim\">{mark}</span>") };
            let lines: String =
                lines.iter().map(|line| format!("<span class=\"path\">{}</span>", escaped(line))).collect();
            let summary = escaped(summary);
            format!(
                "<td class=\"name\">{text}{mark}\n<details class=\"path\"><summary>{summary}</summary>{lines}</details></td>"
            )
        }
        TableCell::Word { class, .. } => format!("<td class=\"left word {class}\">{text}</td>"),
        TableCell::Link { to, .. } => {
            // What is hidden on this page is opened.
            let open = to.strip_prefix('#').map(|id| format!(" data-open=\"{}\"", escaped(id))).unwrap_or_default();
            format!("<td{class}><a href=\"{}\"{open}>{text}</a></td>", escaped(to))
        }
        TableCell::Bar(part) => {
            let (way, width) = (if *part < 0.0 { "down" } else { "up" }, part.abs().min(1.0) * 50.0);
            format!(
                "<td class=\"left\"><span class=\"bar\"><i class=\"{way}\" style=\"width:{width:.2}%\"></i></span></td>"
            )
        }
        _ => format!("<td{class}>{}</td>", inline(&cell.text())),
    }
}

/// An SVG packed for `graphs.js`: gzip, then base64. Equal graphs give equal bytes.
pub fn pack(svg: &str) -> Result<String> {
    // No time stamp: equal graphs give equal bytes.
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(svg.as_bytes()).and_then(|()| encoder.try_finish()).context("cannot pack a flame graph")?;
    let bytes = encoder.finish().context("cannot pack a flame graph")?;
    Ok(BASE64_STANDARD.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::text::is_hidden;

    #[test]
    fn pages_have_no_markup_and_no_control_characters_of_others() {
        let odd = "<b>\u{1b}\n\t\u{7f}\u{202e}\u{200b}";
        let cells =
            vec![odd.into(), TableCell::Name(odd.into()), TableCell::Link { text: odd.into(), to: "#\"".into() }];
        let table = ReportBlock::Table(Table::new(["a", odd, "c"], vec![cells]).note(odd));
        let details = ReportBlock::Details {
            id: "x".into(),
            summary: odd.into(),
            is_open: true,
            blocks: vec![table, ReportBlock::Note(odd.into())],
        };
        let about = vec![ReportBlock::sentence("see `<i>` <b>"), ReportBlock::Items(vec![odd.into()])];
        let page =
            HtmlPage { title: odd.into(), heading: odd.into(), about, blocks: vec![details], made_by: odd.into() }
                .html();
        assert!(!page.contains("<b>?") && page.contains("&lt;b&gt;??????"), "{page}");
        assert!(page.contains("see <code>&lt;i&gt;</code> &lt;b&gt;</p>"), "{page}");
        assert!(page.chars().all(|c| !is_hidden(c) || c == '\n' || c == '\t'), "{page}");
        assert!(page.contains("href=\"#&quot;\" data-open=\"&quot;\""), "{page}");
    }

    #[test]
    fn graphs_of_all_depths_are_in_the_page_once() {
        let graph = |id: &str| {
            let id = id.to_owned();
            ReportBlock::Graph(PackedGraph {
                id,
                title: "g".into(),
                about: String::new(),
                width: 40.0,
                file: String::new(),
                packed: "AA==".into(),
            })
        };
        let blocks = vec![ReportBlock::section("s", vec![ReportBlock::Beside(vec![graph("one"), graph("two")])])];
        let page = HtmlPage { blocks, ..HtmlPage::default() }.html();
        for id in ["one", "two"] {
            assert_eq!(page.matches(&format!("<script type=\"text/plain\" id=\"{id}\">AA==")).count(), 1, "{page}");
            assert_eq!(page.matches(&format!("data-graph=\"{id}\"")).count(), 1);
        }
        assert!(page.contains("<div class=\"frame\" style=\"width:40.0%\">"), "{page}");
    }
}
