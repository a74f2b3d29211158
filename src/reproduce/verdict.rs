//! The articles' figures compared with this machine's. Pure: readings in, verdicts out.

pub mod rules;

pub use super::race::Reading;
pub use crate::report::number::number;
pub use crate::run::bench::Missing;

pub use rules::FigureVerdict;

use super::facts::{ArticleTable, Fact, Facts, Judge};
use crate::run::bench::Taken;
use std::collections::BTreeMap;

/// Figures of this machine by the id of the article's fact.
pub type Readings = BTreeMap<String, Taken<Reading>>;

/// One fact, judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JudgedFact<'a> {
    pub fact: &'a Fact,
    pub measured: Option<Reading>,
    pub verdict: FigureVerdict,
    /// What was compared, and by which rule: `3.43 times "rung 1"; article: 3.43 times; within a factor of 1.5`.
    pub why: String,
    /// The article's ratio and this machine's, and to what, if ratios were compared.
    pub ratio: Option<ComparedRatio>,
    /// How to test it elsewhere, if it cannot be tested on this machine.
    pub command: String,
}

/// Two ratios to the same figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComparedRatio {
    pub article: f64,
    pub measured: f64,
    /// The name of that figure.
    pub to: String,
}

/// Judge every fact of `table`.
pub(crate) fn judge_table<'a>(facts: &Facts, table: &'a ArticleTable, readings: &Readings) -> Vec<JudgedFact<'a>> {
    table.rows.iter().map(|fact| judge(facts, fact, readings)).collect()
}

fn judge<'a>(facts: &Facts, fact: &'a Fact, readings: &Readings) -> JudgedFact<'a> {
    let measured = reading(facts, &fact.id, readings);
    let answer = measured.clone().and_then(|measured| compare(facts, fact, &measured, readings));
    let (verdict, why, ratio, command) = match answer {
        Ok(((verdict, why), ratio)) => (verdict, why, ratio, String::new()),
        Err(missing) => (FigureVerdict::NotTestable, missing.why, None, missing.command),
    };
    JudgedFact { fact, measured: measured.ok(), verdict, why, ratio, command }
}

/// The verdict, its reason, and the ratios that it compares.
type Judgement = ((FigureVerdict, String), Option<ComparedRatio>);

fn compare(facts: &Facts, fact: &Fact, measured: &Reading, readings: &Readings) -> Taken<Judgement> {
    let article = fact.value.unwrap_or_default();
    let mut ratio = None;
    let judged = match &fact.judge {
        Judge::Never { never, command } => return Err(Missing::new(never, command)),
        Judge::SameAs { same_as } => {
            let name = |(table, fact): (&ArticleTable, &Fact)| format!("\"{}\" of \"{}\"", fact.name(), table.title);
            let name = facts.find(same_as).map_or_else(|| same_as.clone(), name);
            (FigureVerdict::JudgedElsewhere, format!("same figure as {name}, judged there"))
        }
        Judge::Between { at_least, at_most } => rules::claim(measured, *at_least, *at_most),
        Judge::AtMost { at_most } => rules::claim(measured, f64::NEG_INFINITY, *at_most),
        Judge::Factor { factor } => rules::factor(measured, article, *factor),
        Judge::Percent { percent } => rules::percent(measured, article, *percent),
        Judge::Points { points } => rules::points(measured, article, *points),
        Judge::Ratio { ratio_to, factor } | Judge::Program { ratio_to, factor, .. } => {
            let base = facts.find(ratio_to).map(|(_, fact)| fact);
            let name = base.map_or_else(String::new, |fact| format!("\"{}\"", fact.name()));
            let article_base = base.and_then(|fact| fact.value);
            let article_base = article_base.ok_or_else(|| Missing::new(format!("{ratio_to} has no value"), ""))?;
            // Other runs of the same experiment are a better base than another experiment's reading.
            let same = measured
                .base
                .clone()
                .and_then(|runs| Reading::median(runs, &measured.unit, measured.executed_on, &measured.how));
            let (name, base) = match same {
                Some(base) => (format!("{name} in the same experiment"), base),
                None => {
                    let base = reading(facts, ratio_to, readings).map_err(|missing| {
                        let why = format!("judged by its ratio to {name}, which is missing: {}", missing.why);
                        Missing::new(why, missing.command)
                    })?;
                    (name, base)
                }
            };
            let to = facts.find(ratio_to).map_or_else(String::new, |(_, fact)| fact.name().to_owned());
            let [theirs, ours] = [article / article_base, measured.value / base.value];
            ratio = Some(ComparedRatio { article: theirs, measured: ours, to });
            rules::ratio(measured, &base, theirs, *factor, &name)
        }
    };
    Ok((judged, ratio))
}

fn reading(facts: &Facts, id: &str, readings: &Readings) -> Taken<Reading> {
    let (unit, part) = match facts.find(id) {
        Some((_, Fact { judge: Judge::Program { needs, command, .. }, .. })) if !readings.contains_key(id) => {
            return Err(Missing::new(needs, command));
        }
        Some((_, Fact { judge: Judge::Never { never, command }, .. })) => return Err(Missing::new(never, command)),
        Some((table, _)) => (table.unit.as_str(), table.part.as_str()),
        None => ("", ""),
    };
    let not_run = || Err(Missing::new(format!("part {part} was not run"), format!("pipeprof reproduce {part}")));
    let reading = readings.get(id).cloned().unwrap_or_else(not_run)?;
    let other_unit = || Missing::new(format!("measured in {}, article in {unit}", reading.unit), "");
    reading.convert(unit).ok_or_else(other_unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ExecutedOn;

    fn of(values: &[f64]) -> Taken<Reading> {
        Ok(Reading::median(values.to_vec(), "GB/s", ExecutedOn::Hardware, "").unwrap())
    }

    const STEP: &str = r#"{"id":"A.1","what":"one (x)","name":"one","value":4.0,"judge":{"factor":2.0}},
        {"id":"A.2","what":"two","value":8.0,"judge":{"ratio_to":"A.1","factor":1.5}}"#;

    fn verdicts(rows: &str, readings: &[(&str, Taken<Reading>)]) -> Vec<(FigureVerdict, String)> {
        let facts = Facts::of_rows(rows);
        let readings = readings.iter().map(|(id, reading)| ((*id).to_owned(), reading.clone())).collect();
        judge_table(&facts, &facts.tables[0], &readings).into_iter().map(|line| (line.verdict, line.why)).collect()
    }

    #[test]
    fn ratios_count_and_not_speeds() {
        let lines = verdicts(STEP, &[("A.1", of(&[10.0, 10.1, 9.9])), ("A.2", of(&[20.0, 20.2, 19.9]))]);
        assert_eq!(lines[0].0, FigureVerdict::AnotherMachine, "{}", lines[0].1);
        assert_eq!(lines[1].0, FigureVerdict::Reproduced, "{}", lines[1].1);
        assert!(lines[1].1.contains("\"one\"") && lines[1].1.contains("article: 2.00 times"), "{}", lines[1].1);
    }

    #[test]
    fn a_reading_that_brings_its_base_is_compared_with_that() {
        let two = Reading { base: Some(vec![10.0; 3]), ..of(&[20.0; 3]).unwrap() };
        let lines = verdicts(STEP, &[("A.1", of(&[4.0; 3])), ("A.2", Ok(two))]);
        assert_eq!(lines[1].0, FigureVerdict::Reproduced, "{}", lines[1].1);
        assert!(lines[1].1.contains("2.00 times \"one\" in the same experiment"), "{}", lines[1].1);
    }

    #[test]
    fn one_figure_in_two_rows_is_judged_once() {
        let rows = format!(r#"{STEP},{{"id":"A.3","what":"three","value":9.0,"judge":{{"same_as":"A.2"}}}}"#);
        let lines = verdicts(&rows, &[("A.1", of(&[4.0])), ("A.2", of(&[8.0])), ("A.3", of(&[1.0]))]);
        assert_eq!(lines[2].0, FigureVerdict::JudgedElsewhere);
        assert!(lines[2].1.contains("\"two\""), "{}", lines[2].1);
        assert_eq!(verdicts(&rows, &[])[2].0, FigureVerdict::NotTestable);
    }

    #[test]
    fn what_is_missing_is_not_testable_and_says_how() {
        let lines = verdicts(STEP, &[("A.1", Err(Missing::new("no pipe", "mkfifo x"))), ("A.2", of(&[1.0]))]);
        assert_eq!(lines[0], (FigureVerdict::NotTestable, "no pipe".to_owned()));
        assert_eq!(lines[1].0, FigureVerdict::NotTestable);
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
        use FigureVerdict::{NotReproduced as No, NotTestable as Never, Reproduced as Yes};
        assert_eq!(verdict(101.9, 44.9, 0.5), [Yes, Yes, Yes, Yes, Never]);
        assert_eq!(verdict(102.1, 45.1, 0.51), [No, No, No, Yes, Never]);
        assert_eq!(verdict(97.9, 34.9, 0.9), [No, No, No, No, Never]);
        assert_eq!(verdict(97.9, 34.9, 0.2)[2..4], [Yes, No]);
    }

    #[test]
    fn units_are_converted_or_refused() {
        let one = Reading::median(vec![1.0, 1.0], "GiB/s", ExecutedOn::Hardware, "").unwrap();
        assert!((one.convert("GB/s").unwrap().value - 1.073_741_824).abs() < 1e-12);
        assert_eq!(one.convert("calls"), None);
        let lines = verdicts(STEP, &[("A.1", Ok(Reading::single(4.0, "calls", ExecutedOn::Hardware, "")))]);
        assert_eq!(lines[0].0, FigureVerdict::NotTestable);
    }

    #[test]
    fn nothing_at_all_reproduces_no_share_of_the_articles() {
        let facts = Facts::load().unwrap();
        for table in &facts.tables {
            for fact in table.rows.iter().filter(|fact| matches!(fact.judge, Judge::Points { .. })) {
                let none =
                    Reading { interval: Some([0.0, 0.0]), ..Reading::single(0.0, "%", ExecutedOn::Hardware, "") };
                let line = judge(&facts, fact, &Readings::from([(fact.id.clone(), Ok(none))]));
                assert_eq!(line.verdict, FigureVerdict::NotReproduced, "{}", fact.id);
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
        let lines: Vec<JudgedFact<'_>> =
            facts.tables.iter().flat_map(|table| judge_table(&facts, table, &readings)).collect();
        let ids: Vec<&str> = lines.iter().map(|line| line.fact.id.as_str()).collect();
        let all: Vec<&str> = facts.tables.iter().flat_map(|table| &table.rows).map(|fact| fact.id.as_str()).collect();
        assert_eq!(ids, all);
        assert!(lines.iter().all(|line| line.verdict == FigureVerdict::NotTestable && !line.why.is_empty()));
    }
}
