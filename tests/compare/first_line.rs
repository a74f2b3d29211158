//! What the first sentence of a comparison says, and what stands once below its tables.

use super::synthetic::{in_windows, newer, older};
use super::{of, on_cpus, wide};
use pipeprof::compare::render::{html, markdown};
use pipeprof::compare::{CompareOptions, Input, compare};
use pipeprof::result::{Outcome, Warning};

/// `text` without line breaks.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_caveat_is_said_once_with_what_it_holds_for() {
    let warned = |mut outcome: Outcome, mode: &str, cpus, codes: &[&str]| {
        outcome.document.mode = mode.to_owned();
        for code in codes {
            let warning =
                Warning { code: (*code).to_owned(), message: format!("about {code}"), action: "do it".to_owned() };
            outcome.document.warnings.push(warning);
        }
        (format!("{mode}-{cpus}"), on_cpus(in_windows(outcome), cpus))
    };
    let column = |outcome: fn() -> Outcome, own: &[&str]| {
        let write = if own.is_empty() { "write" } else { "write (buffer-size=4K)" };
        let runs = vec![
            warned(outcome(), write, 1, &["emulated", "one-cpu"]),
            warned(outcome(), write, 2, &[&["emulated", "of-write"], own].concat()),
            warned(outcome(), "splice", 1, &["emulated", "one-cpu"]),
            warned(outcome(), "splice", 2, &["emulated"]),
        ];
        Input { label: None, runs }
    };
    let compared = compare(&[column(older, &[]), column(newer, &["own"])], &CompareOptions::default()).unwrap();
    let text = joined(&wide(&compared.comparison));
    let caveats = text.split("Caveats:").nth(1).unwrap();
    // The comparison has counted on two CPUs, and says itself that it is emulated.
    assert!(caveats.contains(" 1 CPU: about one-cpu"), "{caveats}");
    assert_eq!(caveats.matches("about one-cpu").count(), 1, "{caveats}");
    assert!(!caveats.contains("about one-cpu (do it)") && !caveats.contains("about emulated"), "{caveats}");
    assert!(caveats.contains(" write, 2 CPUs: about of-write (do it)"), "{caveats}");
    assert!(caveats.contains(" write, 2 CPUs, 7.2.1: about own (do it)"), "{caveats}");
}

#[test]
fn settings_below_the_tables_have_names_that_people_use() {
    let with = |outcome: Outcome, build: &str, buffer: u64, bytes: u64| {
        let mut outcome = outcome;
        outcome.document.kernel.version = format!("#{build} SMP @0");
        let workload = outcome.document.target.workload_mut().unwrap();
        (workload.buffer_size, workload.amount) = (buffer, pipeprof::workload::spec::Amount::Bytes(bytes));
        outcome
    };
    let compared = of(vec![with(older(), "1", 512, 4 << 20), with(newer(), "2", 4096, 16 << 20)]).unwrap();
    for text in [wide(&compared.comparison), markdown::render(&compared.comparison), html::render(&compared).unwrap()] {
        let below = joined(text.split("What differs").nth(1).unwrap());
        assert!(!below.contains("workload.") && !below.contains("kernel.") && !below.contains("@0"), "{below}");
        assert!(below.contains("data per window") && below.contains("16M"), "{below}");
        assert!(below.contains("buffer size") && below.contains("4K"), "{below}");
    }
    // A build counter is no difference.
    let same = of(vec![with(older(), "1", 512, 4 << 20), with(older(), "2", 512, 4 << 20)]).unwrap().comparison;
    assert!(same.differences.is_empty(), "{:?}", same.differences);
}
