//! What a measurement takes from its baseline: the workload and the guest's settings, and which flags contradict them.

use super::given::GivenFlags;
use crate::arch::Processor;
use crate::compare::input::case_name;
use crate::profile::Unit;
use crate::result::{Collector, Document, ExecutedOn, Measurement, Selection};
use crate::run::MeasurePair as _;
use crate::run::{RunOptions, WindowSizing};
use crate::util::choice::Choice as _;
use crate::util::size;
use crate::util::usage::UsageError;
use crate::util::warning::WarningCode;
use crate::vm::{GuestMachine, qemu};
use crate::workload::axes::AXES;
use crate::workload::spec::{Amount, Pin};
use crate::workload::{Spec, WorkloadRequest};
use anyhow::{Context as _, Result, anyhow, bail};

/// The options that measure as `baseline` was measured. `given` holds the flags of this command line; they may repeat a
/// stored setting, not contradict it.
pub(crate) fn options(given: &GivenFlags, baseline: &Document) -> Result<RunOptions> {
    let mut options = given.options.clone();
    let refused = |error: anyhow::Error| UsageError::new(format!("{error:#}; repeat the baseline with `pipeprof run`"));
    collector(&mut options, baseline)?;
    guest(&mut options, given, baseline)?;
    let workload = baseline.target.workload().context("the baseline is a recorded pipeline")?;
    contradictions(&options.workload, workload, baseline)?;
    let stored = WorkloadRequest::of(case_name(baseline), workload).map_err(refused)?;
    if let Some(ensemble) = &baseline.ensemble {
        if options.sizing != WindowSizing::default() {
            bail!(UsageError::new(
                "--precision and --window-limit conflict with --baseline, whose windows are repeated: give them when the \
                 baseline is stored"
            ));
        }
        options.workload = stored;
        options.runs = options.runs.or(u32::try_from(ensemble.windows.len()).ok());
    } else {
        options.workload = WorkloadRequest { amount: None, ..stored.clone() };
        // An amount that is given also decides the number of runs: give it only where it is not the default.
        if options.request(String::new())?.workload != *workload {
            options.workload = stored;
        }
    }
    if options.request(String::new())?.workload != *workload {
        bail!(refused(anyhow!("the workload in the baseline cannot be repeated by this build")));
    }
    // The tested kernel may be able to read from the source that the baseline's could not.
    if baseline.warnings.iter().any(|warning| warning.code == WarningCode::WorkloadChanged) && options.exact() {
        options.workload.use_source_of_every_kernel();
    }
    Ok(options)
}

fn contradiction(flag: &str, given: &str, stored: &str) -> Result<()> {
    if given == stored {
        return Ok(());
    }
    let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { format!("'{text}'") };
    bail!(UsageError::new(format!(
        "{flag} {} contradicts the baseline, which has {}; leave out {flag}, or repeat the baseline with it",
        shown(given),
        shown(stored)
    )))
}

fn collector(options: &mut RunOptions, baseline: &Document) -> Result<()> {
    let exact = baseline.unit == Unit::Instructions;
    if exact && options.collect.is_none() {
        options.collect = Some(Selection::List(vec![Collector::Insn]));
    }
    match (options.exact(), exact) {
        (true, false) => bail!(UsageError::new("--collect insn contradicts the baseline, which is timed")),
        (false, true) => bail!(UsageError::new("--collect contradicts the baseline, which has --collect insn")),
        _ => Ok(()),
    }
}

fn guest(options: &mut RunOptions, given: &GivenFlags, baseline: &Document) -> Result<()> {
    let on = baseline.executed_on;
    match (on, &options.kernel) {
        (ExecutedOn::Hardware, None) => return Ok(()),
        (ExecutedOn::Hardware, Some(_)) => bail!(UsageError::new(
            "--kernel contradicts the baseline, which was measured on hardware; leave out --kernel, or repeat the \
             baseline with it"
        )),
        (_, None) => bail!(UsageError::new("the baseline was measured in a guest: add --kernel")),
        _ => {}
    }
    let Some(Measurement::Pair(asked)) = &baseline.request else {
        bail!(UsageError::new("the baseline does not say what was asked for; repeat it with `pipeprof run`"))
    };
    let stored = asked.resolved();
    let machine = &options.machine;
    let is_given = &given.machine;
    let texts = |machine: &GuestMachine| {
        [
            ("--accel", is_given.accel, machine.accel.name().to_owned()),
            ("--cpus", is_given.cpus, machine.cpus().to_string()),
            ("--memory", is_given.memory, size::format(machine.memory >> 20 << 20)),
            ("--append", is_given.append, machine.append.join(" ")),
            (
                "--cpu",
                is_given.cpu,
                machine
                    .cpu
                    .clone()
                    .unwrap_or_else(|| qemu::cpu_model(Processor::of_machine(&baseline.kernel.machine), on).to_owned()),
            ),
        ]
    };
    for ((flag, given, asked), (.., stored)) in texts(machine).into_iter().zip(texts(&stored)) {
        if given {
            contradiction(flag, &asked, &stored)?;
        }
    }
    if asked.memcg && !options.memcg {
        bail!(UsageError::new(
            "--no-memcg contradicts the baseline, in which memory was charged; leave it out, or repeat the baseline"
        ));
    }
    options.memcg = asked.memcg;
    options.machine = GuestMachine {
        no_snapshot: machine.no_snapshot,
        boot_limit: machine.boot_limit,
        time_limit: machine.time_limit,
        ..stored
    };
    Ok(())
}

/// Refuse flags of a workload other than the baseline's.
fn contradictions(asked: &WorkloadRequest, stored: &Spec, baseline: &Document) -> Result<()> {
    let base = case_name(baseline);
    contradiction("--mode", asked.mode.as_deref().unwrap_or(base), base)?;
    for axis in AXES {
        if let Some(value) = asked.overrides.get(axis.name) {
            let has = axis.value(stored).map(|value| axis.format(&value)).unwrap_or_default();
            contradiction(&format!("--{}", axis.name), &axis.format(value), &has)?;
        }
    }
    if let Some(asked) = asked.amount {
        let (flag, text) = amount(asked);
        let (other, has) = amount(stored.amount);
        let has = if flag == other { has } else { format!("{other} {has}") };
        contradiction(flag, &text, &has)?;
    }
    if let Some(asked) = asked.pin {
        contradiction("--pin", &pin(asked), &pin(stored.pin))?;
    }
    if let Some(bytes) = asked.warmup_bytes {
        contradiction("--warmup", &size::format(bytes), &size::format(stored.warmup_bytes))?;
    }
    for (flag, asked, stored) in
        [("--verify", asked.verify, stored.verify), ("--unsafe-pipe", asked.unsafe_pipe, stored.unsafe_pipe)]
    {
        if asked {
            contradiction(flag, "true", &stored.to_string())?;
        }
    }
    Ok(())
}

fn amount(amount: Amount) -> (&'static str, String) {
    match amount {
        Amount::Bytes(bytes) => ("--bytes", size::format(bytes)),
        Amount::DurationNs(ns) => ("--duration", format!("{ns}ns")),
        Amount::Calls(calls) => ("--calls", calls.to_string()),
    }
}

fn pin(pin: Pin) -> String {
    match pin {
        Pin::Auto => "auto".to_owned(),
        Pin::None => "none".to_owned(),
        Pin::Cpus { writer, reader } => format!("{writer},{reader}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    const GALLERY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../flamegraphs");

    fn on_6_12() -> GivenFlags {
        let options = RunOptions { kernel: Some("6.12".to_owned()), ..RunOptions::default() };
        GivenFlags { options, ..GivenFlags::default() }
    }

    #[test]
    fn every_run_of_the_gallery_can_be_repeated() {
        let gallery = Path::new(GALLERY);
        let mut runs = 0;
        for entry in std::fs::read_dir(gallery).unwrap() {
            let folder = entry.unwrap().path();
            if !folder.join("result.json").exists() {
                continue;
            }
            let document = crate::result::open(&folder).unwrap().document;
            let mut given = on_6_12();
            given.options.machine.time_limit = Duration::from_secs(7);
            let options = options(&given, &document).unwrap();
            assert_eq!((options.machine.cpus(), options.machine.memory), (2, 1 << 30));
            assert_eq!(options.machine.time_limit.as_secs(), 7);
            assert_eq!(options.exact(), document.unit == Unit::Instructions);
            let request = options.request(String::new()).unwrap();
            assert_eq!((request.mode, Some(request.workload)), (document.mode, document.target.workload().cloned()));
            runs += 1;
        }
        assert_eq!(runs, 8);
    }

    #[test]
    fn the_request_says_whether_memory_was_charged() {
        let gallery = Path::new(GALLERY).join("6.1-write-exact");
        let mut document = crate::result::open_document(&gallery).unwrap();
        let given = on_6_12();
        let mut without = given.clone();
        without.options.memcg = false;
        let mut one_cpu = given.clone();
        (one_cpu.options.machine.cpus, one_cpu.machine.cpus) = (Some(1), true);
        let options = |document: &Document, given: &GivenFlags| {
            options(given, document).map(|options| options.memcg).map_err(|error| error.to_string())
        };
        assert!(options(&document, &without).unwrap_err().contains("--no-memcg contradicts"));
        assert!(options(&document, &one_cpu).unwrap_err().contains("--cpus"));
        for stored in [true, false] {
            let Some(Measurement::Pair(asked)) = &mut document.request else { panic!("a run") };
            asked.memcg = stored;
            assert_eq!(options(&document, &given), Ok(stored));
        }
        assert_eq!(options(&document, &without), Ok(false));
        document.request = None;
        assert!(options(&document, &given).unwrap_err().contains("does not say"));
    }
}
