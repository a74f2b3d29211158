//! The answer of a history in words.

use crate::history::neighbours::Neighbours;
use crate::history::{History, HistoryLine, HistoryPoint, HistoryStep};
use crate::report::number;
use crate::util::text::{clean, counted};
use serde::Serialize;

/// Roles that a step names.
const NAMED: usize = 4;

/// The answer of one line of a history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineAnswer {
    pub title: String,
    pub sentence: String,
    pub steps: Vec<StepAnswer>,
}

/// One step in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepAnswer {
    /// `7.1 to 7.2`.
    pub kernels: String,
    /// `+33.78 (+7.2 %)`.
    pub change: String,
    pub roles: String,
    /// The comparison of the two.
    pub link: Option<String>,
}

/// The answers of all lines, in their order.
pub fn all(history: &History, link: &dyn Fn(&Neighbours) -> Option<String>) -> Vec<LineAnswer> {
    history.lines.iter().map(|line| of_line(history, line, link)).collect()
}

fn of_line(history: &History, line: &HistoryLine, link: &dyn Fn(&Neighbours) -> Option<String>) -> LineAnswer {
    let steps = line.steps.iter().map(|step| of_step(history, line, step, link)).collect();
    let change = |[first, last]: [&HistoryPoint; 2]| {
        number::change_of(first.without_scheduling.value, last.without_scheduling.value)
    };
    let alone = history.alone(line).and_then(HistoryLine::ends).map(change);
    let alone = alone.map_or_else(String::new, |change| format!("; source alone {change}"));
    let sentence = match line.ends() {
        Some([first, last]) => format!(
            "{} instructions per KiB on {}, {} on {} ({}{alone}), {}",
            number::exact(first.without_scheduling.value),
            history.label(first.kernel),
            number::exact(last.without_scheduling.value),
            history.label(last.kernel),
            change([first, last]),
            changes(line)
        ),
        None => "counted on one kernel only".to_owned(),
    };
    LineAnswer { title: line.title(), sentence, steps }
}

/// `in 2 steps`.
fn changes(line: &HistoryLine) -> String {
    let of_total = line.steps.iter().filter(|step| step.of_total).count() as u64;
    match (of_total, line.steps.len() as u64 - of_total) {
        (0, 0) => "without a step".to_owned(),
        (0, offset) => format!("without a step of the sum; roles offset each other in {}", counted(offset, "place")),
        (steps, _) => format!("in {}", counted(steps, "step")),
    }
}

fn of_step(
    history: &History,
    line: &HistoryLine,
    step: &HistoryStep,
    link: &dyn Fn(&Neighbours) -> Option<String>,
) -> StepAnswer {
    let pair = Neighbours { setting: line.setting.clone(), before: step.before, after: step.after };
    let change = format!("{} ({})", number::signed(step.delta), number::change(1.0 + step.relative));
    let mut roles: Vec<String> =
        step.roles.iter().take(NAMED).map(|role| format!("{} {}", role.title, number::signed(role.delta))).collect();
    // So that the parts are the whole.
    let rest = step.delta - step.roles.iter().take(NAMED).map(|role| role.delta).sum::<f64>();
    if !roles.is_empty() && rest.abs() >= 0.005 {
        roles.push(format!("other roles {rest:+.2}"));
    }
    let compilers = [step.before, step.after]
        .map(|kernel| history.kernels.get(kernel).map_or("", |kernel| kernel.compiler.as_str()));
    // Another compiler changes counts by several percent by itself.
    let built = match compilers {
        [before, after] if before != after && !before.is_empty() && !after.is_empty() && !line.source_alone => {
            format!(" [{before} to {after}]")
        }
        _ => String::new(),
    };
    StepAnswer {
        kernels: format!("{} to {}{built}", history.label(step.before), history.label(step.after)),
        change: match step.of_total {
            true => change,
            false => format!("{change}, within its uncertainty"),
        },
        roles: if roles.is_empty() { "small changes of many roles".to_owned() } else { roles.join(", ") },
        link: if line.source_alone { None } else { link(&pair) },
    }
}

/// How often each workload was counted, and by what.
pub(super) fn counted_by(history: &History) -> String {
    let windows = match history.windows() {
        [_, 0] => "one recording of each pipeline".to_owned(),
        [_, 1] => "one window".to_owned(),
        [least, most] if least == most => format!("the median of {}", counted(most as u64, "window")),
        [least, most] => format!("the median of {least} to {most} windows"),
    };
    let alone = history.sources.as_ref().map(|sources| {
        format!(
            " Source alone: all sources were built with the configuration of {} and {}, so that only the kernel's code and \
             its defaults differ.",
            sources.configuration, sources.compiler
        )
    });
    format!(
        "Values are of {windows}, emulated (TCG) by {}.{}",
        history.emulators.join(" and "),
        alone.unwrap_or_default()
    )
}

/// The answers for a terminal.
pub fn terminal(history: &History) -> String {
    let mut out = String::new();
    for answer in all(history, &|_| None) {
        let steps = answer.steps.iter().map(|step| format!("  {}: {}: {}", step.kernels, step.change, step.roles));
        for line in std::iter::once(format!("{}: {}", answer.title, answer.sentence)).chain(steps) {
            out.push_str(&clean(&line));
            out.push('\n');
        }
    }
    let mut whose: Vec<&str> = history.lines.iter().map(HistoryLine::counted).collect();
    whose.sort_unstable();
    whose.dedup();
    let whose = whose.join(" (pipelines), and of ");
    out.push_str(&clean(&format!("Instructions of {whose}, without scheduling. {}", counted_by(history))));
    out.push('\n');
    out
}
