//! `history.md`: the answers, and a table for each workload.

use super::sentences;
use super::{about, largest, shown};
use crate::history::neighbours::Neighbours;
use crate::history::{History, HistoryLine};
use crate::roles;
use crate::util::text::markdown_escaped;
use std::fmt::Write as _;

/// Roles in a table.
const ROLES: usize = 8;

/// The text.
pub(super) fn render(history: &History, link: &dyn Fn(&Neighbours) -> Option<String>) -> String {
    let mut out = String::from("# Kernels over time\n\n");
    let _ = writeln!(out, "{} {}", about(history), markdown_escaped(&sentences::counted_by(history)));
    for (line, answer) in history.lines.iter().zip(sentences::all(history, link)) {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {}\n\n{}.\n\n", markdown_escaped(&answer.title), markdown_escaped(&answer.sentence));
        for step in &answer.steps {
            let kernels = match &step.link {
                Some(link) => format!("[{}]({link})", markdown_escaped(&step.kernels)),
                None => markdown_escaped(&step.kernels),
            };
            let _ = writeln!(out, "- {kernels}: {}: {}", step.change, step.roles);
        }
        out.push_str(&table(history, line));
    }
    out
}

fn table(history: &History, line: &HistoryLine) -> String {
    let roles = largest(line, ROLES);
    let mut out = String::from("\n| kernel | without scheduling | total |");
    roles.iter().for_each(|role| {
        let _ = write!(out, " {} |", roles::by_id(*role).title);
    });
    out.push_str("\n|---|---:|---:|");
    out.push_str(&"---:|".repeat(roles.len()));
    out.push('\n');
    for point in &line.points {
        let label = history.kernels.get(point.kernel).map_or("", |kernel| kernel.label.as_str());
        let _ = write!(
            out,
            "| {} | {} | {} |",
            markdown_escaped(label),
            shown(&point.without_scheduling),
            shown(&point.total)
        );
        for role in &roles {
            let value = point.roles.get(role).copied().unwrap_or_default();
            let _ = write!(out, " {} |", crate::compare::text::value(value.value));
        }
        out.push('\n');
    }
    out
}
