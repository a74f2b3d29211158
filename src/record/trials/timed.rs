//! Run a pipeline without recording it, and measure its time.

use crate::record::start::launch::{Launcher, PipelineSetup, StageStreams};
use crate::result::PipelineCommand;
use crate::util::cancel::Cancelled;
use crate::util::text::clean;
use anyhow::{Context as _, Result, bail, ensure};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::process::Stdio;
use std::time::Instant;

/// The exit code of a stage whose reader ended before it: 128 and SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = 141;

/// What one run took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineTime {
    pub wall_ns: u64,
    /// User and system time of all stages.
    pub cpu_ns: [u64; 2],
    /// Of each stage.
    pub codes: Vec<u8>,
}

/// Runs pipelines on this machine, one after the other.
pub struct PipelineTimer(Launcher);

impl PipelineTimer {
    pub fn new() -> Result<Self> {
        Ok(Self(Launcher::new()?))
    }

    /// Run `pipeline` with an empty standard input, and show nothing. It must end well.
    ///
    /// # Errors
    /// When a program cannot be started, or fails, with what it printed; on interruption.
    pub fn run(&self, pipeline: &PipelineCommand, pipe_bytes: Option<u64>) -> Result<PipelineTime> {
        let mut errors = printed_file()?;
        let streams = StageStreams { errors: errors.try_clone()?, ..StageStreams::quiet(Stdio::null())? };
        let setup = PipelineSetup { pipe_bytes, streams: Some(streams), ..PipelineSetup::default() };
        let time = time(pipeline, setup, &self.0)?;
        let mut printed = Vec::new();
        errors.rewind()?;
        errors.take(1 << 16).read_to_end(&mut printed)?;
        check_codes(&time.codes, &printed)?;
        Ok(time)
    }
}

/// Run `pipeline` once.
pub(crate) fn time(pipeline: &PipelineCommand, setup: PipelineSetup, launcher: &Launcher) -> Result<PipelineTime> {
    ensure!(!launcher.interrupted(), Cancelled);
    let begin = Instant::now();
    launcher.start(pipeline, setup, &mut |_| Ok(()))?;
    let ended = launcher.wait()?;
    let wall_ns = u64::try_from(begin.elapsed().as_nanos())?;
    ensure!(!launcher.interrupted(), Cancelled);
    let cpu_ns = [0, 1].map(|kind| ended.iter().map(|stage| stage.cpu_ns[kind]).sum());
    Ok(PipelineTime { wall_ns, cpu_ns, codes: ended.into_iter().map(|stage| stage.code).collect() })
}

/// Check that no stage has failed. `errors`: what they printed to standard error.
pub(crate) fn check_codes(codes: &[u8], errors: &[u8]) -> Result<()> {
    if codes.last().is_some_and(|code| *code != 0) || codes.iter().any(|code| ![0, BROKEN_PIPE].contains(code)) {
        let errors = String::from_utf8_lossy(errors);
        let first = errors.lines().next().map_or(String::new(), |line| format!(": {}", clean(line)));
        bail!("the pipeline failed, with exit codes {codes:?}{first}");
    }
    Ok(())
}

/// A file in memory to which a pipeline prints. As all stages share its offset, it needs no O_APPEND.
pub(crate) fn printed_file() -> Result<File> {
    let file = rustix::fs::memfd_create("printed", rustix::fs::MemfdFlags::CLOEXEC);
    Ok(File::from(file.context("cannot make a file in memory")?))
}
