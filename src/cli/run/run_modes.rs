//! `pipeprof run` with several modes, or with and without splice: one run after the other, one table and one chart.

use super::{RunArgs, WITHOUT_SPLICE, exports_in};
use crate::cli::repeat::{column, difference};
use crate::cli::workload_args::check_distinct;
use crate::export::{self, Exported};
use crate::record::contents;
use crate::report::chart::Theme;
use crate::report::files::{Folder, KeptResults};
use crate::report::modes::ModesReport;
use crate::report::terminal::Style;
use crate::result::{Measurement, Outcome};
use crate::run::MeasurePair as _;
use crate::run::RunOptions;
use crate::studies::again::outcome;
use crate::util::stored_json::json_text;
use crate::util::streams::write_styled;
use crate::util::text::clean;
use crate::util::usage::OrUsage as _;
use crate::util::{cancel, progress};
use crate::workload::axis::{Axis, Value};
use anyhow::{Context as _, Result};
use std::process::ExitCode;

/// The chart's name in the output folder.
const CHART: &str = "modes.svg";

/// Measure each mode of `args`, and show all of them together.
pub(in crate::cli) fn run(args: &RunArgs) -> Result<ExitCode> {
    cancel::install().context("cannot install signal handlers")?;
    let started = super::super::now();
    let first = args.options();
    let modes: Vec<String> =
        first.workload.mode.iter().chain(&args.workload.further_modes).map(ToOwned::to_owned).collect();
    check_distinct(&modes).or_usage()?;
    // All of them before anything is measured.
    let of_mode = |mode: &String, without: Option<bool>| -> Result<(String, RunOptions, _)> {
        let mut options = first.clone();
        options.workload.mode = Some(mode.clone());
        if let (Some(without), Some(axis)) = (without, Axis::find(WITHOUT_SPLICE)) {
            options.workload.overrides.put(axis, Value::Switch(without));
        }
        let request = options.request(Measurement::Pair(Box::new(options.clone())).command())?;
        let suffix = if without == Some(true) { "-without-splice" } else { "" };
        Ok((format!("{mode}{suffix}"), options, request))
    };
    let settings: &[Option<bool>] = if args.is_without_splice() { &[Some(false), Some(true)] } else { &[None] };
    let all = modes.iter().flat_map(|mode| settings.iter().map(move |without| (mode, *without)));
    let wanted = all.map(|(mode, without)| of_mode(mode, without)).collect::<Result<Vec<_>>>()?;
    let folder = Folder::prepare(args.output.as_deref(), &started, "modes")?;
    let mut outcomes: Vec<(String, Outcome)> = Vec::new();
    let mut problem = None;
    for (number, (mode, options, request)) in wanted.iter().enumerate() {
        progress::step(&format!("mode {} of {}: {mode}", number + 1, wanted.len()));
        match outcome(options, request) {
            Ok(outcome) => outcomes.push((mode.clone(), outcome)),
            Err(error) => problem = problem.or(Some(error.context(format!("--mode {mode}")))),
        }
        if cancel::happened() {
            break;
        }
    }
    progress::clear();
    if outcomes.is_empty() {
        return Err(problem.unwrap_or_else(|| cancel::Cancelled.into()));
    }
    let documents: Vec<_> = outcomes.iter().map(|(mode, outcome)| (mode.as_str(), &outcome.document)).collect();
    let report = ModesReport::new(&documents);
    let chart = report.chart().map(|chart| chart.svg(Theme::File)).transpose()?;
    let mut all: Vec<_> = chart.into_iter().map(|svg| (CHART.to_owned(), svg.into_bytes())).collect();
    let mut exports = Vec::new();
    for (_, outcome) in &outcomes {
        let (files, failed) = export::all(&args.export, &Exported::Result(outcome));
        exports.push(files);
        problem = problem.or(failed);
    }
    let exported: Vec<Vec<String>> =
        exports.iter().map(|files| files.iter().map(|(name, _)| name.clone()).collect()).collect();
    let runs = outcomes.iter_mut().zip(exports).map(|((mode, outcome), files)| (mode.clone(), outcome, files));
    all.extend(contents::files_of_each(runs)?);
    let kept = folder.keep(&all);
    let mut text = report.render(if args.json { Style::PLAIN } else { Style::of_stdout() });
    for pair in outcomes.chunks(settings.len()) {
        let [(with, before), (without, after)] = pair else { continue };
        let columns = [column("as it is", with, before.clone()), column("without splice", without, after.clone())];
        text.push_str(&format!("\n{}", difference(&columns)?));
    }
    text.push_str(&written(&kept, outcomes.iter().map(|(mode, _)| &mode[..]).zip(&exported)));
    if args.json {
        let documents: Vec<_> = outcomes.iter().map(|(_, outcome)| &outcome.document).collect();
        util::outln!("{}", json_text(&documents).context("cannot write the documents as JSON")?);
        if !progress::is_quiet() {
            util::err!("{text}");
        }
    } else {
        write_styled(&text);
    }
    if let Some(problem) = kept.problem.or(problem) {
        return Err(problem);
    }
    outcomes
        .iter()
        .try_for_each(|(mode, outcome)| args.check(&outcome.document).with_context(|| format!("--mode {mode}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Where everything is; `modes`: with the names of their exports.
fn written<'a>(kept: &KeptResults, modes: impl Iterator<Item = (&'a str, &'a Vec<String>)>) -> String {
    let Some(written) = &kept.written else { return String::new() };
    let path = |name: &str| clean(&written.folder.join(name).display().to_string());
    let mut text = format!("\nWritten to {}:\n", clean(&written.folder.display().to_string()));
    if written.files.iter().any(|file| file == CHART) {
        text.push_str(&format!("  chart {}\n", path(CHART)));
    }
    for (mode, exports) in modes {
        text.push_str(&format!("  run and flame graphs {}\n", path(mode)));
        text.push_str(&exports_in(&written.folder.join(mode), exports));
    }
    text
}
