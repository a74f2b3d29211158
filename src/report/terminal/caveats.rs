//! What to know before the tables are believed: what was lost, missed or skewed, and what watching cost.

use super::{clean, shortened, value_name};
use crate::document::{CollectorReport, Document, Status};
use crate::report::flamegraph::grouped;
use crate::roles;
use std::fmt::Write as _;

/// Longer reasons, such as the log of a kernel's verifier, are cut; run.json has them whole.
const LONGEST_REASON: usize = 300;

/// The collectors and what they lost, then what is skewed, then all warnings.
pub fn caveats(document: &Document, out: &mut String) {
    if !document.collectors.is_empty() {
        out.push_str("\nCollectors:\n");
    }
    for report in &document.collectors {
        let _ = writeln!(out, "  {}", collector(report));
    }
    let shares = document.attribution.writer.iter().chain(&document.attribution.reader);
    if shares.clone().any(|share| share.role == roles::IRQ_OFF) {
        out.push_str(
            "skewed: cpu-clock cannot fire while interrupts are off; what it books to \"irq-off\" was spent shortly \
             before, in the functions of that row\n",
        );
    }
    for warning in &document.warnings {
        let _ = write!(out, "warning: {}", clean(&warning.message));
        let _ = if warning.action.is_empty() { writeln!(out) } else { writeln!(out, ": {}", clean(&warning.action)) };
    }
}

fn collector(report: &CollectorReport) -> String {
    let mut text = value_name(&report.name);
    match report.status {
        Status::Ok => text.push_str(": "),
        Status::Partial => text.push_str(" (partial): "),
        Status::Unavailable => text.push_str(": not available here"),
        Status::Failed => text.push_str(": failed"),
    }
    let taken = matches!(report.status, Status::Ok | Status::Partial);
    if taken {
        let what = match report.name {
            crate::document::Collector::Sample => "samples",
            crate::document::Collector::Insn => "instructions",
            crate::document::Collector::Kprobe | crate::document::Collector::Fgraph => "calls",
        };
        let _ = write!(
            text,
            "{} {what}, {} lost, {} without symbol or role",
            grouped(report.samples),
            grouped(report.lost),
            grouped(report.unresolved)
        );
        if let Some(cost) = report.cost_percent {
            let _ = write!(text, ", cost {cost:.1} %");
            if let Some([low, high]) = report.cost_ci95 {
                let _ = write!(text, " [{low:.1}, {high:.1}]");
                if high < 0.0 {
                    text.push_str(" (faster while watched: its interrupts keep idle CPUs awake)");
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
