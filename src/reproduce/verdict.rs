//! Theirs beside ours, judged. Pure: readings in, verdicts out.

use super::facts::{Fact, Facts, Judge, Table};
use crate::document::ExecutedOn;
use crate::util::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure of ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// In `unit`; the median where there are several.
    pub value: f64,
    pub unit: String,
    /// One value per fresh pair; one value for an exact count.
    pub runs: Vec<f64>,
    /// 95 % interval of a share.
    pub interval: Option<[f64; 2]>,
    pub executed_on: ExecutedOn,
    /// How it was read, for the reader of the report: `median of 5 fresh pairs`.
    pub how: String,
}

impl Reading {
    /// The median of `runs`; `None` of nothing.
    #[must_use]
    pub fn median(runs: Vec<f64>, unit: &str, executed_on: ExecutedOn, how: &str) -> Option<Self> {
        let value = stats::median(&runs)?;
        Some(Self { value, unit: unit.to_owned(), runs, interval: None, executed_on, how: how.to_owned() })
    }

    /// A single value that repetition would not change, or that is already made of many.
    #[must_use]
    pub fn single(value: f64, unit: &str, executed_on: ExecutedOn, how: &str) -> Self {
        Self { value, unit: unit.to_owned(), runs: vec![value], interval: None, executed_on, how: how.to_owned() }
    }

    /// Median absolute deviation in per cent of the median; absent for a single value.
    #[must_use]
    pub fn spread_percent(&self) -> Option<f64> {
        (self.runs.len() > 1 && self.value != 0.0).then(|| stats::mad(&self.runs))?.map(|mad| mad / self.value * 100.0)
    }

    /// The same in another unit; `None` where the units have nothing in common.
    #[must_use]
    pub fn convert(&self, unit: &str) -> Option<Self> {
        const GB_PER_GIB: f64 = 1.073_741_824;
        let factor = match (self.unit.as_str(), unit) {
            (from, to) if from == to => 1.0,
            ("GiB/s", "GB/s") => GB_PER_GIB,
            ("GB/s", "GiB/s") => 1.0 / GB_PER_GIB,
            _ => return None,
        };
        let runs = self.runs.iter().map(|run| run * factor).collect();
        Some(Self { value: self.value * factor, unit: unit.to_owned(), runs, ..self.clone() })
    }
}

/// Why there is no figure of ours, and how to get one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub why: String,
    /// For a machine that can.
    pub command: String,
}

impl Missing {
    #[must_use]
    pub fn new(why: impl Into<String>, command: impl Into<String>) -> Self {
        Self { why: why.into(), command: command.into() }
    }
}

/// Figures of ours by the id of the fact that they stand beside.
pub type Readings = BTreeMap<String, Result<Reading, Missing>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Reproduced,
    NotReproduced,
    NotTestableHere,
}

impl Verdict {
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::NotTestableHere => "not testable here",
        }
    }
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub fact: String,
    pub what: String,
    pub theirs: Option<f64>,
    pub ours: Option<Reading>,
    pub verdict: Verdict,
    /// What was compared, and by which measure: `3.43 times rung 1, theirs 3.43 times: within a factor of 1.5`.
    pub why: String,
    /// How to test it, where it cannot be tested here.
    pub command: String,
}

/// Judge every fact of `table`.
#[must_use]
pub fn judge_table(facts: &Facts, table: &Table, readings: &Readings) -> Vec<Line> {
    table.rows.iter().map(|fact| judge(facts, table, fact, readings)).collect()
}

fn judge(facts: &Facts, table: &Table, fact: &Fact, readings: &Readings) -> Line {
    let line = |ours: Option<Reading>, verdict, why: String, command: &str| Line {
        fact: fact.id.clone(),
        what: fact.what.clone(),
        theirs: fact.value,
        ours,
        verdict,
        why,
        command: command.to_owned(),
    };
    let not_testable =
        |ours, missing: &Missing| line(ours, Verdict::NotTestableHere, missing.why.clone(), &missing.command);
    if let Judge::Never { never, command } = &fact.judge {
        return not_testable(None, &Missing::new(never.clone(), command.clone()));
    }
    let ours = match reading(facts, &fact.id, readings) {
        Ok(ours) => ours,
        Err(missing) => return not_testable(None, &missing),
    };
    let answer = |holds: bool, why: String| {
        let verdict = if holds { Verdict::Reproduced } else { Verdict::NotReproduced };
        line(Some(ours.clone()), verdict, why, "")
    };
    let theirs = fact.value.unwrap_or_default();
    match &fact.judge {
        Judge::Never { never, command } => not_testable(None, &Missing::new(never.clone(), command.clone())),
        Judge::AtMost { at_most } => {
            answer(ours.value <= *at_most, format!("{} {} {at_most}", number(ours.value), than(ours.value, *at_most)))
        }
        Judge::Factor { factor } => {
            let ratio = ours.value / theirs;
            answer(
                within(ratio, *factor),
                format!("{} times theirs; {factor} times either way is allowed", number(ratio)),
            )
        }
        Judge::Percent { percent } => {
            let off = (ours.value / theirs - 1.0) * 100.0;
            answer(off.abs() <= *percent, format!("{off:+.1} %; {percent} % is allowed"))
        }
        Judge::Points { points } => {
            let off = ours.value - theirs;
            if let Some([low, high]) = ours.interval
                && high - low > 2.0 * points
            {
                let why = format!("{}: too few, {low:.1} to {high:.1} % fit them all", ours.how);
                return not_testable(Some(ours.clone()), &Missing::new(why, "pipeprof reproduce, without --quick"));
            }
            answer(off.abs() <= *points, format!("{off:+.1} points; {points} are allowed"))
        }
        Judge::Ratio { ratio_to, factor } => {
            let base = facts.find(ratio_to);
            let name = base.map_or(ratio_to.as_str(), |(_, fact)| short(&fact.what));
            match (base.and_then(|(_, fact)| fact.value), reading(facts, ratio_to, readings)) {
                (Some(base_theirs), Ok(base_ours)) => {
                    let (holds, why) = ratio(&ours, &base_ours, theirs / base_theirs, *factor, name);
                    answer(holds, why)
                }
                (_, Err(missing)) => {
                    let why = format!("judged by its ratio to \"{name}\", and that is missing: {}", missing.why);
                    not_testable(Some(ours.clone()), &Missing::new(why, missing.command))
                }
                (None, _) => not_testable(Some(ours.clone()), &Missing::new(format!("{} has no figure", table.id), "")),
            }
        }
    }
}

fn reading(facts: &Facts, id: &str, readings: &Readings) -> Result<Reading, Missing> {
    let (unit, part) = facts.find(id).map_or(("", ""), |(table, _)| (table.unit.as_str(), table.part.as_str()));
    match readings.get(id) {
        Some(Ok(reading)) => reading
            .convert(unit)
            .ok_or_else(|| Missing::new(format!("ours is in {}, theirs in {unit}", reading.unit), "")),
        Some(Err(missing)) => Err(missing.clone()),
        None => Err(Missing::new(format!("part {part} was not run"), format!("pipeprof reproduce {part}"))),
    }
}

/// Ratios closer to 1 than this have no direction: the minimum effect that is claimed at all.
const EFFECT: f64 = 0.02;

/// Judge the ratio of `ours` to `base` against `theirs`.
fn ratio(ours: &Reading, base: &Reading, theirs: f64, factor: f64, name: &str) -> (bool, String) {
    let ratio = ours.value / base.value;
    let interval = (ours.runs.len() >= 3 && base.runs.len() >= 3)
        .then(|| stats::ratio_of_medians(&ours.runs, &base.runs, 1))
        .flatten()
        .map_or([ratio, ratio], |ratio| ratio.ci95);
    let clear = |low: f64, high: f64| match () {
        () if low > 1.0 + EFFECT => 1,
        () if high < 1.0 - EFFECT => -1,
        () => 0,
    };
    let (our_way, their_way) = (clear(interval[0], interval[1]), clear(theirs, theirs));
    let span = match interval {
        [low, high] if low < high => format!("{} [{}, {}]", number(ratio), number(low), number(high)),
        _ => number(ratio),
    };
    let figures = format!("{span} times \"{name}\", theirs {} times", number(theirs));
    if !within(ratio / theirs, factor) {
        return (false, format!("{figures}: apart by more than the factor of {factor} allowed"));
    }
    // Theirs being the same within the effect makes any direction of ours within the factor a match.
    if their_way != 0 && our_way != their_way {
        let why = if our_way == 0 { "no clear direction here" } else { "the other way round here" };
        return (false, format!("{figures}: {why}"));
    }
    (true, format!("{figures}: within the factor of {factor} allowed"))
}

fn within(ratio: f64, factor: f64) -> bool {
    ratio.is_finite() && ratio > 0.0 && ratio <= factor && ratio >= 1.0 / factor
}

fn than(value: f64, limit: f64) -> &'static str {
    if value <= limit { "is no more than" } else { "is more than" }
}

/// The name of a row before its first remark in parentheses.
fn short(what: &str) -> &str {
    what.split(" (").next().unwrap_or(what)
}

/// A number in three or four digits.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    match () {
        () if !value.is_finite() => "-".to_owned(),
        // Minus nothing is nothing.
        () if value == 0.0 => "0".to_owned(),
        () if size >= 10_000.0 => grouped(value),
        () if size >= 100.0 => format!("{value:.0}"),
        () if size >= 10.0 => format!("{value:.1}"),
        () if size >= 0.1 => format!("{value:.2}"),
        () if size >= 0.001 => format!("{value:.4}"),
        () => format!("{value:.1e}"),
    }
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(rows: &str) -> Facts {
        let article = r#"{"title":"t","author":"a","year":1,"machine":"m","setup":"s"}"#;
        Facts::parse(&format!(
            r#"{{"articles":{{"A":{article}}},"tables":[{{"id":"A.t","part":"ladder","article":"A","title":"t","unit":"GB/s","rows":[{rows}]}}]}}"#
        ))
        .unwrap()
    }

    fn of(values: &[f64]) -> Result<Reading, Missing> {
        Ok(Reading::median(values.to_vec(), "GB/s", ExecutedOn::Hardware, "").unwrap())
    }

    const STEP: &str = r#"{"id":"A.1","what":"one (x)","value":4.0,"judge":{"factor":2.0}},
        {"id":"A.2","what":"two","value":8.0,"judge":{"ratio_to":"A.1","factor":1.5}}"#;

    fn verdicts(rows: &str, readings: &[(&str, Result<Reading, Missing>)]) -> Vec<(Verdict, String)> {
        let facts = facts(rows);
        let readings = readings.iter().map(|(id, reading)| ((*id).to_owned(), reading.clone())).collect();
        judge_table(&facts, &facts.tables[0], &readings).into_iter().map(|line| (line.verdict, line.why)).collect()
    }

    #[test]
    fn ratios_count_and_not_speeds() {
        let lines = verdicts(STEP, &[("A.1", of(&[10.0, 10.1, 9.9])), ("A.2", of(&[20.0, 20.2, 19.9]))]);
        assert_eq!(lines[0].0, Verdict::NotReproduced, "{}", lines[0].1);
        assert_eq!(lines[1].0, Verdict::Reproduced, "{}", lines[1].1);
        assert!(lines[1].1.contains("\"one\"") && lines[1].1.contains("theirs 2.00 times"), "{}", lines[1].1);
    }

    #[test]
    fn a_gain_that_is_none_or_too_large_or_a_loss_is_not_reproduced() {
        for (second, why) in [
            (vec![4.1, 5.9, 6.4], "no clear direction"),
            (vec![14.0, 14.0, 14.0], "apart by more"),
            (vec![3.0, 3.0, 3.0], "apart by more"),
        ] {
            let lines = verdicts(STEP, &[("A.1", of(&[4.0, 4.2, 4.1])), ("A.2", of(&second))]);
            assert_eq!(lines[1].0, Verdict::NotReproduced);
            assert!(lines[1].1.contains(why), "{} lacks {why}", lines[1].1);
        }
        let gentle = STEP.replace("\"value\":8.0", "\"value\":4.4");
        let lines = verdicts(&gentle, &[("A.1", of(&[4.0; 3])), ("A.2", of(&[3.6; 3]))]);
        assert_eq!(lines[1].0, Verdict::NotReproduced);
        assert!(lines[1].1.contains("other way round"), "{}", lines[1].1);
    }

    #[test]
    fn what_is_missing_is_not_testable_and_says_how() {
        let lines = verdicts(STEP, &[("A.1", Err(Missing::new("no pipe", "mkfifo x"))), ("A.2", of(&[1.0]))]);
        assert_eq!(lines[0], (Verdict::NotTestableHere, "no pipe".to_owned()));
        assert_eq!(lines[1].0, Verdict::NotTestableHere);
        assert!(lines[1].1.contains("no pipe"));
        let lines = verdicts(STEP, &[]);
        assert_eq!(lines[0].1, "part ladder was not run");
    }

    #[test]
    fn counts_shares_and_claims() {
        let rows = r#"{"id":"A.n","what":"w","value":100.0,"judge":{"percent":2.0}},
            {"id":"A.s","what":"w","value":40.0,"judge":{"points":5.0}},
            {"id":"A.c","what":"w","value":null,"judge":{"at_most":0.5}},
            {"id":"A.f","what":"w","value":1.0,"judge":{"never":"not ours","command":"./it"}}"#;
        let verdict = |n: f64, s: f64, c: f64| {
            let lines = verdicts(rows, &[("A.n", of(&[n])), ("A.s", of(&[s])), ("A.c", of(&[c]))]);
            lines.into_iter().map(|(verdict, _)| verdict).collect::<Vec<_>>()
        };
        use Verdict::{NotReproduced as No, NotTestableHere as Never, Reproduced as Yes};
        assert_eq!(verdict(101.9, 44.9, 0.5), [Yes, Yes, Yes, Never]);
        assert_eq!(verdict(102.1, 45.1, 0.51), [No, No, No, Never]);
        assert_eq!(verdict(97.9, 34.9, 0.9), [No, No, No, Never]);
    }

    #[test]
    fn few_samples_decide_nothing() {
        let rows = r#"{"id":"A.s","what":"w","value":40.0,"judge":{"points":5.0}}"#;
        let share = |interval| {
            let reading = Reading::single(60.0, "GB/s", ExecutedOn::Hardware, "9 samples");
            verdicts(rows, &[("A.s", Ok(Reading { interval: Some(interval), ..reading }))])[0].0
        };
        assert_eq!(share([30.0, 85.0]), Verdict::NotTestableHere);
        assert_eq!(share([58.0, 62.0]), Verdict::NotReproduced);
    }

    #[test]
    fn units_are_converted_or_refused() {
        let one = Reading::median(vec![1.0, 1.0], "GiB/s", ExecutedOn::Hardware, "").unwrap();
        assert!((one.convert("GB/s").unwrap().value - 1.073_741_824).abs() < 1e-12);
        assert_eq!(one.convert("calls"), None);
        let lines = verdicts(STEP, &[("A.1", Ok(Reading::single(4.0, "calls", ExecutedOn::Hardware, "")))]);
        assert_eq!(lines[0].0, Verdict::NotTestableHere);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [31_859_864_089.0, 1234.5, 12.34, 1.234, 0.01234, -0.0, f64::NAN].map(number);
        assert_eq!(texts, ["31,859,864,089", "1234", "12.3", "1.23", "0.0123", "0", "-"]);
    }

    #[test]
    fn every_fact_has_a_line_and_without_a_run_none_is_reproduced() {
        let facts = Facts::load().unwrap();
        let readings = Readings::new();
        let lines: Vec<Line> = facts.tables.iter().flat_map(|table| judge_table(&facts, table, &readings)).collect();
        let ids: Vec<&str> = lines.iter().map(|line| line.fact.as_str()).collect();
        let all: Vec<&str> = facts.tables.iter().flat_map(|table| &table.rows).map(|fact| fact.id.as_str()).collect();
        assert_eq!(ids, all);
        assert!(lines.iter().all(|line| line.verdict == Verdict::NotTestableHere && !line.why.is_empty()));
    }
}
