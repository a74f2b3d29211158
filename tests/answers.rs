//! Verdicts on real kernels: what cannot matter changes none, and small planted changes are found in their role.
//! `benches/perturb/run` does the same with more changes, kernels and CPUs.

use crate::common::{self, request, spec};
use pipeprof::compare::model::{Step, Word};
use pipeprof::compare::{CompareOptions, Input, compare};
use pipeprof::result::{Collector, Outcome, Request};
use pipeprof::roles::RoleId;
use pipeprof::run::exact;
use pipeprof::vm::GuestOptions;
use pipeprof::workload::Spec;
use std::process::Command;
use std::time::Duration;

/// A guest with long limits for a busy machine: these tests do not measure time. No two of them are alike, so snapshots
/// would not be used again.
fn guest(series: &str, cpus: u32) -> GuestOptions {
    GuestOptions { boot_limit: Duration::from_secs(600), cpus, snapshot: false, ..common::guest(series) }
}

fn count(workload: &Spec, options: &GuestOptions) -> Outcome {
    let request = Request { runs: 5, ..request(workload.clone(), vec![Collector::Insn]) };
    exact::execute(&request, options, None).expect("an exact profile")
}

fn step(before: &Outcome, after: &Outcome) -> Step {
    let input = |outcome: &Outcome| Input { label: None, runs: vec![(String::new(), outcome.clone())] };
    let compared = compare(&[input(before), input(after)], &CompareOptions::default()).expect("a comparison");
    compared.comparison.sections[0].steps[0].clone()
}

/// A copy of the guest's program with a section that nothing uses.
fn with_section(options: &GuestOptions, folder: &std::path::Path) -> GuestOptions {
    let (program, section) = (folder.join("program"), folder.join("section"));
    std::fs::write(&section, vec![7u8; 300_000]).expect("a file");
    let status = Command::new("objcopy")
        .arg(format!("--add-section=.unused={}", section.display()))
        .arg(&options.init)
        .arg(&program)
        .status()
        .expect("objcopy");
    assert!(status.success());
    GuestOptions { init: program, ..options.clone() }
}

#[test]
#[ignore = "boots guests: make test"]
fn what_cannot_matter_changes_no_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    type Change = fn(&mut GuestOptions, &mut Spec, &std::path::Path);
    let argument: Change = |options, _, _| options.append.push("dummy=1".into());
    let memory: Change = |options, _, _| options.memory_mib += 100;
    let section: Change = |options, _, folder| *options = with_section(options, folder);
    let warmup: Change = |_, workload, _| workload.warmup_bytes += 1 << 20;
    // As large as windows get by themselves: 16 MiB, and 64 MiB for write on two CPUs.
    for (series, mode, cpus, calls, changes) in
        [("7.2", "vmsplice", 1, 128, [argument, section]), ("7.2", "write", 2, 256, [memory, warmup])]
    {
        let (options, workload) = (guest(series, cpus), spec(mode, calls));
        let base = count(&workload, &options);
        for (index, change) in changes.into_iter().enumerate() {
            let (mut options, mut workload) = (options.clone(), workload.clone());
            change(&mut options, &mut workload, folder.path());
            let step = step(&base, &count(&workload, &options));
            assert_eq!(step.verdict.word, Word::Same, "{series} {mode} {cpus} {index}: {}", step.verdict.text);
            assert!(step.blame.is_none(), "{series} {mode} {cpus} {index}: {:?}", step.blame);
        }
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn half_a_per_cent_is_found_in_its_role() {
    // An empty write(2) more for each fourth one of 64 KiB.
    let planted = |every| Spec { buffer_size: 64 << 10, extra_call_every: every, ..spec("write", 200) };
    let options = guest("6.1", 1);
    let step = step(&count(&planted(None), &options), &count(&planted(Some(4)), &options));
    let verdict = &step.verdict;
    assert_eq!(verdict.word, Word::More, "{}", verdict.text);
    assert!((0.004..0.0075).contains(&(verdict.ratio - 1.0)), "{}", verdict.text);
    // The way of a system call to pipe_write, which returns at once.
    let way = [RoleId::Syscall, RoleId::Vfs, RoleId::Lsm];
    let blame = step.blame.expect("a contributor");
    assert!(blame.role.is_some_and(|role| way.contains(&role)), "{}: {}", verdict.text, blame.title);
    let of = |roles: &[RoleId]| -> f64 {
        step.roles.iter().filter(|row| roles.contains(&row.role)).map(|row| row.delta).sum()
    };
    // Without the worker's own code around the call, which depends on how pipeprof is compiled.
    let (sum, kernel) = (of(&way), verdict.delta - of(&[RoleId::User]));
    assert!(sum > kernel * 0.7, "{sum} of {kernel}: {}", verdict.text);
}
