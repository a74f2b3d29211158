//! Exact profiles compared with collectors inside the guest: probes that count the same pair, and samples of the same
//! workload.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod common;

use common::{request, spec};
use pipeprof::collect::insn::{Counted, Names, Plugin, Raw, count};
use pipeprof::document::{Collector, FunctionCalls, Outcome, Request};
use pipeprof::experiment::Plan;
use pipeprof::kernel::symbols::Symbols;
use pipeprof::profile::{ProcessName, Profile};
use pipeprof::roles::RoleId;
use pipeprof::run::exact;
use pipeprof::vm::job::CountAnswer;
use pipeprof::vm::{GuestOptions, Job, PluginArgs, qemu, run_job};
use pipeprof::workload::spec::{Amount, Spec};
use std::collections::BTreeMap;

/// One pair, counted by kprobes inside the guest and by the plugin from outside at the same time.
fn watched_twice(series: &str, cpus: u32, workload: Spec) -> (Counted, Vec<FunctionCalls>) {
    // The plugin counts the first pair; with this seed, that is the probed one.
    let seed = (0..).find(|seed| Plan::new([None, Some(Collector::Kprobe)], 1, *seed).order()[0].lane == 1).unwrap();
    let folder = tempfile::tempdir().expect("a folder");
    let version = qemu::version_numbers().expect("QEMU");
    let plugin = Plugin::write(folder.path(), version, &[1, 1]).expect("the plugin");
    let args = PluginArgs { so: plugin.so.clone(), args: plugin.args.clone() };
    let options = GuestOptions { cpus, plugin: Some(args), ..common::guest(series) };
    let request = Request { seed, ..request(workload, vec![Collector::Kprobe]) };
    let job = Job::Count { request: Box::new(request), symbols: true };
    let answer: CountAnswer = run_job(&options, &job).expect("a guest").parse().expect("an answer");
    let raw = Raw::read(&plugin.out).expect("a counted window");
    let symbols = Symbols::read(answer.symbols.expect("kallsyms").as_bytes()).and_then(Symbols::with_addresses);
    let names = Names::new(symbols.expect("symbols"), None, &raw);
    let counted = count(&raw, &names, &[ProcessName::WRITER, ProcessName::READER]).expect("two processes");
    (counted, answer.outcome.document.functions)
}

/// Calls of the probed functions of `role`, counted by the probe and by the plugin, by process and function.
fn both_counts(counted: &Counted, probed: &[FunctionCalls], role: RoleId, how: &str) -> BTreeMap<String, [u64; 2]> {
    let mut rows = BTreeMap::new();
    for row in probed.iter().filter(|row| row.role == role && row.how == how && row.calls > 0) {
        let exact = counted.functions.iter().filter(|other| other.process == row.process && other.symbol == row.symbol);
        rows.insert(format!("{} {}", row.process, row.symbol), [row.calls, exact.map(|other| other.calls).sum()]);
    }
    rows
}

fn assert_equal(series: &str, rows: &BTreeMap<String, [u64; 2]>) {
    assert!(!rows.is_empty(), "{series}: the probe was never hit");
    for (function, [probed, exact]) in rows {
        assert_eq!(probed, exact, "{series}: {function}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn probes_in_the_counted_window_count_the_same_calls() {
    let (counted, probed) = watched_twice("6.12", 1, spec("write", 100));
    for role in [RoleId::PipeWrite, RoleId::PageAlloc, RoleId::MemcgCharge] {
        assert_equal("6.12", &both_counts(&counted, &probed, role, "kprobe"));
    }
    // A kernel function that kprobes cannot probe: counted by an execution breakpoint of the (emulated) CPU.
    let (counted, probed) = watched_twice("6.1", 1, spec("vmsplice", 100));
    let pages = both_counts(&counted, &probed, RoleId::UserPages, "hardware-breakpoint");
    assert!(pages.keys().any(|function| function.contains("iov_iter_get_pages2")), "{pages:?}");
    assert_equal("6.1", &pages);
}

#[test]
#[ignore = "boots guests: make test"]
fn probes_count_the_same_contended_locks() {
    // Two CPUs and many short calls, so that the emulator sometimes switches CPUs while the mutex is held.
    let workload = Spec { buffer_size: 4 << 10, ..spec("write", 20_000) };
    let (counted, probed) = watched_twice("7.2", 2, workload);
    assert_equal("7.2", &both_counts(&counted, &probed, RoleId::MutexSlow, "kprobe"));
}

/// Frames whose instructions all run with interrupts on. Samples due while they are off are taken elsewhere.
const FRAMES: [(ProcessName, &str); 7] = [
    (ProcessName::WRITER, "pipe_write"),
    (ProcessName::WRITER, "__alloc_pages"),
    (ProcessName::WRITER, "copy_page_from_iter"),
    (ProcessName::WRITER, "__memcg_kmem_charge_page"),
    (ProcessName::READER, "pipe_read"),
    (ProcessName::READER, "__folio_put"),
    (ProcessName::READER, "__mem_cgroup_uncharge"),
];

/// Share of `profile` that is below `frame`.
fn share(profile: &Profile, frame: &str, weigh: impl Fn(&str, u64) -> f64) -> f64 {
    let (mut below, mut all) = (0.0, 0.0);
    for (stack, count) in profile.stacks.iter() {
        let leaf = stack.rsplit(';').next().unwrap_or(stack);
        let weight = weigh(leaf, count);
        all += weight;
        below += if stack.split(';').any(|this| this == frame) { weight } else { 0.0 };
    }
    below / all
}

#[test]
#[ignore = "boots guests: make test"]
fn samples_agree_with_exact_shares() {
    let options = common::guest("6.1");
    let workload = spec("write", 400);
    let counted = exact::execute(&request(workload.clone(), vec![Collector::Insn]), &options, None).expect("counts");
    // Ten times the bytes, for more samples.
    let more = Spec { amount: Amount::Calls(4_000), ..workload };
    let job = Job::Run(Box::new(request(more, vec![Collector::Sample])));
    let sampled: Outcome = run_job(&options, &job).expect("a guest").parse().expect("an outcome");
    // Samples are taken at fixed times, and in such a guest each iteration of a `rep` instruction takes as long as an
    // instruction: count iterations with their function.
    let code = counted.code.as_ref().expect("the code");
    let longer = |process: ProcessName| -> BTreeMap<&str, f64> {
        let function = |function: &'_ pipeprof::document::code::ExecutedFunction| {
            let sum = |pick: fn(&pipeprof::document::code::ExecutedInstruction) -> &[u64]| -> f64 {
                function.instructions.iter().map(|instruction| code.of(pick(instruction), Some(process)) as f64).sum()
            };
            let (counts, iterations) = (sum(|i| &i.counts), sum(|i| &i.iterations));
            if counts > 0.0 { (counts + iterations) / counts } else { 1.0 }
        };
        code.functions.iter().map(|f| (f.name.as_str(), function(f))).collect()
    };
    let of = |outcome: &'_ Outcome, process: ProcessName| -> Profile {
        outcome.profiles.iter().find(|profile| profile.process == process).expect("a profile of each process").clone()
    };
    for (process, frame) in FRAMES {
        let longer = longer(process);
        let samples = of(&sampled, process);
        let n = samples.stacks.total() as f64;
        assert!(n > 1000.0, "{n} samples of the {}", process.as_str());
        let seen = share(&samples, frame, |_, count| count as f64);
        let exact =
            share(&of(&counted, process), frame, |leaf, count| count as f64 * longer.get(leaf).copied().unwrap_or(1.0));
        let error = (exact * (1.0 - exact) / n).sqrt();
        // Four standard errors, plus one point for code below these frames that runs with interrupts off.
        assert!(
            (seen - exact).abs() < 4.0 * error + 0.01,
            "{} {frame}: {exact:.4} exact, {seen:.4} of {n} samples",
            process.as_str()
        );
    }
}
