//! What `check` takes from its baseline: the workload and the guest's settings, and which flags contradict them.

use super::run::GivenFlags;
use crate::profile::Unit;
use crate::result::{Collector, Document, ExecutedOn, Selection};
use crate::run::{RunOptions, WindowSizing};
use crate::util::size;
use crate::util::usage::UsageError;
use crate::vm::{GuestMachine, stored};
use crate::workload::axes::AXES;
use crate::workload::caveats::WORKLOAD_CHANGED;
use crate::workload::spec::{Amount, Pin};
use crate::workload::{Spec, WorkloadRequest};
use anyhow::{Context as _, Result, anyhow, bail};

/// The options that measure as `baseline` was measured. `given` holds the flags of this command line; they may repeat a
/// stored setting, not contradict it.
///
/// # Errors
/// A usage error that names the flag and the stored value, or the setting that the document does not hold.
pub(super) fn options(given: &GivenFlags, baseline: &Document) -> Result<RunOptions> {
    let mut options = given.options.clone();
    let refused = |error: anyhow::Error| UsageError::new(format!("{error:#}; repeat the baseline with `pipeprof run`"));
    collector(&mut options, baseline)?;
    guest(&mut options, given, baseline)?;
    let workload = baseline.target.workload().context("the baseline is a recorded pipeline")?;
    contradictions(&options.workload, workload, baseline)?;
    let stored = WorkloadRequest::of(&baseline.mode, workload).map_err(refused)?;
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
    if baseline.warnings.iter().any(|warning| warning.code == WORKLOAD_CHANGED) && options.exact() {
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
    let missing = |why: &str| {
        UsageError::new(format!(
            "the baseline does not hold all settings of its guest: {why}; repeat it with `pipeprof run`"
        ))
    };
    let emulator = baseline.environment.emulator.as_ref().ok_or_else(|| missing("the emulator is missing"))?;
    let stored = stored::machine(emulator, on).map_err(|error| missing(&format!("{error:#}")))?;
    let machine = &options.machine;
    let texts = |machine: &GuestMachine| {
        [
            ("accel", format!("{:?}", machine.accel).to_lowercase()),
            ("cpus", machine.cpus().to_string()),
            ("memory", size::format(machine.memory >> 20 << 20)),
            ("append", machine.append.join(" ")),
            ("cpu", machine.cpu.clone().unwrap_or_default()),
        ]
    };
    for ((name, asked), (_, stored)) in texts(machine).into_iter().zip(texts(&stored)) {
        if given.has(name) && !(name == "accel" && asked == "auto") {
            contradiction(&format!("--{name}"), &asked, &stored)?;
        }
    }
    // Earlier versions did not store it.
    let memcg = baseline.memcg.or_else(|| charged(&baseline.command));
    let memcg = memcg.ok_or_else(|| missing("whether memory was charged to a cgroup (--no-memcg) is missing"))?;
    if memcg && !options.memcg {
        bail!(UsageError::new(
            "--no-memcg contradicts the baseline, in which memory was charged; leave it out, or repeat the baseline"
        ));
    }
    options.memcg = memcg;
    options.machine = GuestMachine {
        no_snapshot: machine.no_snapshot,
        boot_limit: machine.boot_limit,
        time_limit: machine.time_limit,
        ..stored
    };
    Ok(())
}

/// Whether a guest's memory was charged to a cgroup, from the command that measured it, for documents that do not hold it;
/// `None` where the columns of a comparison differ in it.
fn charged(command: &str) -> Option<bool> {
    let own = |word: &str| word.trim_matches(['\'', '"']) == "--no-memcg";
    let single = ["pipeprof run ", "pipeprof check "].iter().any(|start| command.starts_with(start));
    match command.split_whitespace().any(own) {
        none if single => Some(!none),
        _ if command.contains("--memcg") || command.contains("--no-memcg") => None,
        _ => Some(true),
    }
}

/// Refuse flags of a workload other than the baseline's.
fn contradictions(asked: &WorkloadRequest, stored: &Spec, baseline: &Document) -> Result<()> {
    let base = crate::compare::input::case_name(baseline);
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

    #[test]
    fn every_run_of_the_gallery_can_be_repeated() {
        let gallery = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("flamegraphs");
        let mut runs = 0;
        for entry in std::fs::read_dir(gallery).unwrap() {
            let folder = entry.unwrap().path();
            if !folder.join("result.json").exists() {
                continue;
            }
            let document = crate::result::open(&folder).unwrap().document;
            let mut given = crate::cli::run::given_flags("--run-flags", "--time-limit 7").unwrap();
            given.options.kernel = Some("6.12".to_owned());
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
    fn the_document_says_whether_memory_was_charged() {
        let gallery = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("flamegraphs/6.1-write-exact");
        let mut document = crate::result::open_document(&gallery).unwrap();
        // Whatever the command was, such as that of a column without memcg.
        document.command = "pipeprof compare --memcg on --memcg off".to_owned();
        let options = |document: &Document, flags: &str| {
            let mut given = crate::cli::run::given_flags("--run-flags", flags).unwrap();
            given.options.kernel = Some("6.12".to_owned());
            options(&given, document).map(|options| options.memcg).map_err(|error| error.to_string())
        };
        for stored in [true, false] {
            document.memcg = Some(stored);
            assert_eq!(options(&document, ""), Ok(stored));
        }
        assert_eq!(options(&document, "--no-memcg"), Ok(false));
        document.memcg = Some(true);
        assert!(options(&document, "--no-memcg").unwrap_err().contains("--no-memcg contradicts"));
        document.memcg = None;
        assert!(options(&document, "").unwrap_err().contains("--no-memcg) is missing"));
    }

    #[test]
    fn the_command_says_whether_memory_was_charged() {
        assert_eq!(charged("pipeprof run --kernel 6.1 --no-memcg -o x"), Some(false));
        assert_eq!(charged("pipeprof run --kernel 6.1 -o no-memcg"), Some(true));
        assert_eq!(charged("pipeprof check --kernel 6.1 --run-flags '--cpus 2 --no-memcg'"), Some(false));
        assert_eq!(charged("pipeprof compare --kernel 6.1 --kernel 6.12"), Some(true));
        assert_eq!(charged("pipeprof compare --memcg on --memcg off"), None);
        assert_eq!(charged("pipeprof compare --variant '' --variant --no-memcg"), None);
    }
}
