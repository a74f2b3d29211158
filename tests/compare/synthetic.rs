//! Synthetic runs for tests: an outcome from given stacks, without a kernel.

use pipeprof::profile::{Folded, Moved, ProcessName, Profile, SchedulingWeight, Unit, attribute};
use pipeprof::result::{
    Attribution, Collector, CollectorReport, Document, Ensemble, Environment, ExecutedOn, KernelInfo, MeasuredTarget,
    Outcome, PairRecord, ProcessTotals, Processes, SCHEMA, Status, Throughput, WindowCount,
};
use pipeprof::roles::Skid;
use pipeprof::workload::Spec;

pub(crate) const BYTES: u64 = 1 << 20;

/// A counted run of 16 calls of 64 KiB on `release`, with these stacks of the writer and reader.
pub(crate) fn counted(release: &str, mode: &str, writer: &[(&str, u64)], reader: &[(&str, u64)]) -> Outcome {
    let named = [(ProcessName::WRITER, writer), (ProcessName::READER, reader)];
    let profiles: Vec<Profile> = named
        .into_iter()
        .map(|(process, stacks)| {
            let mut folded = Folded::new();
            for (stack, weight) in stacks {
                folded.add(*stack, *weight);
            }
            Profile {
                process,
                collector: "insn".to_owned(),
                unit: Unit::Instructions,
                skid: Skid::None,
                stacks: folded,
            }
        })
        .collect();
    let moved = Moved { bytes: BYTES, calls: 16, cpu_ns: None };
    let attribution = Attribution {
        collector: "insn".to_owned(),
        processes: profiles
            .iter()
            .map(|profile| (profile.process, attribute(&profile.stacks, Unit::Instructions, Skid::None, &moved)))
            .collect(),
        others: None,
    };
    let totals = || ProcessTotals { bytes: BYTES, calls: 16, ..ProcessTotals::default() };
    let document = Document {
        schema: SCHEMA.to_owned(),
        version: "0".to_owned(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        command: "pipeprof run".to_owned(),
        mode: mode.to_owned(),
        target: MeasuredTarget::Pair { workload: Spec::default() },
        kernel: KernelInfo { release: release.to_owned(), ..KernelInfo::default() },
        executed_on: ExecutedOn::Tcg,
        unit: Unit::Instructions,
        environment: Environment::default(),
        throughput: Throughput::default(),
        processes: Processes::of_pair(totals(), totals(), 0),
        attribution,
        functions: Vec::new(),
        symbols: Vec::new(),
        collectors: vec![CollectorReport {
            name: Collector::Insn,
            status: Status::Ok,
            reason: None,
            samples: profiles.iter().map(|profile| profile.stacks.total()).sum(),
            lost: 0,
            unresolved: 0,
            skid: Some(Skid::None),
            cost_percent: None,
            cost_ci95: None,
            notes: Vec::new(),
        }],
        runs: Vec::new(),
        warnings: Vec::new(),
        ..Document::default()
    };
    Outcome { document, profiles, ..Outcome::default() }
}

/// `outcome` in three equal windows, if it is counted and says nothing else.
pub(crate) fn in_windows(mut outcome: Outcome) -> Outcome {
    if outcome.windows.is_empty() && outcome.document.unit == Unit::Instructions {
        outcome.windows = vec![outcome.profiles.clone(); 3];
        let record = PairRecord { processes: outcome.document.processes.clone(), ..PairRecord::default() };
        outcome.document.runs = vec![record; 3];
        let instructions = outcome.profiles.iter().map(|profile| profile.stacks.total()).sum();
        let scheduling = SchedulingWeight::default();
        let window = WindowCount { tick_offset_ns: 0, warmup_blocks: 0, instructions, scheduling, rep_bytes: None };
        outcome.document.ensemble =
            Some(Ensemble { shown: 1, windows: vec![window; 3], sizing: None, first_digest: None });
    }
    outcome
}

/// A timed run on hardware: these GiB/s, no profile.
pub(crate) fn timed(release: &str, mode: &str, gib_s: &[f64]) -> Outcome {
    let mut outcome = counted(release, mode, &[], &[]);
    outcome.profiles.clear();
    outcome.document.executed_on = ExecutedOn::Hardware;
    outcome.document.unit = Unit::Samples;
    outcome.document.attribution = Attribution::default();
    outcome.document.throughput = Throughput { runs: gib_s.to_vec(), ..Throughput::default() };
    outcome
}

const ENTRY: &str = "pipeprof;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;ksys_write;vfs_write";
const READ: &str = "pipeprof;read;entry_SYSCALL_64_after_hwframe;do_syscall_64;ksys_read;vfs_read";

/// The shape of write(2) on an older and a newer kernel: functions that are renamed, grow, shrink, vanish and appear.
pub(crate) fn older() -> Outcome {
    let e = |rest: &str| format!("{ENTRY};{rest}");
    let r = |rest: &str| format!("{READ};{rest}");
    let writer = [
        (e("pipe_write"), 20_000),
        (e("pipe_write;copy_page_from_iter;_copy_from_iter"), 5_000),
        (e("pipe_write;__alloc_pages;get_page_from_freelist"), 90_000),
        (e("pipe_write;__alloc_pages"), 30_000),
        (e("pipe_write;file_update_time;current_time"), 4_000),
        (e("pipe_write;mutex_lock"), 2_000),
    ];
    let reader = [(r("pipe_read"), 15_000), (r("pipe_read;touch_atime"), 3_000)];
    of("6.12.9+deb13-cloud-amd64", &writer, &reader)
}

/// See [`older`].
pub(crate) fn newer() -> Outcome {
    let e = |rest: &str| format!("{ENTRY};{rest}");
    let r = |rest: &str| format!("{READ};{rest}");
    let writer = [
        (e("anon_pipe_write"), 22_000),
        (e("anon_pipe_write;copy_page_from_iter;_copy_from_iter"), 5_000),
        (e("anon_pipe_write;__alloc_frozen_pages_noprof;get_page_from_freelist"), 110_000),
        (e("anon_pipe_write;__alloc_frozen_pages_noprof"), 33_000),
        (e("anon_pipe_write;mutex_lock"), 2_000),
    ];
    let reader = [(r("anon_pipe_read"), 15_000)];
    of("7.2.1-cloud-amd64", &writer, &reader)
}

fn of(release: &str, writer: &[(String, u64)], reader: &[(String, u64)]) -> Outcome {
    let writer: Vec<(&str, u64)> = writer.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect();
    let reader: Vec<(&str, u64)> = reader.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect();
    counted(release, "write", &writer, &reader)
}
