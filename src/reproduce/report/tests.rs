//! What the report shows of invented readings.

use super::*;
use crate::report::terminal::Style;
use crate::reproduce::facts::Facts;
use crate::reproduce::result::PartOutput;
use crate::reproduce::verdict::{Missing, Readings};
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

/// Every figure of the facts file that the tests carry: cells of its tables under a unit, `name 12.3` in its call
/// graphs, and speeds and shares in its text.
fn figures(file: &str) -> Vec<(String, String)> {
    const UNITS: &str =
        "GiB/s|GB/s|system calls|instructions|instructions/syscall|real s|user s|sys s|write calls for 1 GiB";
    let numbers = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        words.filter(|word| word.parse::<f64>().is_ok()).map(str::to_owned).collect()
    };
    let mut found = Vec::new();
    let mut header: Vec<String> = Vec::new();
    let mut prose = String::new();
    for line in file.lines() {
        let Some(cells) = line.strip_prefix('|') else {
            header.clear();
            prose.push_str(&line.replacen("- ", ";", usize::from(line.starts_with("- "))).replace(". ", ";"));
            prose.push(if line.is_empty() || line.ends_with('.') { ';' } else { ' ' });
            continue;
        };
        let cells: Vec<String> = cells.split('|').map(|cell| cell.trim().to_owned()).collect();
        if header.is_empty() {
            header = cells;
            continue;
        }
        for (cell, head) in cells.iter().zip(&header) {
            // What follows a comma or a bracket in a cell are conditions and names, with numbers of their own.
            let cells = cell.split([',', ';']).map(|cell| cell.split(" cores (david): ").last().unwrap_or(cell));
            for number in cells
                .flat_map(|cell| if UNITS.split('|').any(|unit| unit == head) { numbers(cell) } else { Vec::new() })
            {
                if number != "512" && !(number == "2" && cell.contains("AVX2")) && !cell.contains(&format!("={number}"))
                {
                    found.push((number, line.to_owned()));
                }
            }
        }
    }
    for phrase in prose.split([',', '>', ';', ':']) {
        let phrase = phrase.trim().trim_start_matches("... ").trim_end_matches(['.', '%', ' ']);
        let speed = phrase.strip_suffix("GiB/s").or_else(|| phrase.strip_suffix("GB/s")).map(str::trim);
        let last = speed.unwrap_or(phrase).rsplit(' ').next().unwrap_or_default();
        // A function and its share; "Linux 5.17" is neither.
        let graph = phrase.split(' ').count() == 2 && phrase.starts_with(|c: char| c.is_lowercase() || c == '_');
        if (speed.is_some() || graph) && last.parse::<f64>().is_ok() {
            found.push((last.to_owned(), phrase.to_owned()));
        }
    }
    found
}

#[test]
fn every_figure_of_the_facts_file_is_a_fact() {
    let file = include_str!("../articles/facts.md");
    let facts = Facts::load().unwrap();
    let rows: Vec<_> = facts.tables.iter().flat_map(|table| &table.rows).collect();
    let found = figures(file);
    assert!(found.len() > 90, "{}", found.len());
    for (number, place) in &found {
        let value: f64 = number.parse().unwrap();
        let of_file = found.iter().filter(|(other, _)| other.parse::<f64>() == Ok(value)).count();
        let here = rows.iter().filter(|fact| fact.value == Some(value) || fact.what.contains(number.as_str())).count();
        assert!(
            here >= of_file,
            "{number} of `{place}` stands {of_file} times in the file and {here} times in the facts"
        );
    }
    for words in [
        "17.08", "47.54", "4.32", "0.66", "11.22", "16.88", "96.4", "277", "9723", "3.327", "4.8", "36.2", "15.9",
        "2.8", "0.55",
    ] {
        assert!(found.iter().any(|(number, _)| number == words), "{words} was not read: {found:?}");
    }
}
