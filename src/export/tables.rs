//! `csv`: the tables of a result, one file for each (RFC 4180). An empty cell means that the value is not available.

use super::samples::Samples;
use super::source::Exported;
use super::{ExportFormat, tables_compared};
use crate::profile::{RoleShare, Unit};
use crate::record::process_names;
use crate::report::flamegraph::unit_name;
use crate::report::table::{Table, TableCell};
use crate::result::{Document, RecordedProcess};
use crate::roles;
use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "csv",
    about: "The tables of a run, recording, comparison or sweep, one CSV file for each; -o names a folder",
    files: |exported| {
        let tables: Vec<Table> = tables(exported)?.into_iter().filter(|table| !table.is_empty()).collect();
        if tables.is_empty() {
            bail!("it contains no tables");
        }
        Ok(tables.into_iter().map(|table| (format!("{}.csv", table.title), table.csv().into_bytes())).collect())
    },
    is_folder: true,
};

/// The tables, with the names of their files as titles.
fn tables(exported: &Exported<'_>) -> Result<Vec<Table>> {
    let mut tables = match exported {
        Exported::Result(outcome) => {
            let document = &outcome.document;
            let shares = document.attribution.processes.iter();
            let shares = shares.flat_map(|(process, all)| all.iter().map(move |share| (process.to_string(), share)));
            vec![
                processes(document),
                waits(document),
                pipes(document),
                locks(document),
                roles(shares, document.unit),
                functions(document),
                runs(document),
            ]
        }
        Exported::Comparison(comparison) => tables_compared::tables(comparison),
        Exported::Sweep(sweep) => return Ok(vec![sweep.csv_table()]),
    };
    tables.extend(frames(&exported.all()));
    Ok(tables)
}

/// Shares by role, of each process.
fn roles<'a>(shares: impl Iterator<Item = (String, &'a RoleShare)>, unit: Unit) -> Table {
    let unit = unit_name(unit).replace(' ', "_");
    Table::of("roles", shares)
        .column("process", |(process, _)| process.clone())
        .column("role", |(_, share)| TableCell::shown(share.role))
        .column("title", |(_, share)| roles::by_id(share.role).title)
        .column("share", |(_, share)| share.share)
        .column("share_ci95_low", |(_, share)| share.share_ci95.map(|[low, _]| low))
        .column("share_ci95_high", |(_, share)| share.share_ci95.map(|[_, high]| high))
        .column(format!("weight_{unit}"), |(_, share)| share.weight)
        .column(format!("interrupts_off_{unit}"), |(_, share)| share.interrupts_off)
        .column("ns_per_kib", |(_, share)| share.ns_per_kib)
        .column("instructions_per_kib", |(_, share)| share.instructions_per_kib)
        .column("instructions_per_syscall", |(_, share)| share.instructions_per_call)
        .column("calls_per_mib", |(_, share)| share.calls_per_mib)
        .column("estimated_cycles", |(_, share)| share.cycles.as_ref().map(|cycles| TableCell::shown(cycles.estimate)))
        .column("estimated_cycles_low", |(_, share)| {
            share.cycles.as_ref().map(|cycles| TableCell::shown(cycles.range[0]))
        })
        .column("estimated_cycles_high", |(_, share)| {
            share.cycles.as_ref().map(|cycles| TableCell::shown(cycles.range[1]))
        })
        .column("functions", |(_, share)| share.symbols.join(" "))
        .done()
}

/// Calls of probed functions.
fn functions(document: &Document) -> Table {
    Table::of("functions", &document.functions)
        .column("process", |function| TableCell::shown(function.process))
        .column("role", |function| TableCell::shown(function.role))
        .column("function", |function| function.symbol.clone())
        .column("counted_by", |function| function.how.clone())
        .column("calls", |function| function.calls)
        .column("total_ns", |function| function.total_ns)
        .column("self_ns", |function| function.self_ns)
        .column("self_ns_without_probes", |function| function.corrected_self_ns)
        .column("missed_returns", |function| function.missed)
        .done()
}

/// Raw values of each measurement and process.
fn runs(document: &Document) -> Table {
    let runs = (1_u64..).zip(&document.runs);
    let rows = runs.flat_map(|(number, run)| {
        run.processes.totals.iter().map(move |(process, totals)| (number, run, process, totals))
    });
    Table::of("runs", rows)
        .column("run", |(number, ..)| *number)
        .column("collectors", |(_, run, ..)| run.collectors.join(" "))
        .column("window_ns", |(_, run, ..)| run.processes.window_ns)
        .column("process", |(_, _, process, _)| TableCell::shown(process))
        .column("bytes", |(.., totals)| totals.bytes)
        .column("syscalls", |(.., totals)| totals.calls)
        .column("short_calls", |(.., totals)| totals.short)
        .column("eagain", |(.., totals)| totals.eagain)
        .column("elapsed_ns", |(.., totals)| totals.elapsed_ns)
        .column("user_ns", |(.., totals)| totals.user_ns)
        .column("system_ns", |(.., totals)| totals.system_ns)
        .column("voluntary_switches", |(.., totals)| totals.voluntary_switches)
        .column("involuntary_switches", |(.., totals)| totals.involuntary_switches)
        .column("minor_faults", |(.., totals)| totals.minor_faults)
        .column("major_faults", |(.., totals)| totals.major_faults)
        .column("cpu", |(.., totals)| totals.cpu)
        .column("pipe_bytes", |(.., totals)| totals.pipe_size)
        .done()
}

/// The weight of each function in each process: itself, and with all that it called.
fn frames(samples: &Samples) -> Option<Table> {
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
    let rows = sums.into_iter().filter_map(|((process, frame), sums)| {
        Some((samples.processes.get(process)?, samples.frames.get(frame as usize)?, sums))
    });
    let mut table = Table::of("stack_functions", rows)
        .column("process", |(process, ..)| process.name.clone())
        .column("function", |(_, frame, _)| frame.name.clone())
        .column("code", |(_, frame, _)| if frame.is_kernel { "kernel" } else { "user" })
        .column("address", |(_, frame, _)| frame.address.map(|address| format!("{address:#x}")));
    for (at, kind) in samples.values.iter().enumerate() {
        let unit = if kind.unit == "count" { String::new() } else { format!("_{}", kind.unit) };
        table = table
            .column(format!("self_{}{unit}", kind.name), |(.., (own, _))| own[at])
            .column(format!("total_{}{unit}", kind.name), |(.., (_, total))| total[at]);
    }
    Some(table.done()).filter(|table| !table.is_empty())
}

fn processes(recording: &Document) -> Table {
    let pids = |process: &RecordedProcess| process.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    Table::of("processes", recording.recorded.iter().zip(process_names(recording)))
        .column("process", |(_, name)| name.to_string())
        .column("program", |(process, _)| process.name.clone())
        .column("stage", |(process, _)| process.stage + 1)
        .column("pids", |(process, _)| pids(process))
        .column("threads", |(process, _)| process.threads)
        .column("forks", |(process, _)| process.forks)
        .column("execs", |(process, _)| process.execs)
        .column("begin_ns", |(process, _)| process.begin_ns)
        .column("end_ns", |(process, _)| process.end_ns)
        .column("cpu_ns", |(process, _)| process.cpu_ns)
        .column("user_share", |(process, _)| process.user_share)
        .column("runnable_ns", |(process, _)| process.runnable_ns)
        .column("preemptions", |(process, _)| process.preemptions)
        .column("syscalls", |(process, _)| process.calls)
        .column("signal", |(process, _)| process.signal)
        .done()
}

/// Sleeps outside of pipes.
fn waits(recording: &Document) -> Table {
    let processes = recording.recorded.iter().zip(process_names(recording));
    let rows =
        processes.flat_map(|(process, name)| process.waits.iter().map(move |(reason, total)| (name, *reason, *total)));
    Table::of("waits", rows)
        .column("process", |(name, ..)| name.to_string())
        .column("reason", |(_, reason, _)| reason.title())
        .column("sleeps", |(.., total)| total.count)
        .column("ns", |(.., total)| total.ns)
        .done()
}

/// One row for each process at each end of each pipe.
fn pipes(recording: &Document) -> Table {
    let names = process_names(recording);
    let rows = recording.channels.iter().filter(|pipe| pipe.is_used()).flat_map(|pipe| {
        let writers = pipe.writers.iter().map(move |end| (pipe, "writer", end));
        writers.chain(pipe.readers.iter().map(move |end| (pipe, "reader", end)))
    });
    Table::of("pipes", rows)
        .column("pipe_inode", |(pipe, ..)| pipe.inode)
        .column("side", |(_, side, _)| *side)
        .column("process", |(.., end)| names.get(end.process).map(TableCell::shown))
        .column("bytes", |(.., end)| end.bytes)
        .column("calls", |(.., end)| end.all_calls())
        .column("short_calls", |(.., end)| end.short)
        .column("eagain", |(.., end)| end.eagain)
        .column("epipe", |(.., end)| end.epipe)
        .column("errors", |(.., end)| end.errors)
        .column("sleeps", |(.., end)| end.sleeps)
        .column("blocked_ns", |(.., end)| end.blocked_ns)
        .column("runnable_ns", |(.., end)| end.runnable_ns)
        .column("lock_sleeps", |(.., end)| end.lock_sleeps)
        .column("lock_ns", |(.., end)| end.lock_ns)
        .column("wakeups_sent", |(.., end)| end.wakes)
        .column("needless_sleeps", |(.., end)| end.needless)
        .column("capacity_pages", |(pipe, ..)| pipe.slots.map(|[_, last, _]| last))
        .column("mean_pages_in_use", |(pipe, ..)| pipe.mean_filled)
        .done()
}

fn locks(recording: &Document) -> Table {
    let names = process_names(recording);
    Table::of("lock_waits", recording.lock_waits.iter().flatten())
        .column("process", |wait| names.get(wait.process).map(TableCell::shown))
        .column("wanted_by", |wait| wait.caller.clone())
        .column("waits", |wait| wait.count)
        .column("ns", |wait| wait.ns)
        .done()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ODD, gallery, odd};
    use super::*;
    use crate::result::Outcome;
    use crate::util::text::is_hidden;

    fn written(outcome: &Outcome) -> BTreeMap<String, Vec<BTreeMap<String, String>>> {
        let files = FORMAT.files(&Exported::Result(outcome)).unwrap();
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
        assert!(ODD.iter().filter(|name| !name.contains(is_hidden)).all(is_shown));
        let formula = |row: &BTreeMap<String, String>| row["function"].starts_with(['=', '+', '-', '@']);
        assert!(!rows.iter().any(formula), "{rows:?}");
        assert_eq!(sum(rows, "writer", "self_samples"), 9);
        assert_eq!(sum(rows, "writer", "self_cpu_nanoseconds"), 900);
    }
}
