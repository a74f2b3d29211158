//! Outcomes built from the articles' stacks.

use pipeprof::profile::{
    ClassCounts, CycleModel, Folded, Moved, ProcessName, Profile, RoleCycles, RoleShare, Unit, attribute,
};
use pipeprof::result::*;
use pipeprof::roles::{RoleId, Skid};
use pipeprof::workload::Spec;

pub(crate) fn stacks(name: &str) -> Folded {
    let text =
        std::fs::read_to_string(format!("{}/src/reproduce/articles/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    Folded::parse(&text).unwrap()
}

/// `folded` with weights like those of a few thousand samples.
fn sampled(folded: &Folded) -> Folded {
    let mut samples = Folded::new();
    for (stack, weight) in folded.iter() {
        samples.add(stack.to_string(), weight * 3000 / folded.total());
    }
    samples
}

/// A sampled run on hardware.
pub(crate) fn sampled_run() -> Outcome {
    let moved = Moved { bytes: 10 << 30, calls: 40_960, cpu_ns: Some(2_700_000_000) };
    let writer = sampled(&stacks("santos_zeroes_pv.folded"));
    let reader = sampled(&stacks("santos_vmsplice.folded"));
    let mut writer_shares = attribute(&writer, Unit::Samples, Skid::CpuClock, &moved);
    for share in &mut writer_shares {
        if share.role == RoleId::PageAlloc {
            share.calls_per_mib = Some(256.0);
        }
    }
    let totals = |cpu| ProcessTotals {
        bytes: 10 << 30,
        calls: 40_960,
        short: 3,
        elapsed_ns: 2_700_000_000,
        user_ns: 12_000_000,
        system_ns: 2_688_000_000,
        voluntary_switches: 1234,
        cpu: Some(cpu),
        pipe_size: 65_536,
        counters_reason: Some("not available here: no PMU".to_owned()),
        ..ProcessTotals::default()
    };
    let processes = Processes::of_pair(totals(0), totals(1), 0);
    let document = Document {
        schema: SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        started: "2026-11-20T10:15:00Z".to_owned(),
        command: "pipeprof run --mode write".to_owned(),
        mode: "write".to_owned(),
        target: MeasuredTarget::Pair { workload: Spec::default() },
        kernel: KernelInfo { release: "6.1.0-50-cloud-amd64".to_owned(), ..KernelInfo::default() },
        executed_on: ExecutedOn::Hardware,
        unit: Unit::Samples,
        environment: Environment { cpus: 2, ..Environment::default() },
        throughput: Throughput {
            median_gib_s: Some(3.7),
            ci95: Some([3.5, 3.9]),
            mad_gib_s: Some(0.05),
            runs: vec![3.5, 3.6, 3.65, 3.7, 3.75, 3.8, 3.9],
            outliers: 1,
        },
        processes: processes.clone(),
        attribution: Attribution {
            collector: "sample".to_owned(),
            processes: [
                (ProcessName::WRITER, writer_shares),
                (ProcessName::READER, attribute(&reader, Unit::Samples, Skid::CpuClock, &moved)),
            ]
            .into_iter()
            .collect(),
            others: None,
        },
        functions: vec![FunctionCalls {
            calls: 2_621_440,
            total_ns: Some(800_000_000),
            self_ns: Some(790_000_000),
            missed: 2,
            ..FunctionCalls::none(ProcessName::WRITER, RoleId::PageAlloc, "__alloc_pages", "kprobe")
        }],
        symbols: Vec::new(),
        collectors: vec![
            CollectorReport {
                name: Collector::Sample,
                status: Status::Ok,
                reason: None,
                samples: writer.total() + reader.total(),
                lost: 0,
                unresolved: 4,
                skid: Some(Skid::CpuClock),
                cost_percent: Some(0.8),
                cost_ci95: Some([0.2, 1.5]),
                notes: vec!["cpu-clock at 4999 Hz".to_owned()],
            },
            CollectorReport {
                name: Collector::Kprobe,
                status: Status::Unavailable,
                reason: Some("this kernel has no kprobes".to_owned()),
                samples: 0,
                lost: 0,
                unresolved: 0,
                skid: None,
                cost_percent: None,
                cost_ci95: None,
                notes: Vec::new(),
            },
        ],
        runs: vec![PairRecord { collectors: Vec::new(), processes }],
        warnings: vec![Warning {
            code: pipeprof::util::warning::WarningCode::TooCostly,
            message: "the machine was busy (load 3.2 on 2 CPUs)".to_owned(),
            action: "run again when it is idle".to_owned(),
        }],
        ..Document::default()
    };
    let profile = |process, stacks| Profile {
        process,
        collector: "sample".to_owned(),
        unit: Unit::Samples,
        skid: Skid::CpuClock,
        stacks,
    };
    Outcome {
        document,
        profiles: vec![profile(ProcessName::WRITER, writer), profile(ProcessName::READER, reader)],
        ..Outcome::default()
    }
}

/// The same in an emulated guest, counted in instructions.
pub(crate) fn counted_run() -> Outcome {
    let mut outcome = sampled_run();
    let moved = Moved { bytes: 64 << 20, calls: 256, cpu_ns: None };
    let document = &mut outcome.document;
    document.executed_on = ExecutedOn::Tcg;
    document.unit = Unit::Instructions;
    document.throughput = Throughput::default();
    document.functions.clear();
    document.attribution.collector = "insn".to_owned();
    for profile in &mut outcome.profiles {
        profile.collector = "insn".to_owned();
        profile.unit = Unit::Instructions;
        profile.skid = Skid::None;
        let mut shares = attribute(&profile.stacks, Unit::Instructions, Skid::None, &moved);
        shares.iter_mut().for_each(|share| share.cycles = Some(cycles(share)));
        document.attribution.processes.insert(profile.process, shares);
    }
    document.cycle_model = Some(CycleModel::standard().unwrap());
    document.collectors.truncate(1);
    document.collectors[0].name = Collector::Insn;
    document.collectors[0].skid = Some(Skid::None);
    document.collectors[0].cost_percent = None;
    document.collectors[0].notes.clear();
    outcome
}

/// As many estimated cycles as instructions.
fn cycles(share: &RoleShare) -> RoleCycles {
    RoleCycles {
        estimate: share.weight,
        range: [share.weight / 2, share.weight * 2],
        share: share.share,
        share_range: [0.9, 1.1].map(|factor| factor * share.share),
        classes: ClassCounts { other: share.weight, ..ClassCounts::default() },
    }
}
