//! Runs of several modes side by side: the answer in a sentence, one table, and one chart.

use super::answer;
use super::chart::{Chart, ChartKind, Point, Series};
use super::number::{number, span};
use super::table::{Table, TableCell};
use super::terminal::{Style, paragraph};
use crate::profile::{Unit, listed};
use crate::result::{Document, Emulator, ExecutedOn};
use crate::roles::{self, RoleId};
use crate::util::styled_text::StyledText;
use crate::util::text::counted;
use crate::util::warning::WarningCode;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Cells of the longest bar on the terminal.
const BAR: usize = 12;

/// Roles with smaller shares are not named.
const NAMED_SHARE: f64 = 0.05;

/// Longest list of roles.
const LONGEST_ROLES: usize = 40;

/// What the modes are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// GiB/s.
    Throughput,
    /// Instructions per KiB, without scheduling.
    Instructions,
}

#[derive(Debug, Clone, Copy)]
struct ModeValue {
    value: f64,
    /// The 95 % CI, or the range of the windows.
    span: Option<[f64; 2]>,
}

#[derive(Debug)]
struct ModeRow {
    name: String,
    value: Option<ModeValue>,
    runs: u64,
    mostly: String,
    /// By the code of their warning.
    cautions: BTreeMap<WarningCode, String>,
}

/// Runs of several modes under the same conditions.
#[derive(Debug)]
pub struct ModesReport {
    /// `None` if nothing comparable was measured, as in an emulated guest without counted instructions.
    figure: Option<Figure>,
    rows: Vec<ModeRow>,
    /// Processor and kernel.
    machine: String,
}

impl ModesReport {
    /// The report of `runs`: names of modes, and documents of equal collectors and machine.
    pub fn new(runs: &[(&str, &Document)]) -> Self {
        let figure = runs.first().and_then(|(_, document)| match document.executed_on {
            _ if document.unit == Unit::Instructions => Some(Figure::Instructions),
            ExecutedOn::Tcg => None,
            _ => Some(Figure::Throughput),
        });
        let machine = runs.first().map_or_else(String::new, |(_, document)| machine(document));
        let row = |(name, document): &(&str, &Document)| ModeRow {
            name: (*name).to_owned(),
            value: figure.and_then(|figure| value(figure, document)),
            runs: match figure {
                Some(Figure::Instructions) => document.ensemble.as_ref().map_or(0, |all| all.windows.len() as u64),
                _ => document.throughput.runs.len() as u64,
            },
            mostly: mostly(document),
            cautions: answer::cautions(document).collect(),
        };
        Self { figure, rows: runs.iter().map(row).collect(), machine }
    }

    /// Answer, table, and what limits both.
    pub fn render(&self, style: Style) -> StyledText {
        let mut out = StyledText::from(paragraph("", &self.answer(), style));
        for code in answer::CAUTIONS {
            let mut cautious = self.rows.iter().filter_map(|row| Some((row, row.cautions.get(&code)?)));
            let Some((first, text)) = cautious.next() else { continue };
            let others = cautious.count() as u64;
            let likewise = if others == 0 { String::new() } else { format!(" and {}", counted(others, "other mode")) };
            out.push_str(&paragraph(&format!("Caution ({}{likewise}): ", first.name), text, style));
        }
        out.push_str("\n");
        out.append(&self.table().text(style));
        let limit = match self.figure {
            Some(Figure::Throughput) => {
                "the modes were measured one after the other, so that other load can differ between them; \
                 `pipeprof sweep --mode` alternates them"
            }
            Some(Figure::Instructions) => {
                "an instruction is not a unit of time: those that copy memory take longer than others"
            }
            None => return out,
        };
        let _ = write!(out, "\nLimits:\n{}", paragraph("  ", limit, style));
        out
    }

    /// The chart; `None` without a figure.
    pub fn chart(&self) -> Option<Chart> {
        let (y, what) = match self.figure? {
            Figure::Throughput => ("GiB/s, more is better", "Median; whiskers: 95 % CI."),
            Figure::Instructions => ("instructions per KiB, fewer is better", "Whiskers: range of all windows."),
        };
        let point = |row: &ModeRow| row.value.map(|of| Point { label: row.name.clone(), y: of.value, span: of.span });
        let points: Vec<Point> = self.rows.iter().filter_map(point).collect();
        (!points.is_empty()).then(|| Chart {
            id: "modes".to_owned(),
            title: format!("{y} of each mode"),
            kind: ChartKind::Bars,
            y: y.to_owned(),
            x: String::new(),
            series: vec![Series { name: y.split(',').next().unwrap_or(y).to_owned(), points }],
            caption: format!("{}: {}. {what}", self.counted(), self.machine),
        })
    }

    /// `vmsplice is fastest: 2.09 GiB/s, 4.4 times as fast as write.`
    fn answer(&self) -> String {
        let Some(figure) = self.figure else {
            return format!("No throughput: this is {}. Add --collect insn to count instructions.", self.machine);
        };
        let mut rows: Vec<(&ModeRow, ModeValue)> = self.rows.iter().filter_map(|row| Some((row, row.value?))).collect();
        rows.sort_by(|(_, a), (_, b)| match figure {
            Figure::Throughput => b.value.total_cmp(&a.value),
            Figure::Instructions => a.value.total_cmp(&b.value),
        });
        let [(best, of_best), (second, of_second), ..] = rows[..] else {
            return "Fewer than two modes have a result.".to_owned();
        };
        let (superlative, unit) = match figure {
            Figure::Throughput => ("is fastest", "GiB/s"),
            Figure::Instructions => ("executes the fewest instructions", "per KiB without scheduling"),
        };
        let doubt = match (of_best.span, of_second.span) {
            (Some(a), Some(b)) if a[0] > b[1] || b[0] > a[1] => None,
            (Some(_), Some(_)) => Some("have overlapping ranges"),
            _ => Some("have too few runs"),
        };
        if let Some(doubt) = doubt {
            return format!(
                "No clear winner: {} ({} {unit}) and {} ({}) {doubt}.",
                best.name,
                number(of_best.value),
                second.name,
                number(of_second.value)
            );
        }
        let times = |(row, of): &(&ModeRow, ModeValue)| match figure {
            Figure::Throughput => format!("{:.1} times as fast as {}", of_best.value / of.value, row.name),
            Figure::Instructions => format!("{} % of those of {}", percent(of_best.value / of.value), row.name),
        };
        // Next to the best, and to the worst.
        let others: Vec<String> =
            [rows.get(1), rows.last().filter(|_| rows.len() > 2)].into_iter().flatten().map(times).collect();
        format!("{} {superlative}: {} {unit}, {}.", best.name, number(of_best.value), listed(others))
    }

    fn heading(&self) -> String {
        match self.figure {
            Some(Figure::Throughput) => format!("Throughput, median of {}; {}", self.counted(), self.machine),
            Some(Figure::Instructions) => {
                format!("Instructions per KiB without scheduling, in {}; {}", self.counted(), self.machine)
            }
            None => format!("Kernel time by role; {}", self.machine),
        }
    }

    /// `20 runs of each mode`.
    fn counted(&self) -> String {
        let what = if self.figure == Some(Figure::Instructions) { "window" } else { "run" };
        let [least, most] = [self.rows.iter().map(|row| row.runs).min(), self.rows.iter().map(|row| row.runs).max()]
            .map(Option::unwrap_or_default);
        let count = if least == most { counted(most, what) } else { format!("{least} to {}", counted(most, what)) };
        format!("{count} of each mode")
    }

    fn table(&self) -> Table {
        let largest = self.rows.iter().filter_map(|row| row.value).map(|of| of.value).fold(0.0, f64::max);
        let first = self.rows.first().and_then(|row| row.value).map(|of| of.value).filter(|value| *value > 0.0);
        let table = Table::of(self.heading(), &self.rows).column("mode", |row| &row.name[..]);
        let table = match self.figure {
            None => table,
            Some(figure) => {
                let (value, range) = match figure {
                    Figure::Throughput => ("GiB/s", "95 % CI"),
                    Figure::Instructions => ("instr/KiB", "range"),
                };
                let to = format!("to {}", self.rows.first().map_or("", |row| &row.name));
                let cell = |row: &&ModeRow, cell: &dyn Fn(ModeValue) -> Option<TableCell>| row.value.and_then(cell);
                table
                    .column(value, |row| cell(row, &|of| Some(of.value.into())))
                    .less(2, range, |row| cell(row, &|of| Some(TableCell::Figure(span(of.span?, number)))))
                    .less(1, to, |row| cell(row, &|of| Some(TableCell::Figure(format!("{:.2}x", of.value / first?)))))
                    .less(3, "", |row| row.value.map(|of| bar(of.value, largest)).unwrap_or_default())
            }
        };
        table.column("largest roles", |row| &row.mostly[..]).done()
    }
}

/// `69`, or `0.10`.
fn percent(part: f64) -> String {
    if part < 0.01 { number(100.0 * part) } else { format!("{:.0}", 100.0 * part) }
}

fn bar(value: f64, largest: f64) -> String {
    let cells = if largest > 0.0 { (value / largest * BAR as f64).round() as usize } else { 0 };
    "█".repeat(cells.clamp(1, BAR))
}

fn value(figure: Figure, document: &Document) -> Option<ModeValue> {
    let (value, span) = match figure {
        Figure::Throughput => (document.throughput.median_gib_s?, document.throughput.ci95),
        Figure::Instructions => answer::counted_per_kib(document).map(|(shown, range)| (shown, Some(range)))?,
    };
    Some(ModeValue { value, span })
}

/// `wake-up 34 %, copy in 12 %`: the roles with most of the time or instructions of all processes together.
fn mostly(document: &Document) -> String {
    let mut roles: Vec<(RoleId, f64)> = Vec::new();
    let mut whole = 0.0;
    for (_, shares) in document.attribution.processes.of_target() {
        for share in shares {
            // Without a measure of time, processes have equal weight.
            let weight = share.ns_per_kib.or(share.instructions_per_kib).unwrap_or(share.share);
            whole += weight;
            match roles.iter_mut().find(|(role, _)| *role == share.role) {
                Some((_, sum)) => *sum += weight,
                None => roles.push((share.role, weight)),
            }
        }
    }
    roles.retain(|(_, weight)| *weight >= NAMED_SHARE * whole && whole > 0.0);
    roles.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = String::new();
    for (role, weight) in roles {
        let named = format!("{} {:.0} %", roles::by_id(role).title, 100.0 * weight / whole);
        if text.is_empty() {
            text = named;
        } else if text.chars().count() + named.chars().count() + 2 <= LONGEST_ROLES {
            text = format!("{text}, {named}");
        } else {
            break;
        }
    }
    text
}

fn machine(document: &Document) -> String {
    let kernel = format!("Linux {}", document.kernel.release);
    match (document.executed_on, &document.environment.cpu_model) {
        (ExecutedOn::Tcg, _) => {
            let cpu = document.environment.emulator.as_ref().and_then(Emulator::cpu);
            format!("{kernel} in an emulated guest{}", cpu.map(|cpu| format!(" (CPU {cpu})")).unwrap_or_default())
        }
        (_, Some(cpu)) => format!("{cpu}, {kernel}"),
        (_, None) => kernel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::open_document;

    fn stored(name: &str) -> Document {
        open_document(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../flamegraphs").join(name)).unwrap()
    }

    /// A run on hardware with this throughput.
    fn timed(median: f64, ci95: [f64; 2]) -> Document {
        let mut document = stored("6.1-write");
        document.executed_on = ExecutedOn::Hardware;
        document.throughput.median_gib_s = Some(median);
        document.throughput.ci95 = Some(ci95);
        document.throughput.runs = vec![median; 6];
        document
    }

    #[test]
    fn the_fastest_mode_is_named_only_if_ranges_do_not_overlap() {
        let [slow, fast, near] = [timed(2.0, [1.5, 2.5]), timed(8.0, [7.0, 9.0]), timed(7.5, [6.5, 8.5])];
        let answer = |runs: &[(&str, &Document)]| ModesReport::new(runs).render(Style::PLAIN);
        let text = answer(&[("write", &slow), ("vmsplice", &fast)]);
        assert!(text.starts_with("vmsplice is fastest: 8.00 GiB/s, 4.0 times as fast as write."), "{text}");
        assert!(text.contains(" vmsplice   8.00  7.00 to 9.00     4.00x  ████████████"), "{text}");
        let text = answer(&[("write", &slow), ("vmsplice", &fast), ("splice", &near)]);
        assert!(text.starts_with("No clear winner: vmsplice (8.00 GiB/s) and splice (7.50)"), "{text}");
        let text = answer(&[("write", &slow), ("vmsplice", &fast), ("splice", &timed(4.0, [3.0, 5.0]))]);
        assert!(text.contains("2.0 times as fast as splice and 4.0 times as fast as write."), "{text}");
        let chart = ModesReport::new(&[("write", &slow), ("vmsplice", &fast)]).chart().unwrap();
        assert_eq!(chart.labels(), ["write", "vmsplice"]);
    }

    #[test]
    fn an_emulated_guest_has_counts_or_no_figure() {
        let exact = [stored("6.1-write-exact"), stored("6.1-vmsplice-huge-busy-exact")];
        let report = ModesReport::new(&[("write", &exact[0]), ("vmsplice-huge-busy", &exact[1])]);
        let text = report.render(Style::PLAIN);
        assert!(text.starts_with("vmsplice-huge-busy executes the fewest instructions: "), "{text}");
        assert!(!text.contains("GiB/s") && report.chart().is_some(), "{text}");
        assert!(text.contains("-amd64 in an emulated guest (CPU qemu64)"), "{text}");
        let sampled = [stored("6.1-write"), stored("6.1-vmsplice-huge-busy")];
        let report = ModesReport::new(&[("write", &sampled[0]), ("vmsplice-huge-busy", &sampled[1])]);
        let text = report.render(Style::PLAIN);
        assert!(text.contains("Add --collect") && !text.contains("GiB/s") && report.chart().is_none(), "{text}");
    }
}
