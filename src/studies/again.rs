//! Measure stored results again: the workload or the pipeline of a baseline, on another kernel.

use super::baseline;
use super::given::GivenFlags;
use crate::profile::few;
use crate::record::MeasureRecording as _;
use crate::record::contents;
use crate::record::inside::PipelinePlace;
use crate::report::files::Folder;
use crate::report::terminal::text::shortened;
use crate::result::{Document, FailedProcess, Measurement, Outcome, RecordedProcess, RecordingRequest, Request};
use crate::run::MeasurePair as _;
use crate::run::{RunOptions, WindowSizing, exact};
use crate::util::privileges::is_callers;
use crate::util::progress;
use crate::util::text::{clean, now};
use crate::util::usage::{OrUsage as _, UsageError};
use crate::vm::side_by_side;
use anyhow::{Context as _, Result};
use std::path::Path;

/// What measures `stored` again with the flags of this command line. A recording names the command that is repeated: if it is
/// not the caller's own, `run_stored_command` must allow that.
pub fn again(given: &GivenFlags, stored: &Outcome, run_stored_command: bool) -> Result<Measurement> {
    let Some(measurement @ Measurement::Recording(request)) = &stored.document.request else {
        return Ok(Measurement::Pair(Box::new(baseline::options(given, &stored.document)?)));
    };
    let options = &given.options;
    if options.workload.mode.is_some() || options.sizing != WindowSizing::default() {
        let problem = "--mode, --precision and --window-limit are for runs, and the baseline is a recorded pipeline";
        return Err(UsageError::new(problem).into());
    }
    let kernel = options.kernel.clone().or_else(|| request.kernel.clone());
    let kernel = kernel.with_context(|| UsageError::new("a pipeline is counted in a guest: add --kernel"))?;
    allowed("the baseline", stored, measurement, run_stored_command)?;
    let mut request = RecordingRequest { kernel: Some(kernel), ..*request.clone() };
    request.count_as_often_as(&stored.document);
    Ok(Measurement::Recording(Box::new(request)))
}

/// Refuse to run what `request` of `what`, which is `stored`, asks for, if it belongs to another user.
pub fn allowed(what: &str, stored: &Outcome, request: &Measurement, run_stored_command: bool) -> Result<()> {
    let Some(owner) = stored.owner.filter(|owner| !run_stored_command && !is_callers(*owner)) else { return Ok(()) };
    Err(UsageError::new(format!(
        "{what} belongs to user {owner}, and would be measured with programs and files of this machine: `{}`; add \
         --run-stored-command to run it",
        clean(&request.command())
    ))
    .into())
}

/// The mode of a run, or the text of a pipeline.
fn name(wanted: &Measurement) -> Result<String> {
    Ok(match wanted {
        Measurement::Pair(options) => options.request(String::new())?.mode,
        Measurement::Recording(request) => request.counted()?.text(),
    })
}

/// Measure `request`, which is that of `options`, and note when that began.
pub fn outcome(options: &RunOptions, request: &Request) -> Result<Outcome> {
    let started = now();
    let mut outcome = options.measure(request)?;
    outcome.document.started = started;
    Ok(outcome)
}

/// Whether counts are measured, which no other guest disturbs.
fn is_exact(wanted: &Measurement) -> bool {
    match wanted {
        Measurement::Pair(options) => options.exact(),
        Measurement::Recording(_) => true,
    }
}

/// Measure `wanted`, to be compared with `stored`, if there is one; print and write nothing.
/// `alone`: nothing else is measured meanwhile.
fn measure(wanted: &Measurement, stored: Option<&Outcome>, alone: bool, command: &str) -> Result<Outcome> {
    let request = match wanted {
        Measurement::Pair(options) => return outcome(options, &options.request(command.to_owned())?),
        Measurement::Recording(request) => request,
    };
    let pipeline = request.counted()?;
    let place = PipelinePlace::without_input()?;
    progress::note(&format!("counting in a guest: {}", clean(&pipeline.text())));
    let outside = request.sent_from_outside(&place.folder);
    if !outside.is_empty() {
        let named = few(outside.iter().map(|path| path.display()));
        progress::note(&format!("it gets files from outside of the current folder: {named}"));
    }
    let prepared = request.prepared(&pipeline, place)?;
    let mut recorded = match stored {
        Some(stored) => request.count_again(&prepared, stored, alone)?,
        None => request.count(&prepared)?,
    };
    if let Some(note) = failure(&recorded.document)? {
        progress::note(&note);
    }
    command.clone_into(&mut recorded.document.command);
    Ok(recorded)
}

/// Letters of a command line in a message at most.
const COMMAND_LINE: usize = 60;

/// The exit codes of a shell that did not find a program, or could not execute it.
const NOT_EXECUTED: [u8; 2] = [126, 127];

/// What failed with a message, maybe for want of a file.
///
/// # Errors
/// When a shell has executed no program: what was counted then is not what was asked for.
fn failure(counted: &Document) -> Result<Option<String>> {
    let command = |failed: &FailedProcess| shortened(&failed.args.join(" "), COMMAND_LINE);
    let is_missing = |failed: &&FailedProcess| {
        let of_shell = counted.recorded.get(failed.process).is_some_and(RecordedProcess::is_shell);
        of_shell && !failed.quiet && NOT_EXECUTED.contains(&failed.exit_code)
    };
    if let Some(failed) = counted.failures.iter().find(is_missing) {
        return Err(UsageError::new(format!(
            "`{}` ended with exit code {} in the guest: a program is not there, or cannot be executed; add --file PROGRAM",
            command(failed),
            failed.exit_code
        ))
        .into());
    }
    if let Some(starved) = counted.recorded.iter().find(|process| process.out_of_memory) {
        return Ok(Some(format!("the guest had no memory left for `{}`: --memory gives it more", starved.name)));
    }
    let said = counted.failures.iter().find(|failed| failed.errors > 0);
    Ok(said.map(|failed| {
        format!(
            "`{}` ended with exit code {} in the guest, with a message: {}",
            command(failed),
            failed.exit_code,
            missing(counted.recorded.get(failed.process))
        )
    }))
}

/// What a guest may lack, by the last call of a process that failed.
fn missing(process: Option<&RecordedProcess>) -> &'static str {
    match process.and_then(|process| process.failure.as_ref()).map(|(_, error)| *error) {
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => {
            "a guest has no network but 127.0.0.1, and what a program is to fetch has to be sent by --file"
        }
        Some(libc::ENODEV | libc::ENXIO) => "a guest has no devices of this machine, such as GPUs",
        Some(libc::ENOMEM) => "the guest may have too little memory: --memory gives it more",
        _ => "if a file is not there, add --file",
    }
}

/// Measure all of `wanted`, counted ones in parallel, and store them in the folder `output`. Returns also why they are not
/// where they should be. `command` is for titles.
pub fn measure_all(
    wanted: &[Measurement],
    output: Option<&Path>,
    command: &str,
) -> Result<(Vec<Outcome>, Option<anyhow::Error>)> {
    measure_against(wanted, &[], output, command)
}

/// The same, to be compared with `stored`, one for each or none: counts that turn out to be equal are taken from there.
pub fn measure_against(
    wanted: &[Measurement],
    stored: &[&Outcome],
    output: Option<&Path>,
    command: &str,
) -> Result<(Vec<Outcome>, Option<anyhow::Error>)> {
    let mode = wanted.first().map(name).transpose()?.unwrap_or_default();
    let folder = match output {
        Some(path) => Some(Folder::prepare(Some(path), &now(), &mode).or_usage()?),
        None => None,
    };
    let parallel = wanted.iter().all(is_exact);
    let pairs: Vec<_> = (0..).zip(wanted).map(|(at, repeat)| (repeat, stored.get::<usize>(at).copied())).collect();
    let mut outcomes = side_by_side::run(&pairs, if parallel { jobs(wanted) } else { 1 }, |(repeat, stored)| {
        measure(repeat, *stored, wanted.len() == 1, command)
    })?;
    let problem = folder.map(|folder| store(folder, wanted, &mut outcomes)).transpose()?.flatten();
    Ok((outcomes, problem))
}

/// Guests that run at a time: both numbers of CPUs of a baseline always, and more if there is room.
fn jobs(wanted: &[Measurement]) -> usize {
    let guest = wanted.iter().map(|repeat| repeat.machine().memory).max().unwrap_or_default();
    side_by_side::most(guest).max(exact::CPUS.len())
}

/// Store what was measured: one in the folder itself, several in folders of their own. Returns why they are not where they
/// should be.
fn store(folder: Folder, wanted: &[Measurement], outcomes: &mut [Outcome]) -> Result<Option<anyhow::Error>> {
    let files = if let [outcome] = outcomes {
        contents::files(outcome, Vec::new())?
    } else {
        let names = wanted.iter().map(|repeat| {
            let name = name(repeat)?.replace([' ', '/'], "-");
            Ok(format!("{name}-{}-cpu", repeat.machine().cpus()))
        });
        let names = distinct(names.collect::<Result<Vec<_>>>()?.into_iter());
        contents::files_of_each(names.into_iter().zip(outcomes).map(|(name, outcome)| (name, outcome, Vec::new())))?
    };
    Ok(folder.keep(&files).problem)
}

/// Names of folders: a second run of the same mode and number of CPUs has another setting, and gets a number.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let same = all.iter().filter(|other| **other == name || other.starts_with(&format!("{name}-"))).count();
        all.push(if same == 0 { name } else { format!("{name}-{}", same + 1) });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_a_shell_does_not_find_is_an_error_and_a_failure_with_a_message_a_note() {
        let counted = |name: &str, failed: FailedProcess| {
            let process = RecordedProcess { name: name.to_owned(), ..RecordedProcess::default() };
            failure(&Document { recorded: vec![process], failures: vec![failed], ..Document::default() })
        };
        let failed =
            FailedProcess { exit_code: 127, errors: 1, args: vec!["x".to_owned()], ..FailedProcess::default() };
        let error = counted("sh", failed.clone()).unwrap_err().to_string();
        assert!(error.starts_with("`x` ended with exit code 127") && error.contains("--file"), "{error}");
        assert!(counted("sh", FailedProcess { quiet: true, ..failed.clone() }).is_ok());
        let note = counted("xargs", failed.clone()).unwrap().unwrap();
        assert!(note.starts_with("`x` ended with exit code 127") && note.contains("--file"), "{note}");
        assert_eq!(counted("sh", FailedProcess { exit_code: 1, errors: 0, ..failed }).unwrap(), None);
        let lacks = |error: i32| {
            let failure = Some(("connect".to_owned(), error));
            missing(Some(&RecordedProcess { failure, ..RecordedProcess::default() }))
        };
        assert!(lacks(libc::ENETUNREACH).contains("no network but 127.0.0.1"));
        assert!(lacks(libc::ENOMEM).contains("--memory") && lacks(libc::ENOENT).contains("--file"));
        let starved = RecordedProcess { name: "a".to_owned(), out_of_memory: true, ..RecordedProcess::default() };
        let said = failure(&Document { recorded: vec![starved], ..Document::default() }).unwrap().unwrap();
        assert_eq!(said, "the guest had no memory left for `a`: --memory gives it more");
    }

    #[test]
    fn folders_of_several_settings_have_names_of_their_own() {
        let names = ["write-1-cpu", "write-2-cpu", "write-1-cpu", "write-1-cpu"].map(str::to_owned);
        assert_eq!(distinct(names.into_iter()), ["write-1-cpu", "write-2-cpu", "write-1-cpu-2", "write-1-cpu-3"]);
    }
}
