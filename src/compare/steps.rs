//! Compare columns with columns: the verdict, and the roles and functions that contribute to it.

use super::blame::blame;
use super::calls;
use super::case::CaseMeasure;
use super::cycles;
use super::exact;
use super::functions;
use super::inline;
use super::input::{Against, Boots, CompareOptions};
use super::locks;
use super::measure::Measure;
use super::model::{Cell, Method, Section, Step, Verdict};
use super::pipelines;
use super::sums;
use super::timed::{self, Evidence};
use super::work;
use crate::profile::listed;
use crate::roles::{RoleId, SCHEDULING};
use crate::util::text::capitalized;

/// One case: what was measured of each column, and of the first one a second time.
pub(crate) struct Case {
    pub columns: Vec<Option<CaseMeasure>>,
    pub control: Option<CaseMeasure>,
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

/// Compare the columns of each case in pairs, and add the steps to its section. Timed verdicts are corrected together.
pub(crate) fn fill_steps(sections: &mut [Section], cases: &[Case], method: Method, options: &CompareOptions) {
    let mut pairs = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let present: Vec<usize> = (0..case.columns.len()).filter(|column| case.columns[*column].is_some()).collect();
        for (from, to) in step_pairs(&present, options.against) {
            if let (Some(before), Some(after)) = (&case.columns[from], &case.columns[to]) {
                pairs.push((index, (from, to), [before, after]));
            }
        }
    }
    let verdicts = match method {
        Method::Exact => pairs.iter().map(|(.., sides)| counted_verdict(*sides, options.margin)).collect(),
        Method::Timed => {
            let evidence =
                |(index, _, sides): &(usize, _, [&CaseMeasure; 2])| evidence(&cases[*index], *sides, options.seed);
            timed::verdicts(&pairs.iter().map(evidence).collect::<Vec<_>>())
        }
    };
    for ((index, columns, sides), verdict) in pairs.into_iter().zip(verdicts) {
        let section = &mut sections[index];
        let cells = [columns.0, columns.1].map(|column| section.cells[column].as_ref());
        let mut step = Step {
            from: columns.0,
            to: columns.1,
            verdict,
            remarks: remarks(cells),
            unequal: unequal(sides),
            ..Step::default()
        };
        if method == Method::Exact && !step.unequal.is_empty() {
            step.verdict = exact::without_verdict(&step.verdict);
        }
        if let [Some(before), Some(after)] = sides.map(|side| side.profile.as_ref()) {
            match method {
                Method::Exact => explain_counts(&mut step, sides, [before, after]),
                Method::Timed => step.enter([before, after], method, |role| sides[0].is_apart(sides[1], role)),
            }
            step.blame = blame(&step);
            step.calls = calls::lists(&sides[0].bodies, &sides[1].bodies);
        }
        let classes = sides.map(|side| side.classes.as_ref());
        step.cycles = cycles::change(&step, classes, options.cycle_model.as_ref());
        section.steps.push(step);
    }
}

fn counted_verdict(sides: [&CaseMeasure; 2], margin: f64) -> Verdict {
    match sides.map(|side| side.profile.as_ref()) {
        [Some(before), Some(after)] => exact::verdict(before, after, margin),
        _ => Verdict::none("undecided: one of the two columns has no profile"),
    }
}

/// `None` if a column has no times.
fn evidence(case: &Case, [before, after]: [&CaseMeasure; 2], seed: u64) -> Option<Evidence> {
    let control: Option<&Boots> = case.control.as_ref().map(|control| &control.times).filter(|boots| !boots.is_empty());
    let noise = match control {
        Some(control) => {
            let first = case.columns.iter().flatten().next()?;
            timed::noise_of_control(&first.times, control, seed)
        }
        None => timed::noise_within(&before.times, seed),
    };
    // Booted separately, with another kernel or command line.
    let boots_matter = before.kernel != after.kernel;
    timed::evidence(&before.times, &after.times, noise, boots_matter, seed)
}

/// What changed between two counted columns.
fn explain_counts(step: &mut Step, sides: [&CaseMeasure; 2], profiles: [&Measure; 2]) {
    let [before, after] = profiles;
    step.total = Some(exact::total(before, after));
    if let [Some(old), Some(new)] = sides.map(|side| side.pipeline.as_ref()) {
        step.remarks.extend(pipelines::remarks([old, new], profiles));
    }
    let aligned = inline::aligned(profiles);
    let [before, after] = aligned.as_ref().map_or(profiles, |aligned| [&aligned.before, &aligned.after]);
    step.enter([before, after], Method::Exact, |role| exact::is_certain_role(before, after, role));
    // The verdict is not about them.
    step.roles.sort_by_key(|row| SCHEDULING.contains(&row.role));
    let calls = sides.map(|side| &side.calls);
    work::enter(&mut step.roles, calls);
    step.remarks.extend(work::cached_pages(calls));
    step.locks = locks::changes(sides);
    if let Some((first, _)) = sides[0].first() {
        step.remarks.extend(step.locks.iter().filter_map(|lock| lock.text(first)));
    }
    if let Some(aligned) = aligned {
        functions::mark_inlined(&mut step.functions, &aligned.inlined);
        step.inlined = aligned.inlined;
    }
}

impl Step {
    /// Enter what changed by role and function. `certain`: whether the change of a role is.
    fn enter(&mut self, [before, after]: [&Measure; 2], method: Method, certain: impl Fn(RoleId) -> bool) {
        self.roles = functions::role_rows(before, after, certain);
        (self.functions, self.functions_left_out, self.left_out_delta) = functions::rows(before, after, method);
        self.sums = sums::sums(before, after, method);
    }
}

/// In what the processes of two columns did not do the same work.
fn unequal([before, after]: [&CaseMeasure; 2]) -> Vec<String> {
    if let (Some(before), Some(after)) = (&before.pipeline, &after.pipeline) {
        return pipelines::unequal(before, after);
    }
    let only = |one: &CaseMeasure, other: &CaseMeasure, when: &str| -> Vec<String> {
        one.changes_beyond(other).map(|message| format!("{when}, {message}")).collect()
    };
    [only(before, after, "before"), only(after, before, "after")].concat()
}

/// Changes of a twentieth or more in the number of sleeps, preemptions and calls.
fn remarks(cells: [Option<&Cell>; 2]) -> Vec<String> {
    let [Some(before), Some(after)] = cells else { return Vec::new() };
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
