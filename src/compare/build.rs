//! Outcomes in, one comparison out.

use super::calls;
use super::columns;
use super::functions;
use super::measure::{self, Measure};
use super::model::{Blame, Caveat, Cell, Comparison, Method, Missing, RoleValue, SCHEMA, Section, Step, Verdict, Word};
use super::timed::{self, Boots, Evidence};
use super::{exact, text};
use crate::document::{self, Document, ExecutedOn, Outcome, Status};
use crate::kernel::roles;
use crate::profile::{Side, Unit};
use anyhow::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// One column's runs: one per mode and boot.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// What to call it; absent: what tells it from the others.
    pub label: Option<String>,
    /// Where each run comes from, and the run.
    pub runs: Vec<(String, Outcome)>,
}

/// Which columns are set against which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Against {
    /// Each against the one before it, and the last against the first.
    #[default]
    Previous,
    /// Each against the first.
    First,
}

/// How to compare.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub command: String,
    pub against: Against,
    /// Of bootstraps and shuffles.
    pub seed: u64,
    /// The first column's second measurement, where there is one.
    pub control: Option<Input>,
    /// What was asked for and could not be measured.
    pub missing: Vec<Missing>,
}

/// A comparison, and the measures that graphs are drawn from: by section, then by column.
#[derive(Debug, Clone)]
pub struct Compared {
    pub comparison: Comparison,
    pub measures: Vec<Vec<Option<Measure>>>,
}

/// Compare `inputs`, the first being the oldest or the baseline.
///
/// # Errors
/// Where runs cannot be compared: the reason names both.
pub fn compare(inputs: &[Input], options: &Options) -> Result<Compared> {
    ensure!(inputs.len() >= 2, "one column is nothing to compare: give two kernels, two settings, or two stored runs");
    let method = check(inputs)?;
    let firsts: Vec<&Document> =
        inputs.iter().filter_map(|input| input.runs.first()).map(|(_, o)| &o.document).collect();
    ensure!(firsts.len() == inputs.len(), "a column has no run: nothing to compare");
    let given: Vec<Option<String>> = inputs.iter().map(|input| input.label.clone()).collect();
    let sources = inputs.iter().map(|input| input.runs.iter().map(|(source, _)| source.clone()).collect()).collect();
    let columns = columns::columns(&given, &firsts, sources);
    let (differences, shared) = columns::split(&firsts);

    let mut modes: Vec<String> = Vec::new();
    for (_, outcome) in inputs.iter().flat_map(|input| &input.runs) {
        let mode = base_mode(&outcome.document.mode);
        if !modes.iter().any(|known| known == mode) {
            modes.push(mode.to_owned());
        }
    }
    let mut sections = Vec::new();
    let mut measures = Vec::new();
    for mode in modes {
        let runs: Vec<Vec<&Outcome>> = inputs.iter().map(|input| of_mode(input, &mode)).collect();
        let measured: Vec<Option<Measure>> = runs.iter().map(|runs| measure::measure(runs)).collect();
        if method == Method::Exact {
            for (column, (runs, measure)) in runs.iter().zip(&measured).enumerate() {
                ensure!(
                    runs.is_empty() || measure.is_some(),
                    "{} has no instruction profile: run it with --collect insn",
                    inputs[column].runs.first().map_or("a column", |(source, _)| source)
                );
            }
        }
        let cells = runs.iter().zip(&measured).map(|(runs, measure)| cell(runs, measure.as_ref(), method)).collect();
        sections.push(Section { mode, cells, steps: Vec::new() });
        measures.push(measured);
    }
    fill_steps(&mut sections, &measures, inputs, method, options);
    let mut caveats = caveats(inputs, &columns.iter().map(|c| c.label.as_str()).collect::<Vec<_>>(), method);
    for difference in differences.iter().filter(|difference| difference.what == "version") {
        caveats.push(Caveat {
            text: format!("the runs are of different builds of pipeprof: {}", difference.matters),
            columns: Vec::new(),
        });
    }
    let comparison = Comparison {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: options.command.clone(),
        method,
        unit: method.unit().to_owned(),
        executed_on: firsts[0].executed_on,
        columns,
        differences,
        shared,
        sections,
        caveats,
        missing: options.missing.clone(),
    };
    Ok(Compared { comparison, measures })
}

fn of_mode<'a>(input: &'a Input, mode: &str) -> Vec<&'a Outcome> {
    input.runs.iter().map(|(_, outcome)| outcome).filter(|outcome| base_mode(&outcome.document.mode) == mode).collect()
}

/// A mode without the axes that override it: `write` of `write (buffer-size=64K)`. What overrides is a difference
/// between columns, not another mode.
fn base_mode(mode: &str) -> &str {
    mode.split(" (").next().unwrap_or(mode)
}

/// Refuse what cannot be compared; say how the rest is.
fn check(inputs: &[Input]) -> Result<Method> {
    let mut all = inputs.iter().flat_map(|input| &input.runs);
    let Some((first_source, first)) = all.next() else {
        bail!("there is no run to compare");
    };
    let first = &first.document;
    for (source, outcome) in inputs.iter().flat_map(|input| &input.runs) {
        let document = &outcome.document;
        ensure!(
            document.schema == document::SCHEMA,
            "{source} has schema {}, this pipeprof compares {}: make the run again, or use the pipeprof that made it",
            document.schema,
            document::SCHEMA
        );
        ensure!(
            document.executed_on == first.executed_on,
            "{first_source} was executed on {}, {source} on {}: compare runs of one kind",
            name(first.executed_on),
            name(document.executed_on)
        );
        ensure!(
            document.unit == first.unit,
            "{first_source} counts {}, {source} counts {}: run both with the same --collect",
            unit_name(first.unit),
            unit_name(document.unit)
        );
        ensure!(
            document.processes.writer.bytes > 0,
            "{source} moved nothing in its window: nothing to compare per KiB"
        );
    }
    let modes = |input: &Input| -> BTreeSet<String> {
        input.runs.iter().map(|(_, outcome)| base_mode(&outcome.document.mode).to_owned()).collect()
    };
    let of_first = modes(&inputs[0]);
    for input in &inputs[1..] {
        let others = modes(input);
        if of_first.is_disjoint(&others) {
            let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
            let source = input.runs.first().map_or("another column", |(source, _)| source);
            bail!(
                "{first_source} is of mode {}, {source} of mode {}: compare runs of one mode",
                list(&of_first),
                list(&others)
            );
        }
    }
    match (first.executed_on, first.unit) {
        (ExecutedOn::Tcg, Unit::Instructions) => Ok(Method::Exact),
        (ExecutedOn::Tcg, unit) => bail!(
            "{first_source} counts {} under emulation, where time says nothing: run with --collect insn and compare those",
            unit_name(unit)
        ),
        (ExecutedOn::Hardware | ExecutedOn::Kvm, _) => Ok(Method::Timed),
    }
}

fn name(executed_on: ExecutedOn) -> &'static str {
    match executed_on {
        ExecutedOn::Hardware => "hardware",
        ExecutedOn::Kvm => "kvm",
        ExecutedOn::Tcg => "tcg",
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Samples => "samples",
        Unit::Instructions => "instructions",
        Unit::Nanoseconds => "nanoseconds",
    }
}

/// Nanoseconds per KiB of every pair, by boot.
fn boots(runs: &[&Outcome]) -> Boots {
    let ns_per_kib = |gib_s: f64| 1e9 / gib_s / f64::from(1 << 20);
    runs.iter()
        .map(|outcome| outcome.document.throughput.runs.iter().filter(|v| **v > 0.0).map(|v| ns_per_kib(*v)).collect())
        .filter(|boot: &Vec<f64>| !boot.is_empty())
        .collect()
}

fn cell(runs: &[&Outcome], measure: Option<&Measure>, method: Method) -> Option<Cell> {
    let document = &runs.first()?.document;
    let side = |side| measure.map_or(0.0, |measure| measure.side(side));
    let (writer, reader, other) = (side(Side::Writer), side(Side::Reader), side(Side::Other));
    let pairs = if method == Method::Timed { boots(runs) } else { Boots::new() };
    let total = match method {
        Method::Exact => writer + reader,
        Method::Timed => crate::util::stats::median(&pairs.concat()).unwrap_or(0.0),
    };
    let processes = &document.processes;
    let kib = measure::as_f64(processes.writer.bytes) / 1024.0;
    Some(Cell {
        bytes: processes.writer.bytes,
        writer_calls: processes.writer.calls,
        reader_calls: processes.reader.calls,
        total,
        writer,
        reader,
        other,
        per_call: total * kib / measure::as_f64(processes.writer.calls.max(1)),
        weight: measure.map_or(0, |measure| {
            [Side::Writer, Side::Reader].iter().filter_map(|side| measure.sides.get(side)).map(|side| side.weight).sum()
        }),
        roles: measure.map(role_values).unwrap_or_default(),
        voluntary_switches: processes.writer.voluntary_switches + processes.reader.voluntary_switches,
        involuntary_switches: processes.writer.involuntary_switches + processes.reader.involuntary_switches,
        gib_s: (method == Method::Timed && total > 0.0).then(|| 1e9 / total / f64::from(1 << 20)),
        pairs,
    })
}

fn role_values(measure: &Measure) -> Vec<RoleValue> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for side in [Side::Writer, Side::Reader] {
        for role in measure.sides.get(&side).into_iter().flat_map(|side| side.roles.keys()) {
            *sums.entry(role).or_default() += measure.role(side, role);
        }
    }
    let mut values: Vec<RoleValue> = sums
        .into_iter()
        .map(|(id, value)| {
            let (title, colour) = roles::by_id(id).map_or((id, "#999999"), |role| (role.title, role.colour));
            RoleValue { role: id.to_owned(), title: title.to_owned(), colour: colour.to_owned(), value }
        })
        .collect();
    values.sort_by(|a, b| b.value.total_cmp(&a.value).then_with(|| a.role.cmp(&b.role)));
    values
}

/// The pairs of columns to compare, of `present` ones.
fn step_pairs(present: &[usize], against: Against) -> Vec<(usize, usize)> {
    let (Some(first), Some(last)) = (present.first(), present.last()) else {
        return Vec::new();
    };
    match against {
        Against::First => present[1..].iter().map(|to| (*first, *to)).collect(),
        Against::Previous => {
            let mut pairs: Vec<(usize, usize)> = present.windows(2).map(|pair| (pair[0], pair[1])).collect();
            if present.len() > 2 {
                pairs.push((*first, *last));
            }
            pairs
        }
    }
}

fn fill_steps(
    sections: &mut [Section],
    measures: &[Vec<Option<Measure>>],
    inputs: &[Input],
    method: Method,
    options: &Options,
) {
    let mut evidence: Vec<Evidence> = Vec::new();
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for (index, section) in sections.iter_mut().enumerate() {
        let present: Vec<usize> = (0..section.cells.len()).filter(|column| section.cells[*column].is_some()).collect();
        let control: Option<Boots> =
            options.control.as_ref().map(|control| boots(&of_mode(control, &section.mode))).filter(|b| !b.is_empty());
        for (from, to) in step_pairs(&present, options.against) {
            let verdict = match method {
                Method::Exact => match (&measures[index][from], &measures[index][to]) {
                    (Some(before), Some(after)) => exact::verdict(before, after),
                    _ => unknown("no profile on one side"),
                },
                Method::Timed => {
                    let pairs = |column: usize| section.cells[column].as_ref().map(|cell| &cell.pairs);
                    let found = pairs(from).zip(pairs(to)).and_then(|(before, after)| {
                        let noise = match &control {
                            Some(control) => timed::noise_of_control(pairs(present[0])?, control, options.seed),
                            None => timed::noise_within(before, options.seed),
                        };
                        let noise = noise.unwrap_or(timed::Noise { floor: 0.0, from: "too few pairs to tell".into() });
                        let matter = other_kernels(inputs, from, to);
                        timed::evidence(before, after, noise, matter, options.seed)
                    });
                    match found {
                        Some(found) => {
                            waiting.push((index, section.steps.len()));
                            evidence.push(found);
                            unknown("")
                        }
                        None => unknown("a column has no timed pair: run with --runs 10 or more"),
                    }
                }
            };
            section.steps.push(step(
                (from, to),
                verdict,
                &section.cells,
                &measures[index],
                inputs,
                &section.mode,
                method,
            ));
        }
    }
    for ((section, step), verdict) in waiting.into_iter().zip(timed::verdicts(&evidence)) {
        let step = &mut sections[section].steps[step];
        step.blame = blame(step, &verdict);
        step.verdict = verdict;
    }
}

/// Whether two columns were booted apart: another kernel or another command line.
fn other_kernels(inputs: &[Input], from: usize, to: usize) -> bool {
    let kernel = |column: usize| inputs[column].runs.first().map(|(_, outcome)| &outcome.document.kernel);
    kernel(from) != kernel(to)
}

fn unknown(why: &str) -> Verdict {
    Verdict {
        word: Word::Inconclusive,
        before: 0.0,
        after: 0.0,
        delta: 0.0,
        ratio: 1.0,
        ci95: None,
        p: None,
        p_holm: None,
        noise_floor: None,
        noise_from: String::new(),
        pairs: [0, 0],
        boots: [0, 0],
        more_runs: None,
        text: format!("inconclusive: {why}"),
    }
}

fn step(
    (from, to): (usize, usize),
    verdict: Verdict,
    cells: &[Option<Cell>],
    measures: &[Option<Measure>],
    inputs: &[Input],
    mode: &str,
    method: Method,
) -> Step {
    let mut step = Step {
        from,
        to,
        verdict,
        blame: None,
        remarks: remarks(cells, from, to),
        roles: Vec::new(),
        functions: Vec::new(),
        calls: Vec::new(),
        functions_left_out: 0,
        left_out_delta: 0.0,
    };
    let (Some(before), Some(after)) = (&measures[from], &measures[to]) else {
        return step;
    };
    let certain =
        |role: &str| method == Method::Exact || apart(&of_mode(&inputs[from], mode), &of_mode(&inputs[to], mode), role);
    step.roles = functions::role_rows(before, after, certain);
    (step.functions, step.functions_left_out, step.left_out_delta) = functions::rows(before, after, method);
    step.blame = blame(&step, &step.verdict);
    if let (Some(before), Some(after)) =
        (of_mode(&inputs[from], mode).into_iter().next(), of_mode(&inputs[to], mode).into_iter().next())
    {
        step.calls = calls::lists(before, after);
    }
    step
}

/// How often the processes gave up or lost their CPU, where that changed by a twentieth or more.
fn remarks(cells: &[Option<Cell>], from: usize, to: usize) -> Vec<String> {
    let (Some(Some(before)), Some(Some(after))) = (cells.get(from), cells.get(to)) else {
        return Vec::new();
    };
    if before.bytes != after.bytes {
        return Vec::new();
    }
    // A tenth of a call's worth of switches apart: below that nothing hangs on it.
    let differs = |a: u64, b: u64| a.abs_diff(b) * 20 > a.max(b) && a.abs_diff(b) * 10 > before.writer_calls;
    let sleeps = (before.voluntary_switches, after.voluntary_switches);
    let preempted = (before.involuntary_switches, after.involuntary_switches);
    let mut remarks = Vec::new();
    if differs(sleeps.0, sleeps.1) || differs(preempted.0, preempted.1) {
        remarks.push(format!(
            "Writer and reader slept {} times, then {}; they were preempted {} times, then {} ({} calls of the writer). \
             What that costs is in waiting, wake-up, scheduler and PSI accounting.",
            sleeps.0, sleeps.1, preempted.0, preempted.1, before.writer_calls
        ));
    }
    if before.writer_calls != after.writer_calls {
        remarks.push(format!(
            "The writer made {} calls, then {}, for the same bytes: what the further ones cost is in syscall entry/exit \
             and VFS, and in whatever they set off.",
            before.writer_calls, after.writer_calls
        ));
    }
    let calls = (before.reader_calls, after.reader_calls);
    if differs(calls.0, calls.1) {
        remarks.push(format!("The reader made {} calls, then {}, for the same bytes.", calls.0, calls.1));
    }
    remarks
}

/// Whether the intervals of a role's shares do not touch, on writer or reader.
fn apart(before: &[&Outcome], after: &[&Outcome], role: &str) -> bool {
    let interval = |runs: &[&Outcome], writer: bool| -> Option<[f64; 2]> {
        let mut whole: Option<[f64; 2]> = None;
        for outcome in runs {
            let attribution = &outcome.document.attribution;
            let shares = if writer { &attribution.writer } else { &attribution.reader };
            let ci =
                shares.iter().find(|share| share.role == role).map_or(Some([0.0, 0.0]), |share| share.share_ci95)?;
            whole = Some(whole.map_or(ci, |w| [w[0].min(ci[0]), w[1].max(ci[1])]));
        }
        whole
    };
    [true, false].into_iter().any(|writer| match (interval(before, writer), interval(after, writer)) {
        (Some(a), Some(b)) => a[1] < b[0] || b[1] < a[0],
        _ => false,
    })
}

/// The role whose change is largest in the direction of the total; of no direction where the total is the same.
fn blame(step: &Step, verdict: &Verdict) -> Option<Blame> {
    let direction = match verdict.word {
        Word::More | Word::Slower => 1.0,
        Word::Fewer | Word::Faster => -1.0,
        Word::Same | Word::Inconclusive => return None,
    };
    let row = step
        .roles
        .iter()
        .filter(|row| row.delta * direction > 0.0)
        .max_by(|a, b| a.delta.abs().total_cmp(&b.delta.abs()))?;
    let within = || step.functions.iter().filter(|function| function.role == row.role);
    // Writer and reader together.
    let mut sums: Vec<(String, f64)> = Vec::new();
    for function in within() {
        match sums.iter_mut().find(|(name, _)| *name == function.shown()) {
            Some((_, sum)) => *sum += function.self_delta,
            None => sums.push((function.shown(), function.self_delta)),
        }
    }
    sums.retain(|(_, delta)| delta * direction > 0.0);
    sums.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    sums.truncate(3);
    let functions = sums;
    let explained: f64 = functions.iter().map(|(_, delta)| delta).sum();
    let whole = within()
        .filter(|function| function.inclusive_delta * direction > 0.0)
        .max_by(|a, b| a.inclusive_delta.abs().total_cmp(&b.inclusive_delta.abs()))
        .map(|function| (function.shown(), function.inclusive_delta))
        .filter(|_| explained.abs() < row.delta.abs() / 2.0);
    Some(Blame { role: row.role.clone(), title: row.title.clone(), delta: row.delta, functions, whole })
}

fn caveats(inputs: &[Input], labels: &[&str], method: Method) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let for_all = |text: &str| Caveat { text: text.to_owned(), columns: Vec::new() };
    match method {
        Method::Exact => {
            caveats.push(for_all(
                "Instructions are not time: no caches, no memory bandwidth, no two CPUs at once. A copy by `rep movsb` \
                 is one instruction however many bytes it moves.",
            ));
            caveats.push(for_all(
                "Emulated (QEMU TCG): what is counted is exact and repeats to the last instruction; a kernel that \
                 chooses its code by the CPU chooses for the emulated one.",
            ));
        }
        Method::Timed => caveats.push(for_all(
            "The verdict is on elapsed time per KiB of pairs without collectors. Values by role and function are CPU \
             time of writer and reader added up, from sampled pairs: they can exceed the elapsed time.",
        )),
    }
    let mut by_text: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (column, input) in inputs.iter().enumerate() {
        for (_, outcome) in &input.runs {
            let document = &outcome.document;
            for warning in &document.warnings {
                let action = if warning.action.is_empty() { String::new() } else { format!(" ({})", warning.action) };
                by_text.entry(format!("{}: {}{action}", document.mode, warning.message)).or_default().insert(column);
            }
            for collector in &document.collectors {
                let reason = collector.reason.as_deref().unwrap_or("");
                if matches!(collector.status, Status::Partial | Status::Failed) {
                    let line = format!("{}: collector {}: {reason}", document.mode, collector_name(collector.name));
                    by_text.entry(line).or_default().insert(column);
                }
                if collector.lost > 0 {
                    let line = format!(
                        "{}: collector {} lost {} of {}",
                        document.mode,
                        collector_name(collector.name),
                        collector.lost,
                        collector.samples + collector.lost
                    );
                    by_text.entry(line).or_default().insert(column);
                }
            }
        }
    }
    for (text, columns) in by_text {
        let columns = if columns.len() == labels.len() {
            Vec::new()
        } else {
            columns.into_iter().map(|column| labels[column].to_owned()).collect()
        };
        caveats.push(Caveat { text: text::plain(&text), columns });
    }
    caveats
}

fn collector_name(collector: document::Collector) -> &'static str {
    match collector {
        document::Collector::Sample => "sample",
        document::Collector::Kprobe => "kprobe",
        document::Collector::Fgraph => "fgraph",
        document::Collector::Insn => "insn",
    }
}
