//! Sweeps: any axes of a workload, all combinations, one table and one chart. Pure but for the measuring, which is a
//! [`Bench`]'s.

use super::lab::{Bench, Contestant, GuestSetup, LaneRuns, Raced};
use super::parts::request;
use crate::document::{Collector, ExecutedOn, Processes};
use crate::profile::ProcessName;
use crate::report::chart::{Chart, Kind, Point, Series};
use crate::util::{cancel, stats};
use crate::workload::grid::Grid;
use crate::workload::{HUGE_PAGES_MISSING, Spec};
use anyhow::Result;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `schema` of `sweep.json`.
pub const SCHEMA: &str = "pipeprof.sweep/1";

/// Most lines that a chart can tell apart.
const MOST_LINES: usize = 6;

/// One thing that is varied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// As its flag: `buffer-size`.
    pub name: String,
    /// As they are typed.
    pub values: Vec<String>,
}

impl Axis {
    /// What `grid` varies.
    #[must_use]
    pub fn all(grid: &Grid) -> Vec<Self> {
        grid.axes().into_iter().map(|(name, values)| Self { name, values }).collect()
    }
}

/// One combination, to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub labels: BTreeMap<String, String>,
    /// The workload, or why there is none.
    pub spec: Result<Spec, String>,
}

/// `sweep.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub schema: String,
    /// pipeprof's version.
    pub version: String,
    pub command: String,
    pub executed_on: ExecutedOn,
    /// `GiB/s`, or `instructions per KiB` (writer and reader).
    pub unit: String,
    pub kernel: String,
    pub cpu: String,
    pub axes: Vec<Axis>,
    pub cells: Vec<Cell>,
}

/// One combination, measured. Counts are those of the median pair.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub labels: BTreeMap<String, String>,
    /// In the sweep's unit, one per fresh pair.
    pub runs: Vec<f64>,
    pub median: Option<f64>,
    pub mad: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub writer_calls_per_mib: Option<f64>,
    pub reader_calls_per_mib: Option<f64>,
    /// User and system time of the writer; absent under emulation.
    pub writer_ns_per_kib: Option<f64>,
    pub reader_ns_per_kib: Option<f64>,
    pub instructions_per_writer_call: Option<f64>,
    /// Where what ran was not what was asked for.
    #[serde(default)]
    pub caveats: Vec<String>,
    /// Why it was not measured.
    pub reason: Option<String>,
}

/// Measure throughput: `rounds` fresh pairs of each plan, in shuffled blocks.
///
/// # Errors
/// On interruption.
pub fn timed(
    bench: &dyn Bench,
    plans: &[Plan],
    rounds: usize,
    seed: u64,
    progress: &dyn Fn(usize, usize),
) -> Result<Vec<Cell>> {
    let mut pairs: Vec<Vec<Processes>> = vec![Vec::new(); plans.len()];
    let mut reasons: Vec<Option<String>> = plans.iter().map(|plan| plan.spec.as_ref().err().cloned()).collect();
    let mut random = SmallRng::seed_from_u64(seed);
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..plans.len()).collect();
        order.shuffle(&mut random);
        for (done, index) in order.into_iter().enumerate() {
            cancel::check()?;
            progress(round * plans.len() + done + 1, rounds * plans.len());
            let (None, Ok(spec)) = (&reasons[index], &plans[index].spec) else { continue };
            match bench.pair(spec) {
                Ok(processes) => pairs[index].push(processes),
                Err(error) => {
                    cancel::check()?;
                    reasons[index] = Some(format!("{error:#}"));
                }
            }
        }
    }
    let hardware = bench.executed_on() != ExecutedOn::Tcg;
    let cells = plans.iter().zip(pairs).zip(reasons).map(|((plan, mut pairs), reason)| {
        let mut cell = Cell { labels: plan.labels.clone(), reason, ..Cell::default() };
        caveats(&mut cell, plan, &mut pairs);
        let mut sorted: Vec<&Processes> = pairs.iter().collect();
        sorted.sort_by(|a, b| a.gib_s().total_cmp(&b.gib_s()));
        if let Some(typical) = sorted.get(sorted.len().saturating_sub(1) / 2) {
            count(&mut cell, typical, hardware);
        }
        if hardware {
            cell.runs = pairs.iter().map(Processes::gib_s).collect();
        } else if cell.reason.is_none() {
            cell.reason = Some("emulated: its clock says nothing about speed (use --collect insn)".into());
        }
        summarise(&mut cell);
        cell
    });
    Ok(cells.collect())
}

/// Count instructions exactly, one guest per plan.
///
/// # Errors
/// On interruption.
pub fn exact(bench: &dyn Bench, plans: &[Plan], progress: &dyn Fn(usize, usize)) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        cancel::check()?;
        progress(index + 1, plans.len());
        let mut cell = Cell { labels: plan.labels.clone(), ..Cell::default() };
        let measured = match &plan.spec {
            Ok(spec) => {
                let request = request("sweep", spec, vec![Collector::Insn], 1);
                bench.exact(&request, &GuestSetup::default()).map_err(|error| format!("{error:#}"))
            }
            Err(reason) => Err(reason.clone()),
        };
        cancel::check()?;
        match measured {
            Ok(outcome) => {
                let processes = &outcome.document.processes;
                caveats(&mut cell, plan, &mut vec![processes.clone()]);
                count(&mut cell, processes, false);
                let weight = |side: ProcessName| -> u64 {
                    outcome.profiles.iter().filter(|profile| profile.process == side).map(|p| p.stacks.total()).sum()
                };
                let kib = processes.reader.bytes.max(1) as f64 / 1024.0;
                cell.runs = vec![(weight(ProcessName::WRITER) + weight(ProcessName::READER)) as f64 / kib];
                let calls = processes.writer.calls.max(1) as f64;
                cell.instructions_per_writer_call = Some(weight(ProcessName::WRITER) as f64 / calls);
            }
            Err(reason) => cell.reason = Some(reason),
        }
        summarise(&mut cell);
        cells.push(cell);
    }
    Ok(cells)
}

/// Say what was not as asked for. Without its huge pages it is another experiment, and has no value.
fn caveats(cell: &mut Cell, plan: &Plan, pairs: &mut Vec<Processes>) {
    let Ok(spec) = &plan.spec else { return };
    let contestant = Contestant { id: String::new(), spec: spec.clone() };
    let raced = Raced::of(&contestant, LaneRuns { pairs: pairs.clone(), failed: None }, ExecutedOn::Hardware);
    for caveat in raced.caveats() {
        if caveat.code == HUGE_PAGES_MISSING {
            cell.reason = Some(format!("not testable here: {}: {}", caveat.message, caveat.action));
            pairs.clear();
        } else {
            cell.caveats.push(caveat.message);
        }
    }
}

fn count(cell: &mut Cell, pair: &Processes, hardware: bool) {
    let mib = pair.reader.bytes.max(1) as f64 / f64::from(1 << 20);
    cell.writer_calls_per_mib = Some(pair.writer.calls as f64 / mib);
    cell.reader_calls_per_mib = Some(pair.reader.calls as f64 / mib);
    if hardware {
        cell.writer_ns_per_kib = Some((pair.writer.user_ns + pair.writer.system_ns) as f64 / mib / 1024.0);
        cell.reader_ns_per_kib = Some((pair.reader.user_ns + pair.reader.system_ns) as f64 / mib / 1024.0);
    }
    if let Some(instructions) = pair.writer.counters.get("instructions").filter(|_| pair.writer.calls > 0) {
        cell.instructions_per_writer_call = Some(*instructions as f64 / pair.writer.calls as f64);
    }
}

fn summarise(cell: &mut Cell) {
    cell.median = stats::median(&cell.runs);
    cell.mad = stats::mad(&cell.runs).filter(|_| cell.runs.len() > 1);
    cell.ci95 = stats::median_ci95(&cell.runs);
}

impl Sweep {
    /// Lines for a spreadsheet: one per combination, a header first (RFC 4180).
    #[must_use]
    pub fn csv(&self) -> String {
        let quoted = |text: &str| {
            if text.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let unit = self.unit.replace(['/', ' '], "_").to_lowercase();
        let mut header: Vec<String> = self.axes.iter().map(|axis| axis.name.replace('-', "_")).collect();
        header.extend(["n", &format!("median_{unit}"), "mad", "least", "greatest"].map(str::to_owned));
        header.extend(
            [
                "writer_calls_per_mib",
                "reader_calls_per_mib",
                "writer_ns_per_kib",
                "reader_ns_per_kib",
                "instructions_per_writer_call",
                "caveats",
                "reason",
            ]
            .map(str::to_owned),
        );
        let mut text = header.join(",") + "\n";
        for cell in &self.cells {
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let mut row: Vec<String> =
                self.axes.iter().map(|axis| quoted(cell.labels.get(&axis.name).map_or("", String::as_str))).collect();
            row.push(cell.runs.len().to_string());
            row.extend([cell.median, cell.mad, cell.least(), cell.greatest()].map(number));
            row.extend(cell.per_amount().map(number));
            row.push(quoted(&cell.caveats.join("; ")));
            row.push(quoted(cell.reason.as_deref().unwrap_or_default()));
            text.push_str(&row.join(","));
            text.push('\n');
        }
        text
    }

    /// The chart: along the axis with the most values, a line per combination of the others. `None` where nothing was
    /// measured or more lines than can be told apart would be needed.
    #[must_use]
    pub fn chart(&self) -> Option<Chart> {
        let along = self.axes.iter().max_by_key(|axis| axis.values.len())?;
        let varied: Vec<&Axis> = self.axes.iter().filter(|axis| *axis != along && axis.values.len() > 1).collect();
        let mut series: Vec<Series> = Vec::new();
        for value in &along.values {
            for cell in self.cells.iter().filter(|cell| cell.labels.get(&along.name) == Some(value)) {
                let Some(y) = cell.median else { continue };
                let mut name: Vec<String> = Vec::new();
                for axis in &varied {
                    let value = cell.labels.get(&axis.name).map_or("", String::as_str);
                    name.push(if axis.name == "mode" { value.to_owned() } else { format!("{}={value}", axis.name) });
                }
                let name = if name.is_empty() { self.unit.clone() } else { name.join(" ") };
                let span = cell.least().zip(cell.greatest()).filter(|_| cell.runs.len() > 1);
                let point = Point { label: value.clone(), y, span: span.map(|(low, high)| [low, high]) };
                match series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.points.push(point),
                    None => series.push(Series { name, points: vec![point] }),
                }
            }
        }
        let n = self.cells.iter().map(|cell| cell.runs.len()).max().unwrap_or(0);
        (!series.is_empty() && series.len() <= MOST_LINES).then(|| Chart {
            id: "sweep".into(),
            title: format!("{} over {}", self.unit, along.name),
            kind: Kind::Lines,
            y: format!("{} · {}, Linux {}", self.unit, self.cpu, self.kernel),
            x: format!("{} · n {n}, median, bars from least to greatest", along.name),
            series,
            caption: String::new(),
        })
    }

    /// The table on the terminal.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_preset(comfy_table::presets::NOTHING);
        let axes: Vec<&Axis> = self.axes.iter().filter(|axis| axis.values.len() > 1).collect();
        let mut header: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
        let columns =
            [self.unit.as_str(), "MAD", "n", "calls/MiB W", "calls/MiB R", "ns/KiB W", "ns/KiB R", "instr/call W"];
        header.extend(columns.map(str::to_owned));
        let caveats = self.cells.iter().any(|cell| !cell.caveats.is_empty());
        header.extend(caveats.then(|| "but".to_owned()));
        table.set_header(header);
        for cell in &self.cells {
            let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), super::verdict::number);
            let mut row: Vec<String> =
                axes.iter().map(|axis| cell.labels.get(&axis.name).cloned().unwrap_or_default()).collect();
            match (&cell.reason, cell.median) {
                (Some(reason), None) => row.push(reason.clone()),
                _ => {
                    row.extend([cell.median, cell.mad].map(number));
                    row.push(cell.runs.len().to_string());
                    row.extend(cell.per_amount().map(number));
                    row.extend(caveats.then(|| cell.caveats.join("; ")));
                }
            }
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(axes.len()) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
        format!("{table}\n")
    }
}

impl Cell {
    /// What was counted and timed per amount moved, in the order of the columns.
    fn per_amount(&self) -> [Option<f64>; 5] {
        [
            self.writer_calls_per_mib,
            self.reader_calls_per_mib,
            self.writer_ns_per_kib,
            self.reader_ns_per_kib,
            self.instructions_per_writer_call,
        ]
    }

    fn least(&self) -> Option<f64> {
        self.runs.iter().copied().min_by(f64::total_cmp)
    }

    fn greatest(&self) -> Option<f64> {
        self.runs.iter().copied().max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkloadRequest;
    use crate::workload::grid;

    fn sweep() -> Sweep {
        let buffer_size = crate::workload::axis::Axis::find("buffer-size").unwrap();
        let sizes = grid::values(buffer_size, "4K..16K").unwrap();
        let grid = Grid::new(&["write".to_owned(), "vmsplice".to_owned()], vec![(buffer_size, sizes)]);
        let axes = Axis::all(&grid);
        let combinations = grid.combinations(&WorkloadRequest::default()).unwrap();
        let cells = combinations.into_iter().enumerate().map(|(index, combination)| {
            let mut cell = Cell {
                labels: combination.labels,
                runs: vec![index as f64 + 1.0, index as f64 + 2.0],
                ..Cell::default()
            };
            if index == 4 {
                cell.caveats = vec!["the pipe held 8K instead of 64K".into()];
            }
            if index == 5 {
                (cell.runs, cell.reason) = (Vec::new(), Some("the pipe said \"no\", twice".into()));
            }
            summarise(&mut cell);
            cell
        });
        let cells = cells.collect();
        Sweep {
            schema: SCHEMA.into(),
            version: "0".into(),
            command: "pipeprof sweep".into(),
            executed_on: ExecutedOn::Hardware,
            unit: "GiB/s".into(),
            kernel: "6.1".into(),
            cpu: "a CPU".into(),
            axes,
            cells,
        }
    }

    #[test]
    fn csv_quotes_and_has_a_line_per_combination() {
        let csv = sweep().csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 7);
        assert!(lines[0].starts_with("mode,buffer_size,n,median_gib_s,mad,least,greatest,"), "{}", lines[0]);
        assert!(lines[1].starts_with("write,4K,2,1.5,0.5,1,2,"), "{}", lines[1]);
        assert!(lines[6].ends_with("\"the pipe said \"\"no\"\", twice\""), "{}", lines[6]);
        let width = lines[0].split(',').count();
        assert!(lines[1..6].iter().all(|line| line.split(',').count() == width));
    }

    #[test]
    fn the_chart_runs_along_the_longest_axis() {
        let chart = sweep().chart().unwrap();
        assert_eq!(chart.labels(), ["4K", "8K", "16K"]);
        assert_eq!(chart.series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["write", "vmsplice"]);
        assert_eq!(chart.series[1].points.len(), 2, "what failed has no point");
        let table = sweep().table();
        assert!(table.contains("twice") && table.contains("held 8K instead of 64K"), "{table}");
    }

    #[test]
    fn huge_pages_that_were_not_got_leave_no_value() {
        let plan = Plan { labels: BTreeMap::new(), spec: Ok(Spec { huge_pages: true, ..Spec::default() }) };
        let mut pair = Processes::default();
        pair.writer.pipe_size = 8192;
        pair.writer.huge_pages = Some(crate::document::GotAsked { got: 0, asked: 2 << 20 });
        let (mut cell, mut pairs) = (Cell::default(), vec![pair]);
        caveats(&mut cell, &plan, &mut pairs);
        assert!(pairs.is_empty() && cell.reason.as_ref().unwrap().contains("0 of 2M in huge pages"), "{cell:?}");
        assert_eq!(cell.caveats, ["the pipe held 8K instead of 64K"]);
    }
}
