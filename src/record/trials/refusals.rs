//! What programs do whose system calls are refused: each pipeline is recorded once as it is and once with the refusal, beside
//! the runs of which the time is measured.

use crate::record::observe::observer::Observe as _;
use crate::record::observe::raw::{PrByCall, PrCarried};
use crate::record::observe::reason::name_of;
use crate::record::observe::recorder::{Excerpts, Recorder};
use crate::record::start::input::KeptInput;
use crate::record::start::launch::{Launcher, PipelineSetup, StageStreams};
use crate::record::start::seccomp;
use crate::record::trials::timed::printed_file;
use crate::record::waiting::wait;
use crate::report::terminal::text::shortened;
use crate::result::{
    MovedBytes, PipelineCommand, RecordLevel, RefusalError, RefusalOutcome, RefusedCall, RefusedProgram,
};
use crate::util::cancel::Cancelled;
use crate::util::choice::Choice as _;
use crate::util::size;
use crate::util::text::{clean, counted, grouped};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _};

/// So much less than before is too little: a pipe may hold as much that nobody reads.
const LOST: u64 = 1 << 20;

/// A longer line of standard error is cut.
const LONGEST: usize = 120;

/// What one program of a run did.
#[derive(Debug, Clone, Default, PartialEq)]
struct ProgramMoves {
    /// By the number of the call and its error, 0 if it did not fail.
    calls: BTreeMap<(i64, i32), MovedBytes>,
    exit_code: u8,
    signal: u32,
}

/// What the programs of one run did, by name, and what they printed to standard error.
#[derive(Debug, Default)]
pub(crate) struct RecordedMoves {
    programs: BTreeMap<String, ProgramMoves>,
    errors: String,
}

impl RecordedMoves {
    /// Run and record `pipeline` once; it shows nothing.
    ///
    /// # Errors
    /// When it cannot be recorded, or the user interrupts.
    pub(crate) fn record(
        pipeline: &PipelineCommand,
        setup: PipelineSetup,
        input: &KeptInput,
        launcher: &Launcher,
    ) -> Result<Self> {
        ensure!(!launcher.interrupted(), Cancelled);
        let mut recorder = Recorder::start(RecordLevel::Sched, false, Excerpts::Moves, None, false)?;
        let mut errors = printed_file()?;
        let streams = StageStreams { errors: errors.try_clone()?, ..StageStreams::quiet(input.stdio()?)? };
        let setup = PipelineSetup { streams: Some(streams), ..setup };
        launcher.start(pipeline, setup, &mut |stage| recorder.launching(Some(stage)))?;
        recorder.launching(None)?;
        wait(launcher, None, |_| Some(recorder.step(&mut |_, _| {})))?;
        ensure!(!launcher.interrupted(), Cancelled);
        let moves = recorder.moves()?;
        let (mut counts, ended, _) = recorder.counted()?;
        ended.add_to(&mut counts);
        ensure!(
            counts.state.is_none_or(|state| state.lost_waits == 0),
            "there are more programs than there is room for"
        );
        let mut programs: BTreeMap<String, ProgramMoves> = BTreeMap::new();
        for (PrByCall { who, call, error }, PrCarried { calls, bytes }) in moves {
            let program = programs.entry(name_of(who.name)).or_default();
            let sum = program.calls.entry((i64::from(call), error.cast_signed())).or_default();
            sum.calls += calls;
            sum.bytes += bytes;
        }
        for (who, process) in counts.processes {
            let program = programs.entry(name_of(who.name)).or_default();
            program.exit_code = program.exit_code.max(u8::try_from(process.code).unwrap_or(u8::MAX));
            program.signal = program.signal.max(process.signal as u32);
        }
        let mut text = Vec::new();
        errors.rewind()?;
        errors.take(1 << 16).read_to_end(&mut text)?;
        Ok(Self { programs, errors: String::from_utf8_lossy(&text).into_owned() })
    }

    /// The line of standard error that tells most: of the error, of the program, or the first one.
    fn line_about(&self, program: &str, refused: &[RefusedCall]) -> Option<&str> {
        let lines = || self.errors.lines().filter(|line| !line.trim().is_empty());
        let is_error = |line: &str| {
            refused
                .iter()
                .any(|refused| line.contains(error_text(refused.error)) || line.contains(refused.error.name()))
        };
        let of_error = lines().find(|line| is_error(line));
        of_error.or_else(|| lines().find(|line| line.contains(program))).or_else(|| lines().next())
    }

    /// The programs of which calls were refused, compared with `before`.
    pub(crate) fn refused(&self, before: &Self, refused: &[RefusedCall]) -> Vec<RefusedProgram> {
        let all = self.programs.iter();
        all.filter_map(|(name, after)| {
            let were: BTreeMap<String, u64> = refused
                .iter()
                .filter_map(|RefusedCall { call, error }| {
                    let failed = after.calls.get(&(seccomp::number(*call), seccomp::error_number(*error)))?;
                    Some((call.kernel_name(), failed.calls))
                })
                .collect();
            if were.is_empty() {
                return None;
            }
            let none = ProgramMoves::default();
            let earlier = before.programs.get(name).unwrap_or(&none);
            // Who writes when the reader has ended is not at fault.
            let failed = |of: &ProgramMoves| of.exit_code > 0 || ![0, libc::SIGPIPE as u32].contains(&of.signal);
            let outcome = if failed(after) && !failed(earlier) {
                RefusalOutcome::Failed
            } else if most(&after.moved()) + LOST < most(&earlier.moved()) {
                RefusalOutcome::MovedLess
            } else {
                RefusalOutcome::FellBack
            };
            let said = self.line_about(name, refused);
            Some(RefusedProgram {
                name: name.clone(),
                refused: were,
                before: earlier.moved(),
                after: after.moved(),
                outcome,
                exit_code: Some(after.exit_code).filter(|code| *code > 0),
                signal: Some(after.signal).filter(|signal| *signal > 0),
                said: said.filter(|_| outcome != RefusalOutcome::FellBack).map(clean),
            })
        })
        .collect()
    }
}

impl ProgramMoves {
    /// Calls that moved bytes, by name.
    fn moved(&self) -> BTreeMap<String, MovedBytes> {
        let moved = self.calls.iter().filter(|((_, error), moved)| *error == 0 && moved.bytes > 0);
        moved.map(|((call, _), moved)| (call_name(*call), *moved)).collect()
    }
}

/// The name of a call that moves bytes: bpf/record_moves.bpf.h.
fn call_name(number: i64) -> String {
    let name = match number {
        libc::SYS_read => "read",
        libc::SYS_write => "write",
        libc::SYS_readv => "readv",
        libc::SYS_writev => "writev",
        libc::SYS_pread64 => "pread64",
        libc::SYS_pwrite64 => "pwrite64",
        libc::SYS_preadv2 => "preadv2",
        libc::SYS_pwritev2 => "pwritev2",
        libc::SYS_splice => "splice",
        libc::SYS_vmsplice => "vmsplice",
        libc::SYS_tee => "tee",
        libc::SYS_sendfile => "sendfile",
        libc::SYS_copy_file_range => "copy_file_range",
        libc::SYS_recvfrom => "recvfrom",
        libc::SYS_sendto => "sendto",
        libc::SYS_recvmsg => "recvmsg",
        libc::SYS_sendmsg => "sendmsg",
        number => return format!("system call {number}"),
    };
    name.to_owned()
}

/// What the C library calls an error: strerror(3).
fn error_text(error: RefusalError) -> &'static str {
    match error {
        RefusalError::Enosys => "Function not implemented",
        RefusalError::Einval => "Invalid argument",
        RefusalError::Eperm => "Operation not permitted",
    }
}

/// What was found of one refusal, in sentences.
pub(crate) fn sentences(refused: &[RefusedCall], programs: &[RefusedProgram]) -> Vec<String> {
    let tried: Vec<String> = refused.iter().map(|refused| refused.call.kernel_name()).collect();
    if programs.is_empty() {
        let it = if tried.len() == 1 { "it" } else { "them" };
        return vec![format!("No program called {}: refusing {it} changes nothing.", listed(tried.iter()))];
    }
    programs.iter().map(|program| sentence(program, &tried)).collect()
}

/// The most that one kind of call moved. A byte that is read and written, or goes through a pipe of the program's own, is moved by
/// several.
fn most(moved: &BTreeMap<String, MovedBytes>) -> u64 {
    moved.values().map(|moved| moved.bytes).max().unwrap_or(0)
}

/// `tried` are the calls that were refused, whether it got to them or not.
fn sentence(program: &RefusedProgram, tried: &[String]) -> String {
    let name = format!("`{}`", program.name);
    let refused = listed(program.refused.keys());
    match program.outcome {
        RefusalOutcome::FellBack => {
            // What moves more than before.
            let is_more = |(call, moved): &(&String, &MovedBytes)| {
                moved.bytes as f64 > program.before.get(*call).map_or(0.0, |before| 1.01 * before.bytes as f64)
            };
            let instead: Vec<(&String, &MovedBytes)> = program.after.iter().filter(is_more).collect();
            let were = listed_calls(program.before.iter().filter(|(call, _)| tried.contains(call)));
            match (instead.is_empty(), were.is_empty()) {
                (true, true) => format!("{name} does without {refused}, which moves nothing for it in any case."),
                (true, false) => format!("{name} does without {refused}: no other call moves more than before."),
                (false, _) => {
                    let now = listed_calls(instead.into_iter());
                    let before = if were.is_empty() { String::new() } else { format!(", instead of {were}") };
                    format!("{name} fell back from {refused} to {now}{before}.")
                }
            }
        }
        RefusalOutcome::Failed => {
            let how = match (program.signal, program.exit_code) {
                (Some(signal), _) => format!("signal {signal} ended it"),
                (None, code) => format!("it ended with exit code {}", code.unwrap_or_default()),
            };
            format!("{name} does not fall back from {refused}: {how}{}.", said(program))
        }
        RefusalOutcome::MovedLess => {
            let [before, after] = [&program.before, &program.after].map(most);
            format!(
                "{name} ended as before without {refused}, but moved {} instead of {}{}: data may be lost.",
                bytes(after),
                bytes(before),
                said(program)
            )
        }
    }
}

fn said(program: &RefusedProgram) -> String {
    program.said.as_ref().map_or_else(String::new, |said| format!(" (\"{}\")", shortened(said, LONGEST)))
}

fn bytes(count: u64) -> String {
    if count < 10_000 { counted(count, "byte") } else { size::rough(count) }
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    crate::profile::listed(names.map(|name| format!("`{name}`")))
}

/// `` `read` (16 calls of 64.0 KiB) and `write` (32 of 32.0 KiB)``.
fn listed_calls<'a>(calls: impl Iterator<Item = (&'a String, &'a MovedBytes)>) -> String {
    let shown = |(call, moved): (&String, &MovedBytes)| {
        format!("`{call}` ({} of {})", grouped(moved.calls), bytes(moved.bytes / moved.calls.max(1)))
    };
    crate::profile::listed(calls.map(shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::RefusableCall;

    const SPLICE: [RefusedCall; 1] = [RefusedCall { call: RefusableCall::Splice, error: RefusalError::Enosys }];

    /// A run in which `pv` made these calls, each with its error and bytes.
    fn run(calls: &[(i64, i32, u64, u64)], exit_code: u8, errors: &str) -> RecordedMoves {
        let calls = calls
            .iter()
            .map(|(call, error, calls, bytes)| ((*call, *error), MovedBytes { calls: *calls, bytes: *bytes }));
        let program = ProgramMoves { calls: calls.collect(), exit_code, signal: 0 };
        RecordedMoves { programs: [("pv".to_owned(), program)].into(), errors: errors.to_owned() }
    }

    fn said(after: &RecordedMoves) -> String {
        let before = run(&[(libc::SYS_splice, 0, 16, 4 << 20), (libc::SYS_read, 0, 1, 10)], 0, "");
        let found = sentences(&SPLICE, &after.refused(&before, &SPLICE));
        assert_eq!(found.len(), 1);
        found.into_iter().next().unwrap()
    }

    #[test]
    fn who_falls_back_is_told_from_who_fails() {
        let refused = (libc::SYS_splice, libc::ENOSYS, 1, 0);
        let read = (libc::SYS_read, 0, 128, 4 << 20);
        let write = (libc::SYS_write, 0, 256, 4 << 20);
        assert_eq!(
            said(&run(&[refused, read, write], 0, "")),
            "`pv` fell back from `splice` to `read` (128 of 32.0 KiB) and `write` (256 of 16.0 KiB), instead of `splice` \
             (16 of 256 KiB)."
        );
        assert_eq!(
            said(&run(&[refused, (libc::SYS_read, 0, 1, 10)], 1, "\npv: x\ncat: splice: Function not implemented\n")),
            "`pv` does not fall back from `splice`: it ended with exit code 1 (\"cat: splice: Function not implemented\")."
        );
        let less = said(&run(&[refused, (libc::SYS_read, 0, 1, 10)], 0, ""));
        assert!(less.contains("moved 10 bytes instead of 4.0 MiB"), "{less}");
        // What a pipe of its own got before counts once.
        let twice = run(&[(libc::SYS_splice, 0, 16, 4 << 20), (libc::SYS_tee, 0, 16, 4 << 20)], 0, "");
        let after = run(&[refused, write], 0, "");
        assert_eq!(after.refused(&twice, &SPLICE)[0].outcome, RefusalOutcome::FellBack);
        // The same error of another call, and another error of this one, are not the refusal.
        for other in [(libc::SYS_splice, libc::EINVAL, 1, 0), (libc::SYS_tee, libc::ENOSYS, 1, 0)] {
            assert_eq!(said(&run(&[other, read], 0, "")), "No program called `splice`: refusing it changes nothing.");
        }
    }
}
