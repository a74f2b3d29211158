//! Measures what a [`RecordingRequest`] asks for.

use crate::RecordOptions;
use crate::RecordSettings;
use crate::TracingCollector;
use crate::TrialOptions;
use crate::record;
use crate::record::all;
use crate::record::count::RunLimits;
use crate::record::inside::{GuestPipeline, PipelinePlace, PreparedPipeline};
use crate::record::kept;
use crate::record::live::output::LivePlace;
use crate::record::trials::remedy::ApplyRemedy as _;
use crate::record_running;
use crate::result::{
    Collector, Document, Finding, FindingKind, Measurement, Observer, Outcome, PipelineCommand, RecordLevel,
    RecordingRequest, RecordingTarget, Remedy, SentFile,
};
use crate::util::streams::write_printed;
use crate::util::text::clean;
use crate::util::usage::UsageError;
use crate::util::{build, cancel, progress};
use crate::vm::{GuestOf as _, GuestOptions, qemu};
use anyhow::{Context as _, Result, bail, ensure};
use easy_ext::ext;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs of each pipeline that is tried, by default and at least.
const TRIED_RUNS: u32 = 10;
const FEWEST_TRIED: u32 = 5;

/// Counted runs of a pipeline: at least the fewest with which the scatter of counts can be judged.
const COUNTED_RUNS: RunLimits = RunLimits { fewest: 3, most: 9, ..RunLimits::exactly(1) };

#[ext(MeasureRecording)]
impl RecordingRequest {
    /// The pipeline, unless it is running already, and the changes to try. Nothing is run.
    ///
    /// # Errors
    /// A usage error: parts that do not go together.
    pub fn wanted(&self) -> Result<(Option<PipelineCommand>, TrialOptions)> {
        let runs = self.runs.unwrap_or(TRIED_RUNS);
        let trials = TrialOptions { remedies: self.changes.clone(), advise: self.advise, runs: runs as usize };
        self.check(&trials, runs)?;
        let mut pipeline = match &self.target {
            RecordingTarget::Pipeline(pipeline) => Some(pipeline.clone()),
            RecordingTarget::Attached(_)
            | RecordingTarget::Cgroup(_)
            | RecordingTarget::Container(_)
            | RecordingTarget::All => None,
        };
        let by_stage = !trials.is_empty() || self.pipe_size.is_some() || self.counts();
        if let Some(line) = pipeline.as_mut().filter(|_| by_stage) {
            // What a shell runs would be one stage.
            *line = line.as_stages().unwrap_or_else(|| line.clone());
            trials.check(line)?;
            self.check_pipe_size(line)?;
        }
        Ok((pipeline, trials))
    }

    /// The pipeline with the stages whose instructions are counted: what a shell runs would be one stage.
    ///
    /// # Errors
    /// A usage error: a program that does not exist.
    pub fn counted(&self) -> Result<PipelineCommand> {
        let RecordingTarget::Pipeline(pipeline) = &self.target else {
            bail!(UsageError::new("instructions of running processes cannot be counted: give a pipeline"))
        };
        if let Some(program) = pipeline.missing().map(str::to_owned).or_else(|| pipeline.unknown_to_shell()) {
            let problem = if program.is_empty() {
                "a stage is empty".to_owned()
            } else if program.contains(char::is_whitespace) {
                format!(
                    "there is no program `{program}`: a line for the shell is the only word behind `--`, and pipeprof's own \
                     options come before it"
                )
            } else {
                format!("there is no program {program}")
            };
            return Err(UsageError::new(problem).into());
        }
        let pipeline = pipeline.as_stages().unwrap_or_else(|| pipeline.clone());
        self.check_pipe_size(&pipeline)?;
        Ok(pipeline)
    }

    /// The files for the guest that are not in `folder`.
    pub fn sent_from_outside(&self, folder: &Path) -> BTreeSet<PathBuf> {
        SentFile::outside(self.files.iter().chain(&self.disk), folder)
    }

    /// All that the guest of this request needs to run `pipeline` at `place`.
    ///
    /// # Errors
    /// As [`PreparedPipeline::new`]; no kernel.
    pub fn prepared(&self, pipeline: &PipelineCommand, place: PipelinePlace) -> Result<PreparedPipeline> {
        let guest = self.guest()?.context(UsageError::new("a pipeline is counted in a guest: add --kernel"))?;
        let wanted = GuestPipeline { pipeline, place, files: &self.files, disk: &self.disk, settings: self.settings() };
        PreparedPipeline::new(wanted, guest)
    }

    /// Record it and count its instructions in a guest: `prepared` of [`Self::prepared`]. It need not end well.
    pub fn count(&self, prepared: &PreparedPipeline) -> Result<Outcome> {
        Ok(self.stored_in(prepared.record_and_count(self.counted_runs(), |_| Ok(()))?))
    }

    /// As [`Self::count`], to be compared with `stored`: if its first run executes what that of `stored` did, all the rest
    /// is taken from there.
    ///
    /// `alone`: nothing else is measured meanwhile.
    pub fn count_again(&self, prepared: &PreparedPipeline, stored: &Outcome, alone: bool) -> Result<Outcome> {
        if !may_be_same(self, stored)? {
            return self.count(prepared);
        }
        if let Some(counted) = prepared.count_unless_same(stored, self.counted_runs(), alone)? {
            return Ok(self.stored_in(counted));
        }
        let text = clean(&self.counted()?.text());
        progress::note(&format!("counted once, because it executes what the baseline's first run did: {text}"));
        let mut same = stored.clone();
        let note = "the first run executed what the baseline's did, instruction for instruction in each function and calling \
                    context, so all else is the baseline's";
        for report in &mut same.document.collectors {
            if report.name == Collector::Insn && !report.notes.iter().any(|known| known == note) {
                report.notes.push(note.to_owned());
            }
        }
        Ok(self.stored_in(same))
    }

    /// How often its instructions are counted.
    pub fn counted_runs(&self) -> RunLimits {
        let runs = self.runs.map_or(COUNTED_RUNS, RunLimits::exactly);
        RunLimits { contexts: self.user_contexts.unwrap_or(runs.contexts), ..runs }
    }

    /// If it does not say how often, count it as often as `document` was: the runs of both are compared one by one.
    pub fn count_as_often_as(&mut self, document: &Document) {
        let counted = document.ensemble.as_ref().and_then(|ensemble| u32::try_from(ensemble.windows.len()).ok());
        self.runs = self.runs.or(counted);
    }

    /// Record it, and `write` each recording: several, if only the last time before something happens is kept. `live`: show
    /// what happens each second.
    ///
    /// # Errors
    /// A usage error, why nothing was recorded, or that of `write`.
    pub fn measure_each(&self, live: bool, write: &mut dyn FnMut(Outcome) -> Result<()>) -> Result<()> {
        let Some(keep) = &self.keep else { return write(self.measure(live)?) };
        let (_, trials) = self.wanted()?;
        ensure!(!live, UsageError::new("--keep runs until something happens: leave out --live"));
        cancel::install().context("cannot install signal handlers")?;
        let options =
            RecordOptions { settings: self.settings(), trials, drop_rights: true, ..RecordOptions::default() };
        kept::watch(&self.target, &options, keep, &mut |recorded| write(self.stored_in(recorded)))
    }

    /// Record it, on this machine or in its guest, with what it prints. `live`: show what happens each second.
    ///
    /// # Errors
    /// A usage error, or why nothing was recorded.
    pub fn measure(&self, live: bool) -> Result<Outcome> {
        let (pipeline, trials) = self.wanted()?;
        ensure!(
            !live || self.kernel.is_none(),
            UsageError::new("--live shows what happens on this machine: leave out --kernel")
        );
        ensure!(
            !live || !self.observer.is_some_and(Observer::only_looks) || self.target == RecordingTarget::All,
            UsageError::new("--live needs BPF programs: leave out --observe")
        );
        // Flags of a guest without one are an error.
        self.machine.check(self.kernel.is_some())?;
        let sampled = self.collect == Some(Collector::Sample);
        let live = live.then(LivePlace::find);
        let mut options =
            RecordOptions { settings: self.settings(), trials, streams: None, sampled, live, drop_rights: true };
        let recorded = match &self.target {
            RecordingTarget::Pipeline(command) => {
                let pipeline = pipeline.as_ref().unwrap_or(command);
                if self.kernel.is_some() { self.record_in_guest(pipeline)? } else { record(pipeline, options)? }
            }
            RecordingTarget::All => {
                cancel::install().context("cannot install signal handlers")?;
                all::record(&options.settings, options.live.take())?
            }
            running => {
                cancel::install().context("cannot install signal handlers")?;
                record_running(running, options)?
            }
        };
        Ok(self.stored_in(recorded))
    }
}

#[ext(RecordingParts)]
impl RecordingRequest {
    fn check(&self, trials: &TrialOptions, runs: u32) -> Result<()> {
        let refused = |problem: &str| Err(UsageError::new(problem).into());
        let guest = self.kernel.is_some();
        if self.target == RecordingTarget::default() {
            return refused(
                "nothing is to be recorded: give a pipeline after `--`, -p PID, --cgroup, --container or --all",
            );
        }
        let running = !matches!(self.target, RecordingTarget::Pipeline(_));
        if self.observer.is_some_and(Observer::only_looks)
            && (self.level == RecordLevel::Stacks || self.collect.is_some())
        {
            return refused(
                "--observe perf and proc see neither stacks nor what is executed: leave out --level stacks and --collect",
            );
        }
        if running && (guest || !trials.is_empty() || self.runs.is_some() || self.pipe_size.is_some()) {
            return refused(
                "-p, --cgroup, --container and --all record processes of this machine as they are: leave out --kernel, --try, \
                 --advise, --runs and --pipe-size",
            );
        }
        if self.keep.is_some() && !running {
            return refused("--keep watches what is running already: give -p PID, --cgroup or --container");
        }
        if self.keep.is_some()
            && (self.collect.is_some()
                || self.level == RecordLevel::Stacks
                || self.observer.is_some_and(Observer::only_looks))
        {
            return refused("--keep needs BPF programs and no more: leave out --collect, --level stacks and --observe");
        }
        if self.switches
            && (guest
                || self.keep.is_some()
                || self.target == RecordingTarget::All
                || self.observer.is_some_and(Observer::only_looks))
        {
            return refused(
                "--switches needs BPF programs that follow a pipeline on this machine: leave out --kernel, --keep, --all and \
                 --observe",
            );
        }
        if self.target == RecordingTarget::All
            && (self.keep.is_some() || self.collect.is_some() || self.level != RecordLevel::Calls)
        {
            return refused("--all looks at all processes in one way: leave out --keep, --collect and --level");
        }
        if self.target == RecordingTarget::All && self.observer == Some(Observer::Perf) {
            return refused("--all has no perf events of all users' processes: leave out --observe perf");
        }
        if !(guest || self.files.is_empty() && self.disk.is_empty()) {
            return refused("--file and --disk require a guest: add --kernel, such as --kernel 6.12");
        }
        if self.user_contexts.is_some() && !self.counts() {
            return refused("--user-contexts needs --collect insn");
        }
        if trials.is_empty() && self.runs.is_some() && !self.counts() {
            return refused("--runs needs --try, --advise or --collect insn: a recording is one run");
        }
        if !trials.is_empty() && runs < FEWEST_TRIED {
            return refused(&format!(
                "--runs {runs}: fewer than {FEWEST_TRIED} runs cannot show a difference of times"
            ));
        }
        if guest && !trials.is_empty() {
            return refused(
                "--try and --advise measure time, which an emulated guest does not show: leave out --kernel",
            );
        }
        if self.probe.is_some() && self.collect != Some(Collector::Kprobe) {
            return refused("--probe requires --collect kprobe");
        }
        match self.collect {
            Some(Collector::Insn) if !guest => {
                refused("--collect insn counts in a guest: add --kernel, such as --kernel 6.12")
            }
            Some(Collector::Sample) if guest => refused(
                "--collect sample samples on this machine: leave out --kernel, or count every instruction with \
                 --collect insn",
            ),
            _ => Ok(()),
        }
    }

    /// Whether its instructions are counted.
    fn counts(&self) -> bool {
        self.collect == Some(Collector::Insn)
    }

    fn check_pipe_size(&self, pipeline: &PipelineCommand) -> Result<()> {
        let Some(bytes) = self.pipe_size else { return Ok(()) };
        Remedy::PipeSize(bytes).changed(pipeline).map(drop).context("--pipe-size")
    }

    fn settings(&self) -> RecordSettings {
        let traced = self
            .collect
            .filter(|collector| [Collector::Kprobe, Collector::Fgraph].contains(collector))
            .map(|collector| TracingCollector { collector, probe: self.probe.clone().unwrap_or_default() });
        let duration = self.duration_ns.map(Duration::from_nanos);
        RecordSettings {
            duration,
            level: self.level,
            observer: self.observer,
            pipe_bytes: self.pipe_size,
            switches: self.switches,
            traced,
        }
    }

    fn guest(&self) -> Result<Option<GuestOptions>> {
        self.machine.guest(self.kernel.as_deref())
    }

    fn record_in_guest(&self, pipeline: &PipelineCommand) -> Result<Outcome> {
        cancel::install().context("cannot install signal handlers")?;
        let prepared = self.prepared(pipeline, PipelinePlace::here()?)?;
        let (mut recorded, printed) = if self.counts() { prepared.record_to_count()? } else { prepared.record()? };
        write_printed(&printed.output, &printed.errors);
        printed.notes.iter().for_each(|note| progress::note(note));
        if self.counts()
            && let Err(error) = prepared.add_counts(&mut recorded, self.counted_runs())
        {
            if cancel::happened() {
                return Err(error);
            }
            // What was recorded is kept.
            let text = format!("Instructions could not be counted: {error:#}.");
            recorded.document.findings.push(Finding::new(FindingKind::NotCounted, None, text));
        }
        Ok(recorded)
    }

    /// `recorded` with this request, which it answers.
    fn stored_in(&self, mut recorded: Outcome) -> Outcome {
        recorded.document.request = Some(Measurement::Recording(Box::new(self.clone())));
        recorded
    }
}

/// Whether `stored` is of the request `asked`, and was counted as often and as now.
fn may_be_same(asked: &RecordingRequest, stored: &Outcome) -> Result<bool> {
    let document = &stored.document;
    let (Some(Measurement::Recording(other)), Some(guest)) = (&document.request, asked.guest()?) else {
        return Ok(false);
    };
    let without_runs = |request: &RecordingRequest| RecordingRequest { runs: None, ..request.clone() };
    let counted = document.ensemble.as_ref().map(|ensemble| ensemble.windows.len());
    let emulator_here = qemu::version(guest.kernel.processor)?;
    let emulator = document.environment.emulator.as_ref().map(|emulator| emulator.version.as_str());
    Ok(without_runs(asked) == without_runs(other)
        && asked.runs.is_none_or(|runs| counted == Some(runs as usize))
        && document.version == build::version()
        && document.kernel.release == guest.kernel.release
        && emulator == Some(&emulator_here))
}
