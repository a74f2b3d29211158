//! A pipeline inside a guest. The host sends its programs and files ([`sent_files`](crate::start::sent_files)); the guest records it and
//! sends back the recording and what the pipeline printed.

use crate::RecordOptions;
use crate::RecordSettings;
use crate::arch::Processor;
use crate::collect::insn::UserFiles;
use crate::guest::cgroup::GuestCgroup;
use crate::guest::disk;
use crate::guest::entropy;
use crate::process::{Phase, settle};
use crate::record;
use crate::record::count::{self, PipelineCounter, RunInGuest, RunLimits};
use crate::record::observe::recorder;
use crate::record::observe::results::CallResults;
use crate::record::say::answer::{RecordedAnswer, answer};
use crate::record::start::input::KeptInput;
use crate::record::start::launch::{PipelineSetup, StageStreams};
use crate::record::start::sent_files::SentFiles;
use crate::record::trials::timed::{check_codes, printed_file};
use crate::result::{Document, Observer, Outcome, PipelineCommand, SentFile, check};
use crate::util::{cancel, progress, size, stored_json};
use crate::vm::disk::{DiskImage, DiskPlace};
use crate::vm::job::{INSIDE, TO_RECORD};
use crate::vm::{Accel, GuestOptions, GuestReply, Job, run_job};
use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

/// Where a guest finds the file of standard input. Its name on this machine would move the times of a recording a little.
const INPUT: &str = "/.pipeprof-input";

/// At most so much of standard output, and of standard error, is sent back: the guest's serial port is slow.
const MOST_PRINTED: u64 = 1 << 20;

/// What the guest is to record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sent {
    pipeline: PipelineCommand,
    place: PipelinePlace,
    settings: RecordSettings,
    /// Let the emulator count its instructions, in the run of this number, instead of recording it.
    counted: Option<u32>,
    /// Record also how all system calls end: its instructions will be counted, too.
    #[serde(default)]
    with_results: bool,
    /// Do not send back what it prints to standard output: each byte costs the emulator as much as hundreds of instructions.
    #[serde(default)]
    without_output: bool,
    /// Start it at a round time of the guest's clock, which costs no time under emulation. Otherwise it would start a few
    /// instructions earlier or later with each file's name (docs/exactness.md).
    settled: bool,
    /// What is on the guest's disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    disk: Vec<DiskPlace>,
}

/// What is before the output in the answer, as JSON that ends with a NUL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Received {
    outcome: Outcome,
    /// Lengths of what was printed to standard output and error.
    printed: [u64; 2],
}

/// What a pipeline printed in a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestOutput {
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    /// Notes for the user: what is missing of it.
    pub notes: Vec<String>,
}

/// What the processes of a pipeline find in a guest, besides their files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelinePlace {
    /// The folder in which they run.
    pub folder: PathBuf,
    /// `PATH`. A guest gets those of its folders that it has.
    pub path: String,
    /// Standard input: a file and an offset, or nothing.
    pub input: Option<(PathBuf, u64)>,
}

impl PipelinePlace {
    /// As this process has it.
    ///
    /// # Errors
    /// When the current folder is gone, or standard input can be read only once.
    pub fn here() -> Result<Self> {
        let input = KeptInput::keep("a pipeline in a guest cannot read this standard input")?.file()?;
        Ok(Self { input, ..Self::without_input()? })
    }

    /// As this process has it, with an empty standard input.
    ///
    /// # Errors
    /// When the current folder is gone.
    pub fn without_input() -> Result<Self> {
        let folder = std::env::current_dir().context("cannot find the current folder")?;
        Ok(Self { folder, path: std::env::var("PATH").unwrap_or_default(), input: None })
    }
}

/// What is to be recorded in a guest.
#[derive(Debug)]
pub struct GuestPipeline<'a> {
    pub pipeline: &'a PipelineCommand,
    pub place: PipelinePlace,
    pub files: &'a [SentFile],
    /// Those that are to be on a disk in any case.
    pub disk: &'a [SentFile],
    pub settings: RecordSettings,
}

/// A pipeline with all that it needs, ready for a guest.
#[derive(Debug)]
pub struct PreparedPipeline {
    sent: Sent,
    guest: GuestOptions,
    /// The files that the guest has.
    files: Vec<PathBuf>,
    /// Removed when the last guest has ended.
    _image: Option<DiskImage>,
}

impl PreparedPipeline {
    /// Collect the programs and files of a pipeline.
    ///
    /// # Errors
    /// When a file cannot be read, the guest's memory has no room for the programs, or no disk can be made.
    pub fn new(wanted: GuestPipeline<'_>, guest: GuestOptions) -> Result<Self> {
        let GuestPipeline { pipeline, mut place, files, disk, settings } = wanted;
        let mut files = files.to_vec();
        if let Some((path, _)) = &mut place.input {
            let from = std::mem::replace(path, INPUT.into());
            files.push(SentFile { to: path.clone(), from });
        }
        let sent_files =
            SentFiles::collect(pipeline, &place.folder, &files, disk, guest.memory_mib, guest.kernel.processor)?;
        for word in pipeline.words() {
            let path = Path::new(&word);
            if guest.kernel.processor == Processor::HERE
                && path.is_file()
                && std::path::absolute(path).is_ok_and(|path| !sent_files.contains(&path))
            {
                progress::note(&format!(
                    "the file {word} is not in the guest: add --file {word} if the pipeline reads it"
                ));
            }
        }
        // What a program executes depends on how long its environment is. Folders that are not in the guest change nothing else.
        let there = |folder: &&str| folder.is_empty() || sent_files.contains(Path::new(folder));
        let path: Vec<&str> = place.path.split(':').filter(there).collect();
        place.path = path.join(":");
        let places = sent_files.disk.places().to_vec();
        let image = (!places.is_empty()).then(|| sent_files.disk.make()).transpose()?;
        if image.is_some() && guest.snapshot && guest.accel != Accel::Kvm {
            progress::note("the guest boots, because one with a disk cannot start from a snapshot");
        }
        let of_guest = sent_files.bundle.files().chain(sent_files.disk.files()).chain([guest.init.as_path()]);
        let of_guest = of_guest.map(Path::to_owned).collect();
        let guest = GuestOptions {
            files: Some(Arc::new(sent_files.bundle.pack()?)),
            disk: image.as_ref().map(|image| image.path().to_owned()),
            ..guest
        };
        let settled = guest.accel == Accel::Tcg;
        let sent = Sent {
            pipeline: pipeline.clone(),
            place,
            settings,
            counted: None,
            with_results: false,
            without_output: false,
            settled,
            disk: places,
        };
        Ok(Self { sent, guest, files: of_guest, _image: image })
    }

    /// The programs and files that are in the guest's memory, as an archive.
    pub fn contents(&self) -> &[u8] {
        self.guest.files.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Whether files are on a disk, whose moments depend on the machine.
    pub fn has_disk(&self) -> bool {
        self.guest.disk.is_some()
    }

    /// Record it in a guest.
    pub fn record(&self) -> Result<(Outcome, GuestOutput)> {
        self.record_as(&self.sent)
    }

    /// Record it before its instructions are counted.
    pub(crate) fn record_to_count(&self) -> Result<(Outcome, GuestOutput)> {
        self.record_as(&Sent { with_results: true, ..self.sent.clone() })
    }

    /// The same without what it prints to standard output.
    fn record_silently(&self) -> Result<(Outcome, GuestOutput)> {
        self.record_as(&Sent { with_results: true, without_output: true, ..self.sent.clone() })
    }

    fn record_as(&self, sent: &Sent) -> Result<(Outcome, GuestOutput)> {
        let mut guest = self.guest.clone();
        guest.append.push(TO_RECORD.to_owned());
        let (reply, received, printed) = run(&guest, sent)?;
        let mut outcome = received.outcome;
        let document = &mut outcome.document;
        document.executed_on = reply.executed_on;
        let name = |at: &Path| if at == Path::new(INPUT) { "standard input".into() } else { at.display().to_string() };
        document.on_disk = self.sent.disk.iter().map(|place| name(&place.at)).collect();
        document.environment.emulator = Some(reply.emulator);
        document.warnings.extend(reply.notes);
        // The guest does not know what executes it.
        let RecordedAnswer { findings, cautions } = answer(document);
        (document.findings, document.cautions) = (findings, cautions);
        Ok((outcome, printed))
    }

    /// Record it and count its instructions in so many `runs`. It must end well: another run may not fail.
    ///
    /// # Errors
    /// As [`Self::record`] and [`Self::add_counts`]; when a stage fails, with what it printed.
    pub fn counted(&self, runs: RunLimits) -> Result<Outcome> {
        self.record_and_count(runs, |(recorded, printed)| check_codes(&recorded.document.exit_codes, &printed.errors))
    }

    /// The same, unless what was recorded is not `good`.
    pub(crate) fn record_and_count(
        &self,
        runs: RunLimits,
        good: impl Fn(&(Outcome, GuestOutput)) -> Result<()> + Sync,
    ) -> Result<Outcome> {
        let files = self.executed()?;
        let counter = self.counter(&files)?;
        let record = || {
            let recorded = self.record_silently()?;
            good(&recorded)?;
            Ok(recorded.0)
        };
        let (mut recorded, counted) = counter.beside(record, runs)?;
        counter.add(&mut recorded, runs, counted)?;
        Ok(recorded)
    }

    /// Count the instructions of what was recorded, in so many other guests, and add them to it.
    pub(crate) fn add_counts(&self, recorded: &mut Outcome, runs: RunLimits) -> Result<()> {
        let files = self.executed()?;
        self.counter(&files)?.add(recorded, runs, Vec::new())
    }

    /// Record it and count its instructions, unless its first run executes what that of `stored` did: then nothing. Another
    /// run would differ from its first one as those of `stored` do, because all guests start from the same state.
    ///
    /// `alone`: nothing else is measured meanwhile, so that another CPU records it in case that it is not the same.
    pub(crate) fn count_unless_same(&self, stored: &Outcome, runs: RunLimits, alone: bool) -> Result<Option<Outcome>> {
        let files = self.executed()?;
        let counter = self.counter(&files)?;
        let unwanted = Arc::new(AtomicBool::new(false));
        let begins = alone && counter.jobs() > 1;
        let (first, recorded) = std::thread::scope(|scope| {
            let recording = begins.then(|| scope.spawn(|| cancel::unless(&unwanted, || self.record_silently())));
            let first = counter.first_unless_same(stored, runs);
            unwanted.store(!matches!(first, Ok(Some(_))), Ordering::Relaxed);
            (first, recording.map(ScopedJoinHandle::join))
        });
        let Some(first) = first? else { return Ok(None) };
        let Some(counted) = counter.others_unless_same(first, stored, runs)? else { return Ok(None) };
        let (mut recorded, _) = match recorded {
            Some(recorded) => recorded.map_err(|_| anyhow!("internal error: a thread panicked"))??,
            None => self.record_silently()?,
        };
        counter.add(&mut recorded, runs, counted)?;
        Ok(Some(recorded))
    }

    fn executed(&self) -> Result<UserFiles> {
        UserFiles::read(self.files.iter().map(PathBuf::as_path))
    }

    fn counter<'a>(&'a self, files: &'a UserFiles) -> Result<PipelineCounter<'a, impl RunInGuest + 'a>> {
        PipelineCounter::new(&self.sent.pipeline, (&self.guest, files), |guest: &GuestOptions, number| {
            let sent = Sent { counted: Some(number), without_output: true, settled: true, ..self.sent.clone() };
            Ok(run(guest, &sent)?.1.outcome.document.exit_codes)
        })
    }
}

fn run(guest: &GuestOptions, sent: &Sent) -> Result<(GuestReply, Received, GuestOutput)> {
    let job = Job::Command(vec![INSIDE.to_owned(), serde_json::to_string(sent)?]);
    let reply = run_job(guest, &job)?;
    let (received, printed) = split(&reply.body).context("the guest's answer is not a recording")?;
    Ok((reply, received, printed))
}

fn split(body: &[u8]) -> Result<(Received, GuestOutput)> {
    let end = body.iter().position(|byte| *byte == 0).context("it is cut off")?;
    let received: Received = stored_json::parse(&body[..end])?;
    check(&received.outcome.document)?;
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
    let (output, errors) = output.zip(errors).context("it is cut off")?;
    Ok((received, GuestOutput { output, errors, notes }))
}

/// In the guest, before its snapshot: load what a recording needs.
///
/// # Errors
/// When the kernel refuses it, as it does again when it is needed.
pub fn prepare_inside() -> Result<()> {
    recorder::prepare()
}

/// In the guest: record what `sent` describes, and print the answer.
pub fn record_inside(sent: &str) -> Result<()> {
    let sent: Sent = serde_json::from_str(sent).context("cannot parse what is to be recorded")?;
    // A kernel without memory accounting does not charge the pipeline.
    let _ = GuestCgroup::create().and_then(|cgroup| cgroup.add(std::process::id()));
    // Then a program that needs random numbers would wait for them.
    let _ = entropy::credit();
    disk::mount_places(&sent.disk)?;
    let PipelinePlace { folder, path, input } = &sent.place;
    std::env::set_current_dir(folder).with_context(|| folder.display().to_string())?;
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("PATH", path);
        std::env::set_var("LC_ALL", "C");
        std::env::set_var("HOME", "/");
    }
    let input = match input {
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
    // The recording replaces standard output.
    let mut answer = File::from(rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3).context("standard output")?);
    if sent.settled {
        settle::wait(Phase::default())?;
    }
    let outcome = if let Some(number) = sent.counted {
        let RecordSettings { duration, pipe_bytes, .. } = sent.settings;
        let setup = PipelineSetup { streams: Some(streams), pipe_bytes, ..PipelineSetup::default() };
        let exit_codes = count::run_marked(&sent.pipeline, setup, duration, number)?;
        Outcome { document: Document { exit_codes, ..Document::default() }, ..Outcome::default() }
    } else {
        // A guest has the rights; without BTF, its recording would not be what is compared.
        let settings = RecordSettings { observer: Some(Observer::Bpf), ..sent.settings };
        let options = RecordOptions { settings, streams: Some(streams), ..RecordOptions::default() };
        // Of a kernel that refuses the program, they are not known.
        let results = sent.with_results.then(CallResults::start).and_then(Result::ok);
        let mut outcome = record(&sent.pipeline, options)?;
        if let Some(results) = results {
            results.add(&mut outcome.document, &count::stage_names(&sent.pipeline))?;
        }
        outcome
    };
    if sent.without_output {
        output.set_len(0).context("cannot drop what was printed")?;
    }
    let length = |file: &File| file.metadata().map_or(0, |data| data.len());
    let printed = [length(&output), length(&errors)];
    let mut body = serde_json::to_vec(&Received { outcome, printed })?;
    body.push(0);
    for mut file in [output, errors] {
        file.rewind().context("cannot read what was printed")?;
        file.take(MOST_PRINTED).read_to_end(&mut body).context("cannot read what was printed")?;
    }
    answer.write_all(&body).context("cannot send the recording")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_split_and_what_was_cut_is_said() {
        let received = Received { outcome: Outcome::default(), printed: [3, 2 << 20] };
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
        assert!(split(&body).is_err() && split(b"").is_err() && split(b"{}\0").is_err());
    }
}
