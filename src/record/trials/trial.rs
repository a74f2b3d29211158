//! Measure a pipeline with and without changes, in turn.

use crate::experiment::{self, NoStore, OnFailure, Plan};
use crate::kernel::environment::CpuTime;
use crate::record::say::advice::{self, AdvicePlace};
use crate::record::start::input::KeptInput;
use crate::record::start::launch::{Launcher, PipelineSetup, StageStreams};
use crate::record::trials::refusals::{self, RecordedMoves};
use crate::record::trials::remedy::ApplyRemedy as _;
use crate::record::trials::timed::{self, PipelineTime};
use crate::report::number;
use crate::result::{Document, Finding, FindingKind, PipelineCommand, Trial, TrialRuns, TrialVerdict, Trials};
use crate::result::{RefusedProgram, Remedy};
use crate::run::BUSY;
use crate::util::decision::{Decision, decide};
use crate::util::progress;
use crate::util::stats;
use crate::workload::cpus;
use anyhow::{Context as _, Result, ensure};

/// A verdict other than `undecided` needs at least this effect over the whole interval.
const CERTAIN_EFFECT: f64 = 0.01;

/// An interval within this is `same`.
const SAME: f64 = 0.05;

/// Level of significance after Holm's correction.
const ALPHA: f64 = 0.05;

/// What to try.
#[derive(Debug, Clone, Default)]
pub struct TrialOptions {
    pub remedies: Vec<Remedy>,
    /// Also try what the recording suggests.
    pub advise: bool,
    /// Runs of each.
    pub runs: usize,
}

/// Why standard input cannot be a pipe.
pub(crate) const READ_ONCE: &str =
    "--try and --advise run the pipeline several times, and standard input can be read only once";

/// Wall and CPU time of one run, s.
type Seconds = (f64, f64);

impl TrialOptions {
    /// Whether nothing is to be tried.
    pub fn is_empty(&self) -> bool {
        self.remedies.is_empty() && !self.advise
    }

    /// Whether the pipeline is recorded again for a change.
    pub(crate) fn records(&self) -> bool {
        self.remedies.iter().any(|remedy| matches!(remedy, Remedy::Refuse(_)))
    }

    /// A usage error if a change is impossible.
    pub fn check(&self, pipeline: &PipelineCommand) -> Result<()> {
        self.remedies.iter().try_for_each(|remedy| remedy.changed(pipeline).map(drop)).context("--try")
    }

    /// Measure `pipeline` without and with each change, and add what was found to `recording`.
    ///
    /// # Errors
    /// When the pipeline as it is cannot be measured.
    pub(crate) fn run(
        &self,
        pipeline: &PipelineCommand,
        input: &KeptInput,
        launcher: &Launcher,
        recording: &mut Document,
    ) -> Result<()> {
        ensure!(!recording.was_limited(), "the pipeline has not ended by itself, so its time is not known");
        let cpus = cpus::allowed()?;
        let mut remedies = self.remedies.clone();
        if self.advise {
            let advice = advice::advice(recording, &AdvicePlace::here(cpus.clone()));
            let new = advice.into_iter().filter_map(|advice| advice.remedy);
            remedies.extend(new.filter(|new| !self.remedies.contains(new)));
        }
        if remedies.is_empty() {
            recording.findings.push(said("Nothing to try: no rule of docs/record.md applies to this path.".to_owned()));
            return Ok(());
        }
        let cells: Vec<Option<Remedy>> = std::iter::once(None).chain(remedies.iter().cloned().map(Some)).collect();
        let plan = Plan { on_failure: OnFailure::GiveUp, ..Plan::new(cells.iter().cloned(), self.runs, 1) };
        let wanted = recording.exit_codes.clone();
        let measure = |cell: &Option<Remedy>, _: experiment::Task| -> Result<Seconds> {
            let (changed, setup) = match cell {
                Some(remedy) => remedy.apply(pipeline, &cpus)?,
                None => (pipeline.clone(), PipelineSetup::default()),
            };
            let setup = PipelineSetup { streams: Some(StageStreams::quiet(input.stdio()?)?), ..setup };
            let PipelineTime { wall_ns, cpu_ns, codes } = timed::time(&changed, setup, launcher)?;
            ensure!(codes == wanted, "exit codes {codes:?} instead of {wanted:?}");
            Ok((wall_ns as f64 / 1e9, cpu_ns.iter().sum::<u64>() as f64 / 1e9))
        };
        let before = CpuTime::now();
        let label = |event: &experiment::Event<'_, Option<Remedy>>| {
            event.cell.as_ref().map_or("the pipeline as it is".to_owned(), Remedy::text)
        };
        let finished = experiment::run(&plan, &measure, &NoStore, &experiment::show("trying", 1, label))?;
        progress::clear();
        let others = before.zip(CpuTime::now()).and_then(|(before, now)| now.others_since(before));
        let mut lanes = finished.lanes(cells.len()).into_iter();
        let (unchanged, failed) = lanes.next().context("no runs")?;
        if let Some(why) = failed {
            recording.findings.push(said(format!("Nothing could be tried: {why}.")));
            return Ok(());
        }
        if let Some(others) = others.filter(|others| *others > BUSY) {
            recording.cautions.push(format!(
                "Other programs used {:.0} % of the CPUs' time while changes were tried: repeat it on an idle machine.",
                100.0 * others
            ));
        }
        let mut trials = compared(&unchanged, remedies.iter().zip(lanes), others);
        let mut as_it_is = None;
        let mut answers = Vec::new();
        for (trial, remedy) in trials.tried.iter_mut().zip(&remedies) {
            let cost = sentence(trial, matches!(remedy, Remedy::Refuse(_)), self.runs);
            let Remedy::Refuse(calls) = remedy else {
                answers.push(cost);
                continue;
            };
            let moves = |setup| RecordedMoves::record(pipeline, setup, input, launcher);
            let mut record = || -> Result<Vec<RefusedProgram>> {
                let before = match &as_it_is {
                    Some(before) => before,
                    None => as_it_is.insert(moves(PipelineSetup::default())?),
                };
                let (_, setup) = remedy.apply(pipeline, &cpus)?;
                Ok(moves(setup)?.refused(before, calls))
            };
            match record() {
                Ok(programs) => {
                    answers.extend(refusals::sentences(calls, &programs));
                    trial.refused = Some(programs);
                }
                Err(why) => answers.push(format!("Which programs do without it was not seen: {why:#}.")),
            }
            answers.push(cost);
        }
        // What was asked is answered first. That nothing could be tried is no answer, and stays below the recording's.
        recording.findings.splice(0..0, answers.into_iter().map(said));
        recording.trials = Some(trials);
        Ok(())
    }
}

/// Of a trial.
fn said(text: String) -> Finding {
    Finding::new(FindingKind::Trial, None, text)
}

fn runs(seconds: &[Seconds]) -> TrialRuns {
    let (seconds, cpu_seconds) = seconds.iter().copied().unzip();
    TrialRuns { seconds, cpu_seconds }
}

/// Compare each change with the unchanged pipeline.
fn compared<'a>(
    unchanged: &[Seconds],
    changed: impl Iterator<Item = (&'a Remedy, (Vec<Seconds>, Option<String>))>,
    others: Option<f64>,
) -> Trials {
    let unchanged = runs(unchanged);
    let mut tried: Vec<Trial> = changed
        .map(|(remedy, (results, failed))| {
            let runs = runs(&results);
            let ratio = stats::ratio_of_medians(&runs.seconds, &unchanged.seconds, 1).filter(|_| failed.is_none());
            Trial {
                change: remedy.text(),
                ratio: ratio.map(|found| found.ratio),
                ci95: ratio.map(|found| found.ci95),
                runs,
                failed,
                verdict: TrialVerdict::Undecided,
                refused: None,
            }
        })
        .collect();
    let p = |trial: &Trial| stats::mann_whitney(&trial.runs.seconds, &unchanged.seconds).unwrap_or(1.0);
    let corrected = stats::holm(&tried.iter().map(p).collect::<Vec<f64>>());
    for (trial, p) in tried.iter_mut().zip(corrected) {
        let decision = trial.ci95.map(|interval| decide(interval.map(|end| end - 1.0), CERTAIN_EFFECT, SAME));
        trial.verdict = match decision {
            _ if trial.failed.is_some() => TrialVerdict::Failed,
            Some(Decision::Fewer) if p < ALPHA => TrialVerdict::Faster,
            Some(Decision::More) if p < ALPHA => TrialVerdict::Slower,
            Some(Decision::Same) => TrialVerdict::Same,
            _ => TrialVerdict::Undecided,
        };
    }
    Trials { unchanged, tried, others }
}

/// The result of one change in a sentence. `is_refusal`: the change refuses system calls, and is not meant to help.
fn sentence(trial: &Trial, is_refusal: bool, runs: usize) -> String {
    let change = &trial.change;
    let (Some(ratio), Some(ci95)) = (trial.ratio, trial.ci95) else {
        return format!("`{change}` could not be measured: {}.", trial.failed.as_deref().unwrap_or("no runs"));
    };
    let interval = format!("95 % interval {}, {runs} runs each", number::changes(ci95));
    let by = number::more_or_less(ratio, "less", "time");
    match trial.verdict {
        TrialVerdict::Faster => format!("`{change}` makes it faster: {by} ({interval})."),
        TrialVerdict::Slower => format!("`{change}` makes it slower: {by} ({interval})."),
        TrialVerdict::Same => format!("`{change}` changes nothing that matters: {by} ({interval})."),
        TrialVerdict::Undecided | TrialVerdict::Failed => {
            let what = if is_refusal { format!("What `{change}` costs") } else { format!("Whether `{change}` helps") };
            format!("{what} is undecided: {by} ({interval}). More runs (--runs) may decide.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(unchanged: &[f64], changed: &[&[f64]]) -> Vec<TrialVerdict> {
        let seconds = |values: &[f64]| values.iter().map(|value| (*value, *value)).collect::<Vec<Seconds>>();
        let remedies = vec![Remedy::Pin; changed.len()];
        let results = changed.iter().map(|values| (seconds(values), None));
        compared(&seconds(unchanged), remedies.iter().zip(results), None)
            .tried
            .iter()
            .map(|trial| trial.verdict)
            .collect()
    }

    #[test]
    fn only_a_certain_effect_is_a_verdict() {
        let base: Vec<f64> = (0..10).map(|n| 1.0 + 0.002 * f64::from(n)).collect();
        let scaled = |factor: f64| base.iter().map(|value| value * factor).collect::<Vec<f64>>();
        let noisy: Vec<f64> = (0..10).map(|n| 0.8 + 0.05 * f64::from(n)).collect();
        let found = verdicts(&base, &[&scaled(0.8), &scaled(1.2), &scaled(1.001), &noisy]);
        assert_eq!(found, [TrialVerdict::Faster, TrialVerdict::Slower, TrialVerdict::Same, TrialVerdict::Undecided]);
        // Three runs each cannot show anything.
        assert_eq!(verdicts(&base[..3], &[&scaled(0.5)[..3]]), [TrialVerdict::Undecided]);
    }

    #[test]
    fn results_are_sentences() {
        let trial = Trial {
            change: "pin".to_owned(),
            ratio: Some(0.75),
            ci95: Some([0.7, 0.8]),
            verdict: TrialVerdict::Faster,
            ..Trial::default()
        };
        assert_eq!(
            sentence(&trial, false, 10),
            "`pin` makes it faster: 25.0 % less time (95 % interval -30.0 to -20.0 %, 10 runs each)."
        );
        // A flush of each line.
        let slower =
            Trial { ratio: Some(34.682), ci95: Some([33.1, 36.0]), verdict: TrialVerdict::Slower, ..trial.clone() };
        assert_eq!(
            sentence(&slower, false, 10),
            "`pin` makes it slower: 34.7 times the time (95 % interval 33.1 to 36.0 times, 10 runs each)."
        );
        let failed = Trial { failed: Some("exit codes [1]".to_owned()), ratio: None, ci95: None, ..trial };
        assert_eq!(sentence(&failed, false, 10), "`pin` could not be measured: exit codes [1].");
    }
}
