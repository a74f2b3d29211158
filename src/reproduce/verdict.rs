//! Theirs beside ours, judged. Pure: readings in, verdicts out.

pub mod rules;

pub use crate::report::number::number;
pub use crate::run::bench::Missing;

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
    /// 95 % interval of a share or of a ratio, where `runs` do not give one.
    pub interval: Option<[f64; 2]>,
    /// What a ratio is taken to, where that is not the reading of another fact: other runs of the same experiment, in
    /// `unit`.
    #[serde(default)]
    pub base: Option<Vec<f64>>,
    pub executed_on: ExecutedOn,
    /// How it was read, for the reader of the report: `median of 5 fresh pairs`.
    pub how: String,
}

impl Reading {
    /// The median of `runs`; `None` of nothing.
    #[must_use]
    pub fn median(runs: Vec<f64>, unit: &str, executed_on: ExecutedOn, how: &str) -> Option<Self> {
        let value = stats::median(&runs)?;
        let (unit, how) = (unit.to_owned(), how.to_owned());
        Some(Self { value, unit, runs, interval: None, base: None, executed_on, how })
    }

    /// A single value that repetition would not change, or that is already made of many.
    #[must_use]
    pub fn single(value: f64, unit: &str, executed_on: ExecutedOn, how: &str) -> Self {
        let (unit, how) = (unit.to_owned(), how.to_owned());
        Self { value, unit, runs: vec![value], interval: None, base: None, executed_on, how }
    }

    /// From the least of its runs to the greatest.
    #[must_use]
    pub fn range(&self) -> [f64; 2] {
        self.runs.iter().fold([self.value; 2], |[least, most], run| [least.min(*run), most.max(*run)])
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
        let all = |values: &[f64]| values.iter().map(|value| value * factor).collect::<Vec<f64>>();
        Some(Self {
            value: self.value * factor,
            unit: unit.to_owned(),
            runs: all(&self.runs),
            interval: self.interval.map(|ends| ends.map(|end| end * factor)),
            base: self.base.as_deref().map(all),
            ..self.clone()
        })
    }
}

/// Figures of ours by the id of the fact that they stand beside.
pub type Readings = BTreeMap<String, Result<Reading, Missing>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Reproduced,
    NotReproduced,
    /// Measured, and too noisy to tell.
    Undecided,
    NotTestableHere,
    /// Shown, and judged in another row, of which it is the same figure in other words.
    JudgedElsewhere,
}

impl Verdict {
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::Undecided => "undecided here",
            Self::NotTestableHere => "not testable here",
            Self::JudgedElsewhere => "-",
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
    let answer = |(verdict, why): (Verdict, String)| line(Some(ours.clone()), verdict, why, "");
    let theirs = fact.value.unwrap_or_default();
    match &fact.judge {
        Judge::Never { never, command } => not_testable(None, &Missing::new(never.clone(), command.clone())),
        Judge::SameAs { same_as } => {
            let name = facts.find(same_as).map_or_else(
                || same_as.clone(),
                |(table, fact)| {
                    let row = short(&fact.what);
                    format!("\"{row}\" of \"{}\"", table.title)
                },
            );
            answer((Verdict::JudgedElsewhere, format!("judged once, as {name}: the same figure")))
        }
        Judge::Between { at_least, at_most } => answer(rules::claim(&ours, *at_least, *at_most)),
        Judge::AtMost { at_most } => answer(rules::claim(&ours, f64::NEG_INFINITY, *at_most)),
        Judge::Factor { factor } => answer(rules::factor(&ours, theirs, *factor)),
        Judge::Percent { percent } => answer(rules::percent(&ours, theirs, *percent)),
        Judge::Points { points } => answer(rules::points(&ours, theirs, *points)),
        Judge::Ratio { ratio_to, factor } => {
            let base = facts.find(ratio_to);
            let name = base.map_or(ratio_to.as_str(), |(_, fact)| short(&fact.what));
            // Other runs of the same experiment stand nearer than another experiment's reading.
            let (name, base_ours) = match ours.base.as_deref().and_then(|runs| alone(&ours, runs)) {
                Some(alone) => (format!("{name}, in the same runs"), Ok(alone)),
                None => (name.to_owned(), reading(facts, ratio_to, readings)),
            };
            match (base.and_then(|(_, fact)| fact.value), base_ours) {
                (Some(base_theirs), Ok(base_ours)) => {
                    answer(rules::ratio(&ours, &base_ours, theirs / base_theirs, *factor, &name))
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

/// The base that a reading brings along.
fn alone(ours: &Reading, runs: &[f64]) -> Option<Reading> {
    Reading::median(runs.to_vec(), &ours.unit, ours.executed_on, &ours.how)
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

/// The name of a row before its first remark in parentheses.
fn short(what: &str) -> &str {
    what.split(" (").next().unwrap_or(what)
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
    fn a_reading_that_brings_its_base_is_compared_with_that() {
        let two = Reading { base: Some(vec![10.0; 3]), ..of(&[20.0; 3]).unwrap() };
        let lines = verdicts(STEP, &[("A.1", of(&[4.0; 3])), ("A.2", Ok(two))]);
        assert_eq!(lines[1].0, Verdict::Reproduced, "{}", lines[1].1);
        assert!(lines[1].1.contains("2.00 times \"one, in the same runs\""), "{}", lines[1].1);
    }

    #[test]
    fn one_figure_in_two_rows_is_judged_once() {
        let rows = format!(r#"{STEP},{{"id":"A.3","what":"three","value":9.0,"judge":{{"same_as":"A.2"}}}}"#);
        let lines = verdicts(&rows, &[("A.1", of(&[4.0])), ("A.2", of(&[8.0])), ("A.3", of(&[1.0]))]);
        assert_eq!(lines[2].0, Verdict::JudgedElsewhere);
        assert!(lines[2].1.contains("\"two\""), "{}", lines[2].1);
        assert_eq!(verdicts(&rows, &[])[2].0, Verdict::NotTestableHere);
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
            {"id":"A.b","what":"w","value":0.5,"judge":{"at_least":0.25,"at_most":0.75}},
            {"id":"A.f","what":"w","value":1.0,"judge":{"never":"not ours","command":"./it"}}"#;
        let verdict = |n: f64, s: f64, c: f64| {
            let lines = verdicts(rows, &[("A.n", of(&[n])), ("A.s", of(&[s])), ("A.c", of(&[c])), ("A.b", of(&[c]))]);
            lines.into_iter().map(|(verdict, _)| verdict).collect::<Vec<_>>()
        };
        use Verdict::{NotReproduced as No, NotTestableHere as Never, Reproduced as Yes};
        assert_eq!(verdict(101.9, 44.9, 0.5), [Yes, Yes, Yes, Yes, Never]);
        assert_eq!(verdict(102.1, 45.1, 0.51), [No, No, No, Yes, Never]);
        assert_eq!(verdict(97.9, 34.9, 0.9), [No, No, No, No, Never]);
        assert_eq!(verdict(97.9, 34.9, 0.2)[2..4], [Yes, No]);
    }

    #[test]
    fn few_samples_decide_nothing() {
        let rows = r#"{"id":"A.s","what":"w","value":40.0,"judge":{"points":5.0}}"#;
        let share = |interval| {
            let reading = Reading::single(60.0, "GB/s", ExecutedOn::Hardware, "9 samples");
            verdicts(rows, &[("A.s", Ok(Reading { interval: Some(interval), ..reading }))])[0].0
        };
        assert_eq!(share([30.0, 85.0]), Verdict::Undecided);
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
    fn nothing_at_all_reproduces_no_share_of_the_articles() {
        let facts = Facts::load().unwrap();
        for table in &facts.tables {
            for fact in table.rows.iter().filter(|fact| matches!(fact.judge, Judge::Points { .. })) {
                let none =
                    Reading { interval: Some([0.0, 0.0]), ..Reading::single(0.0, "%", ExecutedOn::Hardware, "") };
                let line = judge(&facts, table, fact, &Readings::from([(fact.id.clone(), Ok(none))]));
                assert_eq!(line.verdict, Verdict::NotReproduced, "{}", fact.id);
            }
        }
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
