//! Print a run: the answer, then the table of each process, then the limits of these figures.

mod caveats;
pub mod colour;
pub mod functions;
mod locks;
pub mod roles;
mod style;
pub mod text;

pub use self::style::Style;
pub use self::text::{hanging, paragraph};
use crate::profile::{ProcessName, RoleShare, Unit, listed};
use crate::report::answer::{self, Answer};
use crate::report::files::Written;
use crate::report::flamegraph::unit_name;
use crate::result::{Document, ExecutedOn, ProcessTotals};
use crate::util::size;
use crate::util::styled_text::StyledText;
use crate::util::text::{clean, counted, grouped};
use std::fmt::Write as _;

/// The summary of `document`, and its files.
pub fn render(document: &Document, written: Option<&Written>, style: Style) -> StyledText {
    let mut out = StyledText::default();
    let Answer { findings, cautions } = answer::answer(document);
    for finding in &findings {
        out.push_str(&paragraph("", finding, style));
    }
    for caution in &cautions {
        out.push_str(&paragraph("Caution: ", caution, style));
    }
    for (process, shares) in document.attribution.processes.of_target().filter(|(_, shares)| !shares.is_empty()) {
        let heading = table_heading(document, process, shares);
        out.push_str("\n");
        out.append(&roles::table(heading, &document.symbols, shares).text(style));
        out.push_str(&estimated_cycles(document, process, shares));
    }
    others(document, style, &mut out);
    functions::functions(document, style, &mut out);
    locks::locks(document, style, &mut out);
    out.push_str("\nRun:\n");
    machine(document, style, &mut out);
    processes(document, style, &mut out);
    caveats::caveats(document, style, &mut out);
    if let Some(written) = written.filter(|written| !written.files.is_empty()) {
        let _ = writeln!(out, "\nWritten to {}:", clean(&written.folder.display().to_string()));
        let path = |name: &String| clean(&written.folder.join(name).display().to_string());
        let graphs: Vec<&String> = written.files.iter().filter(|name| name.ends_with(".svg")).collect();
        for name in &graphs {
            let _ = writeln!(out, "  flame graph {}", path(name));
        }
        if graphs.is_empty() {
            for name in &written.files {
                let _ = writeln!(out, "  {}", path(name));
            }
        }
    }
    out
}

/// The machine that executed the run.
fn machine(document: &Document, style: Style, out: &mut StyledText) {
    let environment = &document.environment;
    let mut parts = vec![environment.cpu_model.clone().unwrap_or_else(|| "unknown CPU".to_owned())];
    parts.push(counted(u64::from(environment.cpus), "CPU"));
    parts.extend(environment.topology.as_deref().map(|topology| match topology {
        "one cache" => "writer and reader on CPUs that share a cache".to_owned(),
        topology => format!("writer and reader on {topology}"),
    }));
    parts.extend(environment.emulator.as_ref().map(|emulator| emulator.version.clone()));
    parts.extend(environment.steal.filter(|steal| *steal >= 0.005).map(|s| format!("{:.1} % steal time", 100.0 * s)));
    out.push_str(&paragraph("  machine: ", &parts.join(", "), style));
}

/// Spread of the runs' throughput; `None` if it was not measured.
fn spread(document: &Document) -> Option<String> {
    let throughput = &document.throughput;
    let mad = throughput.mad_gib_s.filter(|_| throughput.median_gib_s.is_some() && throughput.runs.len() > 1)?;
    let (least, most) = throughput.runs.iter().fold((f64::INFINITY, 0f64), |(a, b), run| (a.min(*run), b.max(*run)));
    let mut text = format!("{least:.2} to {most:.2} GiB/s, MAD {mad:.2}");
    if throughput.outliers > 0 {
        let _ = write!(text, ", {} included", counted(u64::from(throughput.outliers), "outlier"));
    }
    Some(text)
}

fn processes(document: &Document, style: Style, out: &mut StyledText) {
    let emulated = document.executed_on == ExecutedOn::Tcg;
    if let Some(spread) = spread(document).filter(|_| !emulated) {
        out.push_str(&paragraph("  throughput of all runs: ", &spread, style));
    }
    if let Some(ending) = &document.ending {
        out.push_str(&paragraph("  measurement: ", &ending.sentence("run"), style));
    }
    let alone = document.runs.iter().filter(|pair| pair.collectors.is_empty()).count();
    let which = if alone > 1 { " (median run)" } else { "" };
    for (name, totals) in document.processes.totals.iter() {
        if totals.calls > 0 {
            out.push_str(&paragraph(&format!("  {name}{which}: "), &process(totals, emulated), style));
        }
        for error in &totals.verify_errors {
            out.push_str(&paragraph(&format!("  {name}: --verify: "), error, style));
        }
    }
    pipes(document, style, out);
}

/// Where there are several pipes, or several processes on one: what each moved.
fn pipes(document: &Document, style: Style, out: &mut StyledText) {
    for (index, pipe) in document.processes.pipes.iter().enumerate() {
        let each = |processes: &[ProcessTotals]| {
            let parts: Vec<String> = processes.iter().map(|process| size::rough(process.bytes)).collect();
            parts.join(" + ")
        };
        let speed = match document.executed_on {
            ExecutedOn::Tcg => String::new(),
            _ => format!("{:.2} GiB/s, ", pipe.gib_s()),
        };
        let (writers, readers) = (each(&pipe.from.totals), each(&pipe.to.totals));
        out.push_str(&paragraph(
            &format!("  pipe {}: ", index + 1),
            &format!("{speed}written {writers}, read {readers}"),
            style,
        ));
    }
}

fn process(totals: &ProcessTotals, emulated: bool) -> String {
    let mut parts = vec![format!("{} in {}", size::rough(totals.bytes), counted(totals.calls, "call"))];
    if totals.eagain > 0 {
        parts.push(format!("{} EAGAIN", grouped(totals.eagain)));
    }
    for (count, what) in [
        (totals.short, "short call"),
        (totals.voluntary_switches, "sleep"),
        (totals.involuntary_switches, "preemption"),
        (totals.minor_faults + totals.major_faults, "page fault"),
    ] {
        if count > 0 {
            parts.push(counted(count, what));
        }
    }
    if !emulated {
        let seconds = |ns: u64| ns as f64 / 1e9;
        parts.push(format!("user {:.2} s, system {:.2} s", seconds(totals.user_ns), seconds(totals.system_ns)));
    }
    if let Some(huge) = totals.huge_pages {
        parts.push(format!("huge pages {} of {}", size::format(huge.got), size::format(huge.asked)));
    }
    for (name, count) in &totals.counters {
        parts.push(format!("{} {}", grouped(*count), clean(name)));
    }
    if let Some(verified) = totals.verified_bytes {
        parts.push(format!("{} verified", size::rough(verified)));
    }
    parts.join(", ")
}

fn table_heading(document: &Document, whose: ProcessName, shares: &[RoleShare]) -> String {
    let total: u64 = shares.iter().map(|share| share.weight).sum();
    let what = if document.unit == Unit::Instructions { "Instructions" } else { "Time" };
    let from = match document.unit {
        Unit::Instructions => String::new(),
        _ => format!(", from {}", clean(&document.attribution.collector)),
    };
    format!("{what} of the {whose} by role ({} {}{from})", grouped(total), unit_name(document.unit))
}

/// The range of a process's estimated cycles; nothing if they are not known.
fn estimated_cycles(document: &Document, process: ProcessName, shares: &[RoleShare]) -> String {
    let cycles = || shares.iter().filter_map(|share| share.cycles.as_ref());
    let Some(model) = document.cycle_model.as_ref().filter(|_| cycles().next().is_some()) else {
        return String::new();
    };
    let [low, high] = [0, 1].map(|end| rounded(cycles().map(|cycles| cycles.range[end]).sum()));
    format!("Estimated cycles of the {process}: {low} to {high} (model {}).\n", clean(&model.name))
}

/// Two digits are enough for an estimate: `5.2 M`.
fn rounded(cycles: u64) -> String {
    match cycles as f64 {
        many if many >= 1e9 => format!("{:.1} G", many / 1e9),
        many if many >= 1e6 => format!("{:.1} M", many / 1e6),
        _ => grouped(cycles),
    }
}

/// One line about what ran outside the workload's processes.
fn others(document: &Document, style: Style, out: &mut StyledText) {
    let weight = |shares: &[RoleShare]| shares.iter().map(|share| share.weight).sum::<u64>();
    let attribution = &document.attribution;
    let shares = attribution.of(ProcessName::OTHER);
    let other = weight(shares);
    let all: u64 = attribution.processes.values().map(|shares| weight(shares)).sum();
    if other == 0 {
        return;
    }
    let largest: Vec<String> = shares
        .iter()
        .take(3)
        .map(|share| format!("{} {:.0} %", crate::roles::by_id(share.role).title, 100.0 * share.share))
        .collect();
    let text = format!(
        "{} {}, {:.1} % of the total; largest roles: {}",
        grouped(other),
        unit_name(document.unit),
        100.0 * other as f64 / all as f64,
        largest.join(", ")
    );
    out.push_str("\n");
    let processes = listed(document.processes.totals.names());
    out.push_str(&paragraph(&format!("Outside {processes} (idle, kernel threads, pipeprof): "), &text, style));
}
