//! What the first sentence of a comparison says, and what stands once below its tables.

use super::synthetic::{counted, in_windows, newer, older};
use super::{of, on_cpus, wide, with_classes, with_sleeps, with_unlock, with_windows};
use pipeprof::compare::model::{Comparison, Word};
use pipeprof::compare::render::{html, markdown};
use pipeprof::compare::{CompareOptions, Input, compare};
use pipeprof::profile::ProcessName;
use pipeprof::result::{Measurement, Outcome, RunOptions, Warning};
use pipeprof::roles::RoleId;
use pipeprof::util::warning::WarningCode;
use pipeprof::workload::WorkloadRequest;

/// `text` without line breaks.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `outcome` with classes of instructions, and so many bytes per KiB cleared by page allocation in each of its windows.
fn clearing(outcome: Outcome, bytes: [u64; 3]) -> Outcome {
    let mut outcome = in_windows(with_classes(outcome, 0));
    let shares = outcome.document.attribution.processes.get_mut(ProcessName::WRITER).unwrap();
    let share = shares.iter_mut().find(|share| share.role == RoleId::PageAlloc).unwrap();
    share.cycles.as_mut().unwrap().classes.rep_bytes = 1024 * bytes[1];
    for (window, bytes) in outcome.document.ensemble.as_mut().unwrap().windows.iter_mut().zip(bytes) {
        window.rep_bytes = Some(1024 * bytes);
    }
    outcome
}

#[test]
fn bytes_of_rep_instructions_are_in_the_first_sentence() {
    let first = |before, after| {
        let compared = of(vec![before, after]).unwrap();
        let first = joined(&wide(&compared.comparison)).split(" largest contributor: ").next().unwrap().to_owned();
        (first, compared)
    };
    // As init_on_alloc=1: half a percent more instructions, and each page is cleared.
    let (text, compared) = first(clearing(older(), [0; 3]), clearing(with_unlock(900), [960; 3]));
    let understated = "which understates it: `rep` instructions, which count once each, copy or clear 960 bytes per \
                       KiB more: +30.00 to +120.00 estimated cycles per KiB (+";
    assert!(
        text.contains("more instructions per KiB without scheduling, +0.5 %") && text.contains(understated),
        "{text}"
    );
    assert!(html::render(&compared).unwrap().contains("copy or clear 960 bytes per KiB more"));
    assert!(joined(&markdown::render(&compared.comparison)).contains("`rep` instructions: 20 to 980 bytes per KiB"));
    let rep = compared.comparison.sections[0].steps[0].rep.clone().unwrap();
    assert!((rep.before, rep.after, rep.matters, rep.word) == (20.0, 980.0, true, Word::More), "{rep:?}");
    assert!((rep.weighed[1] - rep.weighed[0] - 900.0 / 1024.0 - 120.0).abs() < 1e-9, "{rep:?}");
    // Fewer instructions, but more bytes; and as many instructions.
    let (text, _) = first(clearing(with_unlock(900), [0; 3]), clearing(older(), [960; 3]));
    assert!(
        text.contains(", while `rep` instructions, which count once each, copy or clear 960 bytes per KiB more: "),
        "{text}"
    );
    let (text, _) = first(clearing(older(), [960; 3]), clearing(older(), [0; 3]));
    assert!(text.contains("same, exactly") && text.contains(", while `rep` instructions, which count"), "{text}");
    assert!(text.contains("copy or clear 960 bytes per KiB less: -120.00 to -30.00 estimated"), "{text}");
    // Less than the margin, as words: 12 of 1,600 bytes.
    let (text, compared) = first(clearing(older(), [0; 3]), clearing(with_unlock(900), [12; 3]));
    assert!(
        !text.contains("`rep`") && !compared.comparison.sections[0].steps[0].rep.as_ref().unwrap().matters,
        "{text}"
    );
    // Windows that are far apart decide nothing.
    let (_, compared) = first(clearing(older(), [0, 500, 900]), clearing(older(), [100, 960, 1700]));
    assert_eq!(compared.comparison.sections[0].steps[0].rep.as_ref().unwrap().word, Word::Undecided);
}

#[test]
fn cycles_that_change_the_other_way_are_in_the_first_sentence() {
    let text = |before, after| joined(&wide(&of(vec![before, after]).unwrap().comparison));
    // More instructions, but 3,000 locked operations fewer.
    let opposed = text(with_classes(older(), 3_000), with_classes(newer(), 0));
    let first = opposed.split(" largest contributor: ").next().unwrap();
    assert!(first.contains("more instructions per KiB"), "{first}");
    assert!(first.contains(", while estimated cycles change by -") && first.contains(" per KiB (-"), "{first}");
    // Both change in one direction; and both directions are possible.
    for locked in [0, 250] {
        let plain = text(with_classes(older(), locked), with_classes(newer(), 0));
        assert!(!plain.split(" largest contributor: ").next().unwrap().contains("estimated cycles"), "{plain}");
    }
}

/// The comparison of two kernels on one and on two CPUs.
fn on_both(before: [Outcome; 2], after: [Outcome; 2]) -> Comparison {
    let column = |outcomes: [Outcome; 2]| {
        let run = |(cpus, run): (u32, Outcome)| (format!("{cpus}"), on_cpus(in_windows(run), cpus));
        Input { label: None, runs: (1..).zip(outcomes).map(run).collect() }
    };
    compare(&[column(before), column(after)], &CompareOptions::default()).unwrap().comparison
}

#[test]
fn verdicts_that_depend_on_the_cpus_come_with_the_reason() {
    let first = |comparison: &Comparison| {
        let text = joined(&wide(comparison));
        text.split(" 1 CPU: ").next().unwrap().to_owned()
    };
    // On one CPU another schedule.
    let scheduled = on_both([with_sleeps(900, 300), with_sleeps(0, 100)], [with_sleeps(0, 100), with_sleeps(900, 100)]);
    assert_eq!(
        first(&scheduled),
        "write, 6.12.9 (1) -> 6.12.9 (2): fewer instructions without scheduling on 1 CPU, -0.5 %, but more on 2 CPUs, \
         +0.5 %. What differs most: mutex, not contended (-0.88 on 1 CPU, +0.88 on 2 CPUs). On 1 CPU, a part of the \
         change is another schedule: the processes sleep 100.0 times per MiB with 6.12.9 (2), and 300.0 with 6.12.9 (1). \
         On 2 CPUs, they do so as often as before: take its +0.5 % for the change of the kernel's code"
    );
    // The lists of free pages.
    let pages = |release: &str, free: u64| {
        let read = "pipeprof;read;entry_SYSCALL_64_after_hwframe;do_syscall_64;pipe_read";
        let stacks = [(read.to_owned(), 150_000), (format!("{read};free_unref_page"), free)];
        let stacks: Vec<(&str, u64)> = stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect();
        counted(
            release,
            "write",
            &[("pipeprof;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;pipe_write", 9)],
            &stacks,
        )
    };
    let lists = on_both([pages("6.1", 5000), pages("6.1", 5000)], [pages("6.12", 4000), pages("6.12", 9000)]);
    let text = first(&lists);
    assert!(text.contains("What differs most: page free (-0.98 on 1 CPU, +3.91 on 2 CPUs). With more CPUs, pages are freed on another CPU"), "{text}");
    assert!(
        text.ends_with(
            "Take the value of 1 CPU for processes that share a CPU, and of 2 CPUs for processes that run at once"
        ),
        "{text}"
    );
    // Neither.
    let other = first(&on_both([older(), older()], [with_unlock(900), with_unlock(0)]));
    assert!(
        other.contains(
            "same on 2 CPUs, 0 %. What differs most: mutex, not contended (+0.88 on 1 CPU, 0 on 2 CPUs). Take"
        ),
        "{other}"
    );
    // Intervals that overlap are no difference between one CPU and two.
    let wide_windows = || with_windows(&[0, 1000, 2000]);
    let open = on_both([older(), wide_windows()], [with_unlock(900), with_windows(&[1000, 2000, 3000])]);
    let text = first(&open);
    assert!(open.cpu_splits.is_empty() && text.contains("more instructions without scheduling on 1 CPU"), "{text}");
    assert!(text.contains("but undecided on 2 CPUs, +0.6 %") && !text.contains("What differs"), "{text}");
}

#[test]
fn a_caveat_is_said_once_with_what_it_holds_for() {
    use WarningCode::{Busy, Emulated, OneCpu, Spinning};
    let warned = |mut outcome: Outcome, mode: &str, cpus, codes: &[WarningCode]| {
        outcome.document.mode = mode.to_owned();
        let name = if mode == "splice" { "splice" } else { "write" };
        let workload = WorkloadRequest { mode: Some(name.to_owned()), ..WorkloadRequest::default() };
        let options = RunOptions { workload, ..RunOptions::default() };
        outcome.document.request = Some(Measurement::Pair(Box::new(options)));
        for code in codes {
            let warning = Warning { code: *code, message: format!("about {code:?}"), action: "do it".to_owned() };
            outcome.document.warnings.push(warning);
        }
        (format!("{mode}-{cpus}"), on_cpus(in_windows(outcome), cpus))
    };
    let column = |outcome: fn() -> Outcome, own: &[WarningCode]| {
        let write = if own.is_empty() { "write" } else { "write (buffer-size=4K)" };
        let runs = vec![
            warned(outcome(), write, 1, &[Emulated, OneCpu]),
            warned(outcome(), write, 2, &[&[Emulated, Busy], own].concat()),
            warned(outcome(), "splice", 1, &[Emulated, OneCpu]),
            warned(outcome(), "splice", 2, &[Emulated]),
        ];
        Input { label: None, runs }
    };
    let compared = compare(&[column(older, &[]), column(newer, &[Spinning])], &CompareOptions::default()).unwrap();
    let text = joined(&wide(&compared.comparison));
    let caveats = text.split("Caveats:").nth(1).unwrap();
    // The comparison has counted on two CPUs, and says itself that it is emulated.
    assert!(caveats.contains(" 1 CPU: about OneCpu"), "{caveats}");
    assert_eq!(caveats.matches("about OneCpu").count(), 1, "{caveats}");
    assert!(!caveats.contains("about OneCpu (do it)") && !caveats.contains("about Emulated"), "{caveats}");
    assert!(caveats.contains(" write, 2 CPUs: about Busy (do it)"), "{caveats}");
    assert!(caveats.contains(" write, 2 CPUs, 7.2.1: about Spinning (do it)"), "{caveats}");
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
