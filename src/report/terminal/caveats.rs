//! The limits of a run's figures: losses, missing collectors, and the cost of profiling.

use super::Style;
use super::roles::interrupts_off;
use super::text::{paragraph, shortened};
use crate::report::answer;
use crate::result::{CollectorReport, Document, ExecutedOn, Status};
use crate::util::styled_text::StyledText;
use crate::util::text::{clean, factor, grouped};
use std::fmt::Write as _;

/// Longer reasons, such as a BPF verifier's log, are cut; result.json contains the full text.
const LONGEST_REASON: usize = 300;

/// Print the collectors with their losses, what is not available, the meaning of a column, then the warnings that are
/// not part of the answer.
pub(super) fn caveats(document: &Document, style: Style, out: &mut StyledText) {
    out.push_str("\nLimits:\n");
    let (missing, ran): (Vec<_>, Vec<_>) =
        document.collectors.iter().partition(|report| report.status == Status::Unavailable);
    for report in ran {
        out.push_str(&paragraph(&format!("  {}: ", report.name.name()), &collector(report), style));
    }
    let no_counters = document.processes.totals.values().any(|totals| totals.counters_reason.is_some());
    let counters = no_counters && document.executed_on != ExecutedOn::Tcg;
    let mut names: Vec<String> = missing.iter().map(|report| report.name.name().to_owned()).collect();
    if counters {
        names.push("hardware counters (cycles, instructions)".to_owned());
    }
    if !names.is_empty() {
        let text = format!("{}; see `pipeprof doctor`", names.join(", "));
        out.push_str(&paragraph("  not available on this machine: ", &text, style));
    }
    let mut shares = document.attribution.processes.of_target().flat_map(|(_, shares)| shares);
    if shares.any(|share| interrupts_off(share).is_some()) {
        let text = "the percentage points of \"share\" with interrupts off, attributed to the caller";
        out.push_str(&paragraph("  IRQs off: ", text, style));
    }
    if let Some(model) = &document.cycle_model {
        let text = format!(
            "share of the cycles that the model {} estimates, with its weights halved to doubled; no caches, not time; \
             docs/cycles.md says where it is no better than instructions",
            clean(&model.name)
        );
        out.push_str(&paragraph("  est. cycles: ", &text, style));
    }
    for warning in document.warnings.iter().filter(|warning| !answer::CAUTIONS.contains(&warning.code)) {
        let text = match warning.action.as_str() {
            "" => warning.message.clone(),
            action => format!("{}: {action}", warning.message),
        };
        out.push_str(&paragraph("  warning: ", &text, style));
    }
}

fn collector(report: &CollectorReport) -> String {
    let mut text = String::new();
    match report.status {
        Status::Ok => {}
        Status::Partial => text.push_str("partial: "),
        Status::Unavailable => text.push_str("not available"),
        Status::Failed => text.push_str("failed"),
    }
    let taken = matches!(report.status, Status::Ok | Status::Partial);
    if taken {
        let what = report.name.facts().unit;
        let _ = write!(
            text,
            "{} {what}, {} lost, {} without symbol or role",
            grouped(report.samples),
            grouped(report.lost),
            grouped(report.unresolved)
        );
        if let Some(cost) = report.cost_percent {
            let _ = match factor(1.0 + cost / 100.0) {
                Some(times) => write!(text, ", {times} the run time"),
                None => write!(text, ", cost {cost:+.1} % of the run time"),
            };
            if let Some([low, high]) = report.cost_ci95 {
                let _ = write!(text, " [{low:.1}, {high:.1}]");
                if high < 0.0 {
                    text.push_str(" (faster when profiled: sampling interrupts keep idle CPUs awake)");
                }
            }
        }
    }
    for note in &report.notes {
        let _ = write!(text, "; {}", clean(note));
    }
    if let Some(reason) = &report.reason {
        let _ = write!(text, "{} {}", if taken { ";" } else { ":" }, shortened(reason, LONGEST_REASON));
    }
    text
}
