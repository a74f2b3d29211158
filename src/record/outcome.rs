//! A counted recording as the outcome of a run, so that all that compares outcomes compares pipelines, too.

use super::graphs;
use super::model::{RecordedInstructions, RecordedPipe, Recording, StageInstructions};
use super::stages::{self, moved};
use super::stored;
use crate::profile::{ByProcess, ProcessName, Profile, SchedulingWeight, Unit};
use crate::report::files;
use crate::result::code::ExecutedCode;
use crate::result::ensemble::{Ensemble, WindowCount};
use crate::result::{
    Attribution, Collector, Document, Outcome, PairRecord, PipeWork, PipelineWork, ProcessTotals, Processes, SCHEMA,
    Throughput,
};
use crate::util::warning::Warning;
use anyhow::{Context as _, Result, ensure};
use std::path::Path;

/// The counted recording at `path`, a folder or its result.json. `None` if it was not counted.
///
/// # Errors
/// When a file is missing, damaged or of another version.
pub(crate) fn load(path: &Path) -> Result<Option<Outcome>> {
    let recording = stored::load(path)?;
    let Some(counted) = recording.instructions.as_ref() else { return Ok(None) };
    let folder = path.parent().unwrap_or(Path::new("."));
    let counted_only = Recording { samples: None, ..recording.clone() };
    let profiles = graphs::stored(&counted_only, folder)?;
    let runs = counted.stages.iter().map(|stage| stage.runs.len()).min().unwrap_or(0);
    let windows = if runs > 1 { files::load_windows(folder)? } else { Vec::new() };
    let code = files::code_next_to(path, "").ok();
    of(&recording, profiles, windows, code).with_context(|| path.display().to_string())
}

/// The outcome of `recording`, of which these are the profiles of the stages in the first run, those of all runs if there
/// are several, and the executed code. `None` if it was not counted.
///
/// # Errors
/// When they are not of this recording.
pub(crate) fn of(
    recording: &Recording,
    profiles: Vec<Profile>,
    windows: Vec<Vec<Profile>>,
    code: Option<ExecutedCode>,
) -> Result<Option<Outcome>> {
    let Some(counted) = &recording.instructions else { return Ok(None) };
    let runs = counted.stages.iter().map(|stage| stage.runs.len()).min().unwrap_or(0);
    let windows = if windows.is_empty() { vec![profiles.clone()] } else { windows };
    ensure!(windows.len() == runs, "its number of counted runs is {runs}, and there are profiles of {}", windows.len());
    Ok(Some(Outcome { code, ..outcome(recording, counted, profiles, windows) }))
}

/// `profiles`: those of the first run; `windows`: those of each.
fn outcome(
    recording: &Recording,
    counted: &RecordedInstructions,
    profiles: Vec<Profile>,
    windows: Vec<Vec<Profile>>,
) -> Outcome {
    let ensemble = Ensemble::new(windows.iter().map(|profiles| window(profiles)).collect());
    let profiles = windows.get(ensemble.shown).cloned().unwrap_or(profiles);
    let processes = processes(recording, counted);
    let attribution = Attribution {
        collector: Collector::Insn.name().to_owned(),
        processes: counted.stages.iter().map(|stage| (name(stage), stage.roles.clone())).collect(),
    };
    let mut environment = recording.environment.clone();
    environment.cpus = counted.cpus;
    let cautions = recording.cautions.iter().map(|caution| Warning {
        code: "recorded".to_owned(),
        message: caution.trim_end_matches('.').to_owned(),
        action: String::new(),
    });
    let without_pipes = (through_pipes(recording) == 0).then(|| Warning {
        code: "no-pipes".to_owned(),
        message: "nothing went through its pipes, so all values are those of the whole run, not per KiB".to_owned(),
        action: String::new(),
    });
    let run = PairRecord { collectors: vec![Collector::Insn.name().to_owned()], processes: processes.clone() };
    let document = Document {
        schema: SCHEMA.to_owned(),
        version: recording.version.clone(),
        started: recording.started.clone(),
        command: recording.command.clone(),
        mode: recording.pipeline.text(),
        workload: None,
        kernel: recording.kernel.clone(),
        executed_on: recording.executed_on,
        unit: Unit::Instructions,
        environment,
        memcg: None,
        throughput: Throughput::default(),
        processes,
        attribution,
        functions: Vec::new(),
        symbols: counted.symbols.clone(),
        collectors: vec![counted.collector.clone()],
        runs: vec![run; windows.len()],
        warnings: recording.warnings.iter().cloned().chain(cautions).chain(without_pipes).collect(),
        ending: None,
        ensemble: Some(ensemble),
        cycle_model: None,
        locks: Vec::new(),
        files: Vec::new(),
    };
    let pipeline = Some(work(recording, counted));
    Outcome { document, profiles, windows, classes: ByProcess::default(), code: None, pipeline }
}

fn name(stage: &StageInstructions) -> ProcessName {
    ProcessName::new(&stage.name)
}

fn window(profiles: &[Profile]) -> WindowCount {
    let mut scheduling = SchedulingWeight::default();
    profiles.iter().for_each(|profile| scheduling += SchedulingWeight::of(profile));
    let instructions = profiles.iter().map(|profile| profile.stacks.total()).sum();
    WindowCount { tick_offset_ns: 0, warmup_blocks: 0, instructions, scheduling }
}

/// Bytes through all pipes.
fn through_pipes(recording: &Recording) -> u64 {
    recording.pipes.iter().map(taken).sum()
}

/// What each stage did. Values per KiB refer to the bytes of the first one: these are all that went through the pipes.
fn processes(recording: &Recording, counted: &RecordedInstructions) -> Processes {
    let bytes = Some(through_pipes(recording)).filter(|bytes| *bytes > 0).unwrap_or(1024);
    let totals = counted.stages.iter().enumerate().map(|(stage, of)| {
        let own = |process: usize| recording.processes[process].stage as usize == stage;
        let (moved, mine) = (moved(recording, own), recording.processes.iter().enumerate().filter(|(at, _)| own(*at)));
        let ends = recording.pipes.iter().flat_map(RecordedPipe::ends).filter(|end| own(end.process));
        let mut totals = ProcessTotals { bytes: moved.bytes, calls: moved.calls, ..ProcessTotals::default() };
        for (_, process) in mine {
            totals.voluntary_switches += process.waits.values().map(|wait| wait.count).sum::<u64>();
            totals.involuntary_switches += process.preemptions;
        }
        totals.voluntary_switches += ends.map(|end| end.sleeps + end.lock_sleeps).sum::<u64>();
        if stage == 0 {
            totals.bytes = bytes;
        }
        (name(of), totals)
    });
    Processes { totals: totals.collect(), window_ns: recording.window_ns, pipes: Vec::new() }
}

fn work(recording: &Recording, counted: &RecordedInstructions) -> PipelineWork {
    let all = stages::stages(recording);
    let names = stages::names(recording, &all);
    let pipe = |pipe: &RecordedPipe| PipeWork { between: stages::between(pipe, &all, &names), bytes: taken(pipe) };
    let ends = || recording.pipes.iter().flat_map(RecordedPipe::ends);
    PipelineWork {
        exit_codes: recording.exit_codes.clone(),
        // Where the kernel skipped programs, calls and their bytes are missing.
        pipes: (recording.skipped == 0)
            .then(|| recording.pipes.iter().filter(|pipe| pipe.is_used()).map(pipe).collect()),
        rep_bytes: counted.stages.iter().map(|stage| stage.rep_bytes).sum(),
        on_disk: !recording.on_disk.is_empty(),
        needless: ends().map(|end| end.needless).sum(),
    }
}

/// Bytes read; written ones if no reader was recorded. What is written and never read, as by `yes` before `head` ends, is
/// not the pipeline's work.
pub(super) fn taken(pipe: &RecordedPipe) -> u64 {
    let read: u64 = pipe.readers.iter().map(|end| end.bytes).sum();
    if read > 0 { read } else { pipe.bytes() }
}
