//! The tables of comparisons and sweeps, for [`super::tables`].

use super::tables::{CsvTable, row, some};
use crate::compare::model::Comparison;
use crate::sweep::Sweep;

/// Totals of each column, then roles and functions of each comparison of two columns.
pub(super) fn tables(comparison: &Comparison) -> Vec<CsvTable> {
    vec![totals(comparison), roles(comparison), functions(comparison)]
}

/// The table that the sweep's folder also has.
pub(super) fn sweep(sweep: &Sweep) -> CsvTable {
    let (header, rows) = sweep.csv_cells();
    CsvTable { name: "sweep", header, rows }
}

fn label(comparison: &Comparison, column: usize) -> &str {
    comparison.columns.get(column).map_or("", |column| &column.label)
}

fn totals(comparison: &Comparison) -> CsvTable {
    let unit = &comparison.unit;
    let mut rows = Vec::new();
    for section in &comparison.sections {
        for (index, cell) in section.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let exact = cell.exact.as_ref();
            rows.push(row![
                section.mode,
                some(section.cpus),
                label(comparison, index),
                cell.bytes,
                cell.total,
                some(exact.map(|exact| exact.without_scheduling)),
                some(exact.map(|exact| exact.without_scheduling_span[0])),
                some(exact.map(|exact| exact.without_scheduling_span[1])),
                some(exact.map(|exact| exact.sleeps_per_mib)),
                some(exact.map(|exact| exact.preemptions_per_mib)),
                cell.per_call,
                cell.voluntary_switches,
                cell.involuntary_switches,
                some(cell.gib_s),
            ]);
        }
    }
    let header = [
        "mode",
        "cpus",
        "column",
        "bytes",
        &format!("{unit}_per_kib"),
        &format!("without_scheduling_{unit}_per_kib"),
        &format!("without_scheduling_least_{unit}_per_kib"),
        &format!("without_scheduling_most_{unit}_per_kib"),
        "sleeps_per_mib",
        "preemptions_per_mib",
        &format!("{unit}_per_call"),
        "voluntary_switches",
        "involuntary_switches",
        "throughput_gib_s",
    ];
    CsvTable::new("totals", &header, rows)
}

fn roles(comparison: &Comparison) -> CsvTable {
    let unit = &comparison.unit;
    let mut rows = Vec::new();
    for section in &comparison.sections {
        for step in &section.steps {
            let names = [label(comparison, step.from), label(comparison, step.to)];
            rows.extend(step.roles.iter().map(|role| {
                let [from, to] = names;
                let (mode, cpus) = (&section.mode, some(section.cpus));
                row![mode, cpus, from, to, role.role, role.title, role.before, role.after, role.delta, role.certain]
            }));
        }
    }
    let header = [
        "mode",
        "cpus",
        "from",
        "to",
        "role",
        "title",
        &format!("before_{unit}_per_kib"),
        &format!("after_{unit}_per_kib"),
        &format!("delta_{unit}_per_kib"),
        "certain",
    ];
    CsvTable::new("roles", &header, rows)
}

fn functions(comparison: &Comparison) -> CsvTable {
    let unit = &comparison.unit;
    let mut rows = Vec::new();
    for section in &comparison.sections {
        for step in &section.steps {
            for function in &step.functions {
                rows.push(row![
                    section.mode,
                    some(section.cpus),
                    label(comparison, step.from),
                    label(comparison, step.to),
                    function.process,
                    function.role,
                    function.name,
                    function.before_names.join(" "),
                    function.after_names.join(" "),
                    function.self_before,
                    function.self_after,
                    function.self_delta,
                    function.inclusive_before,
                    function.inclusive_after,
                    function.inclusive_delta,
                    function.certain,
                ]);
            }
        }
    }
    let header = [
        "mode",
        "cpus",
        "from",
        "to",
        "process",
        "role",
        "function",
        "names_before",
        "names_after",
        &format!("self_before_{unit}_per_kib"),
        &format!("self_after_{unit}_per_kib"),
        &format!("self_delta_{unit}_per_kib"),
        &format!("total_before_{unit}_per_kib"),
        &format!("total_after_{unit}_per_kib"),
        &format!("total_delta_{unit}_per_kib"),
        "certain",
    ];
    CsvTable::new("functions", &header, rows)
}
