//! `report.md`: the comparison as a mail to a list takes it. 78 columns, tables as plain text in code blocks.

use super::layout::wrap;
use super::terminal::{self, Extent};
use crate::compare::model::{Comparison, Method};
use std::fmt::Write as _;

/// Columns of a mail.
pub const WIDTH: usize = 78;

/// The whole report.
#[must_use]
pub fn render(comparison: &Comparison) -> String {
    let labels: Vec<&str> = comparison.columns.iter().map(|column| column.label.as_str()).collect();
    let mut out = format!("# pipeprof compare\n\n{}\n", wrap(&labels.join(", "), WIDTH, 0, ""));
    let how = match comparison.method {
        Method::Exact => {
            "Instructions of writer and reader per KiB moved, counted in deterministic guests: every difference is \
             real. Instructions are not time."
        }
        Method::Timed => {
            "Nanoseconds per KiB moved, medians of fresh pairs; Mann-Whitney with Holm's correction, changes under 2 % \
             are called same."
        }
    };
    out.push_str(&wrap(how, WIDTH, 0, ""));
    let _ = write!(out, "\n## Answer\n\n{}", list(&terminal::summary_lines(comparison)));
    let extent = Extent { width: WIDTH, roles: 12, functions: 15 };
    for section in &comparison.sections {
        let _ = write!(out, "\n## {}\n\n```\n", escape(&section.mode));
        out.push_str(&code(&terminal::cells(comparison, section, WIDTH)));
        out.push_str("```\n");
        for step in &section.steps {
            let (from, to) = comparison.step_labels(step);
            let _ = write!(out, "\n### {} to {}\n\n```\n", escape(from), escape(to));
            out.push_str(&code(&terminal::step_text(comparison, step, extent)));
            out.push_str("```\n");
        }
    }
    let _ = write!(out, "\n## Environment\n\n```\n{}```\n", code(&terminal::environment(comparison, WIDTH)));
    out
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| wrap(&escape(line), WIDTH, 0, "- ")).collect()
}

/// Text for a code block: nothing in it ends the block.
fn code(text: &str) -> String {
    text.replace("```", "'''")
}

/// Text of others in Markdown's own text: no markup, no HTML.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in crate::compare::text::plain(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '`' | '*' | '[' | ']' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
