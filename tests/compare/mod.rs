//! Comparisons of synthetic runs: matching, verdicts, refusals, and escaping of foreign text.

mod first_line;
mod matrix;
mod reasons;
mod settings;
pub(crate) mod synthetic;

use pipeprof::compare::model::{Caveat, Comparison, Difference, Matched, Step, Word};
use pipeprof::compare::render::{html, markdown, terminal};
use pipeprof::compare::{CompareOptions, Compared, Input, compare};
use pipeprof::profile::{ClassCounts, CycleModel, ProcessName, RoleCycles, Unit};
use pipeprof::result::code::{CODE_SCHEMA, ExecutedCode, ExecutedFunction, ExecutedInstruction};
use pipeprof::result::{Emulator, ExecutedOn, HeldCalls, LockKind, LockUse, Outcome, PairRecord, Warning};
use pipeprof::roles::RoleId;
use pipeprof::util::warning::WarningCode;
use pipeprof::workload::axes::AXES;
use pipeprof::workload::axis::Value;
use synthetic::{counted, in_windows, newer, older, timed};

fn input(outcome: Outcome) -> Input {
    let outcome = in_windows(outcome);
    Input { label: None, runs: vec![(format!("{}/result.json", outcome.document.kernel.release), outcome)] }
}

fn of(outcomes: Vec<Outcome>) -> anyhow::Result<Compared> {
    compare(&outcomes.into_iter().map(input).collect::<Vec<_>>(), &CompareOptions::default())
}

fn refusal(outcomes: Vec<Outcome>) -> String {
    let error = of(outcomes).expect_err("this must be refused");
    let text = format!("{error:#}");
    assert!(!text.contains('\n'), "one line: {text}");
    text
}

/// The whole comparison as text.
fn wide(comparison: &Comparison) -> String {
    terminal::render(comparison, 110, terminal::StepExtent { roles: 20, functions: 40, page: false })
}

#[test]
fn renamed_functions_are_one_row_with_both_names() {
    let compared = of(vec![older(), newer()]).unwrap();
    let step = &compared.comparison.sections[0].steps[0];
    let find = |name: &str| step.functions.iter().find(|row| row.before_names.iter().any(|n| n == name)).unwrap();
    let write = find("pipe_write");
    assert_eq!(write.after_names, ["anon_pipe_write"]);
    assert_eq!(write.matched, Matched::Rename);
    assert_eq!(write.shown(), "pipe_write / anon_pipe_write");
    assert!((write.self_delta - 2_000.0 / 1024.0).abs() < 1e-9);
    assert!((write.inclusive_delta - (172_000.0 - 147_000.0 - 4_000.0) / 1024.0 - 0.0).abs() < 1e-9, "{write:?}");
    assert!((write.call_after - 22_000.0 / 16.0).abs() < 1e-9);
    assert_eq!(find("__alloc_pages").after_names, ["__alloc_frozen_pages_noprof"]);
    let text = wide(&compared.comparison);
    assert!(text.contains("pipe_write / anon_pipe_write"), "{text}");
}

#[test]
fn what_only_one_run_has_is_a_row() {
    let compared = of(vec![older(), newer()]).unwrap();
    let step = &compared.comparison.sections[0].steps[0];
    let gone = step.functions.iter().find(|row| row.name == "current_time").unwrap();
    assert_eq!(gone.matched, Matched::OnlyBefore);
    assert!(gone.self_after == 0.0 && gone.self_before > 0.0);
    assert!(gone.paths[0].path.ends_with("file_update_time;current_time"), "{:?}", gone.paths);
}

#[test]
fn the_answer_comes_with_role_and_functions() {
    let compared = of(vec![older(), newer()]).unwrap();
    let step = &compared.comparison.sections[0].steps[0];
    assert_eq!(step.verdict.word, Word::More);
    let total = |outcome: &Outcome| outcome.profiles.iter().map(|p| p.stacks.total()).sum::<u64>();
    // Nothing in these runs is scheduling, so both values are the total.
    assert!((step.verdict.before - total(&older()) as f64 / 1024.0).abs() < 1e-9);
    assert!((step.total.as_ref().unwrap().before - step.verdict.before).abs() < 1e-9);
    let blame = step.blame.as_ref().unwrap();
    assert_eq!(blame.role, Some(RoleId::PageAlloc));
    assert_eq!(blame.functions[0].0, "get_page_from_freelist");
    // Roles add up to the total.
    let sum: f64 = step.roles.iter().map(|row| row.delta).sum();
    assert!((sum - step.verdict.delta).abs() < 1e-9);
    // The self values of all functions do so too.
    let sum: f64 = step.functions.iter().map(|row| row.self_delta).sum();
    assert!((sum - step.verdict.delta).abs() < 1e-9);
}

fn no_difference(comparison: &Comparison) -> bool {
    comparison.sections.iter().flat_map(|section| &section.steps).all(|step| step.verdict.word == Word::Same)
}

#[test]
fn the_same_run_twice_is_zero_everywhere() {
    let compared = of(vec![older(), older()]).unwrap();
    let comparison = &compared.comparison;
    assert!(no_difference(comparison));
    let step = &comparison.sections[0].steps[0];
    assert_eq!(step.verdict.delta, 0.0);
    assert!(step.functions.is_empty() && step.blame.is_none());
    assert!(step.roles.iter().all(|row| row.delta == 0.0));
    assert!(comparison.differences.is_empty());
    assert_ne!(comparison.columns[0].label, comparison.columns[1].label);
    assert!(wide(comparison).contains("same, exactly"));
}

#[test]
fn inlining_is_no_cause_but_removed_work_is() {
    const CALL: &str = "pipeprof;vmsplice;entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_vmsplice";
    // 256 pages per MiB, in instructions: of the caller, of add_to_pipe, of what add_to_pipe calls, of user pages.
    let run = |release: &str, own: u64, callee: u64, user_pages: u64| {
        let stacks = [
            (CALL.to_owned(), own * 256),
            (format!("{CALL};iov_iter_get_pages2"), user_pages * 256),
            (format!("{CALL};add_to_pipe"), callee * 256),
            (format!("{CALL};{}page_cache_pipe_buf_release", if callee > 0 { "add_to_pipe;" } else { "" }), 10 * 256),
        ];
        let stacks: Vec<(&str, u64)> = stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect();
        counted(release, "vmsplice", &stacks, &[])
    };
    let step = |before: Outcome, after: Outcome| {
        let compared = of(vec![before, after]).unwrap();
        assert!(html::render(&compared).unwrap().contains("inlined on one side") || after_is_plain(&compared));
        compared.comparison.sections[0].steps[0].clone()
    };
    fn after_is_plain(compared: &Compared) -> bool {
        compared.comparison.sections[0].steps[0].inlined.is_empty()
    }
    let change = |step: &Step, id: RoleId| step.roles.iter().find(|row| row.role == id).map_or(0.0, |row| row.delta);
    // The same work, with add_to_pipe inlined and with one instruction less; 5 instructions more for user pages.
    let inlined = step(run("6.1.1", 33, 40, 100), run("6.12.1", 72, 0, 105));
    assert_eq!(inlined.inlined.len(), 1, "{:?}", inlined.inlined);
    assert!((change(&inlined, RoleId::Vmsplice) + 0.25).abs() < 1e-9, "{:?}", inlined.roles);
    assert_eq!(inlined.blame.as_ref().unwrap().role, Some(RoleId::UserPages));
    let row = inlined.functions.iter().find(|row| row.inlined == ["add_to_pipe"]).unwrap();
    assert_eq!((row.self_before, row.self_after), (73.0 * 0.25, 72.0 * 0.25));
    // The chart counts as the table does.
    let compared = of(vec![run("6.1.1", 33, 40, 100), run("6.12.1", 72, 0, 105)]).unwrap();
    let section = &compared.comparison.sections[0];
    for row in &section.steps[0].roles {
        for (cell, value) in section.cells.iter().flatten().zip([row.before, row.after]) {
            let own = cell.roles.iter().find(|role| role.role == row.role).map_or(0.0, |role| role.value);
            assert!((own - value).abs() < 1e-9, "{row:?}: {own}");
        }
    }
    // So do estimated cycles: add_to_pipe has one locked operation, wherever it is.
    let with_locked = |mut outcome: Outcome, wanted: RoleId| {
        outcome = with_classes(outcome, 0);
        let shares = outcome.document.attribution.processes.get_mut(ProcessName::WRITER).unwrap();
        let share = shares.iter_mut().find(|share| share.role == wanted).unwrap();
        let classes = &mut share.cycles.as_mut().unwrap().classes;
        (classes.other, classes.locked) = (classes.other - 256, 256);
        outcome
    };
    let instruction = |offset: u64, code: &str, count: u64| ExecutedInstruction {
        offset,
        code: code.to_owned(),
        counts: vec![count],
        iterations: Vec::new(),
    };
    let mut before = with_locked(run("6.1.1", 33, 40, 100), RoleId::PipeBuffers);
    before.code = Some(ExecutedCode {
        schema: CODE_SCHEMA.to_owned(),
        processor: pipeprof::arch::Processor::X86_64,
        processes: vec![ProcessName::WRITER],
        files: std::collections::BTreeMap::new(),
        functions: vec![ExecutedFunction {
            name: "add_to_pipe".to_owned(),
            file: None,
            address: 0xffff_ffff_8100_0000,
            instructions: vec![instruction(4, "90", 39 * 256), instruction(5, "f0ff00", 256)],
        }],
    });
    let cycles = step(before, with_locked(run("6.12.1", 72, 0, 105), RoleId::Vmsplice)).cycles.unwrap();
    let row = &cycles.roles.iter().find(|row| row.role == RoleId::Vmsplice).unwrap().change;
    assert!((row.instructions + 0.25).abs() < 1e-9 && row.word == Some(Word::Fewer), "{row:?}");
    // The price of an instruction without a class is 0.4.
    assert!(row.range.iter().all(|end| (end + 0.1).abs() < 1e-6), "{row:?}");
    // And the other way round.
    let back = step(run("6.12.1", 72, 0, 105), run("6.1.1", 33, 40, 100));
    assert!((change(&back, RoleId::Vmsplice) - 0.25).abs() < 1e-9, "{:?}", back.roles);
    // The work of add_to_pipe is gone.
    let removed = step(run("6.1.1", 33, 40, 100), run("6.12.1", 33, 0, 100));
    assert!(removed.inlined.is_empty());
    assert!((removed.blame.as_ref().unwrap().delta + 10.0).abs() < 1e-9, "{:?}", removed.blame);
}

#[test]
fn a_helper_of_many_roles_is_the_cause_of_what_it_costs_in_all_of_them() {
    // As between a kernel and its PREEMPT_RT build: each role calls the helpers, and no role's own work changed, but that
    // of page allocation by 10 instructions per KiB.
    const CALL: &str = "pipeprof;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;pipe_write";
    let run = |release: &str, helper: u64, alloc: u64| {
        let below = ["__memcg_kmem_charge_page", "__alloc_pages", "copy_page_from_iter", "mutex_lock"];
        let mut stacks = vec![(CALL.to_owned(), 20 * 1024)];
        for (calls, below) in (1..).zip(below) {
            let own = if below == "__alloc_pages" { alloc } else { 50 };
            stacks.push((format!("{CALL};{below}"), own * 1024));
            stacks.push((format!("{CALL};{below};migrate_disable"), helper * calls * 1024));
            stacks.push((format!("{CALL};{below};migrate_enable"), helper * calls * 1024 + 1));
        }
        let stacks: Vec<(&str, u64)> = stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect();
        counted(release, "write", &stacks, &[])
    };
    let step = |before, after| of(vec![before, after]).unwrap().comparison.sections[0].steps[0].clone();
    let rt = step(run("6.12.1", 0, 50), run("6.12.1-rt", 3, 60));
    let blame = rt.blame.as_ref().unwrap();
    assert_eq!((blame.role, blame.title.as_str()), (None, "migrate_disable, migrate_enable"), "{blame:?}");
    assert!((blame.delta - 60.0).abs() < 0.01, "{blame:?}");
    assert_eq!(blame.within[0].title, "mutex, not contended");
    assert_eq!(rt.sums[0].roles.len(), 4);
    assert!((rt.sums[0].self_delta - 30.0).abs() < 0.01 && (rt.sums[0].total_delta - 30.0).abs() < 0.01);
    // A role that changed more than all helpers is the cause.
    let other = step(run("6.12.1", 0, 50), run("6.12.1-rt", 1, 90));
    assert_eq!(other.blame.as_ref().unwrap().role, Some(RoleId::PageAlloc));
    let compared = of(vec![run("6.12.1", 0, 50), run("6.12.1-rt", 3, 60)]).unwrap();
    let text = wide(&compared.comparison);
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let ends = "largest contributor: the helpers migrate_disable and migrate_enable largest contributor:";
    assert!(joined.contains(ends), "the sentence ends there: {text}");
    assert!(text.contains("migrate_disable +30.00, migrate_enable +30.00, together +60.00 in 4 roles"), "{text}");
    assert!(text.contains("function in all roles") && html::render(&compared).unwrap().contains("migrate_disable"));
}

/// [`older`] or [`newer`] with these page allocations per MiB, of which `held` are made under the pipe's mutex.
fn with_calls(mut outcome: Outcome, allocations: u64, held: u64) -> Outcome {
    for share in outcome.document.attribution.processes.get_or_default(ProcessName::WRITER) {
        share.entered = match share.role {
            RoleId::PageAlloc => Some(allocations),
            RoleId::CopyIn => Some(256),
            _ => None,
        };
    }
    let calls = vec![HeldCalls {
        function: "__alloc_pages".to_owned(),
        role: RoleId::PageAlloc,
        held: 16 * held,
        all: 16 * held.max(allocations / 16),
    }];
    outcome.document.locks = vec![LockUse {
        process: ProcessName::WRITER,
        lock: LockKind::Mutex,
        taken: 16,
        instructions: 20_000 * held,
        without_scheduling: 16_000 * held,
        unknown: 0,
        calls,
    }];
    outcome
}

#[test]
fn a_change_is_split_into_calls_and_the_cost_of_one() {
    let compared = of(vec![with_calls(older(), 240, 15), with_calls(newer(), 224, 12)]).unwrap();
    let step = &compared.comparison.sections[0].steps[0];
    let row = step.roles.iter().find(|row| row.role == RoleId::PageAlloc).unwrap();
    let work = row.work.unwrap();
    assert_eq!((work.calls_before, work.calls_after), (240.0, 224.0));
    // Calls times cost is the role's value.
    assert!((work.calls_after * work.each_after / 1024.0 - row.after).abs() < 1e-9, "{work:?}");
    let text = wide(&compared.comparison).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("page allocation +22.46 (6.7 % fewer pages, each +27.7 %)"), "{text}");
    assert!(text.contains("Of 256 pages per MiB, 224 are allocated, before 240."), "{text}");
    // Runs without these counts are compared as before.
    let plain = wide(&of(vec![older(), newer()]).unwrap().comparison);
    assert!(!plain.contains("pages, each") && !plain.contains("under the mutex"), "{plain}");
}

#[test]
fn what_moved_out_of_the_lock_is_said() {
    let compared = of(vec![with_calls(older(), 240, 15), with_calls(newer(), 240, 12)]).unwrap();
    let text = wide(&compared.comparison).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Under the pipe's mutex the writer executes 12,000 instructions per call of the writer, before 15,000 (-20.0 %)"), "{text}");
    assert!(text.contains("page allocation: 12 of 15 calls under it, before 15 of 15"), "{text}");
    assert!(html::render(&compared).unwrap().contains("Under the pipe&#39;s mutex: writer"));
    // Code whose locks could not be followed is not reported as held.
    let mut unknown = with_calls(newer(), 240, 12);
    unknown.document.locks[0].unknown = 1;
    let compared = of(vec![with_calls(older(), 240, 15), unknown]).unwrap();
    assert!(!wide(&compared.comparison).contains("Under the pipe's mutex the writer"));
}

#[test]
fn other_work_is_said_before_the_verdict() {
    let mut substitute = older();
    let message = "writer: this kernel cannot splice from /dev/zero: using a memory file of zeros".to_owned();
    let warning = Warning { code: WarningCode::WorkloadChanged, message, action: String::new() };
    substitute.document.warnings.push(warning);
    let line = |outcomes| wide(&of(outcomes).unwrap().comparison);
    let text = line(vec![substitute.clone(), newer()]);
    assert!(
        text.starts_with("write, 6.12.9 -> 7.2.1: not the same work (before, writer: this kernel cannot"),
        "{text}"
    );
    // Both did the same.
    let mut other = newer();
    other.document.warnings.clone_from(&substitute.document.warnings);
    assert!(!line(vec![substitute.clone(), other]).contains("not the same work"));
    // Nor where the other was asked for what this one fell back to.
    let mut asked = newer();
    asked.document.target.workload_mut().unwrap().source = Some("memory".into());
    assert!(!line(vec![substitute, asked]).contains("not the same work"));
}

#[test]
fn another_compiler_is_a_difference_and_an_unknown_one_is_not() {
    let built = |compiler: &str| {
        let mut outcome = older();
        outcome.document.kernel.compiler = compiler.to_owned();
        outcome
    };
    let compiler = |outcomes: Vec<Outcome>| {
        let differences = of(outcomes).unwrap().comparison.differences;
        differences.into_iter().find(|difference| difference.what == "kernel.compiler")
    };
    let found = compiler(vec![built("gcc-12 12.2.0"), built("gcc-14 14.2.0")]).unwrap();
    assert!(found.matters.contains("inlining"), "{found:?}");
    assert_eq!(compiler(vec![built("gcc-12 12.2.0"), built("")]), None);
    assert_eq!(compiler(vec![built("gcc-12 12.2.0"), built("gcc-12 12.2.0")]), None);
}

#[test]
fn a_part_larger_than_the_whole_is_an_offset() {
    let write = "pipeprof;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;pipe_write";
    let run = |release: &str, alloc: u64, own: u64| {
        let stacks = [(format!("{write};__alloc_pages"), alloc), (write.to_owned(), own)];
        let stacks: Vec<(&str, u64)> = stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect();
        counted(release, "write", &stacks, &[])
    };
    let compared = of(vec![run("6.1", 100_000, 50_000), run("6.12", 120_000, 35_000)]).unwrap();
    let text = wide(&compared.comparison);
    assert!(text.contains("page allocation +19.53; offset by pipe write -14.65"), "{text}");
}

/// [`older`] with `more` instructions in mutex_unlock.
fn with_unlock(more: u64) -> Outcome {
    let mut outcome = older();
    outcome.profiles[0]
        .stacks
        .add("pipeprof;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;ksys_write;mutex_unlock", more);
    outcome
}

#[test]
fn one_instruction_more_is_listed_but_is_no_verdict() {
    let compared = of(vec![older(), with_unlock(1)]).unwrap();
    let step = &compared.comparison.sections[0].steps[0];
    assert_eq!(step.verdict.word, Word::Same);
    assert!(step.verdict.text.contains("within 1 %"), "{}", step.verdict.text);
    assert!((step.verdict.delta - 1.0 / 1024.0).abs() < 1e-12);
    let own: Vec<_> = step.functions.iter().filter(|row| row.self_delta != 0.0).collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].name, "mutex_unlock");
    assert!(!own[0].certain && step.blame.is_none());
    // Tables name only what is certain.
    let text = wide(&compared.comparison);
    assert!(!text.contains("mutex") && !text.contains('?'), "{text}");
    // A change of half a per cent is found, in its role.
    let compared = of(vec![older(), with_unlock(900)]).unwrap();
    let step = &compared.comparison.sections[0].steps[0];
    assert_eq!(step.verdict.word, Word::More);
    assert_eq!(step.blame.as_ref().unwrap().functions[0].0, "mutex_unlock");
}

/// `outcome` with windows of these additional instructions in mutex_unlock; the middle one is shown.
fn with_windows(more: &[u64]) -> Outcome {
    let mut outcome = with_unlock(more[more.len() / 2]);
    outcome.windows = more.iter().map(|more| with_unlock(*more).profiles).collect();
    let record = PairRecord { processes: outcome.document.processes.clone(), ..PairRecord::default() };
    outcome.document.runs = vec![record; more.len()];
    outcome
}

#[test]
fn what_differs_between_windows_of_one_kernel_is_no_difference_between_two() {
    let word = |before: &[u64], after: &[u64]| {
        let compared = of(vec![with_windows(before), with_windows(after)]).unwrap();
        let step = compared.comparison.sections[0].steps[0].clone();
        (step.verdict.word, step.blame.is_some())
    };
    // 99 % of the difference of three windows: about 9.9 standard errors.
    assert_eq!(word(&[0, 1000, 2000], &[2900, 2900, 2900]), (Word::Undecided, false));
    assert_eq!(word(&[900, 1000, 1100], &[2900, 2900, 2900]), (Word::More, true));
    assert_eq!(word(&[1000, 1000, 1000], &[2900, 2900, 2900]), (Word::More, true));
    let compared = of(vec![with_windows(&[0, 1000, 2000]), with_windows(&[3100])]).unwrap();
    let text = wide(&compared.comparison);
    assert!(text.contains("in all windows"), "{text}");
}

/// A writer that executes so many instructions more, and sleeps so often.
fn with_sleeps(more: u64, sleeps: u64) -> Outcome {
    let mut outcome = with_unlock(more);
    let writer = outcome.document.processes.totals.get_or_default(ProcessName::WRITER);
    writer.voluntary_switches = sleeps;
    outcome
}

#[test]
fn a_small_change_between_different_schedules_is_doubted() {
    let said = |more: u64, sleeps: [u64; 2]| {
        let compared = of(vec![with_sleeps(0, sleeps[0]), with_sleeps(more, sleeps[1])]).unwrap();
        let step = &compared.comparison.sections[0].steps[0];
        (step.verdict.ratio - 1.0, wide(&compared.comparison).contains("times as often as"))
    };
    let (small, doubted) = said(3100, [300, 160]);
    assert!(small > 0.0 && small < 0.05 && doubted, "{small}");
    assert!(said(3100, [160, 300]).1);
    assert!(!said(3100, [160, 170]).1);
    assert!(!said(0, [160, 300]).1, "no difference");
    let (large, doubted) = said(30_000, [160, 300]);
    assert!(large > 0.05 && !doubted, "{large}");
}

#[test]
fn timed_runs_of_one_boot_do_not_judge_kernels() {
    let values: Vec<f64> = (0..30).map(|n| 3.0 + f64::from(n) / 1000.0).collect();
    let slow: Vec<f64> = values.iter().map(|v| v / 2.0).collect();
    let compared = of(vec![timed("6.1", "write", &values), timed("6.12", "write", &slow)]).unwrap();
    let verdict = &compared.comparison.sections[0].steps[0].verdict;
    assert_eq!(verdict.word, Word::Undecided);
    assert!(verdict.text.contains("2 more boots"), "{}", verdict.text);
    // Two settings of the same kernel in one boot can be judged.
    let compared = of(vec![timed("6.1", "write", &values), timed("6.1", "write", &slow)]).unwrap();
    assert_eq!(compared.comparison.sections[0].steps[0].verdict.word, Word::Slower);
    let boots = |values: &[f64]| Input {
        label: None,
        runs: (0..3)
            .map(|n| (format!("boot{n}"), timed(if values[0] > 2.0 { "6.1" } else { "6.12" }, "write", values)))
            .collect(),
    };
    let compared = compare(&[boots(&values), boots(&slow)], &CompareOptions::default()).unwrap();
    let verdict = &compared.comparison.sections[0].steps[0].verdict;
    assert_eq!(verdict.word, Word::Slower, "{}", verdict.text);
    assert!((verdict.ratio - 2.0).abs() < 0.01);
    assert_eq!(verdict.boots, [3, 3]);
    assert!(verdict.text.contains("noise floor"));
}

#[test]
fn steps_are_neighbours_and_the_last_against_the_first() {
    let compared = of(vec![older(), older(), newer()]).unwrap();
    let pairs: Vec<_> = compared.comparison.sections[0].steps.iter().map(|step| (step.from, step.to)).collect();
    assert_eq!(pairs, [(0, 1), (1, 2), (0, 2)]);
}

/// `outcome` with estimated cycles: in copies one `rep` instruction for each 1,000 instructions, and `locked` locked
/// operations in page allocation.
fn with_classes(mut outcome: Outcome, locked: u64) -> Outcome {
    let model = CycleModel::standard().unwrap();
    for process in [ProcessName::WRITER, ProcessName::READER] {
        for share in outcome.document.attribution.processes.get_mut(process).unwrap() {
            let (rep, locked) = match share.role {
                RoleId::CopyIn => (share.weight / 1000, 0),
                RoleId::PageAlloc => (0, locked),
                _ => (0, 0),
            };
            let other = share.weight - rep - locked;
            let classes = ClassCounts { other, locked, rep, rep_bytes: 4096 * rep, ..ClassCounts::default() };
            let estimate = model.cycles(&classes, 1.0) as u64;
            share.cycles = Some(RoleCycles { estimate, range: [0; 2], share: 0.0, share_range: [0.0; 2], classes });
        }
    }
    outcome.document.cycle_model = Some(model);
    outcome
}

#[test]
fn cycles_stand_next_to_instructions_and_disagreement_is_undecided() {
    // Page allocation gets more instructions, but fewer locked operations.
    let compared = of(vec![with_classes(older(), 3_000), with_classes(newer(), 0)]).unwrap();
    let step = &compared.comparison.sections[0].steps[0];
    let cycles = step.cycles.as_ref().unwrap();
    assert_eq!(cycles.model, "published-1");
    for (row, role) in cycles.roles.iter().zip(&step.roles) {
        assert!(row.role == role.role && (row.change.instructions - role.delta).abs() < 1e-9);
        assert!(row.change.range[0] <= row.change.range[1]);
        assert!(row.change.word.is_some() == role.certain);
    }
    let change = |role: RoleId| &cycles.roles.iter().find(|row| row.role == role).unwrap().change;
    assert_eq!(change(RoleId::PageAlloc).word, Some(Word::Undecided));
    assert_eq!(change(RoleId::Timestamps).word, Some(Word::Fewer));
    let text = wide(&compared.comparison);
    let row = |line: &str| line.contains("page allocation") && line.contains("+22.46") && line.ends_with("undecided");
    assert!(text.lines().any(row), "{text}");
    assert!(text.contains("Cycles by the model published-1."), "{text}");
    for rendered in [markdown::render(&compared.comparison), html::render(&compared).unwrap()] {
        assert!(rendered.matches("undecided").count() >= 2, "{rendered}");
    }
    // With free locks, the same runs agree.
    let text = include_str!("../../src/arch/x86_64/models/published-1.toml");
    let text = text.replace("published-1", "free-locks").replace("cycles = 18", "cycles = 0");
    let options = CompareOptions { cycle_model: Some(CycleModel::given(&text).unwrap()), ..CompareOptions::default() };
    let runs = [with_classes(older(), 3_000), with_classes(newer(), 0)].map(input);
    let repriced = compare(&runs, &options).unwrap().comparison;
    let cycles = repriced.sections[0].steps[0].cycles.as_ref().unwrap();
    assert_eq!((cycles.model.as_str(), cycles.without_scheduling.word), ("free-locks", Some(Word::More)));
    // Runs without classes, of an earlier version, are compared by instructions alone.
    let old = of(vec![older(), with_classes(newer(), 0)]).unwrap();
    assert_eq!(old.comparison.sections[0].steps[0].cycles, None);
    assert!(!wide(&old.comparison).contains("estimated cycles"));
}

/// `outcome` on this number of CPUs.
fn on_cpus(mut outcome: Outcome, cpus: u32) -> Outcome {
    outcome.document.environment.cpus = cpus;
    outcome
}
