//! The verdict on a change: thresholds and words, for a baseline as for a history.

use super::limits::{CommandLimits, LimitState, LimitVerdict};
use crate::compare::details;
use crate::compare::model::{LimitedCount, RepChange, Section, Step, SystemCallChange};
use crate::report::number;
use crate::roles::{self, RoleId};
use crate::util::choice::Choice as _;
use crate::util::decision::{Decision, FLOOR};
use crate::util::text::grouped;
use crate::util::usage::UsageError;
use anyhow::{Result, bail};
use serde::Serialize;

/// `--fail-above`, in percent.
const REGRESSION_THRESHOLD: f64 = 1.0;

/// System calls that are named.
const NAMED: usize = 4;

/// A verdict. Of several, the first decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    Regression,
    Improvement,
    Undecided,
    /// Above a limit that only warns.
    Warned,
    Worse,
    WithinThreshold,
    Better,
    /// No change that matters.
    Same,
}

impl CheckVerdict {
    pub fn text(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::Undecided => "undecided",
            Self::Warned => "above a soft limit",
            Self::Worse => "worse",
            Self::WithinThreshold => "within the threshold",
            Self::Better => "better",
            Self::Same => "no difference",
        }
    }

    /// The verdict on all.
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().min().unwrap_or(Self::Same)
    }

    /// That on two things that a kernel should be good at.
    fn and(self, other: Self) -> Self {
        match self.min(other) {
            // It is better in one, and worse in the other.
            Self::Improvement if self.max(other) == Self::Worse => Self::Undecided,
            first => first,
        }
    }
}

/// What is a regression.
#[derive(Debug, Clone, Default)]
pub struct CheckThresholds {
    /// `--fail-above`, in percent.
    pub fail_above: Option<f64>,
    /// `--fail-below`, in percent.
    pub fail_below: Option<f64>,
    /// `--fail-above-calls`, in percent.
    pub fail_above_calls: Option<f64>,
    /// Only its instructions are judged.
    pub role: Option<RoleId>,
    /// Whether commands have limits of their own.
    pub of_commands: bool,
}

impl CheckThresholds {
    /// The verdict on all cases, in words.
    pub fn sentence(&self, verdict: CheckVerdict) -> String {
        let above = self.above().map(|limit| format!("+{limit} %"));
        let below = self.fail_below.map(|limit| format!("-{limit} %"));
        let limits: Vec<String> = above.into_iter().chain(below).collect();
        let own = if self.of_commands { ", or the command's limits" } else { "" };
        format!("{} (threshold {}{own})", verdict.text(), limits.join(" and "))
    }

    /// The regression threshold; none if only improvements are looked for.
    fn above(&self) -> Option<f64> {
        self.fail_above.or(self.fail_below.is_none().then_some(REGRESSION_THRESHOLD))
    }

    /// Changes within it do not matter: the smaller threshold.
    pub fn margin(&self) -> f64 {
        let thresholds = self.above().into_iter().chain(self.fail_below);
        (thresholds.fold(f64::INFINITY, f64::min) / 100.0).max(FLOOR)
    }

    /// The verdict on a change that is decided, and whose interval ends at so many percent: both ends must be on the same
    /// side of a threshold.
    pub fn gate(&self, decision: Decision, ends: [f64; 2]) -> CheckVerdict {
        match (decision, ends.map(|end| judged(end, self.above(), self.fail_below))) {
            (Decision::Same, _) => CheckVerdict::Same,
            (Decision::More | Decision::Fewer, [low, high]) if low == high => low,
            _ => CheckVerdict::Undecided,
        }
    }

    /// The verdict on one case, and what it is about if that is not the total. Times have no interval of their change.
    ///
    /// # Errors
    /// A usage error if a role was not counted.
    pub fn verdict(&self, section: &Section, step: &Step) -> Result<(CheckVerdict, Option<String>)> {
        let Some(role) = self.role else {
            let total = self.of_total(step);
            if let Some(fact) = self.too_many_calls(step) {
                return Ok((CheckVerdict::Regression, Some(format!("{}: {fact}", section.title()))));
            }
            let Some(rep) = step.rep.as_ref().filter(|rep| rep.matters) else { return Ok((total, None)) };
            let moved = self.of_rep(rep);
            let figures = details::weighed(rep);
            let how = "with `rep` instructions counted once per 8 bytes";
            let fact = format!("{}: {} {how}: {figures}", section.title(), moved.text());
            return Ok((total.and(moved), Some(fact)));
        };
        if !step.exact() {
            bail!(UsageError::new("--role needs counted instructions: the baseline has samples or times"));
        }
        let (verdict, figures) = self.of_role(role, step);
        let fact = format!("{}: {}: {}: {figures}", section.title(), roles::by_id(role).title, verdict.text());
        Ok((verdict, Some(fact)))
    }

    /// The thresholds for a command with `limits` of its own, whose instructions are those of `step`.
    #[must_use]
    pub fn for_command(&self, limits: &CommandLimits, step: &Step) -> Self {
        let own = limits.fail.get(&LimitedCount::Instructions).map(|limit| limit.percent_of(step.verdict.before));
        let has_calls = limits.fail.contains_key(&LimitedCount::SystemCalls);
        let fail_above_calls = self.fail_above_calls.filter(|_| !has_calls);
        Self { fail_above: own.or(self.fail_above), fail_above_calls, ..self.clone() }
    }

    /// `verdict` with what the `limits` of a command say of its counts.
    pub fn limited(
        &self,
        verdict: CheckVerdict,
        limits: &CommandLimits,
        step: &Step,
    ) -> (CheckVerdict, Vec<LimitVerdict>) {
        let mut judged = limits.judged(step);
        if let Some(limit) = limits.warn.get(&LimitedCount::Instructions) {
            let fail_above = Some(limit.percent_of(step.verdict.before));
            let soft = Self { fail_above, fail_below: None, ..Self::default() };
            if soft.of_total(step) == CheckVerdict::Regression {
                let what = LimitedCount::Instructions;
                let text = format!("{} above the soft limit: {}", what.about(), step.verdict.text);
                let short = format!("{} above the soft limit", what.about());
                judged.push(LimitVerdict { what, is_soft: true, state: LimitState::Exceeded, text, short });
            }
        }
        let of = |limit: &LimitVerdict| match (limit.state, limit.is_soft) {
            (LimitState::Exceeded, false) => CheckVerdict::Regression,
            (LimitState::Unknown, false) => CheckVerdict::Undecided,
            (LimitState::Exceeded | LimitState::Unknown, true) => CheckVerdict::Warned,
            (LimitState::Kept, _) => CheckVerdict::Same,
        };
        let verdict = CheckVerdict::worst(judged.iter().map(of).chain([verdict]));
        (verdict, judged)
    }

    /// `regression: 500 more system calls (1,421 to 1,921, +35.2 %): getppid +500`, if there are too many more. Calls whose
    /// number varies between runs of one side are not judged.
    fn too_many_calls(&self, step: &Step) -> Option<String> {
        let limit = self.fail_above_calls?;
        let all = &step.pipeline.system_calls;
        let before: u64 = all.iter().map(|call| call.calls[0]).sum();
        let certain = || all.iter().filter(|call| call.certain);
        let more = u64::try_from(certain().map(SystemCallChange::more).sum::<i128>()).ok().filter(|more| *more > 0)?;
        let percent = 100.0 * more as f64 / before.max(1) as f64;
        let named: Vec<String> = certain().take(NAMED).map(SystemCallChange::text).collect();
        let text = format!(
            "{}: {} more system calls ({before} before, +{percent:.1} %): {}",
            CheckVerdict::Regression.text(),
            grouped(more),
            named.join(", "),
            before = grouped(before)
        );
        (percent > limit).then_some(text)
    }

    /// The verdict on instructions of which a `rep` instruction counts once for each 8 bytes.
    fn of_rep(&self, rep: &RepChange) -> CheckVerdict {
        let change = rep.weighed[1] / rep.weighed[0] - 1.0;
        let half = rep.uncertainty.unwrap_or(0.0);
        self.gate(rep.word.decision(), [-half, half].map(|half| (change + half) * 100.0))
    }

    /// The verdict on a role of counted runs, and its figures.
    fn of_role(&self, role: RoleId, step: &Step) -> (CheckVerdict, String) {
        let Some(row) = step.roles.iter().find(|row| row.role == role) else {
            return (CheckVerdict::Same, "no instructions before and after".to_owned());
        };
        // What was not there before has become infinitely more.
        let is_new = row.before == 0.0;
        let change = if is_new { f64::INFINITY.copysign(row.delta) } else { row.delta / row.before };
        let half = row.uncertainty.map(|half| if is_new { 0.0 } else { half / row.before });
        let decision = match half {
            _ if !step.unequal.is_empty() => Decision::Undecided,
            _ if row.certain && row.delta > 0.0 => Decision::More,
            _ if row.certain && row.delta < 0.0 => Decision::Fewer,
            Some(half) if change.abs() + half <= self.margin() => Decision::Same,
            None if row.delta == 0.0 => Decision::Same,
            _ => Decision::Undecided,
        };
        let ends = [-1.0, 1.0].map(|side| (change + side * half.unwrap_or(0.0)) * 100.0);
        let word = self.gate(decision, ends);
        let by = match is_new {
            true => String::new(),
            false => format!(", {}{}", number::change(1.0 + change), number::in_parentheses(half)),
        };
        let [before, after] = [row.before, row.after].map(number::exact);
        (word, format!("{before} to {after} {}{by}", step.verdict.counted_in()))
    }

    fn of_total(&self, step: &Step) -> CheckVerdict {
        let verdict = &step.verdict;
        let half = verdict.uncertainty.unwrap_or(0.0);
        self.gate(verdict.word.decision(), [-half, half].map(|half| (verdict.ratio - 1.0 + half) * 100.0))
    }
}

/// The verdict on a real change by `worse` percent: a regression above the one threshold, an improvement below the other.
fn judged(worse: f64, above: Option<f64>, below: Option<f64>) -> CheckVerdict {
    match above {
        Some(limit) if worse > limit => CheckVerdict::Regression,
        _ if below.is_some_and(|limit| -worse > limit) => CheckVerdict::Improvement,
        None if worse > 0.0 => CheckVerdict::Worse,
        Some(_) if worse <= 0.0 && below.is_none() => CheckVerdict::Better,
        _ => CheckVerdict::WithinThreshold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::model::{RoleRow, Verdict, Word};
    use crate::profile::ByProcess;

    #[test]
    fn a_role_is_judged_in_percent_of_itself() {
        let rules =
            CheckThresholds { fail_below: Some(2.0), role: Some(RoleId::PageAlloc), ..CheckThresholds::default() };
        let row = |before: f64, after: f64, certain, uncertainty| RoleRow {
            role: RoleId::PageAlloc,
            title: "page allocation".to_owned(),
            colour: String::new(),
            before,
            after,
            delta: after - before,
            deltas: ByProcess::new(),
            certain,
            moved: false,
            uncertainty,
            work: None,
        };
        for (row, verdict) in [
            (Some(row(100.0, 97.0, true, Some(0.1))), CheckVerdict::Improvement),
            (Some(row(100.0, 98.0, true, Some(0.5))), CheckVerdict::Undecided),
            (Some(row(100.0, 103.0, true, Some(0.5))), CheckVerdict::Worse),
            (Some(row(100.0, 100.5, false, Some(1.0))), CheckVerdict::Same),
            (Some(row(100.0, 97.0, false, Some(5.0))), CheckVerdict::Undecided),
            (Some(row(0.0, 3.0, true, Some(0.1))), CheckVerdict::Worse),
            (Some(row(0.0, 300.0, true, Some(5.0))), CheckVerdict::Worse),
            (Some(row(100.0, 97.0, false, None)), CheckVerdict::Undecided),
            (None, CheckVerdict::Same),
        ] {
            let step = Step { roles: row.into_iter().collect(), ..Step::default() };
            assert_eq!(rules.of_role(RoleId::PageAlloc, &step).0, verdict, "{:?}", step.roles);
        }
    }

    #[test]
    fn bytes_of_rep_instructions_are_judged_too() {
        let rules = |fail_above, fail_below| CheckThresholds { fail_above, fail_below, ..CheckThresholds::default() };
        let rep = |weighed: [f64; 2], word| RepChange {
            before: 2048.0,
            after: 2048.0 + 8.0 * (weighed[1] - weighed[0]),
            matters: true,
            word,
            weighed,
            uncertainty: Some(0.001),
            functions: Vec::new(),
        };
        let more = rep([740.0, 880.0], Word::More);
        assert_eq!(rules(None, None).of_rep(&more), CheckVerdict::Regression);
        assert_eq!(rules(Some(20.0), None).of_rep(&more), CheckVerdict::WithinThreshold);
        assert_eq!(rules(None, Some(1.0)).of_rep(&more), CheckVerdict::Worse);
        assert_eq!(rules(None, Some(1.0)).of_rep(&rep([880.0, 740.0], Word::Fewer)), CheckVerdict::Improvement);
        assert_eq!(rules(None, None).of_rep(&rep([740.0, 760.0], Word::Undecided)), CheckVerdict::Undecided);
        // The whole case: instructions alone are within the threshold.
        let verdict = Verdict { word: Word::More, ratio: 1.005, uncertainty: Some(0.0), ..Verdict::default() };
        let step = |rep| Step { verdict: verdict.clone(), rep, ..Step::default() };
        let section =
            Section { mode: "write".to_owned(), cpus: Some(1), cells: Vec::new(), steps: Vec::new(), causes: None };
        let of = |step: &Step| rules(None, None).verdict(&section, step).unwrap();
        assert_eq!(of(&step(None)), (CheckVerdict::WithinThreshold, None));
        let (found, fact) = of(&step(Some(more.clone())));
        let fact = fact.unwrap();
        assert_eq!(found, CheckVerdict::Regression);
        assert_eq!(
            fact,
            "write, 1 CPU: regression with `rep` instructions counted once per 8 bytes: +18.9 % (±0.10 %), 740.00 to \
             880.00 instructions per KiB"
        );
        assert_eq!(of(&step(Some(RepChange { matters: false, ..more }))).0, CheckVerdict::WithinThreshold);
        // Better in one, worse in the other.
        assert_eq!(CheckVerdict::Improvement.and(CheckVerdict::Worse), CheckVerdict::Undecided);
        assert_eq!(CheckVerdict::Worse.and(CheckVerdict::Improvement), CheckVerdict::Undecided);
        assert_eq!(CheckVerdict::Improvement.and(CheckVerdict::Same), CheckVerdict::Improvement);
    }

    #[test]
    fn each_threshold_finds_its_direction() {
        for (worse, above, below, verdict) in [
            (1.2, Some(1.0), None, CheckVerdict::Regression),
            (0.8, Some(1.0), None, CheckVerdict::WithinThreshold),
            (-5.0, Some(1.0), None, CheckVerdict::Better),
            (-5.0, None, Some(1.0), CheckVerdict::Improvement),
            (-0.8, None, Some(1.0), CheckVerdict::WithinThreshold),
            (5.0, None, Some(1.0), CheckVerdict::Worse),
            (5.0, Some(1.0), Some(1.0), CheckVerdict::Regression),
            (-5.0, Some(1.0), Some(1.0), CheckVerdict::Improvement),
            (-0.5, Some(1.0), Some(1.0), CheckVerdict::WithinThreshold),
        ] {
            assert_eq!(judged(worse, above, below), verdict, "{worse} {above:?} {below:?}");
        }
    }
}
