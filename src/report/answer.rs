//! The answer of a run in sentences, printed before the tables. It depends on the document alone, so that terminal,
//! HTML and Markdown are equal.

use crate::profile::{ProcessName, RoleShare, Unit, listed};
use crate::result::{Document, Emulator, ExecutedOn, WindowCount};
use crate::roles;
use crate::util::choice::Choice as _;
use crate::util::size;
use crate::util::text::{capitalized, counted, grouped};
use crate::util::warning::WarningCode;
use crate::workload::Spec;

/// Roles with smaller shares are not named.
const NAMED_SHARE: f64 = 0.05;

/// Maximum number of roles named per process.
const NAMED_ROLES: usize = 3;

/// Codes of the warnings that cast doubt on the findings. They are printed with the answer, not below the tables.
pub(crate) const CAUTIONS: [WarningCode; 3] = [WarningCode::Busy, WarningCode::Spinning, WarningCode::VerifyFailed];

/// The answer of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Where each process spends its time, then the throughput.
    pub findings: Vec<String>,
    /// Reasons to doubt the findings, each with a fix.
    pub cautions: Vec<String>,
}

pub fn answer(document: &Document) -> Answer {
    let shares = document.attribution.processes.of_target();
    let mut findings: Vec<String> =
        shares.filter_map(|(process, shares)| spends(process, shares, document.unit)).collect();
    if findings.is_empty() {
        let counted = document.functions.iter().any(|function| function.calls > 0);
        findings.push(match counted {
            true => "No shares of time: only calls were counted, by collectors that slow the workload.".to_owned(),
            false => "No profile was taken, so it is unknown where the time went.".to_owned(),
        });
    }
    findings.extend(without_scheduling(document));
    findings.push(speed(document));
    Answer { findings, cautions: cautions(document).map(|(_, text)| text).collect() }
}

/// `The writer spends 69 % of its time waking up the other process and 12 % spinning on the pipe's mutex.` With
/// counted instructions: `The writer executes 319 instructions per KiB: 45 % of them allocating pages.`
fn spends(process: ProcessName, shares: &[RoleShare], unit: Unit) -> Option<String> {
    let (start, of) = match unit {
        Unit::Instructions => {
            let per_kib: f64 = shares.iter().filter_map(|share| share.instructions_per_kib).sum();
            (format!("executes {per_kib:.0} instructions per KiB:"), " of them")
        }
        _ => ("spends".to_owned(), " of its time"),
    };
    Some(format!("The {process} {start} {}.", largest_roles(shares, of)?))
}

/// `69 % of its time waking up the other process and 12 % spinning on the pipe's mutex`: the roles with the largest
/// shares; `of` follows the first number. `None` if all are small.
pub fn largest_roles(shares: &[RoleShare], of: &str) -> Option<String> {
    let mut largest: Vec<&RoleShare> = shares.iter().filter(|share| share.share >= NAMED_SHARE).collect();
    largest.sort_by(|a, b| b.share.total_cmp(&a.share));
    largest.truncate(NAMED_ROLES);
    let parts: Vec<String> = largest
        .iter()
        .enumerate()
        .map(|(index, share)| {
            let of = if index == 0 { of } else { "" };
            format!("{:.0} %{of} {}", 100.0 * share.share, roles::by_id(share.role).doing)
        })
        .collect();
    (!parts.is_empty()).then(|| listed(&parts))
}

/// Fewer sleeps or preemptions in a window do not show what one costs: the window cuts some of them.
pub const FEWEST_SWITCHES: u64 = 10;

/// Counted instructions: what the kernel determines, and what the schedule adds. `Without scheduling, writer and reader
/// execute 90.6 instructions per KiB (90.62 to 90.63 in 5 windows of 16M).`
fn without_scheduling(document: &Document) -> Option<String> {
    let ensemble = document.ensemble.as_ref()?;
    let shown = ensemble.windows.get(ensemble.shown)?;
    let kib = document.processes.first().bytes as f64 / 1024.0;
    let (per_kib, [low, high]) = counted_per_kib(document)?;
    let windows = match ensemble.windows.len() {
        1 => "one window".to_owned(),
        n => {
            let size = size::format(document.processes.first().bytes);
            format!("{low:.2} to {high:.2} in {n} windows of {size}")
        }
    };
    let names = listed(document.processes.totals.names());
    let mut text = format!("Without scheduling, {names} execute {per_kib:.1} instructions per KiB ({windows}).");
    let totals = || document.processes.totals.values();
    let mut costs = Vec::new();
    for (count, weight, what) in [
        (totals().map(|totals| totals.voluntary_switches).sum::<u64>(), shown.scheduling.sleeps, "sleep"),
        (totals().map(|totals| totals.involuntary_switches).sum(), shown.scheduling.preemptions, "preemption"),
    ] {
        if count >= FEWEST_SWITCHES {
            let per_mib = count as f64 * 1024.0 / kib;
            costs.push(format!("a {what} costs {} instructions ({per_mib:.2} per MiB)", grouped(weight / count)));
        }
    }
    if !costs.is_empty() {
        text.push_str(&format!(" {}.", capitalized(&listed(&costs))));
    }
    Some(text)
}

/// Counted instructions of all processes per KiB, without scheduling: those of the window shown, and the range of all.
pub(crate) fn counted_per_kib(document: &Document) -> Option<(f64, [f64; 2])> {
    let ensemble = document.ensemble.as_ref()?;
    let kib = document.processes.first().bytes as f64 / 1024.0;
    let per_kib = |window: &WindowCount| window.without_scheduling() as f64 / kib.max(1.0);
    let shown = per_kib(ensemble.windows.get(ensemble.shown)?);
    let all = ensemble.windows.iter().map(per_kib);
    Some((shown, all.fold([f64::INFINITY, 0.0], |[low, high], value| [low.min(value), high.max(value)])))
}

/// The throughput, the workload and the kernel.
fn speed(document: &Document) -> String {
    let workload = document.target.workload().map_or(document.mode.clone(), workload);
    let kernel = format!("Linux {}", document.kernel.release);
    let throughput = &document.throughput;
    match (document.executed_on, throughput.median_gib_s) {
        (ExecutedOn::Tcg, _) => {
            let cpu = document.environment.emulator.as_ref().and_then(Emulator::cpu);
            let cpu = cpu.map(|cpu| format!(", CPU {cpu}")).unwrap_or_default();
            format!(
                "Workload: {workload}; {kernel} in an emulated guest (TCG{cpu}), where throughput is not available."
            )
        }
        (_, None) => format!("Workload: {workload}; {kernel}; throughput was not measured."),
        (executed_on, Some(median)) => {
            let interval = throughput
                .ci95
                .map_or("too few for a 95 % CI".to_owned(), |[low, high]| format!("95 % CI {low:.2} to {high:.2}"));
            let runs = counted(throughput.runs.len() as u64, "run");
            let on = if executed_on == ExecutedOn::Kvm { " in a KVM guest" } else { "" };
            format!("Throughput: {median:.2} GiB/s, median of {runs}, {interval} ({workload}; {kernel}{on}).")
        }
    }
}

/// `vmsplice to splice, 256K buffers`: the calls that move the bytes.
fn workload(spec: &Spec) -> String {
    let (writer, reader) = (spec.writer.name(), spec.reader.name());
    let fallbacks = if spec.without_splice { ", without splice" } else { "" };
    format!("{writer} to {reader}{fallbacks}, {} buffers", size::format(spec.buffer_size))
}

/// The warnings of [`CAUTIONS`]: their codes, and sentences.
pub fn cautions(document: &Document) -> impl Iterator<Item = (WarningCode, String)> {
    CAUTIONS.into_iter().filter_map(|code| {
        let warning = document.warnings.iter().find(|warning| warning.code == code)?;
        let text = capitalized(&warning.message);
        let text = if warning.action.is_empty() { format!("{text}.") } else { format!("{text}: {}.", warning.action) };
        Some((code, text))
    })
}
