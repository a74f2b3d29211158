//! The table of counted functions: calls by each process, and times per call if measured.

use super::Style;
use crate::profile::{ByProcess, ProcessName, Unit};
use crate::report::table::{Table, TableCell};
use crate::result::{Document, ExecutedOn, FunctionCalls, Log2Histogram};
use crate::roles::{self, RoleId};
use crate::util::styled_text::StyledText;
use crate::util::text::{counted, grouped};

/// The `how` of function_graph's counts.
const FUNCTION_GRAPH: &str = "function-graph";

/// One function, counted in one way.
struct CallsRow<'a> {
    role: RoleId,
    symbol: &'a str,
    how: &'a str,
    by_process: ByProcess<Vec<&'a FunctionCalls>>,
}

impl CallsRow<'_> {
    fn all(&self) -> impl Iterator<Item = &FunctionCalls> {
        self.by_process.values().flatten().copied()
    }

    /// Mean ns per call over all processes. A call whose return was not reported has no time.
    fn mean(&self, ns: fn(&FunctionCalls) -> Option<u64>) -> Option<f64> {
        let timed = || self.all().filter_map(|f| Some((ns(f)?, f.calls.saturating_sub(f.missed))));
        let calls: u64 = timed().map(|(_, calls)| calls).sum();
        let total: u64 = timed().map(|(ns, _)| ns).sum();
        (calls > 0).then(|| total as f64 / calls as f64)
    }

    /// Mean self time without the cost of probes. `None` if a process has no corrected time: corrected and raw times
    /// do not mix.
    fn corrected(&self) -> Option<f64> {
        let whole = self.all().all(|f| f.corrected_self_ns.is_some() == f.self_ns.is_some());
        whole.then(|| self.mean(|f| f.corrected_self_ns)).flatten()
    }

    fn below(&self, quantile: f64) -> Option<TableCell> {
        let mut all = Log2Histogram::default();
        self.all().for_each(|f| all.merge(&f.log2_ns));
        all.below(quantile).map(|ns| TableCell::figure(format!("<{}", grouped(ns))))
    }
}

/// The counted functions in the order of the document. If there are counts of probes, function_graph's are left to
/// result.json.
fn rows(document: &Document) -> Vec<CallsRow<'_>> {
    let probed = document.functions.iter().any(|f| f.how != FUNCTION_GRAPH);
    let shown = |f: &&FunctionCalls| {
        f.process.is_of_target() && (f.calls > 0 || f.missed > 0) && !(probed && f.how == FUNCTION_GRAPH)
    };
    let mut rows: Vec<CallsRow<'_>> = Vec::new();
    for function in document.functions.iter().filter(shown) {
        let place = rows.iter().position(|row| row.symbol == function.symbol && row.how == function.how);
        let place = place.unwrap_or_else(|| {
            let (role, symbol, how) = (function.role, &function.symbol, &function.how);
            rows.push(CallsRow { role, symbol, how, by_process: ByProcess::new() });
            rows.len() - 1
        });
        rows[place].by_process.get_or_default(function.process).push(function);
    }
    rows
}

/// Processes that have a column: of a recording those with most calls.
const COLUMNS: usize = 6;

/// The table as text, if functions were counted.
pub fn functions(document: &Document, style: Style, out: &mut StyledText) {
    if let Some(table) = table(document, &|process| process.to_string()) {
        out.push_str("\n");
        out.append(&table.text(style));
    }
}

/// The table, if functions were counted, with the `titles` of processes. For instruction counts, the table of roles
/// contains the calls.
pub fn table(document: &Document, titles: &dyn Fn(ProcessName) -> String) -> Option<Table> {
    let rows = if document.unit == Unit::Instructions { Vec::new() } else { rows(document) };
    let first = rows.first()?;
    let mut processes: Vec<ProcessName> = document.processes.totals.names().collect();
    for name in rows.iter().flat_map(|row| row.by_process.names()) {
        if !processes.contains(&name) {
            processes.push(name);
        }
    }
    let calls = |row: &CallsRow<'_>, process: ProcessName| -> u64 {
        row.by_process.get(process).into_iter().flatten().map(|function| function.calls).sum()
    };
    let others = without_rarest(&mut processes, |process| {
        rows.iter().map(|row| calls(row, process)).fold(0, u64::saturating_add)
    });
    let what = if first.how == FUNCTION_GRAPH {
        "Calls in the call tree (function_graph)"
    } else {
        "Calls of probed functions"
    };
    let mut table = Table::of(format!("{what}, by process"), &rows)
        .column("function", |row| TableCell::Name(row.symbol.to_owned()));
    for process in processes {
        table = table.column(titles(process), move |row| calls(row, process));
    }
    if !others.is_empty() {
        let title = counted(others.len() as u64, "other");
        table =
            table.column(title, |row| others.iter().map(|process| calls(row, *process)).fold(0, u64::saturating_add));
    }
    let by = first.how;
    let table = table
        .if_any(0, "missed", |row| row.all().map(|function| function.missed).sum::<u64>())
        .when(document.executed_on != ExecutedOn::Tcg, |table| {
            table
                .if_any(0, "mean ns", |row| row.mean(|function| function.total_ns))
                .if_any(0, "p50", |row| row.below(0.5))
                .if_any(0, "p99", |row| row.below(0.99))
                .if_any(0, "self ns", |row| row.mean(|function| function.self_ns))
                .if_any(0, "corrected", |row| row.corrected())
        })
        .when(rows.iter().any(|row| row.how != by), |table| {
            table.column("by", |row| row.how.replace("hardware-breakpoint", "breakpoint"))
        })
        .column("role", |row| roles::by_id(row.role).title);
    Some(table.done())
}

/// Leave [`COLUMNS`] of `processes`, those with most `calls`, in their order. Returns the others.
fn without_rarest(processes: &mut Vec<ProcessName>, calls: impl Fn(ProcessName) -> u64) -> Vec<ProcessName> {
    let mut order = processes.clone();
    order.sort_by_key(|process| std::cmp::Reverse(calls(*process)));
    // A single one has a column, too.
    let others = if order.len() > COLUMNS + 1 { order.split_off(COLUMNS) } else { Vec::new() };
    processes.retain(|process| !others.contains(process));
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_with_fewest_calls_share_a_column() {
        let names = |count: usize| (0..count).map(|at| ProcessName::new(&format!("p{at}"))).collect::<Vec<_>>();
        let calls = |process: ProcessName| if process.as_str() == "p1" { 0 } else { 5 };
        let mut few = names(COLUMNS + 1);
        assert_eq!((without_rarest(&mut few, calls), few.len()), (Vec::new(), COLUMNS + 1));
        let mut many = names(COLUMNS + 2);
        let others: Vec<&str> = without_rarest(&mut many, calls).into_iter().map(ProcessName::as_str).collect();
        assert_eq!(others, ["p7", "p1"]);
        let shown: Vec<&str> = many.into_iter().map(ProcessName::as_str).collect();
        assert_eq!(shown, ["p0", "p2", "p3", "p4", "p5", "p6"]);
    }
}
