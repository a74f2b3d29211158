//! Compare two columns: the verdict, and the roles and functions that contribute to it.

use super::blame::blame;
use super::calls;
use super::cycles;
use super::exact;
use super::functions;
use super::inline;
use super::input::{Against, Boots, CompareOptions, Input, boots, of_case};
use super::locks;
use super::measure::Measure;
use super::model::{Cell, Method, Section, Step, Verdict, Word};
use super::pipelines;
use super::sums;
use super::timed::{self, Evidence};
use super::work;
use crate::profile::{ProcessName, listed};
use crate::report::number;
use crate::result::Outcome;
use crate::roles::{RoleId, SCHEDULING};
use crate::util::text::capitalized;
use crate::workload::caveats::WORKLOAD_CHANGED;
use crate::workload::spec::{FELL_BACK, MEMORY_SOURCE};
use std::collections::BTreeSet;

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

/// Compare the columns of each section in pairs. Timed verdicts are corrected together.
pub(crate) fn fill_steps(
    sections: &mut [Section],
    measures: &[Vec<Option<Measure>>],
    inputs: &[Input],
    method: Method,
    options: &CompareOptions,
) {
    let mut evidence: Vec<Evidence> = Vec::new();
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for (index, section) in sections.iter_mut().enumerate() {
        let present: Vec<usize> = (0..section.cells.len()).filter(|column| section.cells[*column].is_some()).collect();
        let control: Option<Boots> = options
            .control
            .as_ref()
            .map(|control| boots(&of_case(control, &section.mode, section.cpus)))
            .filter(|b| !b.is_empty());
        for (from, to) in step_pairs(&present, options.against) {
            let verdict = match method {
                Method::Exact => match (&measures[index][from], &measures[index][to]) {
                    (Some(before), Some(after)) => exact::verdict(before, after, options.margin),
                    _ => unknown("one of the two columns has no profile"),
                },
                Method::Timed => {
                    let pairs = |column: usize| section.cells[column].as_ref().map(|cell| &cell.pairs);
                    let found = pairs(from).zip(pairs(to)).and_then(|(before, after)| {
                        let noise = match &control {
                            Some(control) => timed::noise_of_control(pairs(present[0])?, control, options.seed),
                            None => timed::noise_within(before, options.seed),
                        };
                        let matter = other_kernels(inputs, from, to);
                        timed::evidence(before, after, noise, matter, options.seed)
                    });
                    match found {
                        Some(found) => {
                            waiting.push((index, section.steps.len()));
                            evidence.push(found);
                            unknown("")
                        }
                        None => unknown("a column has no unprofiled runs: use --runs 10 or more"),
                    }
                }
            };
            let case = (section.mode.as_str(), section.cpus);
            let mut step = step((from, to), verdict, &section.cells, &measures[index], inputs, case, method);
            if method == Method::Exact && !step.unequal.is_empty() {
                step.verdict.word = Word::Undecided;
                step.verdict.text = format!(
                    "no verdict: {}, {} to {} instructions per KiB without scheduling",
                    number::change(step.verdict.ratio),
                    number::exact(step.verdict.before),
                    number::exact(step.verdict.after)
                );
                step.blame = None;
            }
            step.cycles = cycles::change(&step, inputs, case, options.cycle_model.as_ref());
            section.steps.push(step);
        }
    }
    for ((section, step), verdict) in waiting.into_iter().zip(timed::verdicts(&evidence)) {
        let step = &mut sections[section].steps[step];
        step.blame = blame(step, &verdict);
        step.verdict = verdict;
    }
}

/// Whether two columns were booted separately, with another kernel or command line.
fn other_kernels(inputs: &[Input], from: usize, to: usize) -> bool {
    let kernel = |column: usize| inputs[column].runs.first().map(|(_, outcome)| &outcome.document.kernel);
    kernel(from) != kernel(to)
}

fn unknown(why: &str) -> Verdict {
    Verdict {
        word: Word::Undecided,
        before: 0.0,
        after: 0.0,
        delta: 0.0,
        ratio: 1.0,
        uncertainty: None,
        ci95: None,
        p: None,
        p_holm: None,
        noise_floor: None,
        noise_from: String::new(),
        pairs: [0, 0],
        boots: [0, 0],
        more_runs: None,
        text: format!("undecided: {why}"),
    }
}

fn step(
    (from, to): (usize, usize),
    verdict: Verdict,
    cells: &[Option<Cell>],
    measures: &[Option<Measure>],
    inputs: &[Input],
    (mode, cpus): (&str, Option<u32>),
    method: Method,
) -> Step {
    let (old_runs, new_runs) = (of_case(&inputs[from], mode, cpus), of_case(&inputs[to], mode, cpus));
    let mut step = Step {
        from,
        to,
        verdict,
        blame: None,
        total: None,
        cycles: None,
        unequal: unequal([&old_runs, &new_runs]),
        remarks: remarks(cells, from, to),
        inlined: Vec::new(),
        roles: Vec::new(),
        functions: Vec::new(),
        sums: Vec::new(),
        locks: Vec::new(),
        calls: Vec::new(),
        functions_left_out: 0,
        left_out_delta: 0.0,
    };
    let (Some(before), Some(after)) = (&measures[from], &measures[to]) else {
        return step;
    };
    if method == Method::Exact {
        step.total = Some(exact::total(before, after));
    }
    if let [Some(old), Some(new)] = [&old_runs, &new_runs].map(|runs| runs.first()?.pipeline.as_ref()) {
        step.remarks.extend(pipelines::remarks([old, new], [before, after]));
    }
    // Samples are too few to tell an inlined function from one that is gone.
    let aligned = if method == Method::Exact { inline::aligned([before, after], [&old_runs, &new_runs]) } else { None };
    let (before, after) = aligned.as_ref().map_or((before, after), |aligned| (&aligned.before, &aligned.after));
    let certain = |role: RoleId| match method {
        Method::Exact => exact::certain_role(before, after, role),
        Method::Timed => apart(&old_runs, &new_runs, role),
    };
    step.roles = functions::role_rows(before, after, certain);
    if method == Method::Exact {
        // The verdict is not about them.
        step.roles.sort_by_key(|row| SCHEDULING.contains(&row.role));
    }
    if let (Method::Exact, Some(old), Some(new)) = (method, old_runs.first(), new_runs.first()) {
        explain(&mut step, [old, new]);
    }
    (step.functions, step.functions_left_out, step.left_out_delta) = functions::rows(before, after, method);
    if let Some(aligned) = &aligned {
        functions::mark_inlined(&mut step.functions, &aligned.inlined);
        step.inlined.clone_from(&aligned.inlined);
    }
    step.sums = sums::sums(before, after, method);
    step.blame = blame(&step, &step.verdict);
    if let (Some(before), Some(after)) = (old_runs.first(), new_runs.first()) {
        step.calls = calls::lists(before, after);
    }
    step
}

/// What the processes of one column did instead of the requested work, and those of the other did not.
fn unequal(runs: [&[&Outcome]; 2]) -> Vec<String> {
    // A kernel that fell back to a file in memory did what the other was asked for.
    if let [Some(before), Some(after)] = runs.map(|runs| runs.first().and_then(|run| run.pipeline.as_ref())) {
        return pipelines::unequal(before, after);
    }
    let source = |run: &&Outcome| run.document.workload.as_ref().and_then(|workload| workload.source.clone());
    let memory = |run: &&Outcome| source(run).is_some_and(|source| source.as_os_str() == MEMORY_SOURCE);
    let asked = runs.map(|runs| runs.iter().all(memory));
    let changes = [0, 1].map(|own| -> BTreeSet<&str> {
        let warnings = runs[own].iter().flat_map(|run| &run.document.warnings);
        let messages =
            warnings.filter(|warning| warning.code == WORKLOAD_CHANGED).map(|warning| warning.message.as_str());
        messages.filter(|message| !(asked[1 - own] && message.ends_with(FELL_BACK))).collect()
    });
    let only = |own: usize, when: &'static str| {
        changes[own].difference(&changes[1 - own]).map(move |message| format!("{when}, {message}"))
    };
    only(0, "before").chain(only(1, "after")).collect()
}

/// What the counts of calls say beyond the weights: calls and cost of each, pages used again, work under the locks.
fn explain(step: &mut Step, runs: [&Outcome; 2]) {
    work::enter(&mut step.roles, runs);
    step.remarks.extend(work::cached_pages(runs));
    step.locks = locks::changes(runs[0], runs[1]);
    if let Some(first) = runs[0].document.processes.totals.names().next() {
        step.remarks.extend(step.locks.iter().filter_map(|lock| lock.text(first)));
    }
}

/// Changes of a twentieth or more in the number of sleeps, preemptions and calls.
fn remarks(cells: &[Option<Cell>], from: usize, to: usize) -> Vec<String> {
    let (Some(Some(before)), Some(Some(after))) = (cells.get(from), cells.get(to)) else {
        return Vec::new();
    };
    if before.bytes != after.bytes {
        return Vec::new();
    }
    // Differences below a tenth of a switch per call do not matter.
    let differs = |a: u64, b: u64| a.abs_diff(b) * 20 > a.max(b) && a.abs_diff(b) * 10 > before.first_calls();
    let Some(first) = before.processes.names().next() else { return Vec::new() };
    let sleeps = (before.voluntary_switches, after.voluntary_switches);
    let preempted = (before.involuntary_switches, after.involuntary_switches);
    let mut remarks = Vec::new();
    // For counts, the answer says it with the cost of each.
    let counted = before.exact.is_some();
    if !counted && (differs(sleeps.0, sleeps.1) || differs(preempted.0, preempted.1)) {
        remarks.push(format!(
            "{} slept {} times, then {}; they were preempted {} times, then {} ({} calls of the {first}). \
             The cost is in the roles waiting, wake-up, scheduler and PSI accounting.",
            capitalized(&listed(before.processes.names())),
            sleeps.0,
            sleeps.1,
            preempted.0,
            preempted.1,
            before.first_calls()
        ));
    }
    if before.first_calls() != after.first_calls() {
        remarks.push(format!(
            "The {first} made {} calls, then {}, for the same bytes. The cost is in syscall entry/exit, VFS, and the \
             work of each call.",
            before.first_calls(),
            after.first_calls()
        ));
    }
    for (name, process) in before.processes.iter().skip(1) {
        let calls = (process.calls, after.processes.get(name).map_or(0, |process| process.calls));
        if differs(calls.0, calls.1) {
            remarks.push(format!("The {name} made {} calls, then {}, for the same bytes.", calls.0, calls.1));
        }
    }
    remarks
}

/// Whether the intervals of a role's shares are disjoint for any process.
fn apart(before: &[&Outcome], after: &[&Outcome], role: RoleId) -> bool {
    let interval = |runs: &[&Outcome], process: ProcessName| -> Option<[f64; 2]> {
        let mut whole: Option<[f64; 2]> = None;
        for outcome in runs {
            let shares = outcome.document.attribution.of(process);
            let ci =
                shares.iter().find(|share| share.role == role).map_or(Some([0.0, 0.0]), |share| share.share_ci95)?;
            whole = Some(whole.map_or(ci, |w| [w[0].min(ci[0]), w[1].max(ci[1])]));
        }
        whole
    };
    let processes = before.iter().flat_map(|outcome| outcome.document.attribution.processes.of_target());
    let mut names = processes.map(|(name, _)| name);
    names.any(|name| match (interval(before, name), interval(after, name)) {
        (Some(a), Some(b)) => a[1] < b[0] || b[1] < a[0],
        _ => false,
    })
}
