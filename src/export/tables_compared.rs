//! The tables of comparisons, for [`super::tables`].

use crate::compare::model::{Comparison, Method, Section, Step};
use crate::report::table::{Table, TableCell};

/// Totals of each column, then roles and functions of each comparison of two columns.
pub(super) fn tables(comparison: &Comparison) -> Vec<Table> {
    vec![totals(comparison), roles(comparison), functions(comparison)]
}

fn label(comparison: &Comparison, column: usize) -> &str {
    comparison.columns.get(column).map_or("", |column| &column.label)
}

/// `ns_per_kib`; recordings have values of a whole run.
fn unit(comparison: &Comparison) -> String {
    match comparison.method {
        Method::Exact | Method::Timed => format!("{}_per_kib", comparison.unit),
        Method::Recorded => comparison.unit.clone(),
    }
}

/// All comparisons of two columns.
fn steps(comparison: &Comparison) -> impl Iterator<Item = (&Section, &Step)> {
    comparison.sections.iter().flat_map(|section| section.steps.iter().map(move |step| (section, step)))
}

fn totals(comparison: &Comparison) -> Table {
    let unit = unit(comparison);
    let cells = comparison.sections.iter().flat_map(|section| {
        let cells = section.cells.iter().enumerate();
        cells.filter_map(move |(column, cell)| Some((section, label(comparison, column), cell.as_ref()?)))
    });
    Table::of("totals", cells)
        .column("mode", |(section, ..)| &section.mode[..])
        .column("cpus", |(section, ..)| section.cpus)
        .column("column", |(_, label, _)| *label)
        .column("bytes", |(.., cell)| cell.bytes)
        .column(&*unit, |(.., cell)| cell.total)
        .column(format!("without_scheduling_{unit}"), |(.., cell)| Some(cell.exact.as_ref()?.without_scheduling))
        .column(format!("without_scheduling_least_{unit}"), |(.., cell)| {
            Some(cell.exact.as_ref()?.without_scheduling_span[0])
        })
        .column(format!("without_scheduling_most_{unit}"), |(.., cell)| {
            Some(cell.exact.as_ref()?.without_scheduling_span[1])
        })
        .column("sleeps_per_mib", |(.., cell)| Some(cell.exact.as_ref()?.sleeps_per_mib))
        .column("preemptions_per_mib", |(.., cell)| Some(cell.exact.as_ref()?.preemptions_per_mib))
        .column(format!("{}_per_call", comparison.unit), |(.., cell)| cell.per_call)
        .column("voluntary_switches", |(.., cell)| cell.voluntary_switches)
        .column("involuntary_switches", |(.., cell)| cell.involuntary_switches)
        .column("throughput_gib_s", |(.., cell)| cell.gib_s)
        .done()
}

fn roles(comparison: &Comparison) -> Table {
    let unit = unit(comparison);
    let rows = steps(comparison).flat_map(|(section, step)| step.roles.iter().map(move |role| (section, step, role)));
    Table::of("roles", rows)
        .column("mode", |(section, ..)| &section.mode[..])
        .column("cpus", |(section, ..)| section.cpus)
        .column("from", |(_, step, _)| label(comparison, step.from))
        .column("to", |(_, step, _)| label(comparison, step.to))
        .column("role", |(.., role)| TableCell::shown(role.role))
        .column("title", |(.., role)| &role.title[..])
        .column(format!("before_{unit}"), |(.., role)| role.before)
        .column(format!("after_{unit}"), |(.., role)| role.after)
        .column(format!("delta_{unit}"), |(.., role)| role.delta)
        .column("certain", |(.., role)| TableCell::shown(role.certain))
        .done()
}

fn functions(comparison: &Comparison) -> Table {
    let unit = unit(comparison);
    let rows = steps(comparison)
        .flat_map(|(section, step)| step.functions.iter().map(move |function| (section, step, function)));
    Table::of("functions", rows)
        .column("mode", |(section, ..)| &section.mode[..])
        .column("cpus", |(section, ..)| section.cpus)
        .column("from", |(_, step, _)| label(comparison, step.from))
        .column("to", |(_, step, _)| label(comparison, step.to))
        .column("process", |(.., function)| TableCell::shown(function.process))
        .column("role", |(.., function)| TableCell::shown(function.role))
        .column("function", |(.., function)| &function.name[..])
        .column("names_before", |(.., function)| function.before_names.join(" "))
        .column("names_after", |(.., function)| function.after_names.join(" "))
        .column(format!("self_before_{unit}"), |(.., function)| function.self_before)
        .column(format!("self_after_{unit}"), |(.., function)| function.self_after)
        .column(format!("self_delta_{unit}"), |(.., function)| function.self_delta)
        .column(format!("total_before_{unit}"), |(.., function)| function.inclusive_before)
        .column(format!("total_after_{unit}"), |(.., function)| function.inclusive_after)
        .column(format!("total_delta_{unit}"), |(.., function)| function.inclusive_delta)
        .column("certain", |(.., function)| TableCell::shown(function.certain))
        .done()
}
