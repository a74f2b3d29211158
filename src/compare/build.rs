//! Build a comparison from outcomes.

use super::case::CaseMeasure;
use super::caveats::caveats;
use super::columns::{self, ColumnSettings};
use super::cpus;
use super::dropped::Dropped;
use super::evidence;
use super::exact;
use super::input::{CompareOptions, Input, case_name, of_case};
use super::measure::{Measure, as_f64, counts_whole_runs};
use super::model::{Caveat, Cell, CellProcess, Comparison, ExactCell, Method, PER_RUN, RoleValue, SCHEMA, Section};
use super::steps::{Case, fill_steps};
use crate::process::ProcessTotals;
use crate::profile::{ProcessName, Unit};
use crate::result::{self, Document, ExecutedOn, Outcome};
use crate::roles::{self, RoleId};
use crate::util::limits::one_per_cpu;
use crate::util::stats;
use crate::vm::side_by_side;
use anyhow::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// A comparison, and the measures for its graphs: by section, then by column.
#[derive(Debug, Clone)]
pub struct Compared {
    pub comparison: Comparison,
    pub measures: Vec<Vec<Option<CaseMeasure>>>,
}

/// Compare `inputs`. The first is the oldest or the baseline.
///
/// # Errors
/// When runs cannot be compared; the error names both.
pub fn compare(inputs: &[Input], options: &CompareOptions) -> Result<Compared> {
    ensure!(
        inputs.len() >= 2,
        "nothing to compare with one column: give two kernels, two settings, or two stored runs"
    );
    let method = check(inputs)?;
    let firsts: Vec<&Document> =
        inputs.iter().filter_map(|input| input.runs.first()).map(|(_, o)| &o.document).collect();
    ensure!(firsts.len() == inputs.len(), "a column has no run");
    let given: Vec<Option<String>> = inputs.iter().map(|input| input.label.clone()).collect();
    let sources = inputs.iter().map(|input| input.runs.iter().map(|(source, _)| source.clone()).collect()).collect();
    let cases = cases(inputs, method);
    // Sections have their own numbers of CPUs, if there are several.
    let with_cpus = cases.iter().all(|(_, cpus)| cpus.is_none()) && method != Method::Recorded;
    let columns = columns::columns(&given, &firsts, sources, with_cpus);
    let ColumnSettings { differences, shared, options: differing_options } = columns::split(&firsts);
    let settings = columns::settings_of(&firsts);

    let measured = side_by_side::run(&cases, one_per_cpu(), |(mode, cpus)| {
        let runs: Vec<_> = inputs.iter().chain(&options.control).map(|input| of_case(input, mode, *cpus)).collect();
        let fewest = runs.iter().flatten().map(|run| run.windows.len()).min().unwrap_or_default();
        let mut columns = CaseMeasure::of_each(&runs, fewest.max(1));
        let control = options.control.as_ref().and_then(|_| columns.pop()).flatten();
        Ok(Case { columns, control })
    })?;
    let mut sections = Vec::new();
    for ((mode, cpus), case) in cases.iter().cloned().zip(&measured) {
        for (input, column) in inputs.iter().zip(&case.columns) {
            let without = method == Method::Exact && column.as_ref().is_some_and(|column| column.profile.is_none());
            ensure!(
                !without,
                "{} has no instruction profile: run with --collect insn",
                input.runs.first().map_or("a column", |(source, _)| source)
            );
        }
        let cells = case.columns.iter().map(|column| column.as_ref().map(|column| cell(column, method))).collect();
        sections.push(Section { mode, cpus, cells, steps: Vec::new(), causes: None });
    }
    fill_steps(&mut sections, &measured, &settings, method, options);
    for (section, case) in sections.iter_mut().zip(&measured) {
        align_roles(section, &case.columns);
    }
    let mut caveats = caveats(inputs, &columns.iter().map(|c| c.label.as_str()).collect::<Vec<_>>(), &cases, method);
    if let Some(ending) = &options.ending {
        let text = format!("Measurement {}.", ending.sentence("block"));
        caveats.insert(0, Caveat::general(text));
    }
    for difference in differences.iter().filter(|difference| difference.what == "version") {
        let text = format!("the runs were made by different builds of pipeprof: {}", difference.matters);
        caveats.push(Caveat::general(text));
    }
    let mut comparison = Comparison {
        cpu_splits: cpus::splits(&sections),
        schema: SCHEMA.to_owned(),
        version: crate::util::build::version().to_owned(),
        command: options.command.clone(),
        method,
        unit: unit(method, &firsts).to_owned(),
        executed_on: firsts[0].executed_on,
        columns,
        differences,
        shared,
        other_options: differing_options,
        sections,
        caveats,
        missing: options.missing.clone(),
    };
    evidence::find(&mut comparison, &measured);
    Ok(Compared { comparison, measures: measured.into_iter().map(|case| case.columns).collect() })
}

/// [`Comparison::unit`].
fn unit(method: Method, firsts: &[&Document]) -> &'static str {
    if firsts.iter().all(|first| first.target.imported().is_some()) {
        "percent"
    } else if method == Method::Exact && firsts.iter().all(|first| counts_whole_runs(first)) {
        PER_RUN
    } else {
        method.unit()
    }
}

/// The modes, in the order of the runs; with the numbers of CPUs, if one column has counted one mode on several.
fn cases(inputs: &[Input], method: Method) -> Vec<(String, Option<u32>)> {
    let case = |outcome: &Outcome| (case_name(&outcome.document).to_owned(), outcome.document.environment.cpus);
    let several = |input: &Input| {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut cases = input.runs.iter().map(|(_, outcome)| case(outcome));
        cases.any(|(mode, cpus)| *seen.entry(mode).or_insert(cpus) != cpus)
    };
    let split = method == Method::Exact && inputs.iter().any(several);
    let mut cases: Vec<(String, Option<u32>)> = Vec::new();
    for (_, outcome) in inputs.iter().flat_map(|input| &input.runs) {
        let (mode, cpus) = case(outcome);
        let case = (mode, split.then_some(cpus));
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    cases
}

/// Reject what cannot be compared, and choose the method.
fn check(inputs: &[Input]) -> Result<Method> {
    let mut all = inputs.iter().flat_map(|input| &input.runs);
    let Some((first_source, first)) = all.next() else {
        bail!("no runs to compare");
    };
    let first = &first.document;
    let runs = || inputs.iter().flat_map(|input| &input.runs).map(|(_, outcome)| &outcome.document);
    let recorded = runs().all(|document| document.target.workload().is_none())
        && runs().any(|document| document.ensemble.is_none());
    for (source, outcome) in inputs.iter().flat_map(|input| &input.runs) {
        let document = &outcome.document;
        ensure!(
            document.schema == result::SCHEMA,
            "{source}: schema {}, but this pipeprof reads {}; run again, or use the pipeprof that wrote it",
            document.schema,
            result::SCHEMA
        );
        if recorded {
            continue;
        }
        ensure!(
            document.executed_on == first.executed_on,
            "{first_source} was executed on {}, {source} on {}: compare runs with the same --accel",
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
            document.processes.first().bytes > 0,
            "{source} moved no bytes, so there are no values per KiB to compare"
        );
    }
    let modes = |input: &Input| -> BTreeSet<String> {
        input.runs.iter().map(|(_, outcome)| case_name(&outcome.document).to_owned()).collect()
    };
    let of_first = modes(&inputs[0]);
    for input in &inputs[1..] {
        let others = modes(input);
        if of_first.is_disjoint(&others) {
            let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
            let source = input.runs.first().map_or("another column", |(source, _)| source);
            bail!(
                "{first_source} has mode {}, {source} has mode {}: compare runs of one mode",
                list(&of_first),
                list(&others)
            );
        }
    }
    match (first.executed_on, first.unit) {
        _ if recorded => Ok(Method::Recorded),
        (ExecutedOn::Tcg, Unit::Instructions) => Ok(Method::Exact),
        (ExecutedOn::Tcg, unit) => bail!(
            "{first_source} counts {} in an emulated guest, where times are not meaningful: run both with --collect insn",
            unit_name(unit)
        ),
        (ExecutedOn::Hardware | ExecutedOn::Kvm, _) => Ok(Method::Timed),
    }
}

fn name(executed_on: ExecutedOn) -> String {
    format!("{executed_on:?}").to_lowercase()
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Samples => "samples",
        Unit::Instructions => "instructions",
        Unit::Nanoseconds => "nanoseconds",
        Unit::EstimatedCycles => "estimated cycles",
    }
}

fn cell(column: &CaseMeasure, method: Method) -> Cell {
    let profile = column.profile.as_deref();
    let of = |process| profile.map_or(0.0, |measure| measure.of_process(process));
    let total = match method {
        Method::Exact => profile.map_or(0.0, Measure::total),
        Method::Timed | Method::Recorded => stats::median(&column.times.concat()).unwrap_or(0.0),
    };
    let (totals, timed, recorded) = (&column.totals, method != Method::Exact, method == Method::Recorded);
    let bytes = column.first().map_or(0, |(_, first)| first.bytes);
    let per_call = total * (as_f64(bytes) / 1024.0) / as_f64(column.first_calls().max(1));
    let value = |name, totals: &ProcessTotals| match totals.user_ns + totals.system_ns {
        ns if recorded && ns > 0 => as_f64(ns) / 1e6,
        _ => of(name),
    };
    Cell {
        bytes,
        total,
        processes: totals.map(|name, totals| CellProcess { value: value(name, totals), calls: totals.calls }),
        exact: profile
            .filter(|_| !timed)
            .map(|measure| ExactCell { rep_bytes: column.rep.as_ref().map(|rep| rep.bytes), ..exact::cell(measure) }),
        other: of(ProcessName::OTHER),
        per_call: if recorded { 0.0 } else { per_call },
        weight: profile.map_or(0, Measure::weight),
        roles: profile.map(role_values).unwrap_or_default(),
        voluntary_switches: column.sleeps(),
        involuntary_switches: column.preemptions(),
        made_of: column.pipeline.as_ref().and_then(|work| work.made_of.clone()).filter(|_| recorded),
        gib_s: (method == Method::Timed && total > 0.0).then(|| 1e9 / total / f64::from(1 << 20)),
        pairs: if timed { column.times.clone() } else { Vec::new() },
    }
}

/// Count functions that one of the kernels inlined with their callers in all columns, as the steps do.
fn align_roles(section: &mut Section, columns: &[Option<CaseMeasure>]) {
    let dropped = Dropped::of(section.steps.iter().flat_map(|step| &step.inlined));
    if dropped.is_empty() {
        return;
    }
    for (cell, column) in section.cells.iter_mut().zip(columns) {
        if let (Some(cell), Some(measure)) = (cell, column.as_ref().and_then(|column| column.profile.as_deref())) {
            cell.roles = role_values(&measure.sum_without(&dropped));
        }
    }
}

fn role_values(measure: &Measure) -> Vec<RoleValue> {
    let value = |id: RoleId| {
        let role = roles::by_id(id);
        RoleValue { role: id, title: role.title.to_owned(), colour: role.colour.to_owned(), value: measure.of_role(id) }
    };
    let mut values: Vec<RoleValue> = measure.roles().into_iter().map(value).collect();
    values.sort_by(|a, b| b.value.total_cmp(&a.value).then_with(|| a.role.cmp(&b.role)));
    values
}
