//! A pipeline inside a guest. The host sends its programs, its input and what `--file` names; the guest records it and
//! sends back the recording and what the pipeline printed.

use super::answer::answer;
use super::count::{self, CountedPipeline};
use super::input::KeptInput;
use super::launch::StageStreams;
use super::model::Recording;
use super::pipeline::PipelineCommand;
use super::{RecordLevel, RecordOptions, Recorded, record};
use crate::guest::cgroup::GuestCgroup;
use crate::guest::entropy;
use crate::profile::Folded;
use crate::util::{progress, size};
use crate::vm::bundle::FileBundle;
use crate::vm::{GuestOptions, GuestReply, Job, run_job};
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// The hidden subcommand that the guest runs, with a [`Sent`] as JSON.
pub(crate) const INSIDE: &str = "__inside";

/// At most so much of standard output, and of standard error, is sent back: the guest's serial port is slow.
const MOST_PRINTED: u64 = 1 << 20;

/// The part of the guest's memory that its files may have: they are in memory twice while they are unpacked.
const MEMORY_SHARE: u64 = 4;

/// A file for the guest: `PATH[:DEST]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentFile {
    from: PathBuf,
    to: PathBuf,
}

impl SentFile {
    /// As on the command line. A relative path in the guest begins at the current folder, as here.
    ///
    /// # Errors
    /// A message for the flag.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = match text.rsplit_once(':') {
            // A name with a colon.
            Some(_) if Path::new(text).exists() => (text, text),
            Some((from, to)) => (from, to),
            None => (text, text),
        };
        if !Path::new(from).exists() {
            return Err(format!("{from} does not exist"));
        }
        let absolute = |path: &str| std::path::absolute(path).map_err(|error| format!("'{path}': {error}"));
        Ok(Self { from: absolute(from)?, to: absolute(to)? })
    }
}

/// What the guest is to record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sent {
    pipeline: PipelineCommand,
    folder: PathBuf,
    /// PATH.
    path: String,
    /// Standard input: a file and an offset, or nothing.
    input: Option<(PathBuf, u64)>,
    duration: Option<Duration>,
    level: RecordLevel,
    /// Let the emulator count its instructions instead of recording it.
    counted: bool,
}

/// What is before the output in the answer, as JSON that ends with a NUL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Received {
    recording: Recording,
    off_cpu: Option<Folded>,
    /// Lengths of what was printed to standard output and error.
    printed: [u64; 2],
}

/// What a pipeline printed in a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GuestOutput {
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    /// Notes for the user: what is missing of it.
    pub notes: Vec<String>,
}

/// A pipeline with all that it needs, ready for a guest.
#[derive(Debug)]
pub(crate) struct PreparedPipeline {
    sent: Sent,
    guest: GuestOptions,
}

impl PreparedPipeline {
    /// Collect the programs and files of `pipeline`.
    ///
    /// # Errors
    /// When a file cannot be read, or the guest's memory has no room for them.
    pub(crate) fn new(
        pipeline: &PipelineCommand,
        guest: GuestOptions,
        files: &[SentFile],
        duration: Option<Duration>,
        level: RecordLevel,
    ) -> Result<Self> {
        let folder = std::env::current_dir().context("cannot find the current folder")?;
        let mut bundle = FileBundle::default();
        bundle.folder(&folder)?;
        for program in pipeline.programs() {
            bundle.program(&program)?;
        }
        for file in files {
            if file.from == file.to {
                bundle.executable(&file.from)?;
            } else {
                bundle.file(&file.from, &file.to)?;
            }
        }
        let input = KeptInput::keep("a pipeline in a guest cannot read this standard input")?.file()?;
        if let Some((path, _)) = &input {
            bundle.file(path, path)?;
        }
        for word in pipeline.words() {
            let path = Path::new(&word);
            if path.is_file() && std::path::absolute(path).is_ok_and(|path| !bundle.contains(&path)) {
                progress::note(&format!(
                    "the file {word} is not in the guest: add --file {word} if the pipeline reads it"
                ));
            }
        }
        let most = (guest.memory_mib << 20) / MEMORY_SHARE;
        if bundle.bytes() > most {
            bail!(
                "the files for the guest have {}, and its memory has room for {}: give --memory {}M or more",
                size::format(bundle.bytes()),
                size::format(most),
                (bundle.bytes() * MEMORY_SHARE).div_ceil(1 << 20)
            );
        }
        let guest = GuestOptions { files: Some(Arc::new(bundle.pack()?)), ..guest };
        let path = std::env::var("PATH").unwrap_or_default();
        let sent = Sent { pipeline: pipeline.clone(), folder, path, input, duration, level, counted: false };
        Ok(Self { sent, guest })
    }

    /// Record it in a guest.
    ///
    /// # Errors
    /// When the guest does not start, or cannot record.
    pub(crate) fn record(&self) -> Result<(Recorded, GuestOutput)> {
        let (reply, received, printed) = run(&self.guest, &self.sent)?;
        let mut recording = received.recording;
        recording.executed_on = reply.executed_on;
        recording.environment.emulator = Some(reply.emulator);
        recording.warnings.extend(reply.notes);
        // The guest does not know what executes it.
        let answer = answer(&recording);
        let recording = Recording { findings: answer.findings, cautions: answer.cautions, ..recording };
        Ok((Recorded { recording, off_cpu: received.off_cpu, ..Recorded::default() }, printed))
    }

    /// Count its instructions in a guest. `recording`: the same pipeline, recorded.
    ///
    /// # Errors
    /// When the guest does not start, or gives no complete counts.
    pub(crate) fn count(&self, recording: &Recording) -> Result<CountedPipeline> {
        let sent = Sent { counted: true, ..self.sent.clone() };
        count::count(&sent.pipeline, &self.guest, recording, |guest| Ok(run(guest, &sent)?.1.recording.exit_codes))
    }
}

fn run(guest: &GuestOptions, sent: &Sent) -> Result<(GuestReply, Received, GuestOutput)> {
    let job = Job::Command(vec![INSIDE.to_owned(), serde_json::to_string(sent)?]);
    let reply = run_job(guest, &job)?;
    let (received, printed) = split(&reply.body).context("the guest's answer is not a recording")?;
    Ok((reply, received, printed))
}

fn split(body: &[u8]) -> Option<(Received, GuestOutput)> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let received: Received = serde_json::from_slice(&body[..end]).ok()?;
    let mut rest = &body[end + 1..];
    let mut notes = Vec::new();
    let [output, errors] = [("output", received.printed[0]), ("error", received.printed[1])].map(|(name, whole)| {
        let (taken, left) = rest.split_at_checked(whole.min(MOST_PRINTED) as usize)?;
        rest = left;
        if whole > MOST_PRINTED {
            notes.push(format!(
                "of {} of standard {name}, only the first {} are shown: redirect it in the pipeline",
                size::format(whole),
                size::format(MOST_PRINTED)
            ));
        }
        Some(taken.to_vec())
    });
    Some((received, GuestOutput { output: output?, errors: errors?, notes }))
}

/// In the guest: record what `sent` describes, and print the answer.
///
/// # Errors
/// When it cannot be recorded.
pub(crate) fn record_inside(sent: &str) -> Result<()> {
    let sent: Sent = serde_json::from_str(sent).context("cannot parse what is to be recorded")?;
    // A kernel without memory accounting does not charge the pipeline.
    let _ = GuestCgroup::create().and_then(|cgroup| cgroup.add(std::process::id()));
    // Then a program that needs random numbers would wait for them.
    let _ = entropy::credit();
    std::env::set_current_dir(&sent.folder).with_context(|| sent.folder.display().to_string())?;
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("PATH", &sent.path);
        std::env::set_var("LC_ALL", "C");
        std::env::set_var("HOME", "/");
    }
    let input = match &sent.input {
        Some((path, offset)) => {
            let mut file = File::open(path).with_context(|| path.display().to_string())?;
            file.seek(SeekFrom::Start(*offset)).context("standard input")?;
            Stdio::from(file)
        }
        None => Stdio::null(),
    };
    let [output, errors] = [printed_file()?, printed_file()?];
    let copy = |file: &File| file.try_clone().context("cannot copy a descriptor");
    let streams = StageStreams { input, output: copy(&output)?, errors: copy(&errors)? };
    // Recording replaces standard output.
    let mut answer = File::from(rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3).context("standard output")?);
    let Recorded { recording, off_cpu, .. } = if sent.counted {
        let exit_codes = count::run_marked(&sent.pipeline, streams, sent.duration)?;
        Recorded { recording: Recording { exit_codes, ..Recording::default() }, ..Recorded::default() }
    } else {
        let (duration, level) = (sent.duration, sent.level);
        let options = RecordOptions { duration, level, streams: Some(streams), ..RecordOptions::default() };
        record(&sent.pipeline, options)?
    };
    let length = |file: &File| file.metadata().map_or(0, |data| data.len());
    let printed = [length(&output), length(&errors)];
    let mut body = serde_json::to_vec(&Received { recording, off_cpu, printed })?;
    body.push(0);
    for mut file in [output, errors] {
        file.rewind().context("cannot read what was printed")?;
        file.take(MOST_PRINTED).read_to_end(&mut body).context("cannot read what was printed")?;
    }
    answer.write_all(&body).context("cannot send the recording")
}

/// A file in memory to which the pipeline prints. As all stages share its offset, it needs no O_APPEND.
fn printed_file() -> Result<File> {
    let file = rustix::fs::memfd_create("printed", rustix::fs::MemfdFlags::CLOEXEC);
    Ok(File::from(file.context("cannot make a file in memory")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_the_guest_have_a_place_in_it() {
        let file = SentFile::parse("/etc/passwd:/data/x").unwrap();
        assert_eq!((file.from, file.to), ("/etc/passwd".into(), "/data/x".into()));
        let here = SentFile::parse("Cargo.toml").unwrap();
        assert!(here.from == here.to && here.to.is_absolute());
        assert!(SentFile::parse("no-such-file").unwrap_err().contains("does not exist"));
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a:b");
        std::fs::write(&odd, "").unwrap();
        assert_eq!(SentFile::parse(odd.to_str().unwrap()).unwrap().to, odd);
    }

    #[test]
    fn the_answer_is_split_and_what_was_cut_is_said() {
        let received = Received { recording: Recording::default(), off_cpu: None, printed: [3, 2 << 20] };
        let mut body = serde_json::to_vec(&received).unwrap();
        body.push(0);
        body.extend(b"a\0b");
        body.extend(vec![b'e'; 1 << 20]);
        let (back, printed) = split(&body).unwrap();
        assert_eq!(back, received);
        assert_eq!((&printed.output[..], printed.errors.len()), (&b"a\0b"[..], 1 << 20));
        assert_eq!(
            printed.notes,
            ["of 2M of standard error, only the first 1M are shown: redirect it in the pipeline"]
        );
        body.pop();
        assert!(split(&body).is_none() && split(b"").is_none() && split(b"{}\0").is_none());
    }
}
