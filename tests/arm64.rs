//! Guests with arm64 kernels, on any machine: counts repeat, functions have their roles, and the kernel's own counter of
//! instructions, which these guests have, agrees.

use crate::common::{self, pipeprof, request, spec};
use pipeprof::arch::Processor;
use pipeprof::profile::{ProcessName, Profile, Unit};
use pipeprof::result::{Collector, Outcome};
use pipeprof::roles::RoleId;
use pipeprof::run::exact;
use pipeprof::vm::GuestOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// At most so many instructions are between the kernel's counter and the window, at both ends together.
const EDGES: u64 = 3000;

/// What `make build-arm64` builds.
fn init() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/aarch64-unknown-linux-gnu/release/pipeprof");
    assert!(path.is_file(), "{} does not exist: `make build-arm64` builds it", path.display());
    path
}

fn guest(series: &str) -> GuestOptions {
    GuestOptions { init: init(), ..common::guest(series) }
}

fn count(mode: &str, calls: u64, options: &GuestOptions) -> Outcome {
    let outcome = exact::execute(&request(spec(mode, calls), vec![Collector::Insn]), options, None);
    let outcome = outcome.expect("an exact profile");
    let report = &outcome.document.collectors[0];
    let counted = outcome.profiles.iter().filter(|profile| profile.unit == Unit::Instructions);
    let total: u64 = counted.map(|profile| profile.stacks.total()).sum();
    assert_eq!(total, report.samples, "the sum over all contexts");
    assert_eq!(report.lost, 0, "{:?}", report.reason);
    outcome
}

fn share(outcome: &Outcome, process: ProcessName, role: RoleId) -> f64 {
    let shares = outcome.document.attribution.of(process);
    shares.iter().find(|share| share.role == role).map_or(0.0, |share| share.share)
}

#[test]
#[ignore = "boots guests: make test"]
fn counts_of_arm64_kernels_repeat_and_have_roles() {
    let options = guest("6.12:arm64");
    let [first, second] = [0, 1].map(|_| count("write", 64, &options));
    assert_eq!(first.profiles, second.profiles);
    assert_eq!(first.code.as_ref().unwrap().to_bytes().unwrap(), second.code.as_ref().unwrap().to_bytes().unwrap());
    assert_eq!(first.code.as_ref().unwrap().processor, Processor::Aarch64);
    assert_eq!(first.document.kernel.machine, "aarch64");
    // Fewer calls execute fewer instructions.
    let stacks = |outcome: &Outcome| -> Profile {
        outcome.profiles.iter().find(|profile| profile.process == ProcessName::WRITER).unwrap().clone()
    };
    assert_ne!(stacks(&count("write", 63, &options)), stacks(&first));
    // A copy is a loop of instructions here.
    assert!(share(&first, ProcessName::WRITER, RoleId::CopyIn) > 0.3);
    assert!(share(&first, ProcessName::READER, RoleId::CopyOut) > 0.3);
    assert!(share(&first, ProcessName::WRITER, RoleId::PageAlloc) > 0.1);
    for process in [ProcessName::WRITER, ProcessName::READER] {
        assert!(share(&first, process, RoleId::OtherKernel) < 0.02);
        // 64 writes of user code are little.
        assert!(share(&first, process, RoleId::User) < 0.05);
    }
    // The price of instructions is one of x86-64.
    assert!(first.document.cycle_model.is_none());
}

#[test]
#[ignore = "boots guests: make test"]
fn a_run_and_a_comparison_say_that_arm64_has_no_estimated_cycles() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for calls in ["16", "17"] {
        let words =
            ["run", "--kernel", "6.12:arm64", "--collect", "insn", "--runs", "1", "--calls", calls, "-o", &at(calls)];
        let output = pipeprof(&words).env("PIPEPROF_AARCH64", init()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("estimated cycles are not available, because the model is one of x86-64"), "{text}");
    }
    let output = pipeprof(&["compare", &at("16"), &at("17")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Estimated cycles are not available"), "{text}");
}

#[test]
#[ignore = "boots guests: make test"]
fn the_kernels_own_counter_of_instructions_agrees() {
    // With this processor the guest has a counter, which the kernel reads at the ends of the window.
    for (series, mode) in [("6.12:arm64", "write"), ("7.2:arm64", "vmsplice")] {
        let options = GuestOptions { cpu: Some("neoverse-n1".to_owned()), ..guest(series) };
        let outcome = count(mode, 64, &options);
        let report = &outcome.document.collectors[0];
        let note = report.notes.iter().find_map(|note| note.strip_prefix("the kernel's own counter shows "));
        let own = note.and_then(|note| note.split_once(' ')?.0.parse::<u64>().ok());
        let (own, counted) = (own.unwrap_or_else(|| panic!("{series}: {report:?}")), report.samples);
        // It counts the ends of the calls that read it, too.
        let more = own.checked_sub(counted).unwrap_or_else(|| panic!("{series} {mode}: {own} of {counted}"));
        assert!((1..EDGES).contains(&more), "{series} {mode}: {own} by the kernel, {counted} by the emulator");
    }
}

#[test]
#[ignore = "boots guests and needs a cross compiler: make test"]
fn the_processors_counter_of_user_instructions_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/witness.c");
    let mut gcc = Command::new("aarch64-linux-gnu-gcc");
    let built = gcc.args(["-O2", "-Wall", "-Werror", "-static", "-o", "witness"]).arg(source);
    assert!(built.current_dir(folder.path()).status().unwrap().success());
    let record = |line: &str, flags: &[&str]| {
        let mut command = pipeprof(&["record", "--kernel", "6.12:arm64", "--collect", "insn", "--runs", "1"]);
        let command =
            command.args(["--file", "witness"]).args(flags).args(["--", line]).env("PIPEPROF_AARCH64", init());
        let output = command.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for blocks in [100, 400] {
        // The counter's run cannot be counted: opening the counter changes the kernel's code. User code is the same in both.
        let printed = record(&format!("./witness {blocks}"), &["--cpu", "neoverse-n1"]);
        let own: u64 = printed.split_whitespace().next().unwrap().parse().unwrap();
        record(&format!("./witness {blocks} plain"), &["-o", "counted"]);
        let code = pipeprof::result::open(&folder.path().join("counted")).unwrap().code.unwrap();
        let stage = code.processes.iter().position(|process| process.as_str() == "stage1-witness").unwrap();
        let is_work = |name: &str| ["work", "mixed", "sum", "syscall"].contains(&name.split('.').next().unwrap());
        let work = code.functions.iter().filter(|function| function.file.is_some() && is_work(&function.name));
        let counted: u64 = work.flat_map(|function| &function.instructions).map(|one| one.counts[stage]).sum();
        // The end of one read of the counter, and the begin of the next.
        let more = own.checked_sub(counted).unwrap_or_else(|| panic!("{own} of {counted}"));
        assert!(
            counted > 20_000 * blocks && (1..60).contains(&more),
            "{own} by the counter, {counted} by the emulator"
        );
        std::fs::remove_dir_all(folder.path().join("counted")).unwrap();
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn instructions_of_two_processors_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for (kernel, to) in [("6.12", at("x86")), ("6.12:arm64", at("arm"))] {
        let mut command =
            pipeprof(&["run", "--kernel", kernel, "--collect", "insn", "--bytes", "1M", "--runs", "1", "-o", &to]);
        command.env("PIPEPROF_AARCH64", init());
        assert!(command.output().unwrap().status.success());
    }
    let output = pipeprof(&["compare", &at("x86"), &at("arm")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
    assert!(text.contains("instructions of two processors cannot be compared"), "{text}");
    assert!(text.contains("pages allocated"), "{text}");
    let causes = pipeprof(&["compare", "--kernel", "6.12", "--kernel", "6.12:arm64", "--causes"]).output().unwrap();
    let said = String::from_utf8_lossy(&causes.stderr).replace('\n', " ");
    assert!(causes.status.code() == Some(2) && said.contains("--causes: the kernels are of two processors"), "{said}");
}
