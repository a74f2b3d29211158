//! What a comparison names as a reason of another total.

use super::synthetic::counted;
use super::{of, wide};
use pipeprof::profile::ProcessName;
use pipeprof::result::Outcome;

/// The first sentence, and what follows in its line.
fn answer(before: Outcome, after: Outcome) -> String {
    let text = wide(&of(vec![before, after]).unwrap().comparison);
    let text = text.split("largest contributor:").next().unwrap().split("with scheduling: ").next().unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A run of 1 MiB. `[number, price]` of sleeps and preemptions, in instructions.
fn scheduled(release: &str, [sleeps, price]: [u64; 2], [preemptions, cost]: [u64; 2]) -> Outcome {
    let call = "pipeprof;write;entry_SYSCALL_64_after_hwframe;do_syscall_64";
    let stacks = [
        (format!("{call};ksys_write;vfs_write;pipe_write"), 400_000),
        (format!("{call};ksys_write;vfs_write;pipe_write;schedule"), sleeps * price),
        (format!("{call};exit_to_user_mode_loop;schedule"), preemptions * cost),
    ];
    let stacks: Vec<(&str, u64)> = stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect();
    let mut outcome = counted(release, "write", &stacks, &[]);
    let writer = outcome.document.processes.totals.get_or_default(ProcessName::WRITER);
    (writer.voluntary_switches, writer.involuntary_switches) = (sleeps, preemptions);
    outcome
}

#[test]
fn a_reason_carries_most_of_the_difference() {
    // A preemption less is nothing beside the price of a sleep.
    let text = answer(scheduled("6.1", [10, 11_378], [1, 1_500]), scheduled("6.12", [10, 8_115], [0, 0]));
    assert!(
        text.contains("with scheduling -6.6 %, because a sleep costs 8,115 instructions with 6.12, before 11,378"),
        "{text}"
    );
    assert!(!text.contains("preempted"), "{text}");
    let text = answer(scheduled("6.12", [16, 4_712], [16, 1_763]), scheduled("7.2", [32, 5_326], [0, 0]));
    assert!(text.contains("because 7.2 sleeps more often"), "{text}");
    let text = answer(scheduled("6.1", [10, 5_000], [40, 1_500]), scheduled("6.12", [11, 5_000], [4, 1_500]));
    assert!(text.contains("because 6.12 is preempted less often"), "{text}");
    let text = answer(scheduled("6.1", [10, 5_000], [40, 1_500]), scheduled("6.12", [10, 5_000], [40, 3_000]));
    assert!(text.contains("because a preemption costs 3,000 instructions with 6.12, before 1,500"), "{text}");
    // Three changes, none of which is most of it.
    let text = answer(scheduled("6.1", [100, 1_000], [100, 1_000]), scheduled("6.12", [120, 1_170], [140, 1_000]));
    assert!(text.contains("with scheduling +") && !text.contains("because"), "{text}");
}
