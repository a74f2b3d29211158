//! What a comparison names as a reason: of another total, and of kernels that were built in another way.

use super::synthetic::{counted, newer, older};
use super::{of, wide};
use pipeprof::compare::model::{Comparison, Difference};
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
    // One preemption less explains next to nothing. The lower price of a sleep explains the change.
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

/// `outcome` with these options, built by this compiler.
fn configured(mut outcome: Outcome, compiler: &str, options: &[&str]) -> Outcome {
    outcome.document.kernel.compiler = compiler.to_owned();
    let options = options.iter().filter_map(|option| option.split_once('='));
    outcome.document.kernel.config =
        options.map(|(name, value)| (format!("CONFIG_{name}"), value.to_owned())).collect();
    outcome
}

/// `outcome` with a call of `function` in the writer.
fn calling(mut outcome: Outcome, function: &str) -> Outcome {
    let stack = format!("pipeprof;write;entry_SYSCALL_64_after_hwframe;do_syscall_64;ksys_write;{function}");
    outcome.profiles[0].stacks.add(stack, 9_000);
    outcome
}

#[test]
fn an_option_matters_only_by_its_evidence() {
    let (gcc_12, gcc_14) = ("gcc-12 (Debian) 12.2.0", "gcc-14 (Debian) 14.2.0");
    let named = |comparison: &Comparison| -> Vec<String> {
        let options = comparison.differences.iter().filter(|one| one.what.starts_with("CONFIG_"));
        options.map(|one| one.what.clone()).collect()
    };
    let before = || configured(older(), gcc_12, &["SECURITY=y", "DEBUG_LIST=y", "HZ=250"]);
    // Options of the security modules' files are no hooks of read and write, and a list check has another name.
    let options = ["SECURITY=y", "SECURITY_APPARMOR_EXPORT_BINARY=y", "LIST_HARDENED=y", "HZ=1000", "PREEMPT_LAZY=y"];
    let after = || configured(newer(), gcc_14, &options);
    let compared = of(vec![before(), after()]).unwrap().comparison;
    assert!(named(&compared).is_empty(), "{:?}", compared.differences);
    let others: Vec<&str> = compared.other_options.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(others, ["CONFIG_HZ", "CONFIG_PREEMPT_LAZY", "CONFIG_SECURITY_APPARMOR_EXPORT_BINARY"]);
    let first = answer(before(), after());
    assert!(first.contains("not only the source differs: gcc 12.2.0 and gcc 14.2.0"), "{first}");
    assert!(!first.contains("option") && wide(&compared).contains("3 other built-in options differ"), "{first}");
    // A function that only the kernel with the option executes.
    let checked =
        || configured(calling(newer(), "__check_object_size"), gcc_14, &["SECURITY=y", "HARDENED_USERCOPY=y"]);
    let compared = of(vec![before(), checked()]).unwrap().comparison;
    let found = |what: &str| -> Difference {
        compared.differences.iter().find(|one| one.what == what).unwrap_or_else(|| panic!("{what}")).clone()
    };
    let evidence = found("CONFIG_HARDENED_USERCOPY").matters;
    assert!(evidence.contains("__check_object_size") && evidence.contains("8.79 instr/KiB"), "{evidence}");
    assert!(answer(before(), checked()).contains("gcc 12.2.0 and gcc 14.2.0, and the option HARDENED_USERCOPY"));
    assert!(
        wide(&compared).contains("CONFIG_HARDENED_USERCOPY: only kernels with it execute __check_object_size"),
        "{}",
        wide(&compared)
    );
    // Both execute it, or neither: no evidence.
    let both = of(vec![calling(before(), "__check_object_size"), checked()]).unwrap().comparison;
    assert!(named(&both).is_empty(), "{:?}", both.differences);
    // What a search has measured.
    let bounds = || configured(newer(), gcc_14, &["SECURITY=y", "UBSAN=y", "UBSAN_BOUNDS=y", "PCI_P2PDMA=y"]);
    let compared = of(vec![before(), bounds()]).unwrap().comparison;
    assert_eq!(named(&compared), ["CONFIG_UBSAN_BOUNDS"]);
    assert!(compared.differences.iter().any(|one| one.matters.contains("+3.4 %") && one.matters.contains("7.2.13")));
}
