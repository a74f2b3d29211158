//! Comparisons of runs that differ in more than their kernel.

use super::*;

#[test]
fn one_and_two_cpus_are_two_sections_with_one_headline() {
    let column = |outcomes: [Outcome; 2]| Input {
        label: None,
        runs: outcomes
            .into_iter()
            .enumerate()
            .map(|(n, run)| (format!("{n}"), on_cpus(in_windows(run), n as u32 + 1)))
            .collect(),
    };
    let lines = |after: [Outcome; 2]| {
        let inputs = [column([older(), older()]), column(after)];
        let compared = compare(&inputs, &CompareOptions::default()).unwrap();
        assert_eq!(compared.comparison.sections.len(), 2);
        markdown::render(&compared.comparison).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = lines([with_unlock(900), with_unlock(1800)]);
    assert!(text.contains("more instructions without scheduling: +0.5 % on 1 CPU, +1.1 % on 2 CPUs"), "{text}");
    let text = lines([with_unlock(900), with_unlock(0)]);
    assert!(
        text.contains("write, 6.12.9 (1) -> 6.12.9 (2): more instructions without scheduling on 1 CPU, +0.5 %, but same on 2 CPUs, 0 %"),
        "{text}"
    );
}

#[test]
fn kernels_are_compared_in_the_same_setting() {
    let with = |mut outcome: Outcome, buffer_size: u64| {
        outcome.document.target.workload_mut().unwrap().buffer_size = buffer_size;
        outcome
    };
    let compared = of(vec![with(older(), 512), with(older(), 4096), with(newer(), 512), with(newer(), 4096)]).unwrap();
    let lines: Vec<String> = markdown::render(&compared.comparison)
        .lines()
        .filter(|line| line.starts_with("write, "))
        .map(|line| line.split(": ").next().unwrap().to_owned())
        .collect();
    let pair = |size: &str| format!("write, 6.12.9 buffer-size={size} -> 7.2.1 buffer-size={size}");
    assert_eq!(lines, [pair("512"), pair("4K")]);
    // Stored runs on one and on two CPUs, of one emulated model.
    let emulated = |mut outcome: Outcome, cpus: &str| {
        let arguments = ["-cpu", "qemu64", "-smp", cpus].map(str::to_owned).into();
        outcome.document.environment.emulator = Some(Emulator { version: String::new(), arguments });
        on_cpus(outcome, cpus.parse().unwrap())
    };
    let compared = of(vec![emulated(older(), "1"), emulated(newer(), "2")]).unwrap();
    let text = markdown::render(&compared.comparison);
    assert!(text.contains("write, 6.12.9 1 CPU -> 7.2.1 2 CPUs: "), "{text}");
    assert!(text.contains("\nExecuted on the emulated CPU qemu64 (TCG).\n"), "{text}");
}

#[test]
fn buffers_of_different_size_are_compared_per_kib() {
    let mut larger = older();
    larger.document.processes.of_mut(ProcessName::WRITER).bytes *= 2;
    larger.document.target.workload_mut().unwrap().buffer_size *= 2;
    let double = |folded: &pipeprof::profile::Folded| {
        let mut twice = folded.clone();
        twice.merge(folded);
        twice
    };
    for profile in &mut larger.profiles {
        profile.stacks = double(&profile.stacks);
    }
    let compared = of(vec![older(), larger]).unwrap();
    assert!(no_difference(&compared.comparison), "{:?}", compared.comparison.sections[0].steps[0].verdict);
    assert!(compared.comparison.differences.iter().any(|d| d.what == "workload.buffer_size"));
    assert!(compared.comparison.columns[0].label.contains("buffer-size"), "{:?}", compared.comparison.columns);
}

#[test]
fn every_axis_that_differs_is_named_as_it_is_typed() {
    for axis in AXES {
        let mut other = older();
        let spec = other.document.target.workload_mut().unwrap();
        let (text, value) = ["true", "1", "64K", "splice", "/dev/null"]
            .into_iter()
            .filter_map(|text| Some((text, axis.parse(text).ok()?)))
            .find(|(_, value)| axis.value(spec).as_ref() != Some(value) && axis.set(&mut spec.clone(), value).is_ok())
            .unwrap_or(("2", Value::Number(2)));
        axis.set(spec, &value).unwrap();
        let compared = of(vec![older(), other]).unwrap();
        let what = format!("workload.{}", axis.name.replace('-', "_"));
        let difference = compared.comparison.differences.iter().find(|difference| difference.what == what);
        assert_eq!(difference.unwrap_or_else(|| panic!("{what}")).matters, axis.matters);
        let label = &compared.comparison.columns[1].label;
        assert!(label.contains(&format!("{}={text}", axis.name)), "{label}");
    }
}

#[test]
fn what_differs_is_named() {
    let (mut a, mut b) = (older(), older());
    a.document.kernel.config.insert("CONFIG_PREEMPT_VOLUNTARY".into(), "y".into());
    b.document.kernel.config.insert("CONFIG_PREEMPT_LAZY".into(), "y".into());
    a.document.kernel.command_line = "console=ttyS0 quiet".into();
    b.document.kernel.command_line = "console=ttyS0 quiet mitigations=off".into();
    let compared = of(vec![a, b]).unwrap();
    let lazy = compared.comparison.other_options.iter().find(|d| d.what == "CONFIG_PREEMPT_LAZY").unwrap();
    assert_eq!((&lazy.values[..], &*lazy.matters), (&["n".to_owned(), "y".to_owned()][..], ""));
    assert_eq!(compared.comparison.columns[1].label, "6.12.9 mitigations=off");
}

#[test]
fn an_unknown_configuration_is_not_one_without_options() {
    let with = |option: &str| {
        let mut run = older();
        run.document.kernel.config.insert(option.into(), "y".into());
        run
    };
    let known = || with("CONFIG_PREEMPT_LAZY");
    let about_config = |comparison: &Comparison| -> Vec<Vec<String>> {
        let unknown = |caveat: &&Caveat| caveat.text.contains("configuration is unknown");
        comparison.caveats.iter().filter(unknown).map(|caveat| caveat.columns.clone()).collect()
    };
    let options = |comparison: &Comparison| -> Vec<Vec<String>> {
        let option = |difference: &&Difference| difference.what.starts_with("CONFIG_");
        comparison.other_options.iter().filter(option).map(|difference| difference.values.clone()).collect()
    };
    // One unknown configuration is not a difference, and one caveat reports it.
    let comparison = of(vec![known(), newer()]).unwrap().comparison;
    assert!(options(&comparison).is_empty() && !comparison.shared.iter().any(|s| s.what.starts_with("CONFIG_")));
    assert_eq!(about_config(&comparison), [["7.2.1"]]);
    let text = terminal::environment(&comparison, 100);
    assert_eq!(text.matches("configuration is unknown").count(), 1, "{text}");
    // Where two known ones differ, the third is shown as unknown.
    let comparison = of(vec![known(), newer(), with("CONFIG_PREEMPT_VOLUNTARY")]).unwrap().comparison;
    assert_eq!(options(&comparison), [["y", "unknown", "n"], ["n", "unknown", "y"]]);
    // All unknown: the caveat is about all columns.
    assert_eq!(about_config(&of(vec![older(), newer()]).unwrap().comparison), [Vec::<String>::new()]);
    // All known: as before.
    assert!(about_config(&of(vec![known(), known()]).unwrap().comparison).is_empty());
}

#[test]
fn runs_that_cannot_be_compared_are_refused_in_one_line() {
    let mut newer_schema = newer();
    newer_schema.document.schema = "pipeprof.result/99".into();
    assert!(refusal(vec![older(), newer_schema]).contains("pipeprof.result/99"));

    let mut other_mode = newer();
    other_mode.document.mode = "vmsplice".into();
    let text = refusal(vec![older(), other_mode]);
    assert!(text.contains("write") && text.contains("vmsplice"), "{text}");

    let mut hardware = newer();
    hardware.document.executed_on = ExecutedOn::Hardware;
    let text = refusal(vec![older(), hardware]);
    assert!(text.contains("tcg") && text.contains("hardware"), "{text}");

    let mut samples = newer();
    samples.document.unit = Unit::Samples;
    let text = refusal(vec![older(), samples]);
    assert!(text.contains("instructions") && text.contains("samples"), "{text}");

    let mut nothing = newer();
    nothing.document.processes.of_mut(ProcessName::WRITER).bytes = 0;
    assert!(refusal(vec![older(), nothing]).contains("moved no bytes"));

    let emulated_time = || {
        let mut outcome = older();
        outcome.document.unit = Unit::Samples;
        outcome
    };
    assert!(refusal(vec![emulated_time(), emulated_time()]).contains("--collect insn"));
    assert!(refusal(vec![older()]).contains("nothing to compare"));
    let mut no_profile = newer();
    no_profile.profiles.clear();
    assert!(refusal(vec![older(), no_profile]).contains("--collect insn"));
}
