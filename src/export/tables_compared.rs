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
                "mode" => section.mode,
                "cpus" => some(section.cpus),
                "column" => label(comparison, index),
                "bytes" => cell.bytes,
                format!("{unit}_per_kib") => cell.total,
                format!("without_scheduling_{unit}_per_kib") => some(exact.map(|exact| exact.without_scheduling)),
                format!("without_scheduling_least_{unit}_per_kib") => some(exact.map(|exact| exact.without_scheduling_span[0])),
                format!("without_scheduling_most_{unit}_per_kib") => some(exact.map(|exact| exact.without_scheduling_span[1])),
                "sleeps_per_mib" => some(exact.map(|exact| exact.sleeps_per_mib)),
                "preemptions_per_mib" => some(exact.map(|exact| exact.preemptions_per_mib)),
                format!("{unit}_per_call") => cell.per_call,
                "voluntary_switches" => cell.voluntary_switches,
                "involuntary_switches" => cell.involuntary_switches,
                "throughput_gib_s" => some(cell.gib_s),
            ]);
        }
    }
    CsvTable::new("totals", rows)
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
                row![
                    "mode" => mode,
                    "cpus" => cpus,
                    "from" => from,
                    "to" => to,
                    "role" => role.role,
                    "title" => role.title,
                    format!("before_{unit}_per_kib") => role.before,
                    format!("after_{unit}_per_kib") => role.after,
                    format!("delta_{unit}_per_kib") => role.delta,
                    "certain" => role.certain,
                ]
            }));
        }
    }
    CsvTable::new("roles", rows)
}

fn functions(comparison: &Comparison) -> CsvTable {
    let unit = &comparison.unit;
    let mut rows = Vec::new();
    for section in &comparison.sections {
        for step in &section.steps {
            for function in &step.functions {
                rows.push(row![
                    "mode" => section.mode,
                    "cpus" => some(section.cpus),
                    "from" => label(comparison, step.from),
                    "to" => label(comparison, step.to),
                    "process" => function.process,
                    "role" => function.role,
                    "function" => function.name,
                    "names_before" => function.before_names.join(" "),
                    "names_after" => function.after_names.join(" "),
                    format!("self_before_{unit}_per_kib") => function.self_before,
                    format!("self_after_{unit}_per_kib") => function.self_after,
                    format!("self_delta_{unit}_per_kib") => function.self_delta,
                    format!("total_before_{unit}_per_kib") => function.inclusive_before,
                    format!("total_after_{unit}_per_kib") => function.inclusive_after,
                    format!("total_delta_{unit}_per_kib") => function.inclusive_delta,
                    "certain" => function.certain,
                ]);
            }
        }
    }
    CsvTable::new("functions", rows)
}
