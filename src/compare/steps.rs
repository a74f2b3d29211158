//! Compare columns with columns: the verdict, and the roles and functions that contribute to it.

use super::blame::blame;
use super::calls;
use super::case::CaseMeasure;
use super::cycles;
use super::entries;
use super::exact;
use super::functions;
use super::inline;
use super::input::{Against, Boots, CompareOptions};
use super::locks;
use super::measure::Measure;
use super::model::{Method, Section, Step, TotalChange, Verdict};
use super::pipelines;
use super::processors;
use super::remarks::{remarks, unequal};
use super::rep;
use super::schedule;
use super::sums;
use super::timed::{self, Evidence};
use super::work;
use crate::roles::{RoleId, SCHEDULING};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// One case: what was measured of each column, and of the first one a second time.
pub(crate) struct Case {
    pub columns: Vec<Option<CaseMeasure>>,
    pub control: Option<CaseMeasure>,
}

/// The pairs of columns to compare, of `present` ones: those with the same of the `settings`.
fn pairs_in_settings(present: &[usize], settings: &[usize], against: Against) -> Vec<(usize, usize)> {
    let setting = |column: &usize| settings.get(*column).copied();
    let distinct: BTreeSet<Option<usize>> = present.iter().map(setting).collect();
    let of = |wanted| present.iter().copied().filter(|column| setting(column) == wanted).collect::<Vec<_>>();
    distinct.into_iter().flat_map(|wanted| step_pairs(&of(wanted), against)).collect()
}

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

/// Compare the columns of each case in pairs with one of the `settings`, and add the steps to its section. Timed verdicts
/// are corrected together.
pub(crate) fn fill_steps(
    sections: &mut [Section],
    cases: &[Case],
    settings: &[usize],
    method: Method,
    options: &CompareOptions,
) {
    let mut pairs = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let present: Vec<usize> = (0..case.columns.len()).filter(|column| case.columns[*column].is_some()).collect();
        for (from, to) in pairs_in_settings(&present, settings, options.against) {
            if let (Some(before), Some(after)) = (&case.columns[from], &case.columns[to]) {
                pairs.push((index, (from, to), [before, after]));
            }
        }
    }
    let judged: Vec<Option<Judged<'_>>> = pairs.iter().map(|(.., sides)| judged(*sides, method)).collect();
    let verdicts = match method {
        Method::Exact => judged.iter().map(|profiles| counted_verdict(profiles.as_ref(), options.margin)).collect(),
        Method::Timed | Method::Recorded => {
            let evidence =
                |(index, _, sides): &(usize, _, [&CaseMeasure; 2])| evidence(&cases[*index], *sides, options.seed);
            timed::verdicts(&pairs.iter().map(evidence).collect::<Vec<_>>())
        }
    };
    for (((index, columns, sides), verdict), judged) in pairs.into_iter().zip(verdicts).zip(&judged) {
        let unequal = unequal(sides);
        let mut step = Step { from: columns.0, to: columns.1, verdict, unequal, ..Step::default() };
        let is_equal = step.unequal.is_empty();
        let page_sizes = sides.map(|side| side.kernel.page_size());
        step.page_sizes = (page_sizes[0] != page_sizes[1]).then_some(page_sizes);
        match method {
            Method::Exact if !is_equal => step.verdict = exact::without_verdict(&step.verdict),
            Method::Recorded => step.verdict = pipelines::timed_verdict(step.verdict, sides, is_equal),
            Method::Exact | Method::Timed => {}
        }
        let profiles = sides.map(|side| side.profile.as_deref());
        if let [Some(before), Some(after)] = sides.map(|side| side.pipeline.as_ref()) {
            let sampled = profiles[0].zip(profiles[1]).filter(|_| method == Method::Recorded);
            step.pipeline =
                pipelines::change_of([before, after], sampled.map(<[_; 2]>::from), method == Method::Recorded);
        }
        if let (Some([before, after]), true) = (judged, processors::differ(sides) && method == Method::Exact) {
            step.other_processor = true;
            step.verdict = processors::verdict(sides, [before, after].map(AsRef::as_ref));
        } else if let Some([before, after]) = judged {
            match method {
                Method::Exact => explain_counts(&mut step, sides, [before, after], options.margin),
                Method::Timed | Method::Recorded => {
                    step.enter([before, after], method, |role| sides[0].is_apart(sides[1], role))
                }
            }
            step.blame = blame(&step);
            step.pipeline.user_work = pipelines::user_work(&step, sides);
            step.calls = calls::lists(&sides[0].bodies, &sides[1].bodies);
        }
        let classes = sides.map(|side| side.classes.as_ref());
        step.cycles = cycles::change(&step, classes, options);
        step.remarks = remarks(sides, method, &step.locks);
        sections[index].steps.push(step);
    }
}

/// The profiles of two columns; of counted ones, at the schedule of the first.
type Judged<'a> = [Cow<'a, Measure>; 2];

fn judged<'a>(sides: [&'a CaseMeasure; 2], method: Method) -> Option<Judged<'a>> {
    let [before, after] = sides.map(|side| side.profile.as_deref());
    let counted = [before?, after?];
    Some(match (method == Method::Exact).then(|| schedule::equal(counted)).flatten() {
        Some([before, after]) => [Cow::Owned(before), Cow::Owned(after)],
        None => counted.map(Cow::Borrowed),
    })
}

fn counted_verdict(profiles: Option<&Judged<'_>>, margin: f64) -> Verdict {
    match profiles {
        Some([before, after]) => exact::verdict(before, after, margin),
        None => Verdict::none("undecided: one of the two columns has no profile"),
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

/// What changed between two counted columns, of which `profiles` are judged.
fn explain_counts(step: &mut Step, sides: [&CaseMeasure; 2], profiles: [&Measure; 2], margin: f64) {
    let [before, after] = profiles;
    let counted = sides[1].profile.as_deref().unwrap_or(after);
    step.total = Some(TotalChange { after: counted.total(), ..exact::total(before, after) });
    step.schedule = exact::schedule_change(counted, after);
    if let [Some(old), Some(new)] = sides.map(|side| side.rep.as_ref()) {
        step.rep = Some(rep::change([old, new], profiles, margin, step.unequal.is_empty()));
    }
    let aligned = inline::aligned(profiles);
    let [before, after] = aligned.as_ref().map_or(profiles, |aligned| [&aligned.before, &aligned.after]);
    step.enter([before, after], Method::Exact, |role| exact::is_certain_role(before, after, role));
    step.roles.iter_mut().for_each(|row| row.uncertainty = exact::uncertainty_of_role([before, after], row.role));
    // The verdict is not about them.
    step.roles.sort_by_key(|row| SCHEDULING.contains(&row.role));
    step.roles.iter_mut().for_each(|row| row.moved = profiles[1].doubt.moved.contains(&row.role));
    let inlined = aligned.as_ref().map(|aligned| &*aligned.inlined).unwrap_or_default();
    let calls = [(sides[0], profiles[0], false), (sides[1], profiles[1], true)].map(|(side, profile, is_after)| {
        // Those that the other side inlined.
        let own: Vec<_> = inlined.iter().filter(|one| one.before == is_after).collect();
        side.calls.with(&entries::changes(&side.call_rates, profile, &own))
    });
    let factor = |role| profiles[1].of_role(role) / counted.of_role(role);
    work::enter(&mut step.roles, calls.each_ref(), &factor);
    step.locks = locks::changes(sides);
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
