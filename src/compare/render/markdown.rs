//! `report.md`: the comparison for a mailing list, in 78 columns, with tables as plain text in code blocks.

use super::layout::{TextTable, wrap};
use super::terminal::{self, Extent};
use crate::compare::answer::{self, Line};
use crate::compare::model::{CallList, Comparison, Method};
use crate::compare::text;
use crate::util::text::clean;
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
            "Instructions of all measured processes per KiB moved, counted in several windows of deterministic guests. \
             Verdicts are about instructions without scheduling, from the 99 % interval of the change. Instructions are not \
             time."
        }
        Method::Timed => {
            "Nanoseconds per KiB moved, medians of unprofiled runs; Mann-Whitney with Holm's correction, changes under 2 % \
             count as the same."
        }
    };
    out.push_str(&wrap(how, WIDTH, 0, ""));
    let _ = write!(out, "\n## Answer\n\n{}", list(&answer::lines(comparison)));
    let extent = Extent { width: WIDTH, roles: 12, functions: 15 };
    for section in &comparison.sections {
        let _ = write!(out, "\n## {}\n\n```\n", escape(&section.title()));
        out.push_str(&code(&terminal::cells(comparison, section, WIDTH)));
        out.push_str("```\n");
        for step in &section.steps {
            let (from, to) = comparison.step_labels(step);
            let _ = write!(out, "\n### {} to {}\n\n```\n", escape(from), escape(to));
            out.push_str(&code(&terminal::step_text(comparison, step, extent)));
            for list in &step.calls {
                out.push('\n');
                out.push_str(&code(&calls(list, from, to)));
            }
            out.push_str("```\n");
        }
    }
    let _ = write!(out, "\n## Environment\n\n```\n{}```\n", code(&terminal::environment(comparison, WIDTH)));
    out
}

/// The functions called by one of the pipe's system calls, in the order of its code.
fn calls(list: &CallList, from: &str, to: &str) -> String {
    let head = format!(
        "Calls of {} in {from} and of {} in {to}, in the order of the code, per call of the first process:",
        list.before, list.after
    );
    let mut out = wrap(&head, WIDTH, 2, "");
    let mut table = TextTable::new(["callee", "before", "after"].map(str::to_owned).to_vec());
    let count = |count: Option<f64>| count.map_or_else(|| "-".to_owned(), text::value);
    for row in &list.rows {
        let name = match (row.before_name.is_empty(), row.after_name.is_empty()) {
            (false, false) if row.before_name != row.after_name => format!("{} / {}", row.before_name, row.after_name),
            (true, _) => row.after_name.clone(),
            _ => row.before_name.clone(),
        };
        table.row(vec![name, count(row.before), count(row.after)]);
    }
    out.push_str(&table.render(WIDTH, 2));
    out
}

fn list(lines: &[Line]) -> String {
    lines.iter().map(|line| wrap(&escape(&line.text), WIDTH, 2 * line.level, "- ")).collect()
}

/// Text for a code block, without marks that would end it.
fn code(text: &str) -> String {
    text.replace("```", "'''")
}

/// Foreign text for Markdown, with markup and HTML escaped.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            // CommonMark, section 2.4: a backslash before punctuation, which also reads well as text.
            '<' | '>' | '&' | '`' | '*' | '[' | ']' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
