//! What ended by SIGPIPE, and why.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{RecordedChannel, RecordedEnd, RecordedProcess};

/// What a shell makes of a child that SIGPIPE ended.
pub(super) const BROKEN_PIPE: u8 = 128 + libc::SIGPIPE as u8;

/// The kernel closes the files of a process that ends so long before it is gone, at most, ns.
pub(super) const SOON: u64 = 100_000_000;

/// Why SIGPIPE ended a process: `: `printf` was ended by SIGPIPE at 12.0 ms, because ...`, without a full stop.
pub(super) fn broken(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<String> {
    let read = |(_, pipe, _): &(usize, &RecordedChannel, &RecordedEnd)| !pipe.readers.is_empty();
    let Some((_, pipe, _)) = view.writers().filter(|(_, _, end)| end.process == at).find(read) else {
        return process.output.and_then(|output| unread(view, at, process, output));
    };
    let ended = view.readers_ended(pipe, process.end_ns + SOON).is_some();
    let all = &view.document.recorded;
    // Both are of one pipeline of a shell, which ends with what its first program did.
    let beside = pipe.readers.iter().filter_map(|end| view.process(end)).any(|of| of.started_by == process.started_by);
    let shell = process.started_by.and_then(|by| all.get(by)).filter(|shell| shell.is_shell() && beside);
    let only = match shell {
        Some(shell) if shell.exit_code == Some(BROKEN_PIPE) => {
            "the exit code alone is wrong: `set -o pipefail` makes it that of the pipeline, and `set -e` ends the script there, before what \
             follows. A reader that reads to the end avoids it, or a writer that stops by itself"
        }
        _ => "nothing is wrong: a reader that reads to the end avoids it",
    };
    Some(format!(
        ": {} was ended by SIGPIPE at {}, because {readers} had {}. If {readers} had all that it wanted, {only}",
        view.name(at),
        after(process.end_ns),
        if ended { "ended" } else { "closed the pipe" },
        readers = view.names(&pipe.readers)
    ))
}

/// The same if nobody has read its standard output, because who was to do that had failed before.
fn unread(view: &FindingView<'_>, at: usize, process: &RecordedProcess, output: usize) -> Option<String> {
    let all = view.document.recorded.iter().enumerate();
    let mut failed = all.filter(|(_, of)| of.input == Some(output) && of.end_ns < process.end_ns);
    let (of, code) = failed.find_map(|(of, reader)| Some((of, reader.exit_code?)))?;
    let (name, reader) = (view.name(at), view.name(of));
    Some(format!(
        ": {name} was ended by SIGPIPE at {}, because {reader}, which was to read that, had ended at {} with exit code {code} and read nothing",
        after(process.end_ns),
        after(view.document.recorded.get(of)?.end_ns)
    ))
}
