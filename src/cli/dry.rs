//! Parse and check a command line without running it, for fuzzing.

use super::{Cli, Command, USAGE, parse, run, stop_args, workload_args};
use crate::record::MeasureRecording as _;
use crate::result::{Measurement, PipelineCommand, RecordingRequest, Remedy, Request};
use crate::run::MeasurePair as _;
use crate::run::RunOptions;
use crate::util::text::quoted;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::workload::WorkloadRequest;
use crate::workload::axes::AXES;
use crate::workload::grid;
use std::ffi::OsString;

/// Check the arguments `words`; see [`crate::fuzz::command_lines`].
pub(crate) fn check(words: &[String]) {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    match run::split(&quoted.join(" ")) {
        Ok(split) => assert_eq!(split, words),
        Err(error) => panic!("{error:#}"),
    }
    let all = std::iter::once("pipeprof").chain(words.iter().map(String::as_str)).map(OsString::from).collect();
    match parse(all, words) {
        Ok(Cli { command, .. }) => command_of(command),
        Err(error) => {
            assert!([0, i32::from(USAGE)].contains(&error.exit_code()), "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
}

fn command_of(command: Command) {
    match command {
        Command::Run(args) => options(&args.options()),
        Command::Compare(args) => match args.plan().or_usage() {
            Ok((plan, _)) => plan.columns.iter().for_each(|column| options(&column.options)),
            Err(error) => named(&error),
        },
        Command::Check(args) => match args.given() {
            Ok(given) => options(&given.options),
            Err(error) => named(&error),
        },
        Command::Sweep(args) => match args.wanted() {
            Ok(wanted) => assert!(wanted.combinations.iter().any(|combination| combination.refused.is_none())),
            Err(error) => named(&error),
        },
        Command::Record(args) => {
            let mut request = RecordingRequest::default();
            match args.apply(&mut request).and_then(|()| request.wanted()) {
                Ok((pipeline, trials)) => {
                    pipeline.iter().for_each(stages);
                    for remedy in &trials.remedies {
                        assert_eq!(Remedy::parse(&remedy.text()).as_ref(), Ok(remedy));
                    }
                    let request = Measurement::Recording(Box::new(request));
                    let stored = serde_json::to_vec(&request).unwrap_or_default();
                    assert_eq!(serde_json::from_slice::<Measurement>(&stored).ok(), Some(request));
                }
                Err(error) => named(&error),
            }
        }
        _ => {}
    }
}

/// The request of these options, if they are valid, and its workload.
fn options(options: &RunOptions) {
    match run::parse_words("run", &options.words()) {
        Ok(again) => assert_eq!(&again, options),
        Err(error) => panic!("{error:#}: {:?}", options.words()),
    }
    let request = match options.request("pipeprof run".to_owned()) {
        Ok(request) => request,
        Err(error) => return named(&error),
    };
    let mode = options.workload.mode.as_deref().unwrap_or(WorkloadRequest::DEFAULT_MODE);
    match WorkloadRequest::of(mode, &request.workload).and_then(|again| again.spec()) {
        Ok((name, spec)) => assert_eq!((name, spec), (request.mode.clone(), request.workload.clone())),
        Err(error) => panic!("{error:#}: {:?}", request.workload),
    }
    let sent = serde_json::to_vec(&request).unwrap_or_default();
    assert_eq!(serde_json::from_slice::<Request>(&sent).ok(), Some(request));
    let stored = serde_json::to_vec(options).unwrap_or_default();
    assert_eq!(serde_json::from_slice::<RunOptions>(&stored).ok().as_ref(), Some(options));
}

fn stages(pipeline: &PipelineCommand) {
    assert!(!pipeline.stages.is_empty() && pipeline.stages.iter().all(|words| !words.is_empty()));
    let text = pipeline.text();
    if pipeline.shell {
        assert_eq!(PipelineCommand::parse(&[text]).ok().as_ref(), Some(pipeline));
    }
}

/// An error of the command line is one of its usage, and has a text.
fn named(error: &anyhow::Error) {
    assert!(error.is::<UsageError>() && !format!("{error:#}").is_empty(), "{error:#}");
}

/// Parse `text` as the value of each kind of flag that is not a word.
pub(crate) fn values(text: &str) {
    if let Ok(ns) = workload_args::parse_duration(text) {
        assert_eq!(
            workload_args::parse_duration(&format!("{ns}ns")).map(|again| again.abs_diff(ns) <= ns >> 52),
            Ok(true)
        );
    }
    let _ = workload_args::parse_pin(text);
    if let Ok(part) = stop_args::parse_percent(text) {
        assert!((0.0..=1.0).contains(&part), "{text}: {part}");
    }
    for axis in AXES {
        let Ok(values) = grid::values(axis, text) else { continue };
        for value in values {
            assert_eq!(axis.parse(&axis.format(&value)), Ok(value), "{} {text}", axis.name);
        }
    }
}
