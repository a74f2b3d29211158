//! The tables of a comparison.

use super::chart;
use crate::compare::exact::PART_FLOOR;
use crate::compare::model::{
    Cell as ColumnCell, CellProcess, Comparison, CycleDelta, ExactCell, FunctionRow, FunctionSum, Inlined, LockChange,
    Matched, Method, PathChange, PipeChange, PipeUse, RoleRow, RoleWork, Section, ShareChange, Step, SystemCallChange,
    Word,
};
use crate::profile::ProcessName;
use crate::report::number::{self, exact, rate};
use crate::report::table::{PAGE_ONLY, Table, TableCell};
use crate::result::LockKind;
use crate::roles::{self, SCHEDULING};
use crate::util::text::{counted, grouped, rounded, signed};

/// How much of a comparison is shown.
#[derive(Debug, Clone, Copy)]
pub struct StepExtent {
    pub roles: usize,
    pub functions: usize,
    /// A page has columns that terminals have no room for.
    pub page: bool,
}

/// Smaller parts of a recording have no row.
const SMALLEST_PART: f64 = 0.005;

/// Functions named per kernel by [`inlining`].
const INLINED: usize = 5;

/// What the columns of the split say.
const SPLIT: &str = "number, each: how many pages, wake-ups or calls of the role's functions from outside of the role there \
                     are, and instructions of one";

/// What the table of cycles shows.
const CYCLES: &str = "\"undecided\": instructions and cycles change in different directions, or the range of the cycles, \
                      with all weights halved to doubled, contains 0. Estimated cycles are not time.";

/// Each column's totals; in pages also its roles.
pub(super) fn cells(comparison: &Comparison, section: &Section, page: bool) -> Table {
    let labels = comparison.columns.iter().map(|column| column.label.clone());
    let mut rows: Vec<Vec<TableCell>> = Vec::new();
    let mut add = |name: TableCell, of: &dyn Fn(&ColumnCell) -> Option<String>| {
        let cell = |cell: &Option<ColumnCell>| cell.as_ref().and_then(of).map(TableCell::Figure).into();
        rows.push(std::iter::once(name).chain(section.cells.iter().map(cell)).collect());
    };
    let (timed, recorded) = (comparison.method != Method::Exact, comparison.method == Method::Recorded);
    let of_exact =
        |of: &'static dyn Fn(&ExactCell) -> Option<String>| move |cell: &ColumnCell| cell.exact.as_ref().and_then(of);
    let span = |ends: [f64; 2]| number::span(ends, exact);
    // Imported samples have neither times nor calls.
    let is_counted = !recorded || section.cells.iter().flatten().any(|cell| cell.total > 0.0);
    if timed && is_counted {
        add("elapsed, median".into(), &|cell| Some(exact(cell.total)).filter(|_| cell.total > 0.0));
    }
    if !timed {
        add("without scheduling".into(), &of_exact(&|cell| Some(exact(cell.without_scheduling))));
        add("  in all windows".into(), &|cell| cell.exact.as_ref().map(|cell| span(cell.without_scheduling_span)));
        if section.cells.iter().flatten().any(|cell| cell.exact.as_ref().is_some_and(|cell| cell.rep_bytes.is_some())) {
            add("bytes of rep instructions".into(), &of_exact(&|cell| cell.rep_bytes.map(exact)));
        }
        add("total".into(), &|cell| Some(exact(cell.total)));
        add("  in all windows".into(), &|cell| cell.exact.as_ref().map(|cell| span(cell.total_span)));
    }
    let runs = |cell: &ColumnCell| cell.pairs.iter().map(Vec::len).sum::<usize>();
    if timed && section.cells.iter().flatten().any(|cell| cell.gib_s.is_some()) {
        add("GiB/s, median".into(), &|cell| cell.gib_s.map(|speed| format!("{speed:.2}")));
        add("runs (boots)".into(), &|cell| Some(format!("{} ({})", runs(cell), cell.pairs.len())));
    }
    if recorded && is_counted {
        add("runs".into(), &|cell| Some(runs(cell).to_string()));
    }
    if page {
        for role in chart::role_order(section) {
            let title = TableCell::role(roles::by_id(role));
            add(title, &|cell| Some(exact(cell.of_role(role))));
        }
    }
    let mut names = section.processes();
    names.retain(|name| !recorded || section.cells.iter().flatten().any(|cell| is_large(cell, *name)));
    let of =
        |cell: &ColumnCell, name: ProcessName, value: fn(&CellProcess) -> String| cell.processes.get(name).map(value);
    for &name in &names {
        let heading = if timed && is_counted { format!("{name}, CPU") } else { name.to_string() };
        add(heading.into(), &|cell| of(cell, name, |process| exact(process.value)));
    }
    if let Some(first) = names.first().filter(|_| !recorded) {
        let unit = if timed { ", ns" } else { "" };
        add(format!("per {first} call{unit}").into(), &|cell| Some(exact(cell.per_call)));
    }
    for &name in names.iter().filter(|_| is_counted) {
        add(format!("calls of {name}").into(), &|cell| of(cell, name, |process| grouped(process.calls)));
    }
    if is_counted {
        add("sleeps".into(), &|cell| Some(grouped(cell.voluntary_switches)));
        add("preemptions".into(), &|cell| Some(grouped(cell.involuntary_switches)));
    }
    if !timed {
        add("instructions per sleep".into(), &of_exact(&|cell| cell.per_sleep.map(rounded)));
        add("instructions per preemption".into(), &of_exact(&|cell| cell.per_preemption.map(rounded)));
    }
    Table::new(std::iter::once(comparison.per_kib().to_owned()).chain(labels), rows)
}

/// Whether a process took a part of a recording that is worth a row.
fn is_large(cell: &ColumnCell, name: ProcessName) -> bool {
    let all: f64 = cell.processes.values().map(|process| process.value).sum();
    cell.processes.get(name).is_some_and(|process| process.value >= SMALLEST_PART * all)
}

/// What the wall times of two recordings were made of.
pub(super) fn path(comparison: &Comparison, step: &Step, shown: StepExtent) -> Table {
    let (from, to) = sides(comparison, step, shown);
    let largest = step.pipeline.path.iter().map(|part| part.before.max(part.after)).fold(0.0, f64::max);
    let is_shown = |part: &&PathChange| part.before.max(part.after) >= SMALLEST_PART * largest;
    Table::of(
        "Critical path: what the time was made of, ms",
        step.pipeline.path.iter().filter(is_shown).take(shown.roles),
    )
    .column("part", |part| &part.part[..])
    .column(from, |part| TableCell::Exact(part.before))
    .column(to, |part| TableCell::Exact(part.after))
    .column("delta", |part| TableCell::Change(part.after - part.before))
    .done()
}

/// Shares of samples by process and role.
pub(super) fn shares(step: &Step, shown: StepExtent) -> Table {
    let interval = |row: &ShareChange| {
        let [low, high] = row.difference_ci95.map(|end| 100.0 * end);
        TableCell::Figure(if row.is_certain() { format!("{low:+.1} to {high:+.1}") } else { "not certain".to_owned() })
    };
    let rows = step.pipeline.shares.iter().filter(|row| row.difference().abs() >= SMALLEST_PART).take(shown.functions);
    Table::of("Time on a CPU by role, shares of each process, certain differences first", rows)
        .column("role", |row| TableCell::role(roles::by_id(row.role)))
        .less(1, "before", |row| TableCell::FineShare(row.shares[0]))
        .less(1, "after", |row| TableCell::FineShare(row.shares[1]))
        .column("points", |row| TableCell::Figure(signed(100.0 * row.difference())))
        .column("95 % CI", |row| interval(row))
        .column("process", |row| row.process.as_str())
        .done()
}

/// What went through the pipes of two recordings.
pub(super) fn pipes(step: &Step, shown: StepExtent) -> Table {
    let (pipes, others) = step.pipeline.pipes.split_at(step.pipeline.pipes.len().min(shown.functions));
    let rows = pipes.iter().flat_map(|pipe| [("writes", pipe, &pipe.writers), ("reads", pipe, &pipe.readers)]);
    let pair = |[first, second]: [String; 2]| {
        TableCell::Figure(if first == second { first } else { format!("{first} to {second}") })
    };
    // What one of them has not seen is not compared.
    let both = |counts: [Option<u64>; 2], text: fn(u64) -> String| {
        let [Some(before), Some(after)] = counts else { return TableCell::Missing };
        pair([text(before), text(after)])
    };
    let mib = |bytes: u64| number::number(bytes as f64 / f64::from(1 << 20));
    type Row<'a> = (&'static str, &'a PipeChange, &'a [PipeUse; 2]);
    let more = match others.len() {
        0 => String::new(),
        more => format!("{} more in report.json", counted(more as u64, "pipe")),
    };
    Table::of("Pipes, before and after", rows)
        .column("pipe", |(does, pipe, _): &Row<'_>| format!("{} ({does})", pipe.name))
        .less(1, "MiB", |(_, pipe, _)| both(pipe.bytes, mib))
        .less(1, "calls", |(.., side)| both(side.map(|side| side.calls), grouped))
        .column("sleeps", |(.., side)| both(side.map(|side| side.sleeps), grouped))
        .column("wake-ups", |(.., side)| both(side.map(|side| side.wakes), grouped))
        .column("full or empty", |(.., side)| pair(side.map(|side| number::percent(side.blocked))))
        .done()
        .note(more)
}

/// The system calls that changed.
pub(super) fn system_calls(step: &Step, shown: StepExtent) -> Table {
    let changed = |change: &&SystemCallChange| {
        let [before, after] = change.per_call;
        let costs = before.zip(after).is_some_and(|(before, after)| (after / before - 1.0).abs() >= SMALLEST_PART);
        change.certain || (costs && change.calls[0] >= FEW_CALLS) || change.fails_otherwise()
    };
    let all: Vec<&SystemCallChange> = step.pipeline.system_calls.iter().filter(changed).collect();
    let (rows, others) = all.split_at(all.len().min(shown.functions));
    let more = match others.len() {
        0 => String::new(),
        more => format!("{} more in report.json", counted(more as u64, "change")),
    };
    let each = |of: Option<f64>| of.map_or(TableCell::Missing, TableCell::Exact);
    let count = |of: Option<u64>| of.map_or(TableCell::Missing, TableCell::Count);
    let table = Table::of("System calls whose number, errors or instructions in one call changed", rows)
        .column("call", |change| &change.name[..])
        .column("process", |change| change.process.as_str())
        .column("calls", |change| change.calls[0])
        .column("then", |change| change.calls[1])
        .less(1, "instr/call", |change| each(change.per_call[0]))
        .less(1, "then", |change| each(change.per_call[1]));
    // Older results do not have them.
    let table = if rows.iter().any(|change| change.errors.iter().any(Option::is_some)) {
        table
            .less(2, "errors", |change| count(change.errors[0]))
            .less(2, "then", |change| count(change.errors[1]))
            .less(3, "bytes", |change| count(change.bytes[0]))
            .less(3, "then", |change| count(change.bytes[1]))
    } else {
        table
    };
    table.done().note(more)
}

/// Fewer calls of a kind are mostly those that start a program.
const FEW_CALLS: u64 = 10;

/// The headings of the columns before and after.
fn sides<'a>(comparison: &'a Comparison, step: &Step, shown: StepExtent) -> (&'a str, &'a str) {
    if shown.page { comparison.step_labels(step) } else { ("before", "after") }
}

/// The roles that changed.
pub(super) fn roles(comparison: &Comparison, section: &Section, step: &Step, shown: StepExtent) -> Table {
    let rows: Vec<&RoleRow> = changed(step).take(shown.roles).collect();
    let split = rows.iter().any(|row| row.work.is_some());
    let largest = rows.iter().map(|row| row.delta.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let title = |row: &RoleRow| {
        let doubt = match row.certain {
            _ if step.exact() && (row.moved || scheduling(row)) => " ~",
            true => "",
            false => " ?",
        };
        TableCell::Role { title: format!("{}{doubt}", row.title), colour: row.colour.clone() }
    };
    let of_work = |row: &RoleRow, text: fn(RoleWork) -> String| row.work.map(|work| TableCell::Figure(text(work)));
    let (from, to) = sides(comparison, step, shown);
    let mut table = Table::of(format!("By role, {}", comparison.per_kib()), &rows)
        .column("role", |row| title(row))
        .column(from, |row| TableCell::Exact(row.before))
        .column(to, |row| TableCell::Exact(row.after))
        .column("delta", |row| TableCell::Change(row.delta))
        .less(PAGE_ONLY, "less · more", |row| TableCell::Bar(row.delta / largest))
        .column("change", |row| TableCell::Figure(number::change_of(row.before, row.after)))
        .when(split, |table| {
            table
                .less(PAGE_ONLY, "number per MiB", |row| {
                    of_work(row, |work| format!("{} → {}", rate(work.calls_before), rate(work.calls_after)))
                })
                .column("number", |row| of_work(row, |work| number::change_of(work.calls_before, work.calls_after)))
                .column("each", |row| of_work(row, |work| number::change_of(work.each_before, work.each_after)))
                .column("per", |row| row.work.map_or("-", |work| work.unit.text()))
        });
    for name in section.processes() {
        table = table
            .less(PAGE_ONLY, format!("of {name}"), |row| row.deltas.get(name).map(|delta| TableCell::Change(*delta)));
    }
    let mut table = table.done().note(if split { SPLIT } else { "" });
    table.notes.extend(marks(step, shown.roles).map(|(mark, reason)| format!("{mark}: {reason}")));
    table
}

/// The roles that changed. Counts: without those whose uncertain change is next to nothing.
fn changed(step: &Step) -> impl Iterator<Item = &RoleRow> {
    let least = if step.exact() { PART_FLOOR * step.verdict.before } else { 0.0 };
    step.roles
        .iter()
        .filter(move |row| row.delta != 0.0 && (row.certain || row.delta.abs() > least) && !is_noise(step, row.certain))
}

/// Whether a change has no row: it is not `certain`, and the whole is `same`.
fn is_noise(step: &Step, certain: bool) -> bool {
    step.verdict.word == Word::Same && !certain
}

/// The marks of uncertain roles among the first `shown` that changed, and their meaning.
fn marks(step: &Step, shown: usize) -> impl Iterator<Item = (char, &'static str)> {
    let within = match step.exact() {
        true => "within the differences between windows: no difference between the kernels",
        false => "within the intervals of the sampled shares",
    };
    let changed = || changed(step).take(shown);
    let by_schedule = |row: &RoleRow| step.exact() && (row.moved || scheduling(row));
    let marks = [
        (changed().any(|row| !row.certain && !by_schedule(row)), '?', within),
        (changed().any(by_schedule), '~', by_schedule_text(step)),
    ];
    marks.into_iter().filter(|(is_used, ..)| *is_used).map(|(_, mark, reason)| (mark, reason))
}

/// What `~` means.
fn by_schedule_text(step: &Step) -> &'static str {
    match step.roles.iter().any(|row| row.moved) {
        true => {
            "depends on how often the processes sleep and are preempted; those without scheduling are given as if that were \
             as before"
        }
        false => "depends on how often the processes sleep and are preempted",
    }
}

/// Whether a role depends on the schedule.
fn scheduling(row: &RoleRow) -> bool {
    SCHEDULING.contains(&row.role)
}

/// Changes of instructions and of estimated cycles side by side, for the roles that changed most. `None` if cycles are
/// not known or nothing changed.
pub(super) fn cycles(step: &Step, shown: StepExtent) -> Option<Table> {
    let cycles = step.cycles.as_ref()?;
    let changed = |change: &CycleDelta| change.instructions != 0.0 || change.range != [0.0; 2];
    let roles = cycles.roles.iter().filter(|role| changed(&role.change)).take(shown.roles);
    let roles = roles.map(|role| (&role.title[..], &role.change));
    let rows = std::iter::once(("without scheduling", &cycles.without_scheduling)).chain(roles);
    let table = Table::of("Instructions and estimated cycles per KiB", rows)
        .column("change", |(title, _)| *title)
        .column("instructions", |(_, change)| TableCell::Change(change.instructions))
        .column("estimated cycles", |(_, change)| TableCell::Figure(number::span(change.range, number::signed)))
        .column("both", |(_, change)| change.word.map_or("", Word::text))
        .done()
        .note(format!("Cycles by the model {}. {CYCLES}", cycles.model));
    changed(&cycles.without_scheduling).then_some(table)
}

/// Functions whose self weight changed, the largest changes first.
pub(super) fn functions(comparison: &Comparison, step: &Step, shown: StepExtent) -> Table {
    let all = step.functions.iter().filter(|row| row.self_delta != 0.0);
    let (mut rows, mut others): (Vec<&FunctionRow>, Vec<_>) = all.partition(|row| !is_noise(step, row.certain));
    others.extend(rows.drain(rows.len().min(shown.functions)..));
    let name = |row: &FunctionRow| if shown.page { unfolded(row) } else { TableCell::Name(function_name(row)) };
    let (from, to) = sides(comparison, step, shown);
    let table = Table::of(format!("Functions in their roles, {}", comparison.per_kib()), rows)
        .column("function in a role", |row| name(row))
        .column("role", |row| roles::by_id(row.role).title)
        .less(1, format!("self {from}"), |row| TableCell::Exact(row.self_before))
        .less(1, format!("self {to}"), |row| TableCell::Exact(row.self_after))
        .column("self delta", |row| TableCell::Change(row.self_delta))
        .column("total delta", |row| TableCell::Change(row.inclusive_delta))
        .done();
    let more = others.len() + step.functions_left_out;
    let rest = others.iter().map(|row| row.self_delta).sum::<f64>() + step.left_out_delta;
    let more =
        (more > 0).then(|| format!("and {}, {} in all", counted(more as u64, "other function"), number::signed(rest)));
    table.note(more.unwrap_or_default()).note(inlining(comparison, step).unwrap_or_default())
}

/// `W` or `R` for the process, the names before and after, and how they were matched.
pub fn function_name(row: &FunctionRow) -> String {
    // The built-in workload's names are shortened.
    let process = match row.process {
        ProcessName::WRITER => "W",
        ProcessName::READER => "R",
        other => other.as_str(),
    };
    let mark = match row.matched {
        Matched::Path => " (by path)",
        Matched::Moved => " (other caller)",
        Matched::Place | Matched::OnlyBefore | Matched::OnlyAfter | Matched::Name | Matched::Rename => "",
    };
    format!("{process} {}{mark}", row.shown_with_inlined())
}

/// A function with what a reader can ask for: its values per call, and its call paths.
fn unfolded(row: &FunctionRow) -> TableCell {
    let from_to = |before: f64, after: f64| format!("{} → {}", exact(before), exact(after));
    let per_call = format!(
        "per call of the {}: {}, total {}",
        row.process,
        from_to(row.call_before, row.call_after),
        from_to(row.inclusive_call_before, row.inclusive_call_after)
    );
    let paths =
        row.paths.iter().map(|path| format!("{}: {}", from_to(path.before, path.after), path.path.replace(';', " > ")));
    let mark = match row.matched {
        Matched::OnlyBefore => "gone",
        Matched::OnlyAfter => "new",
        Matched::Moved => "other caller",
        Matched::Path => "matched by path",
        Matched::Place => "matched by place",
        Matched::Name | Matched::Rename => "",
    };
    TableCell::Unfold {
        name: row.shown_with_inlined(),
        mark,
        summary: row.process.to_string(),
        lines: std::iter::once(per_call).chain(paths).collect(),
    }
}

/// Which functions are counted with their callers, and why.
fn inlining(comparison: &Comparison, step: &Step) -> Option<String> {
    let (from, to) = comparison.step_labels(step);
    let list = |before: bool, label: &str| -> Option<String> {
        let mut inlined: Vec<_> = step.inlined.iter().filter(|one| one.before == before).collect();
        inlined.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let name = |one: &&Inlined| format!("{} into {}", one.function, one.caller);
        let mut names: Vec<String> = inlined.iter().take(INLINED).map(name).collect();
        if inlined.len() > INLINED {
            names.push(format!("and {}", counted((inlined.len() - INLINED) as u64, "other")));
        }
        (!names.is_empty()).then(|| format!("{label} inlines {}", names.join(", ")))
    };
    let lists: Vec<String> = [list(true, from), list(false, to)].into_iter().flatten().collect();
    let rule = "both sides count these functions with their callers";
    (!lists.is_empty()).then(|| format!("{}: {rule}", lists.join("; ")))
}

/// Calls under the pipe's mutex: those that changed, or all in a page.
pub(super) fn locks(section: &Section, step: &Step, shown: StepExtent) -> Vec<Table> {
    let first = section.processes().first().map_or("first process", |name| name.as_str());
    let mutexes = step.locks.iter().filter(|lock| lock.lock == LockKind::Mutex);
    let table = |lock: &LockChange| {
        let calls = lock.calls.iter().filter(|row| shown.page || row.changed());
        Table::of(format!("Under the pipe's mutex: {}, per call of the {first}", lock.process), calls)
            .column("calls under the mutex", |row| format!("{} ({})", row.title, row.function))
            .column("before", |row| TableCell::Figure(number::count(row.held[0])))
            .column("of all", |row| TableCell::Figure(number::count(row.all[0])))
            .column("after", |row| TableCell::Figure(number::count(row.held[1])))
            .column("of all", |row| TableCell::Figure(number::count(row.all[1])))
            .done()
            .note(match lock.instructions {
                [Some(before), Some(after)] => {
                    format!("instructions without scheduling: {} to {}", exact(before), exact(after))
                }
                _ => String::new(),
            })
    };
    mutexes.map(table).filter(|table| !table.is_empty()).collect()
}

/// Functions summed over all roles and processes.
pub(super) fn sums(comparison: &Comparison, step: &Step, shown: StepExtent) -> Table {
    let roles = |row: &FunctionSum| {
        let named = row.roles.iter().take(4).map(|part| format!("{} {}", part.title, number::signed(part.delta)));
        let more = row.roles.len().saturating_sub(4);
        named.chain((more > 0).then(|| format!("{more} more"))).collect::<Vec<_>>().join(", ")
    };
    let (from, to) = sides(comparison, step, shown);
    Table::of(
        format!("Functions summed over all roles and processes, {}", comparison.per_kib()),
        step.sums.iter().filter(|row| !is_noise(step, row.certain)).take(shown.functions),
    )
    .column("function in all roles", |row| TableCell::Name(row.shown()))
    .column("roles", |row| row.roles.len() as u64)
    .less(1, format!("self {from}"), |row| TableCell::Exact(row.self_before))
    .less(1, format!("self {to}"), |row| TableCell::Exact(row.self_after))
    .column("self delta", |row| TableCell::Change(row.self_delta))
    .column("total delta", |row| TableCell::Change(row.total_delta))
    .less(PAGE_ONLY, "self delta by role", |row| roles(row))
    .done()
}

/// The functions called by the pipe's system calls, in the order of their code.
pub(super) fn calls(comparison: &Comparison, step: &Step) -> Vec<Table> {
    let (from, to) = comparison.step_labels(step);
    let either = |before: &str, after: &str| match (before.is_empty(), after.is_empty()) {
        (false, false) if before != after => format!("{before} / {after}"),
        (true, _) => after.to_owned(),
        _ => before.to_owned(),
    };
    let table = |list: &crate::compare::model::CallList| {
        let title = format!(
            "Calls of {} in {from} and of {} in {to}, in the order of the code, per call of the first process",
            list.before, list.after
        );
        Table::of(title, &list.rows)
            .column("callee", |row| TableCell::Name(either(&row.before_name, &row.after_name)))
            .column("before", |row| row.before.map(TableCell::Exact))
            .column("after", |row| row.after.map(TableCell::Exact))
            .done()
    };
    step.calls.iter().map(table).collect()
}

/// Each step's verdict: what a page has first.
pub(super) fn answers(comparison: &Comparison) -> Table {
    let mut rows = Vec::new();
    let several = comparison.sections.len() > 1;
    let timed = comparison.method != Method::Exact;
    let optional = |text: Option<String>| TableCell::from(text.map(TableCell::Figure));
    for (mode, section) in (1..).zip(&comparison.sections) {
        for (number, step) in (1..).zip(&section.steps) {
            let (from, to) = comparison.step_labels(step);
            let verdict = &step.verdict;
            let judged = !step.other_processor;
            let [doubt, other] = if timed {
                let interval = verdict.ci95.map(|ends| ends.map(number::change).join(" to "));
                [interval, verdict.noise_floor.map(|floor| format!("{:.1} %", 100.0 * floor))]
            } else {
                let with = step.total.as_ref().map(|total| {
                    let change = |after: f64| number::change(after / total.before);
                    let equal = total.at_equal_schedule.map(|after| format!(" ({})", change(after)));
                    change(total.after) + &equal.unwrap_or_default()
                });
                [verdict.uncertainty.map(number::margin), with]
            };
            let blame = step.blame.as_ref();
            let functions = blame.map_or_else(String::new, |blame| {
                let named = |(name, delta): &(String, f64)| format!("{name} {}", number::signed(*delta));
                let whole = blame.whole.iter().map(|(name, delta)| format!("{name} total {}", number::signed(*delta)));
                blame.functions.iter().map(named).chain(whole).collect::<Vec<_>>().join(", ")
            });
            // The text of a pipeline is long, and one mode needs no column.
            let mut row: Vec<TableCell> = several.then(|| section.title().into()).into_iter().collect();
            row.extend([
                TableCell::Link { text: format!("{from} → {to}"), to: format!("#{}", step_id(mode, number)) },
                TableCell::word(step.word()),
                optional(judged.then(|| format!("{} → {}", exact(verdict.before), exact(verdict.after)))),
                optional(judged.then(|| number::change(verdict.ratio))),
                optional(doubt),
                optional(other),
                blame
                    .map_or_else(|| "-".to_owned(), |blame| format!("{} {}", blame.title, number::signed(blame.delta)))
                    .into(),
                TableCell::Name(functions),
            ]);
            rows.push(row);
        }
    }
    let unit = comparison.verdict_unit();
    let [doubt, other] = if timed { ["95 % CI", "noise floor"] } else { ["±", "with scheduling"] };
    let contributor = "largest contributor";
    let headings = ["from, to", "verdict", &unit, "change", doubt, other, contributor, "functions in it"];
    let mut table = Table::new(several.then_some("mode").into_iter().chain(headings), rows);
    if !timed {
        table = table.note(
            "±: the 99 % interval, from the windows of both. With scheduling, in parentheses: with the sleeps and \
             preemptions of before.",
        );
    }
    table.notes.extend(
        comparison
            .missing
            .iter()
            .map(|missing| format!("{}, {}: not measured: {}", missing.mode, missing.column, missing.reason)),
    );
    table
}

/// The id of a step of a mode in a page, both from 1.
pub(super) fn step_id(mode: usize, step: usize) -> String {
    format!("step-{step}-of-{mode}")
}
