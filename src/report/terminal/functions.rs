//! The table of counted functions: calls by each process, and times per call if measured.

use super::table::{Figures, fitted};
use super::{Style, decimals};
use crate::document::{Document, ExecutedOn, FunctionCalls, Log2Histogram};
use crate::profile::{ByProcess, ProcessName, Unit};
use crate::roles::{self, RoleId};
use crate::util::text::{clean, grouped};
use std::fmt::Write as _;

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
    fn mean(&self, ns: fn(&FunctionCalls) -> Option<u64>) -> Option<String> {
        let timed = || self.all().filter_map(|f| Some((ns(f)?, f.calls.saturating_sub(f.missed))));
        let calls: u64 = timed().map(|(_, calls)| calls).sum();
        let total: u64 = timed().map(|(ns, _)| ns).sum();
        (calls > 0).then(|| decimals(total as f64 / calls as f64))
    }

    /// Mean self time without the cost of probes. `None` if a process has no corrected time: corrected and raw times
    /// do not mix.
    fn corrected(&self) -> Option<String> {
        let whole = self.all().all(|f| f.corrected_self_ns.is_some() == f.self_ns.is_some());
        whole.then(|| self.mean(|f| f.corrected_self_ns)).flatten()
    }

    fn below(&self, quantile: f64) -> Option<String> {
        let mut all = Log2Histogram::default();
        self.all().for_each(|f| all.merge(&f.log2_ns));
        all.below(quantile).map(|ns| format!("<{}", grouped(ns)))
    }
}

/// The counted functions in the order of the document. If there are counts of probes, function_graph's are left to
/// run.json.
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

/// The table, if functions were counted. For instruction counts, the table of roles contains the calls.
pub(crate) fn functions(document: &Document, style: Style, out: &mut String) {
    let rows = if document.unit == Unit::Instructions { Vec::new() } else { rows(document) };
    let Some(first) = rows.first() else { return };
    let mut processes: Vec<ProcessName> = document.processes.totals.names().collect();
    for name in rows.iter().flat_map(|row| row.by_process.names()) {
        if !processes.contains(&name) {
            processes.push(name);
        }
    }
    let what = if first.how == FUNCTION_GRAPH {
        "Calls in the call tree (function_graph)"
    } else {
        "Calls of probed functions"
    };
    let emulated = document.executed_on == ExecutedOn::Tcg;

    let mut columns: Vec<Figures> = Vec::new();
    let mut column = |heading: &str, value: &dyn Fn(&CallsRow<'_>) -> Option<String>| {
        let values: Vec<String> = rows.iter().map(|row| value(row).unwrap_or_default()).collect();
        if values.iter().any(|value| !value.is_empty()) {
            columns.push(Figures { heading: heading.to_owned(), cells: values, dispensable: 0 });
        }
    };
    for process in processes {
        let calls =
            |row: &CallsRow<'_>| row.by_process.get(process).into_iter().flatten().map(|f| f.calls).sum::<u64>();
        column(&process.to_string(), &|row| Some(grouped(calls(row))));
    }
    if rows.iter().any(|row| row.all().any(|f| f.missed > 0)) {
        column("missed", &|row| Some(grouped(row.all().map(|f| f.missed).sum())));
    }
    if !emulated {
        column("mean ns", &|row| row.mean(|f| f.total_ns));
        column("p50", &|row| row.below(0.5));
        column("p99", &|row| row.below(0.99));
        column("self ns", &|row| row.mean(|f| f.self_ns));
        column("corrected", &|row| row.corrected());
    }
    let hows: Vec<&str> = rows.iter().map(|row| row.how).collect();
    if hows.iter().any(|how| *how != first.how) {
        column("by", &|row| Some(clean(row.how).replace("hardware-breakpoint", "breakpoint")));
    }
    let names: Vec<String> = rows.iter().map(|row| clean(row.symbol)).collect();
    let titles: Vec<String> = rows.iter().map(|row| roles::by_id(row.role).title.to_owned()).collect();
    let _ = writeln!(
        out,
        "\n{what}, by process:\n{}",
        fitted(None, ("function", &names), &columns, ("role", &titles), style)
    );
}
