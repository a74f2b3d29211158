use super::super::model::LimitingStage;
use super::super::pipeline::PipelineCommand;
use super::*;
use crate::document::{Collector, CollectorReport};
use crate::profile::{RoleShare, SchedulingWeight};

fn share((role, weight): &(RoleId, u64)) -> RoleShare {
    RoleShare {
        role: *role,
        weight: *weight,
        symbols: Vec::new(),
        share: 0.0,
        share_ci95: None,
        interrupts_off: 0,
        ns_per_kib: None,
        instructions_per_kib: None,
        instructions_per_call: None,
        calls_per_mib: None,
        cycles: None,
        entered: None,
    }
}

fn recording(release: &str, roles: &[(RoleId, u64)]) -> Recording {
    let total: u64 = roles.iter().map(|(_, weight)| weight).sum();
    let scheduling: u64 = roles.iter().filter(|(role, _)| SCHEDULING.contains(role)).map(|(_, weight)| weight).sum();
    let stage = StageInstructions {
        name: "stage1-dd".to_owned(),
        instructions: total,
        rep_bytes: Some(0),
        runs: vec![total - scheduling; 3],
        scheduling: SchedulingWeight { sleeps: scheduling, ..SchedulingWeight::default() },
        roles: roles.iter().map(share).collect(),
    };
    let mut recording = Recording {
        pipeline: PipelineCommand { stages: vec![vec!["dd".to_owned()]], shell: false },
        instructions: Some(RecordedInstructions {
            cpus: 1,
            stages: vec![stage],
            others: 0,
            collector: CollectorReport::ok(Collector::Insn, 0),
            symbols: Vec::new(),
        }),
        limit: Some(PipelineLimit::Stages {
            stages: vec![LimitingStage { name: "dd".to_owned(), cpu: 0.96, ..LimitingStage::default() }],
        }),
        executed_on: ExecutedOn::Tcg,
        ..Recording::default()
    };
    recording.kernel.release = release.to_owned();
    recording
}

fn findings(before: &[(RoleId, u64)], after: &[(RoleId, u64)]) -> String {
    let [before, after] = [recording("6.12", before), recording("7.2", after)];
    let change = RecordingChange::new([&before, &after], [Path::new("a"), Path::new("b")], MARGIN).unwrap();
    change.findings.join(" ")
}

#[test]
fn the_work_is_compared_without_scheduling_and_the_largest_contributor_named() {
    let before = [(RoleId::PageAlloc, 6_000_000), (RoleId::CopyIn, 4_000_000), (RoleId::Scheduler, 1_000_000)];
    let after = [(RoleId::PageAlloc, 5_000_000), (RoleId::CopyIn, 4_100_000), (RoleId::Scheduler, 9_000_000)];
    assert_eq!(
        findings(&before, &after),
        "Linux 7.2 executes 9.0 % fewer instructions for this pipeline than Linux 6.12, without scheduling: 9.10 \
         million instead of 10.0 million (with scheduling: +64.5 %). Largest contributor: scheduling, +8.00 million. `dd` limits \
         the pipeline in both."
    );
    let text = findings(&before, &[after[0], after[1], (RoleId::Scheduler, 1_100_000)]);
    assert!(text.contains("Largest contributor: page allocation in stage1-dd, -1.00 million."), "{text}");
    // The schedule alone is no difference.
    let text = findings(&before, &[before[0], before[1], (RoleId::Scheduler, 5_000_000)]);
    assert!(text.starts_with("Linux 7.2 and Linux 6.12 execute as many instructions"), "{text}");
}

#[test]
fn unequal_work_is_said() {
    let [before, mut after] = [recording("6.12", &[]), recording("7.2", &[])];
    after.exit_codes = vec![1];
    let end = |bytes| RecordedEnd { bytes, sleeps: 1, ..RecordedEnd::default() };
    let pipe = |bytes| RecordedPipe { writers: vec![end(bytes)], ..RecordedPipe::default() };
    let [before, after] = [(before, 10 << 20), (after, 5 << 20)].map(|(recording, bytes)| Recording {
        pipes: vec![pipe(bytes)],
        processes: vec![Default::default()],
        ..recording
    });
    let change = RecordingChange::new([&before, &after], [Path::new("a"), Path::new("b")], MARGIN).unwrap();
    let text = change.cautions.join(" ");
    assert!(text.starts_with("They ended differently: exit codes [] and [1]."), "{text}");
    assert!(text.contains("10.0 and 5.00 MiB"), "{text}");
}

#[test]
fn needless_wake_ups_are_named_and_bytes_never_read_are_no_work() {
    let roles = |scheduling| [(RoleId::Timestamps, 19_700_000), (RoleId::Scheduler, scheduling)];
    let end = |bytes, sleeps, needless| RecordedEnd { bytes, sleeps, needless, ..RecordedEnd::default() };
    let [before, after] = [("6.1", 300_000_000, 44_158, 44_147, 3 << 20), ("7.2", 66_000_000, 11, 0, 4 << 20)].map(
        |(release, scheduling, sleeps, needless, written)| Recording {
            pipes: vec![RecordedPipe {
                writers: vec![end(written, sleeps, needless)],
                readers: vec![end(3 << 20, 0, 0)],
                ..RecordedPipe::default()
            }],
            processes: vec![Default::default()],
            ..recording(release, &roles(scheduling))
        },
    );
    let change = RecordingChange::new([&before, &after], [Path::new("a"), Path::new("b")], MARGIN).unwrap();
    let text = change.findings.join(" ");
    let expected = "Largest contributor: scheduling, -234 million: fewer needless wake-ups, 0 instead of 44,147.";
    assert!(text.contains(expected), "{text}");
    assert!(!change.cautions.iter().any(|caution| caution.contains("the same data")), "{:?}", change.cautions);
}

#[test]
fn runs_decide_what_is_a_change() {
    let said = |runs: &[u64]| {
        let [mut before, after] = [1_000_000, 1_020_000].map(|count| recording("7.2", &[(RoleId::CopyIn, count)]));
        before.instructions.as_mut().unwrap().stages[0].runs = runs.to_vec();
        let change = RecordingChange::new([&before, &after], [Path::new("a"), Path::new("b")], MARGIN).unwrap();
        change.findings[0].clone()
    };
    assert!(said(&[1_000_000, 1_000_100, 999_900]).starts_with("b executes 2.0 % (±0.06 %) more"));
    let text = said(&[1_000_000, 1_010_000, 990_000]);
    assert!(text.starts_with("It is undecided whether b and a execute as many"), "{text}");
    assert!(text.contains("counted runs of each (--runs "), "{text}");
    let text = said(&[1_000_000]);
    assert!(text.ends_with("a single run shows no uncertainty: record with --runs 3."), "{text}");
}

#[test]
fn a_disk_in_one_of_two_recordings_is_said() {
    let [mut before, after] = [1_000_000, 1_020_000].map(|count| recording("7.2", &[(RoleId::CopyIn, count)]));
    before.on_disk = vec!["/large".to_owned()];
    let change = RecordingChange::new([&before, &after], [Path::new("a"), Path::new("b")], MARGIN).unwrap();
    assert!(change.cautions[0].contains("on a disk in one of them"), "{:?}", change.cautions);
}

#[test]
fn copying_that_the_counts_do_not_show_is_said() {
    let roles = [(RoleId::CopyOut, 1_000_000)];
    let [mut before, after] = [recording("6.12", &roles), recording("7.2", &roles)];
    let said = |before: &Recording| {
        let change = RecordingChange::new([before, &after], [Path::new("a"), Path::new("b")], MARGIN).unwrap();
        change.cautions.into_iter().find(|caution| caution.contains("count once"))
    };
    assert_eq!(said(&before), None);
    before.instructions.as_mut().unwrap().stages[0].rep_bytes = Some(40 << 20);
    let text = said(&before).unwrap();
    assert!(text.contains("40.0 MiB more in Linux 6.12"), "{text}");
    // A recording of an older version does not know.
    before.instructions.as_mut().unwrap().stages[0].rep_bytes = None;
    assert_eq!(said(&before), None);
}

#[test]
fn other_pipelines_cannot_be_compared() {
    let [mut before, after] = [recording("6.12", &[]), recording("7.2", &[])];
    before.pipeline.stages = vec![vec!["a".to_owned()], vec!["b".to_owned()]];
    let error =
        RecordingChange::new([&before, &after], [Path::new("a"), Path::new("b")], MARGIN).unwrap_err().to_string();
    assert!(error.contains("compare recordings of one pipeline"), "{error}");
}
