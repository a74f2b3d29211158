//! A run on the terminal: throughput, where the time of each side went, then what was lost, skewed or missed.

mod caveats;

use crate::document::{Document, ExecutedOn, FunctionCalls, ProcessTotals};
use crate::profile::{RoleShare, Unit};
use crate::report::files::Written;
use crate::report::flamegraph::{grouped, unit_name};
use crate::roles;
use crate::util::size;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// Roles with a smaller share are one line of the table.
const SMALL: f64 = 0.005;

/// Longer names, such as those of generic Rust functions, are cut in tables.
const LONGEST_SYMBOL: usize = 40;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns to fit into; `None` for as many as it takes.
    pub width: Option<u16>,
    pub colour: bool,
}

impl Style {
    /// Plain text of any width.
    pub const PLAIN: Self = Self { width: None, colour: false };

    /// What suits standard output: colours only on a terminal, and not where `NO_COLOR` is set (no-color.org).
    #[must_use]
    pub fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        Self {
            width: size.map(|size| size.ws_col).filter(|columns| terminal && *columns > 0),
            colour: terminal && !unwanted,
        }
    }
}

/// How function_graph's counts are marked.
const FUNCTION_GRAPH: &str = "function-graph";

/// All of `document` that a person wants to see at once, and where its files are.
#[must_use]
pub fn render(document: &Document, written: Option<&Written>, style: Style) -> String {
    let mut out = String::new();
    heading(document, &mut out);
    throughput(document, &mut out);
    processes(document, &mut out);
    for (whose, shares) in [("writer", &document.attribution.writer), ("reader", &document.attribution.reader)] {
        if !shares.is_empty() {
            let _ = writeln!(out, "\n{}", table_heading(document, whose, shares));
            let _ = writeln!(out, "{}", role_table(document, shares, style));
        }
    }
    others(document, &mut out);
    functions(document, style, &mut out);
    caveats::caveats(document, &mut out);
    if let Some(written) = written {
        let _ = writeln!(out, "\nWritten to {}:", clean(&written.folder.display().to_string()));
        let names: Vec<&str> = written.files.iter().map(String::as_str).filter(|name| name.ends_with(".svg")).collect();
        for name in names {
            let _ = writeln!(out, "  flame graph {}", clean(&written.folder.join(name).display().to_string()));
        }
    }
    out
}

/// Without the control characters that could drive a terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn heading(document: &Document, out: &mut String) {
    let on = match document.executed_on {
        ExecutedOn::Hardware => "on hardware",
        ExecutedOn::Kvm => "in a KVM guest",
        ExecutedOn::Tcg => "in an emulated guest (TCG)",
    };
    let _ = writeln!(
        out,
        "{}: {} to {}, {} at a time, Linux {}, {on}",
        clean(&document.mode),
        value_name(&document.workload.writer),
        value_name(&document.workload.reader),
        size::format(document.workload.buffer_size),
        clean(&document.kernel.release),
    );
    let environment = &document.environment;
    let mut parts = vec![environment.cpu_model.clone().unwrap_or_else(|| "CPU unknown".to_owned())];
    parts.push(counted(u64::from(environment.cpus), "CPU"));
    parts.extend(environment.topology.as_ref().map(|topology| format!("pair on {topology}")));
    parts.extend(environment.emulator.as_ref().map(|emulator| emulator.version.clone()));
    parts.extend(environment.steal.filter(|steal| *steal >= 0.005).map(|s| format!("{:.1} % stolen", 100.0 * s)));
    let _ = writeln!(out, "machine: {}", clean(&parts.join(", ")));
}

/// The name that a value of an axis has on the command line.
fn value_name(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn throughput(document: &Document, out: &mut String) {
    let throughput = &document.throughput;
    if document.executed_on == ExecutedOn::Tcg {
        out.push_str("throughput: not shown, as an emulated clock says nothing about speed\n");
        return;
    }
    let Some(median) = throughput.median_gib_s else {
        out.push_str("throughput: not measured\n");
        return;
    };
    let _ = write!(out, "throughput: {median:.2} GiB/s, median of {}", counted(throughput.runs.len() as u64, "pair"));
    match throughput.ci95 {
        Some([low, high]) => {
            let _ = write!(out, ", 95 % CI [{low:.2}, {high:.2}]");
        }
        None => out.push_str(", too few for an interval (6 pairs or more give one)"),
    }
    if let Some(mad) = throughput.mad_gib_s {
        let _ = write!(out, ", MAD {mad:.2}");
    }
    if throughput.outliers > 0 {
        let _ = write!(out, ", {} kept", counted(u64::from(throughput.outliers), "outlier"));
    }
    out.push('\n');
}

/// A number and a noun.
fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn processes(document: &Document, out: &mut String) {
    let emulated = document.executed_on == ExecutedOn::Tcg;
    let alone = document.runs.iter().filter(|pair| pair.collectors.is_empty()).count();
    if alone > 1 {
        out.push_str("the median pair:\n");
    }
    for (name, side) in [("writer", &document.processes.writer), ("reader", &document.processes.reader)] {
        if side.calls > 0 {
            let _ = writeln!(out, "{name}: {}", process(side, emulated));
        }
        for error in &side.verify_errors {
            let _ = writeln!(out, "{name}: --verify: {}", clean(error));
        }
    }
    pipes(document, out);
    let reason = document.processes.writer.counters_reason.as_ref();
    if let Some(reason) = reason.filter(|_| document.executed_on != ExecutedOn::Tcg) {
        let _ = writeln!(out, "cycles and instructions: {}", clean(reason));
    }
}

/// Where there are several pipes, or several processes on one: what each moved.
fn pipes(document: &Document, out: &mut String) {
    for (index, pipe) in document.processes.pairs.iter().enumerate() {
        let each = |processes: &[ProcessTotals]| {
            let parts: Vec<String> = processes.iter().map(|process| amount(process.bytes)).collect();
            parts.join(" + ")
        };
        let speed = match document.executed_on {
            ExecutedOn::Tcg => String::new(),
            _ => format!("{:.2} GiB/s, ", pipe.gib_s()),
        };
        let (writers, readers) = (each(&pipe.writers), each(&pipe.readers));
        let _ = writeln!(out, "pipe {}: {speed}written {writers}, read {readers}", index + 1);
    }
}

fn process(side: &ProcessTotals, emulated: bool) -> String {
    let mut parts = vec![format!("{} in {}", amount(side.bytes), counted(side.calls, "call"))];
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            parts.push(format!("{} {what}", grouped(count)));
        }
    };
    add(side.short, "short");
    add(side.eagain, "EAGAIN");
    add(side.voluntary_switches, "voluntary switches");
    add(side.involuntary_switches, "involuntary switches");
    add(side.minor_faults + side.major_faults, "page faults");
    if !emulated {
        let seconds = |ns: u64| ns as f64 / 1e9;
        parts.push(format!("user {:.2} s, system {:.2} s", seconds(side.user_ns), seconds(side.system_ns)));
    }
    if let Some(huge) = side.huge_pages {
        parts.push(format!("huge pages {} of {}", size::format(huge.got), size::format(huge.asked)));
    }
    for (name, count) in &side.counters {
        parts.push(format!("{} {}", grouped(*count), clean(name)));
    }
    if let Some(verified) = side.verified_bytes {
        parts.push(format!("{} verified", amount(verified)));
    }
    parts.join(", ")
}

/// Bytes for people: three digits and a unit.
fn amount(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

fn table_heading(document: &Document, whose: &str, shares: &[RoleShare]) -> String {
    let total: u64 = shares.iter().map(|share| share.weight).sum();
    let what = if document.unit == Unit::Instructions { "instructions" } else { "time" };
    format!(
        "Where the {what} of the {whose} went ({} {}, by {}):",
        grouped(total),
        unit_name(document.unit),
        clean(&document.attribution.collector)
    )
}

/// What neither of the two did, in a line: it is in nobody's share.
fn others(document: &Document, out: &mut String) {
    let weight = |shares: &[RoleShare]| shares.iter().map(|share| share.weight).sum::<u64>();
    let attribution = &document.attribution;
    let other = weight(&attribution.other);
    let all = other + weight(&attribution.writer) + weight(&attribution.reader);
    if other == 0 {
        return;
    }
    let main: Vec<String> = attribution
        .other
        .iter()
        .take(3)
        .map(|share| {
            let title = roles::by_id(&share.role).map_or(share.role.as_str(), |role| role.title);
            format!("{} {:.0} %", clean(title), 100.0 * share.share)
        })
        .collect();
    let _ = writeln!(
        out,
        "\nBeside writer and reader (idle, kernel threads, the controller): {} {}, {:.1} % of all, most of it {}",
        grouped(other),
        unit_name(document.unit),
        100.0 * other as f64 / all as f64,
        main.join(", ")
    );
}

/// One column of the table of roles: a heading and what a role has there.
type Column = (&'static str, fn(&RoleShare) -> Option<String>);

const INTERVAL: Column =
    ("95 % CI", |share| share.share_ci95.map(|[low, high]| format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high)));
const NS: Column = ("ns per KiB", |share| share.ns_per_kib.map(decimals));
const INSTRUCTIONS: Column = ("instr. per KiB", |share| share.instructions_per_kib.map(decimals));
const PER_CALL: Column = ("instr. per call", |share| share.instructions_per_call.map(decimals));
const CALLS: Column = ("calls per MiB", |share| share.calls_per_mib.map(decimals));

fn decimals(value: f64) -> String {
    match value {
        v if v >= 1000.0 => grouped(v.round() as u64),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

fn role_table(document: &Document, shares: &[RoleShare], style: Style) -> String {
    let columns: Vec<Column> = [INTERVAL, NS, INSTRUCTIONS, PER_CALL, CALLS]
        .into_iter()
        .filter(|(_, value)| shares.iter().any(|share| value(share).is_some()))
        .collect();
    let mut table = empty_table(style);
    let swatches = usize::from(style.colour);
    let headings = ["", "role", "symbol here", "share"]
        .into_iter()
        .skip(1 - swatches)
        .chain(columns.iter().map(|(name, _)| *name));
    table.set_header(
        headings
            .map(|name| if style.colour { Cell::new(name).add_attribute(Attribute::Bold) } else { Cell::new(name) }),
    );
    let (large, small): (Vec<&RoleShare>, Vec<&RoleShare>) = shares.iter().partition(|share| share.share >= SMALL);
    // A single small one says more by its name.
    let (large, small) = if small.len() < 2 { (shares.iter().collect(), Vec::new()) } else { (large, small) };
    for share in large {
        let role = roles::by_id(&share.role);
        let mut row = vec![swatch(role); swatches];
        row.extend([
            Cell::new(clean(role.map_or(share.role.as_str(), |role| role.title))),
            Cell::new(symbols_here(document, share)),
            Cell::new(format!("{:.1} %", 100.0 * share.share)),
        ]);
        row.extend(columns.iter().map(|(_, value)| Cell::new(value(share).unwrap_or_default())));
        table.add_row(row);
    }
    if !small.is_empty() {
        let sum = |value: fn(&RoleShare) -> Option<f64>| {
            let values: Vec<f64> = small.iter().filter_map(|share| value(share)).collect();
            if values.is_empty() { String::new() } else { decimals(values.iter().sum()) }
        };
        let mut row = vec![Cell::new(""); swatches];
        row.extend([
            Cell::new(format!("{} other roles", small.len())),
            Cell::new(""),
            Cell::new(format!("{:.1} %", 100.0 * small.iter().map(|share| share.share).sum::<f64>())),
        ]);
        row.extend(columns.iter().map(|(name, _)| match *name {
            name if name == NS.0 => Cell::new(sum(|share| share.ns_per_kib)),
            name if name == INSTRUCTIONS.0 => Cell::new(sum(|share| share.instructions_per_kib)),
            name if name == PER_CALL.0 => Cell::new(sum(|share| share.instructions_per_call)),
            _ => Cell::new(""),
        }));
        table.add_row(row);
    }
    align_right(&mut table, 2 + swatches);
    text_of(&table)
}

/// The table's lines, without blanks at their ends.
fn text_of(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn empty_table(style: Style) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if style.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    if let Some(width) = style.width {
        table.set_width(width);
    } else {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table
}

/// Numbers stand right, from column `first` on.
fn align_right(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The role's colour in the flame graphs.
fn swatch(role: Option<&roles::Role>) -> Cell {
    let channel = |colour: &str, at: usize| colour.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
    let rgb = role.and_then(|role| {
        Some(Color::Rgb { r: channel(role.colour, 1)?, g: channel(role.colour, 3)?, b: channel(role.colour, 5)? })
    });
    match rgb {
        Some(rgb) => Cell::new("■").fg(rgb),
        None => Cell::new(""),
    }
}

/// The function that the role was resolved to, or else the frame that most of its weight came by; and how many more.
fn symbols_here(document: &Document, share: &RoleShare) -> String {
    let resolved = document
        .symbols
        .iter()
        .find(|resolution| resolution.role == share.role)
        .and_then(|resolution| resolution.symbol.as_deref())
        .filter(|symbol| share.symbols.iter().any(|known| known == symbol));
    let Some(symbol) = resolved.or(share.symbols.first().map(String::as_str)) else {
        return String::new();
    };
    let symbol = shortened(symbol, LONGEST_SYMBOL);
    let more = share.symbols.len() - 1;
    if more == 0 { symbol } else { format!("{symbol} +{more}") }
}

/// `text` in at most `most` characters, without any that could drive a terminal.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return clean(text);
    }
    clean(&text.chars().take(most - 1).collect::<String>()) + "…"
}

/// One row per probed function: its calls by each side. What function_graph counted as well is in run.json.
fn functions(document: &Document, style: Style, out: &mut String) {
    if document.unit == Unit::Instructions {
        return;
    }
    let probed = document.functions.iter().any(|f| f.how != FUNCTION_GRAPH);
    let mut rows: Vec<(&str, &str, &str, [Vec<&FunctionCalls>; 2])> = Vec::new();
    for function in &document.functions {
        if (function.calls == 0 && function.missed == 0) || (probed && function.how == FUNCTION_GRAPH) {
            continue;
        }
        let side = match function.process.as_str() {
            "writer" => 0,
            "reader" => 1,
            _ => continue,
        };
        let same =
            |row: &&mut (&str, &str, &str, [Vec<&FunctionCalls>; 2])| row.1 == function.symbol && row.2 == function.how;
        if let Some(row) = rows.iter_mut().find(same) {
            row.3[side].push(function);
        } else {
            let mut sides = [Vec::new(), Vec::new()];
            sides[side].push(function);
            rows.push((&function.role, &function.symbol, &function.how, sides));
        }
    }
    if rows.is_empty() {
        return;
    }
    let timed = document.executed_on != ExecutedOn::Tcg && document.functions.iter().any(|f| f.total_ns.is_some());
    let mut table = empty_table(style);
    let mut headings = vec!["role", "function", "by", "writer's calls", "reader's calls", "missed"];
    if timed {
        headings.extend(["mean ns", "of it itself", "less probes"]);
    }
    table.set_header(headings);
    for (role, symbol, how, sides) in rows {
        let title = roles::by_id(role).map_or(role, |role| role.title);
        let mut row = vec![clean(title), clean(symbol), clean(how)];
        row.extend(sides.iter().map(|side| grouped(side.iter().map(|f| f.calls).sum())));
        row.push(grouped(sides.iter().flatten().map(|f| f.missed).sum()));
        if timed {
            let mean = |ns: fn(&FunctionCalls) -> Option<u64>| {
                // Calls whose return was not reported have no time.
                let timed = sides.iter().flatten().filter_map(|f| Some((ns(f)?, f.calls.saturating_sub(f.missed))));
                let timed: Vec<(u64, u64)> = timed.collect();
                let calls: u64 = timed.iter().map(|(_, calls)| calls).sum();
                let total: u64 = timed.iter().map(|(ns, _)| ns).sum();
                if calls == 0 { String::new() } else { decimals(total as f64 / calls as f64) }
            };
            row.push(mean(|f| f.total_ns));
            row.push(mean(|f| f.self_ns));
            // Of both sides, or not at all: a mean of corrected and raw times would be neither.
            let corrected = sides.iter().flatten().all(|f| f.corrected_self_ns.is_some() == f.self_ns.is_some());
            row.push(if corrected { mean(|f| f.corrected_self_ns) } else { "-".to_owned() });
        }
        table.add_row(row);
    }
    align_right(&mut table, 3);
    let _ = writeln!(out, "\nCalls of probed functions:\n{}", text_of(&table));
}
