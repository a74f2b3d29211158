//! The verdict of `pipeprof check` as a comment on a pull request: one table, and the rest folded. It begins with the same line
//! each time, by which a bot finds the comment that it replaces.

use crate::compare::Comparison;
use crate::compare::model::{Section, Step};
use crate::compare::render::terminal;
use crate::report::number;
use crate::studies::limits::{LimitState, LimitVerdict};
use crate::studies::verdict::{CheckThresholds, CheckVerdict};
use crate::util::text::{clean, grouped};
use std::fmt::Write as _;

/// The first line.
const MARK: &str = "<!-- pipeprof check -->";

/// Rows of the table, which has at most 15 lines with what is around it: those that are not the same come first.
const ROWS: usize = 8;

/// Exceeded limits that a row names.
const NAMED: usize = 2;

/// Columns of the folded text.
const WIDTH: usize = 100;

/// A command with its change and the verdict on it.
pub(super) struct JudgedCase<'a> {
    pub section: &'a Section,
    pub step: &'a Step,
    pub verdict: CheckVerdict,
    /// What its own limits say.
    pub limits: Vec<LimitVerdict>,
}

impl JudgedCase<'_> {
    /// Limits that are exceeded, or cannot be checked.
    pub(super) fn told(&self) -> impl Iterator<Item = &LimitVerdict> {
        self.limits.iter().filter(|limit| limit.state != LimitState::Kept)
    }

    /// `regression: page faults +700 (limit +10)`.
    fn words(&self) -> String {
        let told: Vec<&str> = self.told().take(NAMED).map(|limit| &limit.short[..]).collect();
        let colon = if told.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", self.verdict.text(), told.join("; ")).replace('|', "\\|")
    }
}

/// The comment.
pub(super) fn comment(comparison: &Comparison, mut rows: Vec<JudgedCase<'_>>, thresholds: &CheckThresholds) -> String {
    rows.sort_by_key(|case| case.verdict);
    let worst = CheckVerdict::worst(rows.iter().map(|case| case.verdict));
    let mut text = format!("{MARK}\n**pipeprof: {}**\n\n", thresholds.sentence(worst));
    let _ = writeln!(text, "| command | verdict | {} | change | system calls |", comparison.per_kib());
    text.push_str("|---|---|--:|--:|--:|\n");
    for case in rows.iter().take(ROWS) {
        let (section, step) = (case.section, case.step);
        let of = &step.verdict;
        let _ = writeln!(
            text,
            "| {} | {} | {} to {} | {}{} | {} |",
            code(&section.title()),
            clean(&case.words()),
            number::exact(of.before),
            number::exact(of.after),
            number::change(of.ratio),
            number::in_parentheses(of.uncertainty),
            calls(step),
        );
    }
    if let Some(more) = rows.len().checked_sub(ROWS).filter(|more| *more > 0) {
        let _ = writeln!(text, "\n{more} more: none is worse than these.");
    }
    let answers: Vec<String> = terminal::answers(comparison, WIDTH).lines().map(clean).collect();
    let answers = answers.join("\n");
    let fence = "`".repeat(3.max(longest_fence(&answers) + 1));
    let _ = write!(text, "\n<details><summary>What changed</summary>\n\n{fence}\n{answers}\n{fence}\n\n</details>\n");
    text
}

/// `1,421 to 1,921 (getppid +500)`.
fn calls(step: &Step) -> String {
    let all = &step.pipeline.system_calls;
    if all.is_empty() {
        return "-".to_owned();
    }
    let [before, after] = [0, 1].map(|side: usize| all.iter().map(|call| call.calls[side]).sum::<u64>());
    let largest = all.first().filter(|call| call.certain);
    let largest = largest.map(|call| format!(" ({})", call.text())).unwrap_or_default();
    if before == after && largest.is_empty() {
        return grouped(before);
    }
    format!("{} to {}{largest}", grouped(before), grouped(after))
}

/// As code in a cell of a table.
fn code(text: &str) -> String {
    let text = clean(text).replace('|', "\\|");
    let fence = "`".repeat(longest_fence(&text) + 1);
    format!("{fence} {text} {fence}")
}

/// The longest row of backticks.
fn longest_fence(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn a_command_cannot_leave_its_cell() {
        assert_eq!(code("a | `b`"), "`` a \\| `b` ``");
        assert!(!code("x\n|---|").contains('\n'));
    }
}
