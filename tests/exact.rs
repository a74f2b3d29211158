//! Exact instruction profiles, compared with independent results: a second run, additional calls, probes in the same
//! kernel, and hardware counts of an article.

use crate::common::{self, request, spec};
use pipeprof::collect::insn::{Plugin, Raw};
use pipeprof::profile::{ProcessName, Profile, RoleShare, Unit};
use pipeprof::result::{Collector, Outcome};
use pipeprof::roles::RoleId;
use pipeprof::run::exact;
use pipeprof::vm::{GuestOptions, Job, PluginArgs, qemu, run_job};
use pipeprof::workload::spec::{Reader, Spec};
use std::time::Duration;

/// A guest with long limits for a busy machine: these tests do not measure time.
fn guest(series: &str) -> GuestOptions {
    GuestOptions { boot_limit: Duration::from_secs(600), ..common::guest(series) }
}

fn count(workload: Spec, options: &GuestOptions) -> Outcome {
    let outcome = exact::execute(&request(workload, vec![Collector::Insn]), options, None).expect("an exact profile");
    let report = &outcome.document.collectors[0];
    // The sum over all contexts equals the instructions executed, and each context of writer and reader is known.
    let counted = outcome.profiles.iter().filter(|profile| profile.unit == Unit::Instructions);
    let total: u64 = counted.map(|profile| profile.stacks.total()).sum();
    assert_eq!(total, report.samples);
    assert_eq!(report.lost, 0, "{:?}", report.reason);
    for (_, shares) in outcome.document.attribution.processes.of_target() {
        let sum: f64 = shares.iter().map(|share| share.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
    outcome
}

fn stacks(outcome: &Outcome, process: ProcessName) -> &Profile {
    outcome.profiles.iter().find(|profile| profile.process == process).expect("a profile of each process")
}

fn calls(outcome: &Outcome, process: &str, symbol: &str) -> u64 {
    let named = |name: &str| name == symbol || name.strip_prefix(symbol).is_some_and(|rest| rest.starts_with('.'));
    let rows = outcome.document.functions.iter().filter(|row| row.process.as_str() == process && named(&row.symbol));
    rows.map(|row| row.calls).sum()
}

/// Instructions of all stacks through `frame`.
fn inclusive(profile: &Profile, frame: &str) -> u64 {
    profile.stacks.iter().filter(|(stack, _)| stack.frames().any(|this| this == frame)).map(|(_, n)| n).sum()
}

#[test]
#[ignore = "boots guests: make test"]
fn the_same_run_twice_is_the_same_to_the_byte() {
    let options = guest("6.12");
    let (mut first, second) = (count(spec("write", 100), &options), count(spec("write", 100), &options));
    assert_eq!(first.profiles, second.profiles);
    assert_eq!(first.code.take().unwrap().to_bytes().unwrap(), second.code.as_ref().unwrap().to_bytes().unwrap());
    assert_eq!(first.document, second.document);
    copies_move_the_bytes(&second, "6.12", "write");
    // Fewer calls execute fewer instructions, so the equality above is not trivial.
    assert_ne!(stacks(&count(spec("write", 99), &options), ProcessName::WRITER), stacks(&second, ProcessName::WRITER));
}

#[test]
#[ignore = "boots guests: make test"]
fn one_more_call_costs_what_that_call_costs() {
    // One additional empty write for each 50th or 25th transfer: two and four more per 100.
    let options = guest("5.10");
    let [two, four] = [50, 25].map(|every| {
        let workload = Spec { extra_call_every: Some(every), ..spec("write", 100) };
        count(workload, &options)
    });
    assert_eq!(calls(&two, "writer", "ksys_write"), 102);
    assert_eq!(calls(&four, "writer", "ksys_write"), 104);
    // The code of the entry and of ksys_write follows the same path in each call, independent of timer ticks and of
    // the reader. So two more calls execute exactly twice one call's instructions more.
    let own = |outcome: &Outcome, leaves: &[&str]| {
        let stacks = stacks(outcome, ProcessName::WRITER).stacks.iter();
        let of_leaves = stacks.filter(|(stack, _)| leaves.contains(&stack.leaf()));
        of_leaves.map(|(_, weight)| weight).sum::<u64>()
    };
    for leaves in [&["entry_SYSCALL_64", "syscall_return_via_sysret"][..], &["ksys_write"]] {
        let per_call = own(&two, leaves) / 102;
        assert!(per_call > 0, "{leaves:?}");
        assert_eq!(own(&two, leaves), per_call * 102, "{leaves:?}");
        assert_eq!(own(&four, leaves), per_call * 104, "{leaves:?}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn every_kernel_and_mode_adds_up() {
    let cases = [
        ("5.10", "splice", 1, &["__x64_sys_splice"][..]),
        ("6.1", "vmsplice-huge", 2, &["iov_iter_get_pages2"]),
        ("6.12", "vmsplice", 1, &["__x64_sys_vmsplice"]),
        ("7.2", "write", 2, &["anon_pipe_write"]),
    ];
    for (series, mode, cpus, expected) in cases {
        let options = GuestOptions { cpus, ..guest(series) };
        let outcome = count(spec(mode, 60), &options);
        let writer = stacks(&outcome, ProcessName::WRITER);
        for frame in expected {
            assert!(inclusive(writer, frame) > 0, "{series} {mode}: no {frame}");
        }
        copies_move_the_bytes(&outcome, series, mode);
        // What each switch adds is the scheduler's, so entering and leaving takes a call as long however often it sleeps.
        assert!(inclusive(writer, "[after-switch]") > 0, "{series} {mode}");
        let per_call = [ProcessName::WRITER, ProcessName::READER].map(|process| {
            let shares = outcome.document.attribution.of(process);
            shares.iter().find(|share| share.role == RoleId::Syscall).unwrap().instructions_per_call.unwrap()
        });
        assert!((per_call[0] / per_call[1] - 1.0).abs() < 0.05, "{series} {mode}: {per_call:?}");
        // Nothing in the kernel calls the system call's entry: the frames above it are user code.
        for (stack, _) in writer.stacks.iter() {
            let entries = stack.frames().filter(|frame| *frame == "do_syscall_64").count();
            assert!(entries <= 1, "{series} {mode}: {stack}");
        }
    }
}

/// Where the kernel cannot try a pipe without sleeping (6.1), threads of the kernel do the requests: their instructions are
/// counted with the process that has the ring, as are those of the threads that poll it.
#[test]
#[ignore = "boots guests: make test"]
fn threads_of_io_uring_are_counted_with_their_process() {
    for (series, mode, thread) in [
        ("6.1", "io-uring", Some("io_wq_worker")),
        ("6.12", "io-uring-sqpoll", Some("io_sq_thread")),
        ("7.2", "io-uring-multishot", None),
        ("7.2", "io-uring-sqpoll", Some("io_sq_thread")),
    ] {
        let outcome = count(spec(mode, 60), &guest(series));
        let totals =
            [ProcessName::WRITER, ProcessName::READER].map(|process| outcome.document.processes.of(process).bytes);
        assert!(totals[0] > 0 && totals[0] == totals[1], "{series} {mode}: {totals:?}");
        for process in [ProcessName::WRITER, ProcessName::READER] {
            let own = stacks(&outcome, process);
            let all = own.stacks.total();
            // The worker's own loop slept since before the window, so its callers are not known.
            let called = thread.is_none_or(|_| inclusive(own, "io_issue_sqe") > 0);
            assert!(called, "{series} {mode}: {process:?}");
            let shares = outcome.document.attribution.of(process);
            let rings = shares.iter().find(|share| share.role == RoleId::IoUring).expect("a share of io_uring");
            assert!(rings.weight > 0 && rings.weight < all, "{series} {mode}: {rings:?}");
        }
        let others: u64 = outcome
            .profiles
            .iter()
            .filter(|profile| ![ProcessName::WRITER, ProcessName::READER].contains(&profile.process))
            .flat_map(|profile| {
                profile.stacks.iter().map(|(stack, count)| (stack.frames().any(|frame| frame == "io_issue_sqe"), count))
            })
            .filter_map(|(rings, count)| rings.then_some(count))
            .sum();
        assert_eq!(others, 0, "{series} {mode}: instructions of requests that belong to nobody");
    }
}

/// What a kernel without vmsplice and splice would cost: the same with writev, and read and write.
#[test]
#[ignore = "boots guests: make test"]
fn the_price_of_a_removal_of_splice_is_counted_by_role() {
    let folder = tempfile::tempdir().unwrap();
    let _ = common::kernel("6.12");
    let line = "run --mode vmsplice --without-splice --kernel 6.12 --collect insn --calls 60 --runs 2 -o";
    let words: Vec<&str> = line.split(' ').chain(folder.path().to_str()).collect();
    let output = common::pipeprof(&words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let rows =
        |role: &str| text.lines().filter(|line| line.trim_start().starts_with(role)).collect::<Vec<_>>().join(" ");
    assert!(text.contains("vmsplice, as it is -> without splice: more instructions"), "{text}");
    assert!(rows("user pages").contains("gone"), "{text}");
    assert!(rows("copy in").contains("new") && rows("page allocation").contains("new"), "{text}");
    let stored = |mode: &str| pipeprof::result::open(&folder.path().join(mode)).unwrap();
    let [with, without] = ["vmsplice", "vmsplice-without-splice"].map(stored);
    let moved = |outcome: &Outcome| {
        [ProcessName::WRITER, ProcessName::READER].map(|process| outcome.document.processes.of(process).bytes)
    };
    assert_eq!(moved(&with), moved(&without));
    assert!(inclusive(stacks(&with, ProcessName::WRITER), "__x64_sys_vmsplice") > 0);
    assert_eq!(inclusive(stacks(&without, ProcessName::WRITER), "__x64_sys_vmsplice"), 0);
    // Each byte is copied in and out by `rep`.
    copies_move_the_bytes(&without, "6.12", "vmsplice");
}

/// Instructions by class agree with counts of another kind: system calls with the workload's, and the bytes moved by `rep`
/// in the copies with the workload's bytes.
fn copies_move_the_bytes(outcome: &Outcome, series: &str, mode: &str) {
    let document = &outcome.document;
    for (process, copy) in [(ProcessName::WRITER, RoleId::CopyIn), (ProcessName::READER, RoleId::CopyOut)] {
        let shares = document.attribution.of(process);
        let priced = |share: &RoleShare| share.cycles.clone().expect("estimated cycles");
        for share in shares {
            assert_eq!(priced(share).classes.instructions(), share.weight, "{series} {mode}: {:?}", share.role);
        }
        let totals = document.processes.of(process);
        let calls: u64 = shares.iter().map(|share| priced(share).classes.syscall).sum();
        assert_eq!(calls, totals.calls, "{series} {mode}: {process}");
        if mode == "write" {
            let copy = shares.iter().find(|share| share.role == copy).expect("copies");
            // The kernel's rep_movs_alternative copies the first 8 bytes of each page without rep.
            let by_rep = [totals.bytes, totals.bytes / 4096 * 4088];
            let elsewhere = || {
                let all = document.attribution.processes.names().flat_map(|name| {
                    document
                        .attribution
                        .of(name)
                        .iter()
                        .map(move |share| (name, share.role, priced(share).classes.rep_bytes))
                });
                all.filter(|(.., bytes)| *bytes > 0).collect::<Vec<_>>()
            };
            let bytes = priced(copy).classes.rep_bytes;
            assert!(by_rep.contains(&bytes), "{series}: {process}: {bytes} of {by_rep:?}: {:?}", elsewhere());
        }
        let folded = outcome.profiles.iter().find(|p| p.process == process && p.unit == Unit::EstimatedCycles).unwrap();
        let (sum, stacks) = (shares.iter().map(|share| priced(share).estimate).sum::<u64>(), &folded.stacks);
        // Each stack and each role is rounded.
        assert!(sum.abs_diff(stacks.total()) <= stacks.len() as u64, "{sum} {}", stacks.total());
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn calls_are_what_probes_count() {
    let options = guest("6.1");
    let workload = spec("write", 100);
    let exact = count(workload.clone(), &options);
    let job = Job::Run(Box::new(request(workload, vec![Collector::Kprobe])));
    let probed: Outcome = run_job(&options, &job).expect("a guest").parse().expect("an outcome");
    let mut compared = 0;
    for row in probed
        .document
        .functions
        .iter()
        .filter(|row| ["fentry", "kprobe"].contains(&&*row.how) && row.process == ProcessName::WRITER)
    {
        if [RoleId::PipeWrite, RoleId::PageAlloc, RoleId::MemcgCharge].contains(&row.role) {
            assert_eq!(calls(&exact, "writer", &row.symbol), row.calls, "{}", row.symbol);
            compared += 1;
        }
    }
    assert!(compared >= 2, "{:?}", probed.document.collectors);
}

/// Article B: instructions of the writer per write(2) of 64 KiB on Debian 6.1 with mitigations=off, by hardware
/// counters.
const ARTICLE_64K: f64 = 19_379.0;

#[test]
#[ignore = "boots guests: make test"]
fn a_write_costs_what_hardware_counted() {
    let options = GuestOptions { append: vec!["mitigations=off".into()], ..guest("6.1") };
    let workload = Spec { buffer_size: 64 << 10, reader: Reader::Splice, ..spec("write", 200) };
    let outcome = count(workload, &options);
    let per_call = stacks(&outcome, ProcessName::WRITER).stacks.total() as f64 / 200.0;
    let ratio = per_call / ARTICLE_64K;
    assert!((0.8..1.25).contains(&ratio), "{per_call} instructions per call, {ratio} of the article's");
}

#[test]
#[ignore = "boots guests: make test"]
fn a_guest_without_a_window_and_a_window_too_large_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let version = qemu::version_numbers(pipeprof::arch::Processor::HERE).expect("QEMU");
    let plugin = Plugin::write(folder.path(), version, &[1, 1], 1).expect("the plugin");
    let args = PluginArgs { so: plugin.so.clone(), args: plugin.args.clone() };
    let options = GuestOptions { plugin: Some(args.clone()), ..guest("6.1") };
    run_job(&options, &Job::Echo("nothing to count".into())).expect("an echo");
    let error = format!("{:#}", Raw::read(&plugin.out(0)).unwrap_err());
    assert!(error.contains("never reached its measured window"), "{error}");
    // 1 MiB is too little for a window.
    let mut small = args;
    small.args.iter_mut().filter(|(name, _)| name == "memory").for_each(|(_, value)| *value = (1 << 20).to_string());
    let options = GuestOptions { plugin: Some(small), ..options };
    let job = Job::Run(Box::new(request(spec("write", 20), Vec::new())));
    run_job(&options, &job).expect("the guest itself runs on");
    let error = format!("{:#}", Raw::read(&plugin.out(0)).unwrap_err());
    assert!(error.contains("more than the 512 MiB"), "{error}");
}
