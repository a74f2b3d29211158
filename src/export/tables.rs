//! `csv`: the tables of a result, one file for each (RFC 4180). An empty cell means that the value is not available.

use super::samples::Samples;
use super::source::{Exported, ExportedRecording};
use super::{ExportFormat, tables_compared};
use crate::document::Document;
use crate::profile::{RoleShare, Unit};
use crate::record::model::RecordedEnd;
use crate::record::process_names;
use crate::roles;
use crate::util::csv_text::csv_text;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "csv",
    about: "The tables of a run, recording, comparison or sweep, one CSV file for each; -o names a folder",
    files: |exported| {
        let tables: Vec<CsvTable> = tables(exported)?.into_iter().filter(|table| !table.rows.is_empty()).collect();
        if tables.is_empty() {
            bail!("it contains no tables");
        }
        Ok(tables.into_iter().map(|table| (format!("{}.csv", table.name), table.text().into_bytes())).collect())
    },
    is_folder: true,
};

/// A table, with a heading for each column.
#[derive(Debug)]
pub(super) struct CsvTable {
    pub name: &'static str,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A row: the heading of each column, and its value as text.
macro_rules! row {
    ($($heading:expr => $cell:expr),* $(,)?) => { vec![$(($heading.to_string(), $cell.to_string())),*] };
}
pub(super) use row;

impl CsvTable {
    /// All rows have the same headings.
    pub(super) fn new(name: &'static str, rows: impl IntoIterator<Item = Vec<(String, String)>>) -> Self {
        let mut header = Vec::new();
        let mut cells = |row: Vec<(String, String)>| {
            let (headings, cells) = row.into_iter().unzip();
            header = headings;
            cells
        };
        let rows = rows.into_iter().map(&mut cells).collect();
        Self { name, header, rows }
    }

    fn text(&self) -> String {
        csv_text(std::iter::once(&self.header).chain(&self.rows))
    }
}

/// The value, or an empty cell.
pub(super) fn some<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn tables(exported: &Exported<'_>) -> Result<Vec<CsvTable>> {
    let mut tables = match exported {
        Exported::Run(outcome) => {
            let document = &outcome.document;
            let shares = document.attribution.processes.iter();
            let shares = shares.flat_map(|(process, all)| all.iter().map(move |share| (process.to_string(), share)));
            vec![roles(shares, document.unit), functions(document), runs(document)]
        }
        Exported::Recording(recording) => of_recording(recording),
        Exported::Comparison(comparison) => tables_compared::tables(comparison),
        Exported::Sweep(sweep) => return Ok(vec![tables_compared::sweep(sweep)]),
    };
    tables.push(frames(&exported.all()));
    Ok(tables)
}

/// Shares by role, of each process.
fn roles<'a>(shares: impl Iterator<Item = (String, &'a RoleShare)>, unit: Unit) -> CsvTable {
    let unit = match unit {
        Unit::Samples => "samples",
        Unit::Instructions => "instructions",
        Unit::Nanoseconds => "ns",
        Unit::EstimatedCycles => "estimated_cycles",
    };
    let (weight, off) = (format!("weight_{unit}"), format!("interrupts_off_{unit}"));
    let rows = shares.map(|(process, share)| {
        let cycles = share.cycles.as_ref();
        row![
            "process" => process,
            "role" => share.role,
            "title" => roles::by_id(share.role).title,
            "share" => share.share,
            "share_ci95_low" => some(share.share_ci95.map(|[low, _]| low)),
            "share_ci95_high" => some(share.share_ci95.map(|[_, high]| high)),
            weight => share.weight,
            off => share.interrupts_off,
            "ns_per_kib" => some(share.ns_per_kib),
            "instructions_per_kib" => some(share.instructions_per_kib),
            "instructions_per_syscall" => some(share.instructions_per_call),
            "calls_per_mib" => some(share.calls_per_mib),
            "estimated_cycles" => some(cycles.map(|cycles| cycles.estimate)),
            "estimated_cycles_low" => some(cycles.map(|cycles| cycles.range[0])),
            "estimated_cycles_high" => some(cycles.map(|cycles| cycles.range[1])),
            "functions" => share.symbols.join(" "),
        ]
    });
    CsvTable::new("roles", rows)
}

/// Calls of probed functions.
fn functions(document: &Document) -> CsvTable {
    let rows = document.functions.iter().map(|function| {
        row![
            "process" => function.process,
            "role" => function.role,
            "function" => function.symbol,
            "counted_by" => function.how,
            "calls" => function.calls,
            "total_ns" => some(function.total_ns),
            "self_ns" => some(function.self_ns),
            "self_ns_without_probes" => some(function.corrected_self_ns),
            "missed_returns" => function.missed,
        ]
    });
    CsvTable::new("functions", rows)
}

/// Raw values of each measurement and process.
fn runs(document: &Document) -> CsvTable {
    let mut rows = Vec::new();
    for (index, run) in document.runs.iter().enumerate() {
        for (process, totals) in run.processes.totals.iter() {
            rows.push(row![
                "run" => index + 1,
                "collectors" => run.collectors.join(" "),
                "window_ns" => run.processes.window_ns,
                "process" => process,
                "bytes" => totals.bytes,
                "syscalls" => totals.calls,
                "short_calls" => totals.short,
                "eagain" => totals.eagain,
                "elapsed_ns" => totals.elapsed_ns,
                "user_ns" => totals.user_ns,
                "system_ns" => totals.system_ns,
                "voluntary_switches" => totals.voluntary_switches,
                "involuntary_switches" => totals.involuntary_switches,
                "minor_faults" => totals.minor_faults,
                "major_faults" => totals.major_faults,
                "cpu" => some(totals.cpu),
                "pipe_bytes" => totals.pipe_size,
            ]);
        }
    }
    CsvTable::new("runs", rows)
}

/// The weight of each function in each process: itself, and with all that it called.
fn frames(samples: &Samples) -> CsvTable {
    let kinds = samples.values.len();
    let mut sums: BTreeMap<(usize, u32), (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for sample in &samples.samples {
        let stack: Vec<u32> = samples.frames_of(sample).map(|(index, _)| index).collect();
        // A recursive function counts once.
        let distinct: BTreeSet<u32> = stack.iter().copied().collect();
        for index in distinct {
            let zeros = || vec![0; kinds];
            let (own, total) = sums.entry((sample.process, index)).or_insert_with(|| (zeros(), zeros()));
            let is_leaf = stack.last() == Some(&index);
            for (kind, value) in sample.values.iter().enumerate() {
                own[kind] += if is_leaf { *value } else { 0 };
                total[kind] += value;
            }
        }
    }
    let row = |((process, frame), (own, total)): ((usize, u32), (Vec<u64>, Vec<u64>))| {
        let (process, frame) = (samples.processes.get(process)?, samples.frames.get(frame as usize)?);
        let code = if frame.is_kernel { "kernel" } else { "user" };
        let address = frame.address.map(|address| format!("{address:#x}"));
        let mut row =
            row!["process" => process.name, "function" => frame.name, "code" => code, "address" => some(address)];
        for ((kind, own), total) in samples.values.iter().zip(own).zip(total) {
            let unit = if kind.unit == "count" { String::new() } else { format!("_{}", kind.unit) };
            row.extend(row![format!("self_{}{unit}", kind.name) => own, format!("total_{}{unit}", kind.name) => total]);
        }
        Some(row)
    };
    CsvTable::new("stack_functions", sums.into_iter().filter_map(row))
}

fn of_recording(exported: &ExportedRecording<'_>) -> Vec<CsvTable> {
    let recording = exported.recording;
    let sampled = recording.samples.iter().flat_map(|samples| &samples.processes);
    let sampled = sampled.map(|process| (&process.name, &process.roles));
    let counted = recording.instructions.iter().flat_map(|counted| &counted.stages);
    let counted = counted.map(|stage| (&stage.name, &stage.roles));
    let unit = if recording.samples.is_some() { Unit::Samples } else { Unit::Instructions };
    let shares = sampled.chain(counted).flat_map(|(name, all)| all.iter().map(|share| (name.clone(), share)));
    vec![processes(exported), waits(exported), pipes(exported), locks(exported), roles(shares, unit)]
}

fn processes(exported: &ExportedRecording<'_>) -> CsvTable {
    let names = process_names(exported.recording);
    let rows = exported.recording.processes.iter().zip(names).map(|(process, name)| {
        let pids: Vec<String> = process.pids.iter().map(u32::to_string).collect();
        row![
            "process" => name,
            "program" => process.name,
            "stage" => process.stage + 1,
            "pids" => pids.join(" "),
            "threads" => process.threads,
            "forks" => process.forks,
            "execs" => process.execs,
            "begin_ns" => process.begin_ns,
            "end_ns" => process.end_ns,
            "cpu_ns" => process.cpu_ns,
            "user_share" => some(process.user_share),
            "runnable_ns" => process.runnable_ns,
            "preemptions" => process.preemptions,
            "syscalls" => process.calls,
            "signal" => some(process.signal),
        ]
    });
    CsvTable::new("processes", rows)
}

/// Sleeps outside of pipes.
fn waits(exported: &ExportedRecording<'_>) -> CsvTable {
    let names = process_names(exported.recording);
    let processes = exported.recording.processes.iter().zip(names);
    let rows = processes.flat_map(|(process, name)| {
        process.waits.iter().map(move |(reason, total)| {
            row!["process" => name, "reason" => reason.title(), "sleeps" => total.count, "ns" => total.ns]
        })
    });
    CsvTable::new("waits", rows)
}

/// One row for each process at each end of each pipe.
fn pipes(exported: &ExportedRecording<'_>) -> CsvTable {
    let recording = exported.recording;
    let names = process_names(recording);
    let mut rows = Vec::new();
    for pipe in recording.pipes.iter().filter(|pipe| pipe.is_used()) {
        let mut add = |side: &str, end: &RecordedEnd| {
            rows.push(row![
                "pipe_inode" => pipe.inode,
                "side" => side,
                "process" => some(names.get(end.process)),
                "bytes" => end.bytes,
                "calls" => end.all_calls(),
                "short_calls" => end.short,
                "eagain" => end.eagain,
                "epipe" => end.epipe,
                "errors" => end.errors,
                "sleeps" => end.sleeps,
                "blocked_ns" => end.blocked_ns,
                "runnable_ns" => end.runnable_ns,
                "lock_sleeps" => end.lock_sleeps,
                "lock_ns" => end.lock_ns,
                "wakeups_sent" => end.wakes,
                "needless_sleeps" => end.needless,
                "capacity_pages" => some(pipe.slots.map(|[_, last, _]| last)),
                "mean_pages_in_use" => some(pipe.mean_filled),
            ]);
        };
        pipe.writers.iter().for_each(|end| add("writer", end));
        pipe.readers.iter().for_each(|end| add("reader", end));
    }
    CsvTable::new("pipes", rows)
}

fn locks(exported: &ExportedRecording<'_>) -> CsvTable {
    let names = process_names(exported.recording);
    let waits = exported.recording.lock_waits.iter().flatten();
    let rows = waits.map(|wait| {
        row![
            "process" => some(names.get(wait.process)),
            "wanted_by" => wait.caller,
            "waits" => wait.count,
            "ns" => wait.ns,
        ]
    });
    CsvTable::new("lock_waits", rows)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ODD, gallery, odd};
    use super::*;
    use crate::document::Outcome;

    fn written(outcome: &Outcome) -> BTreeMap<String, Vec<BTreeMap<String, String>>> {
        let files = FORMAT.files(&Exported::Run(outcome)).unwrap();
        let read = |(name, bytes): (String, Vec<u8>)| {
            let mut reader = csv::Reader::from_reader(&bytes[..]);
            (name, reader.deserialize().map(Result::unwrap).collect())
        };
        files.into_iter().map(read).collect()
    }

    fn sum(rows: &[BTreeMap<String, String>], process: &str, column: &str) -> u64 {
        let own = rows.iter().filter(|row| row["process"] == process);
        own.map(|row| row[column].parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn totals_are_those_of_the_run() {
        let outcome = gallery("7.2-write-exact");
        let tables = written(&outcome);
        let names: Vec<&String> = tables.keys().collect();
        assert_eq!(names, ["functions.csv", "roles.csv", "runs.csv", "stack_functions.csv"]);
        for profile in outcome.profiles.iter().filter(|profile| profile.collector == "insn") {
            let process = profile.process.as_str();
            assert_eq!(sum(&tables["roles.csv"], process, "weight_instructions"), profile.stacks.total());
            assert_eq!(sum(&tables["stack_functions.csv"], process, "self_instructions"), profile.stacks.total());
        }
        assert_eq!(tables["functions.csv"].len(), outcome.document.functions.len());
        assert_eq!(tables["runs.csv"].len(), 2 * outcome.document.runs.len());
    }

    #[test]
    fn odd_names_stay_in_their_cells() {
        let tables = written(&odd());
        let rows = &tables["stack_functions.csv"];
        // Without control characters, and with an apostrophe before what could be a formula.
        let is_shown = |name: &&str| rows.iter().any(|row| row["function"].trim_start_matches('\'') == *name);
        assert!(ODD.iter().filter(|name| !name.contains(char::is_control)).all(is_shown));
        let formula = |row: &BTreeMap<String, String>| row["function"].starts_with(['=', '+', '-', '@']);
        assert!(!rows.iter().any(formula), "{rows:?}");
        assert_eq!(sum(rows, "writer", "self_samples"), 9);
        assert_eq!(sum(rows, "writer", "self_cpu_nanoseconds"), 900);
    }
}
