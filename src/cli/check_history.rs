//! `pipeprof check --history`: test a kernel against a series of kernels.

use super::check_rules::{CheckRules, exit_code, first_steps, print_changes};
use crate::campaign::CellStore;
use crate::compare::measure::Measure;
use crate::compare::{Dropped, Input};
use crate::history::level::SeriesLevel;
use crate::history::{History, HistoryLine, read};
use crate::report::number;
use crate::result::Outcome;
use crate::studies::again::again;
use crate::studies::given::GivenFlags;
use crate::studies::verdict::CheckVerdict;
use crate::util::decision::Decision;
use crate::util::text::{clean, counted};
use crate::util::usage::UsageError;
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

/// Count the kernel in each workload of the history, and compare it with what these have taken since their last step.
pub(super) fn perform(
    args: &CheckRules,
    given: &GivenFlags,
    folder: &Path,
    run_stored_command: bool,
) -> Result<ExitCode> {
    let usage = |error: anyhow::Error| UsageError::new(format!("--history {error:#}"));
    let store = CellStore::open(folder).map_err(usage)?;
    let history = read::read(&store, None, super::command_line()).map_err(usage)?;
    let newest: Vec<Outcome> =
        history.lines.iter().map(|line| last(&store, line)).collect::<Result<_>>().map_err(usage)?;
    let wanted = newest.iter().map(|run| again(given, run, run_stored_command)).collect::<Result<Vec<_>>>()?;
    let label = args.label()?;
    let runs = args.measured(&wanted, &[])?;
    let (mut verdicts, mut facts) = (Vec::new(), Vec::new());
    for (line, run) in history.lines.iter().zip(&runs) {
        let first = line.points.first().map(|point| store.result(&point.cell)).transpose().map_err(usage)?;
        let first = first.and_then(|run| Measure::of(&[&run], usize::MAX));
        let (verdict, fact) = judged(args, &history, line, run, first.as_ref())?;
        verdicts.push(verdict);
        facts.push(fact);
    }
    let verdict = args.say(&args.thresholds(), verdicts.iter().copied());
    for fact in facts {
        util::outln!("{}", clean(&fact));
    }
    details(args, &history, newest, runs, &label, &verdicts)?;
    Ok(exit_code(verdict))
}

/// The newest run of a line.
fn last(store: &CellStore, line: &HistoryLine) -> Result<Outcome> {
    let point = line.points.last().context("a line has points")?;
    store.result(&point.cell)
}

/// The verdict on one workload, whose series begins with `first`, and why.
fn judged(
    args: &CheckRules,
    history: &History,
    line: &HistoryLine,
    run: &Outcome,
    first: Option<&Measure>,
) -> Result<(CheckVerdict, String)> {
    let new = read::counts(run, 0, "", &Dropped::default(), first)?.without_scheduling;
    let thresholds = args.thresholds();
    let level = SeriesLevel::of(line).context("a line has points")?;
    let beyond = level.beyond(new.value);
    let decision = level.decision(&new, thresholds.margin());
    let verdict = thresholds.gate(decision, new.interval().map(|end| level.beyond(end)));
    let changed = matches!(decision, Decision::More | Decision::Fewer);
    let since = history.label(level.since);
    let kernels = match level.kernels {
        1 => since.to_owned(),
        several => format!("{} since {since}", counted(several as u64, "kernel")),
    };
    let fact = format!(
        "{}: {}: {} instructions per KiB without scheduling; {} on {kernels}{}",
        line.title(),
        verdict.text(),
        number::exact(new.value),
        number::span([level.low, level.high], number::exact),
        if decision == Decision::Undecided {
            format!("; its windows range over {}", number::span([new.low, new.high], number::exact))
        } else if !changed || beyond == 0.0 {
            String::new()
        } else {
            format!(" ({} beyond)", number::change(1.0 + beyond / 100.0))
        },
    );
    Ok((verdict, fact))
}

/// What changed from the newest kernel of the history, where something has.
fn details(
    args: &CheckRules,
    history: &History,
    newest: Vec<Outcome>,
    runs: Vec<Outcome>,
    label: &str,
    verdicts: &[CheckVerdict],
) -> Result<()> {
    let mut pairs: Vec<(&HistoryLine, CheckVerdict, Outcome, Outcome)> = Vec::new();
    for (((line, verdict), old), new) in history.lines.iter().zip(verdicts).zip(newest).zip(runs) {
        pairs.push((line, *verdict, old, new));
    }
    // Settings are no modes: each is a comparison of its own.
    let settings: BTreeSet<String> =
        pairs.iter().filter(|pair| pair.1 != CheckVerdict::Same).map(|pair| pair.0.setting.clone()).collect();
    for setting in settings {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (line, _, old, new) in
            pairs.extract_if(.., |pair| pair.0.setting == setting && pair.1 != CheckVerdict::Same)
        {
            before.push((line.title(), old));
            after.push((line.title(), new));
        }
        let release =
            before.first().map_or(String::new(), |(_, run): &(String, Outcome)| run.document.kernel.release.clone());
        let inputs =
            [Input { label: Some(release), runs: before }, Input { label: Some(label.to_owned()), runs: after }];
        let comparison = args.compared(&inputs)?;
        util::outln!("");
        print_changes(&comparison, &first_steps(&comparison), None);
    }
    Ok(())
}
