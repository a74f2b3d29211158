//! `history.md`: the answers, and a table for each workload.

use super::sentences;
use super::shown;
use crate::history::neighbours::Neighbours;
use crate::history::{History, HistoryLine};
use crate::roles::{self, RoleId};
use crate::util::text::clean;
use std::fmt::Write as _;

/// Roles in a table.
const ROLES: usize = 8;

/// The text.
pub(super) fn render(history: &History, link: &dyn Fn(&Neighbours) -> Option<String>) -> String {
    let mut out = String::from("# Kernels over time\n\n");
    out.push_str(super::html::ABOUT);
    out.push('\n');
    for (line, answer) in history.lines.iter().zip(sentences::all(history, link)) {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n## {}\n\n{}.\n\n", escape(&answer.title), escape(&answer.sentence));
        for step in &answer.steps {
            let kernels = match &step.link {
                Some(link) => format!("[{}]({link})", escape(&step.kernels)),
                None => escape(&step.kernels),
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
        let _ = write!(out, "| {} | {} | {} |", escape(label), shown(&point.without_scheduling), shown(&point.total));
        for role in &roles {
            let value = point.roles.get(role).copied().unwrap_or_default();
            let _ = write!(out, " {} |", crate::compare::text::value(value.value));
        }
        out.push('\n');
    }
    out
}

/// The roles that take most on any kernel, in the order of legends.
pub(super) fn largest(line: &HistoryLine, count: usize) -> Vec<RoleId> {
    let most = |role: RoleId| {
        line.points.iter().filter_map(|point| point.roles.get(&role)).map(|span| span.value).fold(0.0, f64::max)
    };
    let mut all: Vec<(RoleId, f64)> = roles::all()
        .iter()
        .filter(|role| !roles::SCHEDULING.contains(&role.id))
        .map(|role| (role.id, most(role.id)))
        .filter(|(_, most)| *most > 0.0)
        .collect();
    let mut sorted: Vec<f64> = all.iter().map(|(_, most)| *most).collect();
    sorted.sort_by(|left, right| right.total_cmp(left));
    let least = sorted.get(count.saturating_sub(1)).copied().unwrap_or(0.0);
    all.retain(|(_, most)| *most >= least);
    all.truncate(count);
    all.into_iter().map(|(role, _)| role).collect()
}

/// Text from outside.
fn escape(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('|', "\\|").replace('[', "\\[").replace('<', "&lt;")
}
