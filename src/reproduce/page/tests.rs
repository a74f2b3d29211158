//! What the report shows of invented readings.

use super::*;
use crate::report::terminal::Style;
use crate::reproduce::facts::Facts;
use crate::reproduce::parts;
use crate::reproduce::reproduced::{PartOutput, PartResult};
use crate::reproduce::verdict::{FigureVerdict, Missing, Reading, Readings};
use crate::result::ExecutedOn;

/// A reproduction in which every fact has a reading: the article's value times `factor`.
fn reproduction(factor: f64) -> Reproduction {
    let facts = Facts::load().unwrap();
    let part = |id: &str| {
        let mut readings = Readings::new();
        for table in facts.of_part(id) {
            for fact in &table.rows {
                let value = fact.value.map_or(factor / 100.0, |value| value * factor);
                let reading = Reading::single(value, &table.unit, ExecutedOn::Hardware, "made up");
                readings.insert(fact.id.clone(), Ok(reading));
            }
        }
        let found = PartOutput { readings, findings: vec!["a <script> finding".into()], ..PartOutput::default() };
        PartResult { part: id.into(), found, ..PartResult::default() }
    };
    let parts = parts::PARTS.iter().map(|entry| part(entry.id)).collect();
    Reproduction { facts, parts, unfinished: Vec::new(), command: "pipeprof reproduce <all>".into() }
}

#[test]
fn every_row_of_the_facts_has_a_line_in_both_reports() {
    let reproduction = reproduction(1.0);
    let view = ReproductionView::of(&reproduction);
    let (page, text) = (blocks::page(&view).unwrap(), blocks::markdown(&view).unwrap());
    for fact in reproduction.facts.tables.iter().flat_map(|table| &table.rows) {
        assert!(page.contains(&format!("id=\"{}\"", fact.id)), "{} has no line in the page", fact.id);
        let cell = crate::report::markdown::escaped(&fact.what);
        assert!(text.contains(&cell), "{} has no line in the Markdown", fact.id);
    }
    assert!(!page.contains("<script> finding") && !page.contains("reproduce <all>"));
}

#[test]
fn readings_like_the_articles_are_reproduced_and_absurd_ones_are_not() {
    let same = reproduction(1.0);
    let never = same.facts.tables.iter().flat_map(|table| &table.rows);
    let never = never.filter(|fact| matches!(fact.judge, crate::reproduce::facts::Judge::Never { .. })).count();
    let [_, not_reproduced, _, another_machine, not_testable] = ReproductionView::of(&same).counts;
    let wrong: Vec<String> = ReproductionView::of(&same)
        .parts
        .iter()
        .flat_map(|part| &part.tables)
        .flat_map(|table| &table.rows)
        .filter(|row| row.verdict == FigureVerdict::NotReproduced)
        .map(|row| format!("{}: {}", row.fact.id, row.why))
        .collect();
    assert_eq!((not_reproduced, another_machine, not_testable), (0, 0, never), "{wrong:?}");
    // Ratios stand, whatever the machine; figures and shares do not.
    let [_, not_reproduced, _, another_machine, not_testable] = ReproductionView::of(&reproduction(100.0)).counts;
    assert!(not_reproduced > 30 && another_machine > 5 && not_testable == never, "{not_reproduced} {another_machine}");
}

#[test]
fn a_part_measured_on_a_busy_machine_says_so() {
    let mut reproduction = reproduction(1.0);
    assert!(ReproductionView::of(&reproduction).parts.iter().all(|part| part.doubt.is_empty()));
    reproduction.parts[0].busy = Some(0.31);
    assert!(blocks::markdown(&ReproductionView::of(&reproduction)).unwrap().contains("Other programs used 31 %"));
}

#[test]
fn what_is_missing_says_how_to_test_it() {
    let mut reproduction = reproduction(1.0);
    let missing = Missing::new("this CPU has no AVX-512", "pipeprof memory");
    reproduction.parts[1].found.readings.insert("B.memory.avx512".into(), Err(missing));
    let view = ReproductionView::of(&reproduction);
    for text in [blocks::page(&view).unwrap(), blocks::markdown(&view).unwrap()] {
        assert!(text.contains("this CPU has no AVX-512") && text.contains("pipeprof memory"));
    }
}

#[test]
fn noise_is_counted_and_shown_on_its_own() {
    let mut reproduction = reproduction(1.0);
    let noisy = Reading::median(vec![1.0, 3.7, 9.0], "GiB/s", ExecutedOn::Hardware, "").unwrap();
    reproduction.parts[0].found.readings.insert("A.ladder.1".into(), Ok(noisy));
    let view = ReproductionView::of(&reproduction);
    let undecided = view.counts[2];
    assert!(undecided >= 1);
    assert_eq!(undecided, view.parts.iter().map(|part| part.counts[2]).sum::<usize>());
    let (page, text) = (blocks::page(&view).unwrap(), blocks::markdown(&view).unwrap());
    let terminal = terminal::render(&reproduction, Style::PLAIN);
    assert!(page.contains("word open\">? undecided") && page.contains("straddles the tolerance"));
    let sentences = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(sentences.contains(&format!("{undecided} are undecided")), "{text}");
    assert!(terminal.contains("Undecided: the 95 % CI straddles"), "{terminal}");
    assert!(terminal.contains("A: The six rungs, GiB/s"), "{terminal}");
}
