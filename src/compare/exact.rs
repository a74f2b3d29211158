//! Verdicts on counted instructions without scheduling. The windows of each run show what may differ without a reason
//! in the kernel; only larger changes get a verdict.

use super::function_weights::Key;
use super::measure::{Measure, ScheduleDoubt, WindowSchedule, as_f64};
use super::model::{ExactCell, ScheduleChange, TotalChange, Verdict, Word};
use crate::report::answer::FEWEST_SWITCHES;
use crate::report::number;
use crate::roles::{RoleId, SCHEDULING};
use crate::util::decision::{self, CountChange, WindowOrder};
use crate::util::size;

/// Compare two counted runs. `margin`: changes within it are `same`, as a part of the value before.
pub fn verdict(before: &Measure, after: &Measure, margin: f64) -> Verdict {
    let (a, b) = (before.without_scheduling(), after.without_scheduling());
    // Cross-multiplied, so that rounding cannot make equal counts differ.
    let [old, new] = [(before, after), (after, before)]
        .map(|(measure, other)| u128::from(measure.unscheduled()) * u128::from(other.bytes()));
    let (delta, ratio) = if old == new { (0.0, 1.0) } else { (b - a, if a > 0.0 { b / a } else { f64::NAN }) };
    let windows = [before, after].map(|measure| measure.of_windows(&Measure::without_scheduling));
    // Equal work is a change of exactly 0.
    let doubt = doubt([before, after], &|doubt| doubt.total);
    let count =
        CountChange::new([a, if old == new { a } else { b }], [&windows[0], &windows[1]], before.order, doubt, margin);
    let word = Word::of_counts(count.decision);
    let to = format!("{}{}", number::exact(b), per_call([before, after]).unwrap_or_default());
    let from = number::exact(a);
    let all = Verdict { before: a, after: b, delta, ratio, of_run: before.is_whole, ..Verdict::default() };
    let what = format!("{} without scheduling", all.counted_in());
    let by = number::in_parentheses(count.half);
    let change = number::change(ratio);
    let text = match word {
        Word::Same if old == new => format!("same, exactly {from} {what} before and after"),
        Word::Same => {
            format!("same number of {what}, within {}: {change}{by}, {from} to {to}", number::part(margin))
        }
        Word::Undecided => format!(
            "undecided whether the number of {what} changed: {change}{by}, {from} to {to}; {}",
            what_would_decide([before, after], &count, margin)
        ),
        _ => format!("{} {what}, {change}{by}, {from} to {to}", word.text()),
    };
    let counted = [before.windows.len(), after.windows.len()];
    Verdict { word, uncertainty: count.half, pairs: counted, boots: [1, 1], text, ..all }
}

/// Calls of so many bytes are small: what one takes says more than what a KiB does.
const SMALL_CALL: u64 = 4096;

/// `, 3,809 to 3,843 per call of 4K`, where calls of the first process are small and of one size; nothing elsewhere.
fn per_call(sides: [&Measure; 2]) -> Option<String> {
    let size = |side: &Measure| {
        let (_, process) = side.processes.of_target().next()?;
        let is_whole = !side.parts.is_empty() && process.calls > 0 && side.bytes().is_multiple_of(process.calls);
        is_whole.then(|| side.bytes() / process.calls)
    };
    let [before, after] = sides.map(size);
    let size = before.filter(|size| *size <= SMALL_CALL && before == after)?;
    let [from, to] = sides.map(|side| number::exact(side.without_scheduling() * as_f64(size) / 1024.0));
    Some(format!(", {from} to {to} per call of {}", size::format(size)))
}

/// `verdict` on columns that did not do the same work: none.
pub(crate) fn without_verdict(verdict: &Verdict) -> Verdict {
    let text = format!(
        "no verdict: {}, {} to {} {} without scheduling",
        number::change(verdict.ratio),
        number::exact(verdict.before),
        number::exact(verdict.after),
        verdict.counted_in()
    );
    Verdict { word: Word::Undecided, text, ..verdict.clone() }
}

/// The schedule is the reason of an interval if it alone would make it so wide.
const MOST_OF_INTERVAL: f64 = 0.7;

/// Why a change is undecided, and what would decide it.
fn what_would_decide(sides: [&Measure; 2], count: &CountChange, margin: f64) -> String {
    let Some(half) = count.half else {
        return "a single window shows no uncertainty: count several (--runs 5)".to_owned();
    };
    let spans = sides.map(|side| number::span(side.span(&Measure::without_scheduling), number::exact));
    let ranges = format!("windows range over {} before and {} after", spans[0], spans[1]);
    match count.enough {
        Some(enough) => {
            // A guest counts its windows one after the other, after a start that is part of the time.
            let least = sides.map(|side| side.windows.len()).into_iter().min().unwrap_or(1).max(1);
            let times = number::count((enough / as_f64(least as u64)).ceil());
            format!(
                "{ranges}; about {enough} windows (--runs {enough}) would decide, which take up to {times} times as long as \
                 these"
            )
        }
        None if doubt(sides, &|doubt| doubt.total) > MOST_OF_INTERVAL * half * sides[0].without_scheduling() => {
            format!(
                "{ranges}, and that the schedules differ leaves {} open, which more windows do not narrow; --cpus 2 or larger \
             buffers depend less on the schedule; or --margin {} if no smaller change matters",
                number::margin(doubt(sides, &|doubt| doubt.total) / sides[0].without_scheduling()),
                number::part((count.change.abs() + half).max(margin)).replace(' ', "")
            )
        }
        None if sides[0].order == WindowOrder::Paired => format!(
            "{ranges}: what the command executes differs between its runs, as with a random seed or with the moments at which \
             its programs wait; more runs (--runs {}) narrow that; or --margin {} if no smaller change matters",
            2 * sides[0].windows.len().max(2),
            number::part((count.change.abs() + half).max(margin)).replace(' ', "")
        ),
        None => format!(
            "{ranges}; a --window-limit four times as large may help, and takes about four times as long; or --margin {} \
             if no smaller change matters",
            number::part((count.change.abs() + half).max(margin)).replace(' ', "")
        ),
    }
}

/// As [`decision::FLOOR`], for one role or function, as a part of the total. Most repeat exactly in every window.
pub(crate) const PART_FLOOR: f64 = 0.0001;

/// What is not known of both sides, if they are given at another schedule than their own: half the width of the interval.
pub fn doubt(sides: [&Measure; 2], of: &dyn Fn(&ScheduleDoubt) -> f64) -> f64 {
    of(&sides[0].doubt).hypot(of(&sides[1].doubt))
}

/// Whether the change of a role or function, of which these are the values before and after and in the windows of both, is
/// larger than its uncertainty. `doubt`: that of the schedule. Without several windows, the floor of the total decides.
pub(crate) fn is_certain(total: f64, values: [f64; 2], windows: ([&[f64]; 2], WindowOrder), doubt: f64) -> bool {
    let half = decision::half_width(windows.0, windows.1).map(|half| half.hypot(doubt));
    is_beyond(total, values, half)
}

/// Whether a change of a part is larger than half its interval, and than the floor. Without an interval, that of the total.
fn is_beyond(total: f64, values: [f64; 2], half: Option<f64>) -> bool {
    (values[1] - values[0]).abs() > half.map_or(decision::FLOOR * total, |half| half.max(PART_FLOOR * total))
}

/// Half the width of the interval of the change of a part, from its windows. Where the whole has not changed, no part may be
/// named by chance, of all that are looked at.
fn half_of_part(before: &Measure, after: &Measure, windows: [&[f64]; 2]) -> Option<f64> {
    let totals = [before, after].map(|measure| measure.of_windows(&Measure::without_scheduling));
    let values = [before, after].map(Measure::without_scheduling);
    let doubt = doubt([before, after], &|doubt| doubt.total);
    let whole = CountChange::new(values, [&totals[0], &totals[1]], before.order, doubt, decision::MARGIN);
    if Word::of_counts(whole.decision).direction().is_some() {
        decision::half_width(windows, before.order)
    } else {
        decision::half_width_of_part(windows, before.order)
    }
}

fn is_certain_part(before: &Measure, after: &Measure, of: &dyn Fn(&Measure) -> f64, doubt: f64) -> bool {
    let windows = [before, after].map(|measure| measure.of_windows(of));
    let half = half_of_part(before, after, [&windows[0], &windows[1]]).map(|half| half.hypot(doubt));
    is_beyond(before.without_scheduling(), [of(before), of(after)], half)
}

/// [`doubt`] of a role.
fn doubt_of_role(sides: [&Measure; 2], role: RoleId) -> f64 {
    doubt(sides, &|doubt| doubt.roles.get(&role).copied().unwrap_or(0.0))
}

/// [`doubt`] of what takes `own` of a role, on the side where that is more: its part of the role's.
pub(crate) fn doubt_of_part(sides: [&Measure; 2], role: RoleId, own: [f64; 2]) -> f64 {
    let share = |side: usize| own[side] / sides[side].of_role(role).max(f64::MIN_POSITIVE);
    doubt_of_role(sides, role) * share(0).max(share(1)).min(1.0)
}

/// Half the width of the interval of the change of a role, per KiB. `None` for roles that depend on the schedule.
pub(crate) fn uncertainty_of_role(sides: [&Measure; 2], role: RoleId) -> Option<f64> {
    let windows = sides.map(|measure| measure.of_windows(&|measure| measure.of_role(role)));
    let half = (!SCHEDULING.contains(&role)).then(|| half_of_part(sides[0], sides[1], [&windows[0], &windows[1]]))?;
    half.map(|half| half.hypot(doubt_of_role(sides, role)))
}

/// Whether the change of a role is larger than its uncertainty. Roles that depend on the schedule never are.
pub(crate) fn is_certain_role(before: &Measure, after: &Measure, role: RoleId) -> bool {
    let doubt = doubt_of_role([before, after], role);
    !SCHEDULING.contains(&role) && is_certain_part(before, after, &|measure| measure.of_role(role), doubt)
}

/// Whether the change of a function's self weight is larger than its uncertainty. `keys`: its rows before and after.
pub(crate) fn is_certain_function(before: &Measure, after: &Measure, keys: [&Key; 2]) -> bool {
    let of = |measure: &Measure| -> f64 {
        // At most one of two names exists in one kernel.
        let found = keys.iter().find_map(|key| measure.functions.get(key).map(|weight| (key.process, weight.own)));
        found.map_or(0.0, |(process, own)| measure.per_kib(process, own))
    };
    let doubt = doubt_of_part([before, after], keys[0].role, [of(before), of(after)]);
    !SCHEDULING.contains(&keys[0].role) && is_certain_part(before, after, &of, doubt)
}

/// How `counted` was judged: as `judged`, at the schedule of another run; `None` if its schedule is not known.
pub(crate) fn schedule_change(counted: &Measure, judged: &Measure) -> Option<ScheduleChange> {
    let ScheduleDoubt { total, unknown, .. } = judged.doubt;
    let change = ScheduleChange { counted: counted.without_scheduling(), uncertainty: total, unknown };
    (!counted.parts.is_empty()).then_some(change)
}

/// What the cell of a counted run has.
pub fn cell(measure: &Measure) -> ExactCell {
    let per_mib = |count: u64| as_f64(count) / (measure.kib() / 1024.0);
    let WindowSchedule { sleeps, preemptions, .. } = measure.schedule;
    ExactCell {
        without_scheduling: measure.without_scheduling(),
        windows: measure.windows.len(),
        without_scheduling_span: measure.span(&Measure::without_scheduling),
        total_span: measure.span(&Measure::total),
        sleeps_per_mib: per_mib(sleeps),
        preemptions_per_mib: per_mib(preemptions),
        per_sleep: measure.schedule.per_sleep().filter(|_| sleeps >= FEWEST_SWITCHES),
        per_preemption: measure.schedule.per_preemption().filter(|_| preemptions >= FEWEST_SWITCHES),
        rep_bytes: None,
    }
}

/// The totals of two counted runs. A schedule is a matter of chance, so the second total is also given for the schedule
/// of the first.
pub fn total(before: &Measure, after: &Measure) -> TotalChange {
    let (was, is) = (&before.schedule, &after.schedule);
    let scale = |measure: &Measure| 1.0 / measure.kib();
    let per_kib = |count: u64, measure: &Measure| as_f64(count) * scale(measure);
    // Costs of what never happened after are unknown, unless it did not happen before either.
    let cost = |own: Option<f64>, times: u64| if times == 0 { Some(own.unwrap_or(0.0)) } else { own };
    let adjust = || {
        let sleeps = per_kib(was.sleeps, before) - per_kib(is.sleeps, after);
        let preemptions = per_kib(was.preemptions, before) - per_kib(is.preemptions, after);
        let sleeping = sleeps * cost(is.per_sleep(), was.sleeps)?;
        // A few preemptions come from the tick, and cost more than those of a schedule.
        let preempting = preemptions * cost(is.per_preemption(), was.preemptions)?;
        Some(after.total() + sleeping + preempting)
    };
    TotalChange { before: before.total(), after: after.total(), at_equal_schedule: adjust() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::MeasuredPer;
    use crate::profile::{ProcessName, SchedulingWeight};
    use std::collections::BTreeMap;

    /// A run of 1 MiB with these weights.
    fn run(own: u64, sleeps: u64, preemptions: u64) -> Measure {
        let weight = SchedulingWeight { sleeps: 3000 * sleeps, preemptions: 1000 * preemptions, interrupts: 0 };
        let mut measure = Measure {
            per: MeasuredPer::Moved(1 << 20),
            schedule: WindowSchedule { sleeps, preemptions, weight },
            ..Measure::default()
        };
        let part = measure.processes.get_or_default(ProcessName::WRITER);
        part.weight = own + weight.total();
        part.roles.insert(crate::roles::RoleId::PageAlloc, own);
        part.roles.insert(crate::roles::RoleId::Scheduler, weight.total());
        measure.scale_counts();
        measure
    }

    fn with_windows(own: &[u64]) -> Measure {
        let mut windows: Vec<Measure> = own.iter().map(|own| run(*own, 10, 10)).collect();
        let mut shown = windows[windows.len() / 2].clone();
        shown.windows.append(&mut windows);
        shown
    }

    #[test]
    fn a_schedule_alone_changes_no_verdict() {
        let verdict = verdict(&run(1_000_000, 800, 6), &run(1_000_000, 400, 400), 0.01);
        assert_eq!((verdict.word, verdict.delta), (Word::Same, 0.0));
        assert!(verdict.text.starts_with("same, exactly"), "{}", verdict.text);
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let word = |a: &[u64], b: &[u64]| verdict(&with_windows(a), &with_windows(b), 0.01).word;
        let same = [1_000_000; 3];
        assert_eq!(word(&same, &[1_001_600; 3]), Word::Same);
        assert_eq!(word(&same, &[1_001_800; 3]), Word::More);
        assert_eq!(word(&same, &[998_000; 3]), Word::Fewer);
        // The interval contains no change and more than the margin.
        assert_eq!(word(&[990_000, 1_000_000, 1_010_000], &[1_004_000; 3]), Word::Undecided);
        assert_eq!(word(&[999_900, 1_000_000, 1_000_100], &[1_001_000; 3]), Word::Same);
        assert_eq!(word(&[999_900, 1_000_000, 1_000_100], &[1_021_000; 3]), Word::More);
        // Disjoint ranges are not enough for "same", nor overlapping ones for "undecided".
        assert_eq!(word(&[822_000, 828_000, 826_000, 832_000], &[676_000, 758_000, 700_000, 720_000]), Word::Fewer);
        assert_eq!(word(&[1_008_000, 1_782_000, 1_300_000], &[1_100_000, 1_700_000, 1_200_000]), Word::Undecided);
        assert_eq!(verdict(&with_windows(&same), &with_windows(&[1_008_000; 3]), 0.001).word, Word::More);
        // One window each has no interval.
        assert_eq!(word(&[1_000_000], &[1_000_001]), Word::Undecided);
        assert_eq!(word(&[1_000_000], &[1_000_000]), Word::Same);
    }

    #[test]
    fn what_is_undecided_says_what_would_decide_it() {
        let text = |a: &[u64], b: &[u64]| verdict(&with_windows(a), &with_windows(b), 0.01).text;
        let near = text(&[1_000_000, 1_004_000, 996_000], &[1_003_000, 1_006_000, 1_000_000]);
        // Of three windows: half a width of 1.4 % has to become one of 0.7 %, and Student's t is smaller for more of them.
        assert!(near.contains("(--runs 6) would decide, which take up to 2 times as long as these"), "{near}");
        let wide = text(&[1_008_000, 1_782_000, 1_300_000], &[1_100_000, 1_700_000, 1_200_000]);
        assert!(wide.contains("windows range over 984.38 to 1740.23 before") && wide.contains("--margin "), "{wide}");
        assert!(text(&[1_000_000], &[1_100_000]).contains("--runs 5"));
    }

    #[test]
    fn roles_are_rarely_named_by_chance() {
        use rand::{Rng as _, SeedableRng as _};
        let mut random = rand::rngs::SmallRng::seed_from_u64(1);
        let mut windows = || -> Vec<f64> {
            (0..5).map(|_| (0..4).map(|_| random.random_range(-0.5..0.5)).sum::<f64>() + 100.0).collect()
        };
        // Fifteen roles of a kernel and itself.
        let mut named = || {
            let [before, after] = [windows(), windows()];
            let mean = |values: &[f64]| values.iter().sum::<f64>() / 5.0;
            is_beyond(
                0.0,
                [mean(&before), mean(&after)],
                decision::half_width_of_part([&before, &after], WindowOrder::Any),
            )
        };
        let wrong = (0..2_000).filter(|_| (0..15).filter(|_| named()).count() > 0).count();
        assert!(wrong <= 60, "{wrong} of 2,000");
    }

    /// The number of each verdict in 2,000 comparisons of five windows a side, where the counts of one side are `change` larger
    /// and windows scatter over `scatter`, both as parts.
    fn simulated(
        change: f64,
        scatter: f64,
        shape: fn(&mut rand::rngs::SmallRng) -> f64,
    ) -> BTreeMap<&'static str, u32> {
        use rand::SeedableRng as _;
        let mut random = rand::rngs::SmallRng::seed_from_u64(1);
        let mut found = BTreeMap::new();
        for _ in 0..2_000 {
            let mut side = |level: f64| -> Measure {
                let mut own: Vec<u64> =
                    (0..5).map(|_| (1e6 * level * (1.0 + scatter * shape(&mut random))) as u64).collect();
                // The median is shown.
                own.sort_unstable();
                with_windows(&own)
            };
            let (before, after) = (side(1.0), side(1.0 + change));
            *found.entry(verdict(&before, &after, 0.01).word.text()).or_default() += 1;
        }
        found
    }

    #[test]
    fn verdicts_on_simulated_windows_are_rarely_wrong() {
        use rand::Rng as _;
        // Spread evenly, or in two clusters as windows that cut a burst or do not.
        let shapes: [fn(&mut rand::rngs::SmallRng) -> f64; 2] = [
            |random| random.random_range(-0.5..0.5),
            |random| if random.random_bool(0.3) { 0.5 } else { -0.2 } + random.random_range(-0.05..0.05),
        ];
        for shape in shapes {
            for scatter in [0.0005, 0.002, 0.01, 0.05] {
                for change in [0.0, 0.002, 0.005, 0.01, 0.05] {
                    for sign in [-1.0, 1.0] {
                        let found = simulated(sign * change, scatter, shape);
                        let of = |word: &str| found.get(word).copied().unwrap_or(0);
                        let (wrong, right) = if sign < 0.0 { ("more", "fewer") } else { ("fewer", "more") };
                        // Of 2,000.
                        assert!(of(wrong) <= 20, "{change} {scatter}: {found:?}");
                        let none = change == 0.0;
                        assert!(!none || of(right) <= 20, "{change} {scatter}: {found:?}");
                        assert!(change < 0.05 || of("same") == 0, "{change} {scatter}: {found:?}");
                        assert!(
                            change < 0.005 || scatter > 0.002 || of(right) >= 1_900,
                            "{change} {scatter}: {found:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn totals_are_compared_at_one_schedule() {
        let change = total(&run(1_000_000, 800, 6), &run(1_000_000, 400, 400));
        assert!(change.after < change.before);
        let equal = change.at_equal_schedule.unwrap();
        assert!((equal - change.before).abs() < 1e-9, "{change:?}");
        // Too few are cut by the window.
        let [few, many] = [9, 10].map(|times| cell(&run(1, times, times)));
        assert_eq!((few.per_sleep, few.per_preemption), (None, None));
        assert_eq!((many.per_sleep, many.per_preemption), (Some(3000.0), Some(1000.0)));
        // The cost of a sleep is unknown where none happened.
        assert_eq!(total(&run(1, 800, 6), &run(1, 0, 5)).at_equal_schedule, None);
    }
}
