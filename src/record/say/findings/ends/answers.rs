//! Exit codes that are no failures, and shells that hide those which are.

use crate::record::say::findings::view::FindingView;
use crate::record::say::programs::{Does, does, meaning};
use crate::result::{FindingKind, RecordedProcess};

/// Whether this exit code is what a program answers.
pub(crate) fn is_answer(process: &RecordedProcess, code: u8) -> bool {
    code == 1 && process.exit_code == Some(code) && does(&process.name, Does::AnswersWith1)
}

/// Whether this exit code is a failure of the program, whatever it was asked.
pub(crate) fn fails(process: &RecordedProcess, code: u8) -> bool {
    code > 1 || code == 1 && does(&process.name, Does::FailsWith1)
}

/// What `timeout` ends with if it has ended its program.
pub(crate) const TIMED_OUT: u8 = 124;

/// Whether a program's exit code is an answer: its own, or that of what `xargs` started.
pub(crate) fn answers(view: &FindingView<'_>, at: usize, process: &RecordedProcess, code: u8) -> bool {
    let started = |of: &&RecordedProcess| of.started_by == Some(at) && of.exit_code.is_some();
    let mut failed = view.document.recorded.iter().filter(started).peekable();
    let of_others = process.name == "xargs" && code == SOME_FAILED && failed.peek().is_some();
    // Its program was ended by SIGPIPE, as by `head`.
    let sigpipe = Some(libc::SIGPIPE.cast_unsigned());
    let piped = || view.document.recorded.iter().any(|of| of.signal == sigpipe && of.stage == process.stage);
    let is_piped = process.name == "xargs" && code == KILLED && piped();
    is_answer(process, code) || is_piped || of_others && failed.all(|of| is_answer(of, 1))
}

/// What `xargs` ends with if a command did not end with 0, and if a signal ended one.
const SOME_FAILED: u8 = 123;
const KILLED: u8 = 125;

/// The shell that started a process and ended with 0 itself, whatever became of the rest.
pub(crate) fn hiding_shell(view: &FindingView<'_>, process: &RecordedProcess) -> Option<usize> {
    let by = process.started_by?;
    let shell = view.document.recorded.get(by)?;
    let succeeded = shell.exit_code.is_none() && shell.signal.is_none() && shell.execs > 0;
    (succeeded && shell.is_shell() && view.is_one(by)).then_some(by)
}

/// Whether a program had its errors go to /dev/null each time it failed: who started it expects that.
pub(crate) fn is_quiet(view: &FindingView<'_>, at: usize) -> bool {
    let mut own = view.document.failures.iter().filter(|failed| failed.process == at).peekable();
    own.peek().is_some() && own.all(|failed| failed.quiet)
}

/// What says that a program failed, and at which channel.
pub(crate) type Failed = (FindingKind, Option<usize>, String);

/// What an exit code of a program means.
pub(crate) fn answer(process: &RecordedProcess, code: u8) -> ExitMeaning {
    match process.name.as_str() {
        "diff" | "cmp" if is_answer(process, code) => ExitMeaning::Found("differences"),
        "sort" | "awk" | "mawk" | "gawk" | "git" if is_answer(process, code) => ExitMeaning::Unknown,
        _ if is_answer(process, code) => ExitMeaning::Found("nothing"),
        name => meaning(name, code).map_or(ExitMeaning::Unknown, ExitMeaning::Meaning),
    }
}

/// What an exit code tells.
pub(crate) enum ExitMeaning {
    /// What was found, or that nothing was.
    Found(&'static str),
    Meaning(&'static str),
    Unknown,
}

impl ExitMeaning {
    /// `, which found nothing and ended`: the end of a program.
    pub(crate) fn ended(&self) -> String {
        match self {
            Self::Found(what) => format!(", which found {what} and ended"),
            Self::Meaning(meaning) => format!(" ({meaning}), which ended"),
            Self::Unknown => ", which ended".to_owned(),
        }
    }
}
