//! Exact profiles compared with probes inside the guest that count the same pair.

use crate::common::{self, request, spec};
use pipeprof::collect::insn::{Counted, Names, Plugin, Raw, count};
use pipeprof::experiment::Plan;
use pipeprof::kernel::symbols::Symbols;
use pipeprof::profile::ProcessName;
use pipeprof::result::{Collector, FunctionCalls, Outcome, Probe, Request};
use pipeprof::roles::RoleId;
use pipeprof::vm::{GuestOptions, Job, PluginArgs, qemu, run_job};
use pipeprof::workload::Spec;
use std::collections::BTreeMap;

/// One pair, counted by kprobes inside the guest and by the plugin from outside at the same time.
fn watched_twice(series: &str, cpus: u32, workload: Spec) -> (Counted, Vec<FunctionCalls>) {
    // The plugin counts the first pair; with this seed, that is the probed one.
    let seed = (0..).find(|seed| Plan::new([None, Some(Collector::Kprobe)], 1, *seed).order()[0].lane == 1).unwrap();
    let folder = tempfile::tempdir().expect("a folder");
    let version = qemu::version_numbers(pipeprof::arch::Processor::HERE).expect("QEMU");
    let plugin = Plugin::write(folder.path(), version, &[1, 1], 1).expect("the plugin");
    let args = PluginArgs { so: plugin.so.clone(), args: plugin.args.clone() };
    let options = GuestOptions { cpus, plugin: Some(args), ..common::guest(series) };
    // Without a trial, whose window would be counted.
    let request = Request { seed, probe: Probe::All, ..request(workload, vec![Collector::Kprobe]) };
    let outcome: Outcome =
        run_job(&options, &Job::Run(Box::new(request))).expect("a guest").parse().expect("an outcome");
    let raw = Raw::read(&plugin.out(0)).expect("a counted window");
    let list = run_job(&common::guest(series), &Job::Functions).expect("a guest").body;
    let symbols = Symbols::read(&*list).and_then(Symbols::with_addresses);
    let names = Names::new(symbols.expect("symbols"), None, &raw);
    let counted = count(&raw, &names, &[ProcessName::WRITER, ProcessName::READER]).expect("two processes");
    (counted, outcome.document.functions)
}

/// Both kinds of probes on functions that accept one.
const PROBES: [&str; 2] = ["fentry", "kprobe"];

/// Calls of the probed functions of `role`, counted by the probe and by the plugin, by process and function.
fn both_counts(counted: &Counted, probed: &[FunctionCalls], role: RoleId, hows: &[&str]) -> BTreeMap<String, [u64; 2]> {
    let mut rows = BTreeMap::new();
    for row in probed.iter().filter(|row| row.role == role && hows.contains(&&*row.how) && row.calls > 0) {
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
        assert_equal("6.12", &both_counts(&counted, &probed, role, &PROBES));
    }
    // A kernel function that kprobes cannot probe: counted by an execution breakpoint of the (emulated) CPU.
    let (counted, probed) = watched_twice("6.1", 1, spec("vmsplice", 100));
    let pages = both_counts(&counted, &probed, RoleId::UserPages, &["hardware-breakpoint"]);
    assert!(pages.keys().any(|function| function.contains("iov_iter_get_pages2")), "{pages:?}");
    assert_equal("6.1", &pages);
}

#[test]
#[ignore = "boots guests: make test"]
fn probes_count_the_same_contended_locks() {
    // Two CPUs and many short calls, so that the emulator sometimes switches CPUs while the mutex is held.
    let workload = Spec { buffer_size: 4 << 10, ..spec("write", 20_000) };
    let (counted, probed) = watched_twice("7.2", 2, workload);
    assert_equal("7.2", &both_counts(&counted, &probed, RoleId::MutexSlow, &PROBES));
}
