//! Verdicts on counted instructions without scheduling. The windows of each run show what may differ without a reason
//! in the kernel; only larger changes get a verdict.

use super::measure::{Key, Measure, as_f64};
use super::model::{ExactCell, TotalChange, Verdict, Word};
use super::text;
use super::windows;
use crate::roles::{RoleId, SCHEDULING};

/// Compare two counted runs.
#[must_use]
pub(crate) fn verdict(before: &Measure, after: &Measure) -> Verdict {
    let (a, b) = (before.without_scheduling(), after.without_scheduling());
    let uncertainty = windows::of_total(before, after);
    let relative = if a > 0.0 { uncertainty / a } else { 0.0 };
    // Cross-multiplied, so that rounding cannot make equal counts differ.
    let [old, new] = [(before, after), (after, before)]
        .map(|(measure, other)| u128::from(measure.unscheduled()) * u128::from(other.bytes));
    let (delta, ratio) = if old == new { (0.0, 1.0) } else { (b - a, if a > 0.0 { b / a } else { f64::NAN }) };
    let word = match delta {
        delta if delta.abs() <= uncertainty => Word::Same,
        delta if delta < 0.0 => Word::Fewer,
        _ => Word::More,
    };
    let margin = text::margin(relative);
    let text = match word {
        Word::Same if old == new => {
            format!("same, exactly {} instructions per KiB without scheduling before and after", text::value(a))
        }
        Word::Same => format!(
            "same (within {margin}), {} and {} instructions per KiB without scheduling",
            text::value(a),
            text::value(b)
        ),
        _ => format!(
            "{} instructions per KiB without scheduling, {} ({margin}), {} to {}",
            word.text(),
            text::percent(ratio),
            text::value(a),
            text::value(b)
        ),
    };
    Verdict {
        word,
        before: a,
        after: b,
        delta,
        ratio,
        uncertainty: Some(relative),
        ci95: None,
        p: None,
        p_holm: None,
        noise_floor: None,
        noise_from: String::new(),
        pairs: [before.windows.len(), after.windows.len()],
        boots: [1, 1],
        more_runs: None,
        text,
    }
}

/// Whether the change of a role is larger than its uncertainty. Roles that depend on the schedule never are.
#[must_use]
pub(crate) fn certain_role(before: &Measure, after: &Measure, role: RoleId) -> bool {
    let of = |measure: &Measure| -> f64 {
        measure.processes.of_target().map(|(process, _)| measure.role(process, role)).sum()
    };
    !SCHEDULING.contains(&role) && (of(after) - of(before)).abs() > windows::of_part(before, after, &of)
}

/// Whether the change of a function's self weight is larger than its uncertainty. `keys`: its rows before and after.
#[must_use]
pub(crate) fn certain_function(before: &Measure, after: &Measure, keys: [&Key; 2]) -> bool {
    let of = |measure: &Measure| -> f64 {
        // At most one of two names exists in one kernel.
        let found = keys.iter().find_map(|key| measure.functions.get(key).map(|weight| (key.process, weight.own)));
        found.map_or(0.0, |(process, own)| measure.per_kib(process, own))
    };
    let role = keys[0].role;
    !SCHEDULING.contains(&role) && (of(after) - of(before)).abs() > windows::of_part(before, after, &of)
}

/// What the cell of a counted run has.
#[must_use]
pub(crate) fn cell(measure: &Measure) -> ExactCell {
    let per_mib = |count: u64| as_f64(count) / (as_f64(measure.bytes.max(1)) / 1024.0 / 1024.0);
    ExactCell {
        without_scheduling: measure.without_scheduling(),
        windows: measure.windows.len(),
        without_scheduling_span: measure.span(&Measure::without_scheduling),
        total_span: measure.span(&Measure::total),
        outlier: windows::outlier(measure),
        sleeps_per_mib: per_mib(measure.schedule.sleeps),
        preemptions_per_mib: per_mib(measure.schedule.preemptions),
        per_sleep: measure.schedule.per_sleep(),
        per_preemption: measure.schedule.per_preemption(),
    }
}

/// The totals of two counted runs. A schedule is a matter of chance, so the second total is also given for the schedule
/// of the first.
#[must_use]
pub(crate) fn total(before: &Measure, after: &Measure) -> TotalChange {
    let (was, is) = (&before.schedule, &after.schedule);
    let scale = |measure: &Measure| 1024.0 / as_f64(measure.bytes.max(1));
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
    use crate::compare::windows::WindowSchedule;
    use crate::profile::{ProcessName, SchedulingWeight};

    /// A run of 1 MiB with these weights.
    fn run(own: u64, sleeps: u64, preemptions: u64) -> Measure {
        let weight = SchedulingWeight { sleeps: 3000 * sleeps, preemptions: 1000 * preemptions, interrupts: 0 };
        let mut measure =
            Measure { bytes: 1 << 20, schedule: WindowSchedule { sleeps, preemptions, weight }, ..Measure::default() };
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
        let verdict = verdict(&run(1_000_000, 800, 6), &run(1_000_000, 400, 400));
        assert_eq!((verdict.word, verdict.delta), (Word::Same, 0.0));
        assert!(verdict.text.starts_with("same, exactly"), "{}", verdict.text);
    }

    #[test]
    fn only_what_exceeds_the_spans_and_the_floor_differs() {
        let word = |a: &[u64], b: &[u64]| verdict(&with_windows(a), &with_windows(b)).word;
        assert_eq!(word(&[1_000_000; 3], &[1_001_600; 3]), Word::Same);
        assert_eq!(word(&[1_000_000; 3], &[1_001_800; 3]), Word::More);
        assert_eq!(word(&[1_000_000; 3], &[998_000; 3]), Word::Fewer);
        assert_eq!(word(&[990_000, 1_000_000, 1_010_000], &[1_019_000; 3]), Word::Same);
        assert_eq!(word(&[990_000, 1_000_000, 1_010_000], &[1_021_000; 3]), Word::More);
        // Further apart than both ranges are wide, but a window before has more than one after.
        let before = [998_000, 1_000_000, 1_010_000];
        assert_eq!(word(&before, &[1_009_000, 1_014_000, 1_015_000]), Word::Same);
        assert_eq!(word(&before, &[1_011_000, 1_014_000, 1_015_000]), Word::More);
    }

    #[test]
    fn one_window_away_from_all_others_is_named() {
        let outlier = |own: &[u64]| windows::outlier(&with_windows(own));
        let found = outlier(&[1_000_000, 1_040_000, 1_000_200, 1_000_050, 1_000_100]).unwrap();
        assert_eq!((found.value, found.others), (1_040_000.0 / 1024.0, [1_000_000.0 / 1024.0, 1_000_200.0 / 1024.0]));
        assert_eq!(found.title, "page allocation");
        assert!(outlier(&[1_000_000, 960_000, 1_000_200, 1_000_050, 1_000_100]).unwrap().delta < 0.0);
        // Below the floor, in a wide range, or too few windows to tell.
        assert_eq!(outlier(&[1_000_000, 1_001_500, 1_000_200, 1_000_050, 1_000_100]), None);
        assert_eq!(outlier(&[1_000_000, 1_010_000, 1_020_000, 1_030_000, 1_040_000]), None);
        assert_eq!(outlier(&[1_000_000, 1_040_000, 1_000_100]), None);
    }

    #[test]
    fn totals_are_compared_at_one_schedule() {
        let change = total(&run(1_000_000, 800, 6), &run(1_000_000, 400, 400));
        assert!(change.after < change.before);
        let equal = change.at_equal_schedule.unwrap();
        assert!((equal - change.before).abs() < 1e-9, "{change:?}");
        // The cost of a sleep is unknown where none happened.
        assert_eq!(total(&run(1, 800, 6), &run(1, 0, 5)).at_equal_schedule, None);
    }
}
