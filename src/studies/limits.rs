//! Limits of a command's counts: what is a regression, and what is only a warning.

use crate::compare::model::{ChangedCount, LimitedCount, Step};
use crate::report::number;
use crate::util::choice::Choice as _;
use crate::util::text::grouped;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// By how much a count may increase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Of the value before.
    Percent(f64),
    Absolute(f64),
}

impl Limit {
    /// `1%`, or a number.
    ///
    /// # Errors
    /// A message for the file.
    fn parse(text: &str) -> Result<Self, String> {
        let (number, limit): (_, fn(f64) -> Self) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim(), Self::Percent),
            None => (text.trim(), Self::Absolute),
        };
        match number.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(limit(value)),
            _ => Err(format!("'{text}' is not a limit: use a form such as \"1%\" or 100")),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Percent(percent) => format!("+{percent} %"),
            Self::Absolute(most) => format!("+{}", amount(most)),
        }
    }

    /// In percent of `before`.
    pub(crate) fn percent_of(self, before: f64) -> f64 {
        match self {
            Self::Percent(percent) => percent,
            Self::Absolute(most) if before > 0.0 => 100.0 * most / before,
            Self::Absolute(_) => f64::INFINITY,
        }
    }

    fn is_exceeded(self, change: &ChangedCount) -> bool {
        match self {
            Self::Percent(percent) => change.least_more() > change.before[1] * percent / 100.0,
            Self::Absolute(most) => change.least_more() > most,
        }
    }
}

/// With digits only where there is no whole number.
fn amount(value: f64) -> String {
    if value.fract() == 0.0 && value < 1e15 { grouped(value as u64) } else { number::exact(value) }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenLimit {
    Text(String),
    Whole(u64),
    Fraction(f64),
}

impl TryFrom<WrittenLimit> for Limit {
    type Error = String;

    fn try_from(written: WrittenLimit) -> Result<Self, String> {
        match written {
            WrittenLimit::Text(text) => Self::parse(&text),
            WrittenLimit::Whole(most) => Self::parse(&most.to_string()),
            WrittenLimit::Fraction(most) => Self::parse(&most.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::try_from(WrittenLimit::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// What is limited, and how much.
pub type LimitsByCount = BTreeMap<LimitedCount, Limit>;

/// The limits of one command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandLimits {
    /// More is a regression.
    pub fail: LimitsByCount,
    /// More is a warning.
    pub warn: LimitsByCount,
}

/// What a limit says of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitVerdict {
    pub what: LimitedCount,
    /// Whether it only warns.
    pub is_soft: bool,
    pub state: LimitState,
    /// `page faults +700 (112 before, 812 now, limit +10)`, or why it is not known.
    pub text: String,
    /// The same without the values.
    pub short: String,
}

impl LimitVerdict {
    /// With what it means.
    pub fn sentence(&self) -> String {
        let word = match (self.state, self.is_soft) {
            (LimitState::Exceeded, false) => "regression: ",
            (LimitState::Exceeded, true) => "warning: ",
            (LimitState::Unknown | LimitState::Kept, _) => "",
        };
        format!("{word}{}", self.text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitState {
    Kept,
    Exceeded,
    Unknown,
}

impl CommandLimits {
    /// What the limits of counts say of `step`; instructions are judged with their uncertainty, elsewhere.
    pub fn judged(&self, step: &Step) -> Vec<LimitVerdict> {
        let all = self.fail.iter().map(|limit| (limit, false)).chain(self.warn.iter().map(|limit| (limit, true)));
        let counts = all.filter(|((what, _), _)| **what != LimitedCount::Instructions);
        let verdict = |((what, limit), is_soft): ((&LimitedCount, &Limit), bool)| {
            let change = step.pipeline.counts.iter().find(|change| change.what == *what);
            let Some(change) = change else {
                let text = format!("{}: not known on both sides, so the limit cannot be checked", what.about());
                return LimitVerdict { what: *what, is_soft, state: LimitState::Unknown, short: text.clone(), text };
            };
            let state = if limit.is_exceeded(change) { LimitState::Exceeded } else { LimitState::Kept };
            let kind = if is_soft { "soft limit" } else { "limit" };
            let [before, after] = [change.before, change.after].map(|[least, most]| match least == most {
                true => amount(least),
                false => format!("{} to {}", amount(least), amount(most)),
            });
            let more = change.least_more();
            let how = if more > 0.0 { format!(" +{}", amount(more)) } else { ": no certain increase".to_owned() };
            let (name, limit) = (what.about(), limit.text());
            let text = format!("{name}{how} ({before} before, {after} now, {kind} {limit})");
            LimitVerdict { what: *what, is_soft, state, text, short: format!("{name}{how} ({kind} {limit})") }
        };
        let mut judged: Vec<LimitVerdict> = counts.map(verdict).collect();
        // It would say again what the limit says.
        let is_over = |of: &LimitVerdict| !of.is_soft && of.state == LimitState::Exceeded;
        let over: Vec<LimitedCount> = judged.iter().filter(|of| is_over(of)).map(|of| of.what).collect();
        judged.retain(|of| !of.is_soft || !over.contains(&of.what));
        judged
    }

    /// `other` where this has no limit.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        for (own, others) in [(&mut self.fail, &other.fail), (&mut self.warn, &other.warn)] {
            others.iter().for_each(|(what, limit)| {
                own.entry(*what).or_insert(*limit);
            });
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::model::PipelineChange;

    fn step(what: LimitedCount, before: [f64; 2], after: [f64; 2]) -> Step {
        let pipeline =
            PipelineChange { counts: vec![ChangedCount { what, before, after }], ..PipelineChange::default() };
        Step { pipeline, ..Step::default() }
    }

    #[test]
    fn a_limit_is_exceeded_only_if_all_runs_are_above_it() {
        let faults = |before, after| step(LimitedCount::PageFaults, before, after);
        let of = |limit, step: &Step| {
            let limits = CommandLimits { fail: [(LimitedCount::PageFaults, limit)].into(), ..CommandLimits::default() };
            limits.judged(step).remove(0)
        };
        use LimitState::{Exceeded, Kept, Unknown};
        for (limit, before, after, state) in [
            (Limit::Absolute(0.0), [100.0, 100.0], [101.0, 101.0], Exceeded),
            (Limit::Absolute(1.0), [100.0, 100.0], [101.0, 101.0], Kept),
            (Limit::Absolute(0.0), [100.0, 103.0], [102.0, 110.0], Kept),
            (Limit::Percent(5.0), [100.0, 100.0], [105.0, 105.0], Kept),
            (Limit::Percent(5.0), [100.0, 100.0], [106.0, 107.0], Exceeded),
            (Limit::Percent(5.0), [0.0, 0.0], [1.0, 1.0], Exceeded),
            (Limit::Percent(5.0), [100.0, 100.0], [50.0, 50.0], Kept),
        ] {
            assert_eq!(of(limit, &faults(before, after)).state, state, "{limit:?} {before:?} {after:?}");
        }
        let said = of(Limit::Absolute(10.0), &faults([112.0; 2], [810.0, 812.0])).text;
        assert_eq!(said, "page faults +698 (112 before, 810 to 812 now, limit +10)");
        let other = step(LimitedCount::Bytes, [1.0; 2], [1.0; 2]);
        assert_eq!(of(Limit::Absolute(0.0), &other).state, Unknown);
    }

    #[test]
    fn limits_are_percentages_or_numbers() {
        assert_eq!(Limit::parse("1.5%"), Ok(Limit::Percent(1.5)));
        assert_eq!(Limit::parse("20"), Ok(Limit::Absolute(20.0)));
        assert!(["-1", "x", "1 %%", "inf"].iter().all(|text| Limit::parse(text).is_err()));
    }
}
