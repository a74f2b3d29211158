//! Programs that failed in the middle of a pipeline whose exit code does not show it.

use crate::record::say::findings::ends::answers::{
    Failed, TIMED_OUT, answers, fails, hiding_shell, is_answer, is_quiet,
};
use crate::record::say::findings::ends::broken_pipe::{BROKEN_PIPE, SOON};
use crate::record::say::findings::ends::why::why;
use crate::record::say::findings::ends::without_output::{SUBSTITUTED, not_found, without_output};
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::first_of::first_of;
use crate::record::say::killed::TIMEOUT;
use crate::record::say::programs::meaning;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess};
use crate::util::text::{counted, grouped};
use std::collections::BTreeSet;

/// `` `dump` failed with exit code 1 at 0.30 s, and the pipeline's exit code is 0: that of its last program. `set -o pipefail`
/// keeps it. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() {
        return Vec::new();
    }
    let is_hidden = document.exit_codes.last() == Some(&0);
    // Of several that a process started from one command line, one is enough.
    let mut known = BTreeSet::new();
    let failed = document.recorded.iter().enumerate().filter_map(|(at, process)| {
        let code = process.exit_code.filter(|code| ![0, BROKEN_PIPE].contains(code) && process.signal.is_none())?;
        (is_hidden || hiding_shell(view, process).is_some()).then_some(())?;
        let rules = [after_output, without_output, refused, after_input, for_error];
        let (kind, channel, text) = rules.into_iter().find_map(|rule| rule(view, at, process, code))?;
        known.insert((&process.name, &process.args, process.started_by, code)).then_some(())?;
        let finding = Finding::new(kind, [at], text);
        let channels = channel.into_iter().collect();
        Some(Finding { channels, count: Some(code.into()), at_ns: Some(process.end_ns), ..finding })
    });
    let missing = document.recorded.iter().enumerate().filter(|_| is_hidden);
    let missing = missing.filter_map(|of| not_found(view, of));
    first_of(failed.chain(missing))
}

/// A program that had written something, or had started what did.
fn after_output(view: &FindingView<'_>, at: usize, process: &RecordedProcess, code: u8) -> Option<Failed> {
    let document = view.document;
    // The code of a part of a shell is that of its last command, which may be a test. People lose it to `tee`.
    let is_part = process.execs == 0;
    // A rule about EPIPE says why it failed.
    let is_refused = view.writers().any(|(_, _, end)| end.process == at && end.epipe > 0);
    if is_refused
        || answers(view, at, process, code)
        || is_part && !is_logged(view, at)
        || is_passed_on(view, process, code)
    {
        return None;
    }
    // A process that it has started, which had its row until it executed its own program.
    let started =
        |pid: &u32| document.recorded.iter().enumerate().position(|(other, of)| other != at && of.pids.contains(pid));
    let children: Vec<usize> = process.pids.iter().filter_map(started).collect();
    // Of several with one name, one may have written and another one failed.
    let several = process.pids.iter().filter(|pid| started(pid).is_none()).count() > 1;
    if several || children.iter().any(|of| is_answer(&document.recorded[*of], code)) {
        return None;
    }
    let is_own = |of: &usize| *of == at || process.forks > 0 && children.contains(of);
    let (channel, pipe, end) = view.writers().find(|(_, pipe, end)| {
        let reads_on = pipe.readers.iter().any(|reader| {
            let until = |other: &RecordedProcess| other.end_ns + SOON >= process.end_ns;
            let apart = view.process(reader).is_some_and(|other| other.started_by != Some(at) && until(other));
            !is_own(&reader.process) && apart
        });
        // What could not be written has a sentence of its own.
        let all = end.epipe == 0 && end.unsent == 0;
        is_own(&end.process) && pipe.kind.is_pipe() && end.bytes > 0 && all && reads_on
    })?;
    // What it wrote there were its errors.
    let is_known = process.is_one() && document.failures.iter().any(|failed| failed.process == at);
    if is_known && process.execs > 0 && end.process == at && process.output != Some(channel) {
        return None;
    }
    // `<(...)`, which a shell reads byte by byte; of `$(...)`, it gets the exit code.
    let started = |reader: &&RecordedEnd| view.with_starters(at).skip(1).any(|of| of == reader.process);
    let reader = pipe.readers.first().filter(started);
    if reader.is_some_and(|reader| reader.requested != reader.all_calls() || is_quiet(view, at)) {
        return None;
    }
    let who = if end.process == at { "it".to_owned() } else { view.name(end.process) };
    // Its time is over, which may be what it is there for.
    let is_timeout = process.name == TIMEOUT && code == TIMED_OUT;
    let kind = if is_timeout { FindingKind::Tolerated } else { FindingKind::HiddenFailure };
    let (name, end, to) = (view.name(at), after(process.end_ns), view.pipe_to(pipe));
    let keeps = view.pipefail(at);
    let text = if is_timeout {
        format!(
            "The time of {name} was over at {end}: what would come later is missing in {to}, and the pipeline's exit code is 0 \
             ({keeps} keeps {code})."
        )
    } else {
        let mut readers = pipe.readers.iter().filter(|of| of.process != at);
        let fails_too = readers.find(|of| view.process(of).is_some_and(|of| of.exit_code.is_some_and(|code| code > 0)));
        let (what, remedy) = match (reader, fails_too) {
            (Some(_), _) => ("exit code is 0".to_owned(), SUBSTITUTED.to_owned()),
            (None, Some(next)) => {
                let next = view.name(next.process);
                (
                    format!("exit code of all is 0, although {next} failed, too"),
                    "`set -eo pipefail` ends a script there.".to_owned(),
                )
            }
            (None, None) => {
                ("pipeline's exit code is 0: that of its last program".to_owned(), format!("{keeps} keeps it."))
            }
        };
        format!(
            "{name} failed with exit code {code} at {end}, after {who} had written to {to}, and the {what}. {remedy}"
        )
    };
    Some((kind, Some(channel), text))
}

/// Whether who started a process gets its exit code: a program, or a shell that ends with it. In a pipeline, a shell has only
/// that of the last program.
fn is_passed_on(view: &FindingView<'_>, process: &RecordedProcess, code: u8) -> bool {
    let starter = process.started_by.and_then(|starter| view.document.recorded.get(starter));
    starter.is_some_and(|starter| !starter.is_shell() || starter.exit_code == Some(code))
}

/// Writes that fail before a program has noticed that nobody reads: those of its buffers at its end are among them.
const NOTICED: u64 = 3;

/// A write of 2 to the power of this, bytes, can be a line that is too long.
const LONG_LINE: usize = 16;

/// What ends at a line that is too long, if one was written.
fn long_line(pipe: &RecordedChannel) -> &'static str {
    let is_long = |end: &RecordedEnd| end.log2_sizes.len() > LONG_LINE;
    if pipe.writers.iter().any(is_long) {
        " One write had 64 KiB or more: `bufio.Scanner` of Go (unless its `Buffer` is larger) and `readline` of asyncio (unless `limit` is) end at \
         such a line."
    } else {
        ""
    }
}

/// A program that ignores SIGPIPE and fails with a message, because its reader has all that it needs.
fn refused(view: &FindingView<'_>, at: usize, process: &RecordedProcess, code: u8) -> Option<Failed> {
    let is_refused = |pipe: &RecordedChannel, end: &RecordedEnd| {
        end.process == at && end.epipe > 0 && pipe.kind.is_pipe() && !pipe.readers.is_empty()
    };
    let times = process.pids.len() as u64;
    let one = process.execs > 0 && (times == 1 || process.refused_writes >= times);
    let (channel, pipe, own) = view.writers().find(|(_, pipe, end)| one && is_refused(pipe, end))?;
    let ended = view.readers_ended(pipe, process.end_ns + SOON)?;
    let readers = view.names(&pipe.readers);
    let name = view.name(at);
    let remedy = match view.left_by(at, |process| process.ignores_sigpipe) {
        Some(by) => format!(
            "{name} ignores SIGPIPE, which would have ended it without a message: it has inherited that from {by}, which has to set \
             it to its default between `fork` and `exec` (SIG_DFL; `restore_signals` of Python's subprocess does).",
            by = view.name(by)
        ),
        None => format!("{name} ignores SIGPIPE, which would have ended it without a message."),
    };
    let fails = |end: &RecordedEnd| view.process(end).is_some_and(|of| of.exit_code.is_some() || of.signal.is_some());
    let well = if pipe.readers.iter().any(fails) {
        String::new()
    } else {
        format!(" If {readers} got all that was wanted, nothing is wrong; a reader that reads to the end avoids it.")
    };
    // Who ends later had closed the pipe before.
    let why = match ended <= process.end_ns {
        true => format!("ended at {}", after(ended)),
        false => "closed the pipe".to_owned(),
    };
    // Who went on after the first error, and not only to end, fails for another reason.
    if own.epipe > NOTICED {
        let text = format!(
            "{} writes of {name} failed (EPIPE), because {readers} had {why} after {} of {} bytes, and it went on until it failed with exit \
             code {code}: what it wrote meanwhile is lost.{}",
            grouped(own.epipe),
            grouped(pipe.read()),
            grouped(pipe.written()),
            long_line(pipe)
        );
        return Some((FindingKind::Broken, Some(channel), text));
    }
    let text = format!(
        "{name} failed with exit code {code}{}, because {readers} {why} and did not read on (EPIPE). {remedy}{well}",
        if times > 1 { format!(" {}", counted(times, "time")) } else { String::new() }
    );
    Some((FindingKind::Sigpipe, Some(channel), text))
}

/// The last program of a pipeline within a shell that goes on all the same, such as the filter of `split`.
fn after_input(view: &FindingView<'_>, at: usize, process: &RecordedProcess, code: u8) -> Option<Failed> {
    let read = |channel: &usize, pipe: &RecordedChannel, end: &RecordedEnd| {
        let is_input = end.process == at && process.input == Some(*channel) && pipe.kind.is_pipe();
        is_input && end.bytes > 0 && !pipe.writers.is_empty()
    };
    // A full disk has a sentence of its own.
    if process.execs == 0
        || process.started_by.is_none()
        || process.without_space > 0
        || answers(view, at, process, code)
        || is_passed_on(view, process, code)
        || is_quiet(view, at)
    {
        return None;
    }
    let (channel, pipe, _) = view.readers().find(|(channel, pipe, end)| read(channel, pipe, end))?;
    let text = format!(
        "{} failed with exit code {code} at {}{}, after it had read {}, and the exit code of all is 0: the shell that started it went \
         on, which `set -e` would have ended.",
        view.name(at),
        after(process.end_ns),
        why(view, at).unwrap_or_default(),
        view.pipe_from(pipe)
    );
    Some((FindingKind::HiddenFailure, Some(channel), text))
}

/// A program that failed after calls that explain it, or one whose code is a failure, of which a shell may have thought.
fn for_error(view: &FindingView<'_>, at: usize, process: &RecordedProcess, code: u8) -> Option<Failed> {
    // Who reads its output, as `$(...)` does, gets its exit code.
    let output = process.output.and_then(|output| view.document.channels.get(output));
    let taken = output.is_some_and(|pipe| pipe.readers.iter().any(|end| Some(end.process) == process.started_by));
    let by_shell = process.started_by.is_some() && !taken && !is_passed_on(view, process, code);
    let is_failure = by_shell && fails(process, code) && !answers(view, at, process, code);
    // What `tar` warns of is no failure, but a script that asks for 0 takes it for one.
    let warns = || meaning(&process.name, code).filter(|_| process.name == "tar").map(|what| format!(" ({what})"));
    let why = why(view, at).or_else(warns);
    // The same command was tried again.
    let again = |of: &RecordedProcess| {
        (&of.name, &of.args, of.started_by) == (&process.name, &process.args, process.started_by)
            && of.begin_ns >= process.end_ns
    };
    let is_retried = view.document.recorded.iter().any(again);
    if process.execs == 0 || process.pids.len() != 1 || why.is_none() && !is_failure || is_retried {
        return None;
    }
    // A script that sends errors to /dev/null expects them. `unheeded` says what fails in the background.
    let known = view.document.failures.iter().find(|failed| failed.process == at);
    if known
        .is_some_and(|failed| why.is_none() && (failed.quiet || (failed.beside || failed.errors > 0) && !failed.piped))
    {
        return None;
    }
    let kind = if why.is_some() { FindingKind::HiddenFailure } else { FindingKind::Tolerated };
    let (name, end, why) = (view.name(at), after(process.end_ns), why.unwrap_or_default());
    let text = format!("{name} failed with exit code {code} at {end}{why}. The exit code of all is 0.");
    Some((kind, None, text))
}

/// Whether all that a process wrote went to `tee`, which has its output in a file.
fn is_logged(view: &FindingView<'_>, at: usize) -> bool {
    let reads = |end: &RecordedEnd| view.process(end).is_some_and(|process| process.name == "tee");
    let mut own =
        view.writers().filter(|(_, pipe, end)| end.process == at && pipe.kind.is_pipe() && end.bytes > 0).peekable();
    own.peek().is_some() && own.all(|(_, pipe, _)| !pipe.readers.is_empty() && pipe.readers.iter().all(reads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{fails, said};
    use crate::result::Document;

    #[test]
    fn a_failure_that_no_exit_code_shows_is_said() {
        let text = "`seq` failed with exit code 2 at 4.00 s, after it had written to the pipe to `grep`, and the pipeline's exit \
                    code is 0: that of its last program. `set -o pipefail` keeps it.";
        assert_eq!(said(find, &|recording| fails(recording, 0, 2)), [text]);
        let mut recording = crate::record::say::findings::tests::pipeline();
        fails(&mut recording, 0, TIMED_OUT);
        recording.recorded[0].name = TIMEOUT.to_owned();
        let kinds: Vec<FindingKind> = find(&FindingView::new(&recording)).iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [FindingKind::Tolerated], "that is what it is there for");
    }

    #[test]
    fn a_failure_of_who_started_the_writer_is_said() {
        let script = |recording: &mut Document, child_code: Option<u8>| {
            fails(recording, 0, 1);
            (recording.recorded[0].pids, recording.recorded[0].forks) = (vec![1, 9], 1);
            recording.recorded.push(RecordedProcess {
                name: "grep".to_owned(),
                pids: vec![9],
                execs: 1,
                exit_code: child_code,
                ..RecordedProcess::default()
            });
            recording.channels[0].writers[0].process = 3;
        };
        let text = said(find, &|recording| script(recording, None));
        assert!(text[0].starts_with("`seq` failed with exit code 1 at 4.00 s, after `grep` had written"), "{text:?}");
        assert!(said(find, &|recording| script(recording, Some(1))).is_empty(), "it passes on an answer");
        let unrelated = said(find, &|recording| {
            script(recording, None);
            recording.recorded[3].pids = vec![10];
        });
        assert!(unrelated.is_empty(), "{unrelated:?}");
    }

    #[test]
    fn a_code_that_a_script_does_not_get_is_said() {
        // A script that was started by its name has that name.
        let found = said(find, &|recording| {
            fails(recording, 0, 1);
            recording.recorded[0].started_by = Some(2);
            recording.recorded[2].name = "backup.sh".to_owned();
            recording.recorded[2].args = ["/bin/bash", "./backup.sh"].map(str::to_owned).to_vec();
        });
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_code_that_is_passed_on_is_not() {
        let started = |by: &str, code: Option<u8>| {
            said(find, &|recording| {
                fails(recording, 0, 2);
                recording.recorded[0].started_by = Some(2);
                (recording.recorded[2].name, recording.recorded[2].exit_code) = (by.to_owned(), code);
            })
        };
        assert_eq!(started("bash", None).len(), 1);
        assert!(started("python3", None).is_empty() && started("bash", Some(2)).is_empty());
    }

    #[test]
    fn a_part_of_a_shell_is_said_before_tee_only() {
        let part = |reader: &str| {
            said(find, &|recording| {
                fails(recording, 0, 1);
                recording.recorded[0].execs = 0;
                recording.recorded[1].name = reader.to_owned();
            })
        };
        assert!(
            part("tee")[0]
                .starts_with("`seq` failed with exit code 1 at 4.00 s, after it had written to the pipe to `tee`")
        );
        assert!(part("sort").is_empty());
    }

    #[test]
    fn an_answer_or_what_is_shown_is_not() {
        assert!(said(find, &|recording| fails(recording, 1, 1)).is_empty(), "grep found nothing");
        assert!(said(find, &|recording| fails(recording, 2, 1)).is_empty(), "it writes to no pipe");
        let shown = said(find, &|recording| {
            fails(recording, 0, 2);
            recording.exit_codes = vec![2];
        });
        assert!(shown.is_empty(), "{shown:?}");
    }

    #[test]
    fn a_program_whose_reader_ended_is_said() {
        let refused = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                fails(recording, 0, 23);
                recording.recorded[1].end_ns = 12_000_000;
                recording.channels[0].writers[0].epipe = 1;
                change(recording);
            })
        };
        let said = refused(&|_| {});
        assert!(
            said[0].starts_with("`seq` failed with exit code 23, because `grep` ended at 12.0 ms and did not"),
            "{said:?}"
        );
        assert!(refused(&|recording| recording.recorded[0].exit_code = None).is_empty());
        assert!(refused(&|recording| recording.exit_codes = vec![23]).is_empty());
    }

    #[test]
    fn the_last_program_within_a_shell_is_said() {
        let last = |name: &str, starter: &str| {
            said(find, &|recording| {
                fails(recording, 2, 1);
                (recording.recorded[0].name, recording.recorded[2].name) = (starter.to_owned(), name.to_owned());
                (recording.recorded[2].started_by, recording.recorded[2].input) = (Some(0), Some(1));
                recording.channels[1].readers[0].at_end = 1;
            })
        };
        let text = "`curl` failed with exit code 1 at 4.00 s, after it had read the pipe from `grep`, and the exit code of all is 0: the \
                    shell that started it went on, which `set -e` would have ended.";
        assert_eq!(last("curl", "bash"), [text]);
        assert!(last("grep", "bash").is_empty() && last("curl", "python3").is_empty());
    }

    #[test]
    fn the_errors_of_a_program_that_failed_are_said() {
        let failed = |change: &dyn Fn(&mut RecordedProcess, &mut RecordedEnd)| {
            said(find, &|recording| {
                fails(recording, 2, 1);
                recording.recorded[2].input = Some(1);
                let end = &mut recording.channels[1].readers[0];
                (end.bytes, end.calls) = (0, [("read".to_owned(), 1)].into());
                change(&mut recording.recorded[2], end);
            })
        };
        let text = "`cat` failed with exit code 1 at 4.00 s: its standard input does not block (O_NONBLOCK), and it read before there \
                    was data (EAGAIN). The exit code of all is 0.";
        assert_eq!(failed(&|_, end| end.eagain = 1), [text]);
        let refused = failed(&|process, _| (process.connects, process.refused_connects) = (2, 2));
        assert!(
            refused[0].contains(
                ": its connections were refused (ECONNREFUSED): nobody listens there, not yet or not any more. The"
            ),
            "{refused:?}"
        );
        assert!(failed(&|process, _| (process.connects, process.refused_connects) = (2, 1)).is_empty());
        let of_shell = |code: u8| {
            said(find, &|recording| {
                fails(recording, 2, code);
                (recording.recorded[0].name, recording.recorded[2].started_by) = ("bash".to_owned(), Some(0));
            })
        };
        assert_eq!(of_shell(2), ["`cat` failed with exit code 2 at 4.00 s. The exit code of all is 0."]);
    }

    #[test]
    fn what_xargs_found_nothing_in_is_not() {
        let xargs = |name: &str| {
            said(find, &|recording| {
                fails(recording, 1, 123);
                recording.recorded[1].name = "xargs".to_owned();
                (recording.recorded[0].name, recording.recorded[0].exit_code) = (name.to_owned(), Some(1));
                (recording.recorded[0].started_by, recording.channels[0].writers[0].bytes) = (Some(1), 0);
            })
        };
        assert!(xargs("grep").is_empty() && !xargs("sed").is_empty());
        let ended = |signal: Option<u32>| {
            said(find, &|recording| {
                fails(recording, 0, 125);
                (recording.recorded[0].name, recording.recorded[1].signal) = ("xargs".to_owned(), signal);
                recording.recorded[1].stage = recording.recorded[0].stage;
            })
        };
        assert!(ended(Some(libc::SIGPIPE.cast_unsigned())).is_empty() && !ended(Some(11)).is_empty());
        let stopped = said(find, &|recording| {
            fails(recording, 2, 124);
            (recording.recorded[0].name, recording.recorded[2].name) = ("bash".to_owned(), "xargs".to_owned());
            (recording.recorded[2].started_by, recording.recorded[2].input) = (Some(0), Some(1));
            (recording.recorded[1].exit_code, recording.recorded[1].started_by) = (Some(255), Some(2));
        });
        let text = "124 at 4.00 s: `grep` ended with exit code 255, at which it leaves out the rest, after it had read";
        assert!(stopped.len() == 1 && stopped[0].contains(text), "{stopped:?}");
    }

    #[test]
    fn a_failure_without_output_is_said() {
        let silent = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                fails(recording, 0, 128);
                recording.recorded[1].name = "bash".to_owned();
                (recording.recorded[0].output, recording.recorded[0].started_by) = (Some(0), Some(1));
                recording.channels[0].writers[0].bytes = 0;
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.at_end, end.calls) = (0, 1, [("read".to_owned(), 1)].into());
                end.requested = 1;
                change(recording);
            })
        };
        let text = "`seq` failed with exit code 128 at 4.00 s and wrote nothing to the pipe to `bash`, which took that for all: the \
                    exit code is 0. A shell does not get the exit code of `<(...)`: `wait $!` does, or a file instead.";
        assert_eq!(silent(&|_| {}), [text]);
        assert!(silent(&|recording| recording.channels[0].readers[0].requested = 128).is_empty(), "$(...)");
        assert!(silent(&|recording| recording.recorded[0].exit_code = Some(1)).is_empty(), "an answer");
        let found = silent(&|recording| {
            (recording.recorded[0].name, recording.recorded[0].exit_code) = ("find".to_owned(), Some(1));
        });
        assert!(found[0].starts_with("`find` failed with exit code 1 at"), "{found:?}");
        let beside = silent(&|recording| {
            (recording.recorded[0].started_by, recording.recorded[1].started_by) = (Some(2), Some(2));
            recording.recorded[1].execs = 1;
        });
        assert!(beside[0].ends_with("`set -o pipefail` keeps it, where both are one pipeline."), "{beside:?}");
        // What packs nothing wanted more than an answer.
        let packed = |name: &str, bytes: u64| {
            silent(&|recording| {
                (recording.recorded[0].exit_code, recording.recorded[1].name) = (Some(1), name.to_owned());
                (recording.recorded[0].started_by, recording.recorded[1].started_by) = (Some(2), Some(2));
                (recording.recorded[1].execs, recording.channels[0].readers[0].bytes) = (1, bytes);
            })
        };
        assert!(packed("gzip", 0)[0].starts_with("`seq` failed with exit code 1 at"), "{:?}", packed("gzip", 0));
        assert!(packed("cat", 0).is_empty() && packed("gzip", 9).is_empty());
        // The whole fails, but not the shell of the two.
        let within = |code: Option<u8>| {
            silent(&|recording| {
                recording.exit_codes = vec![1];
                (recording.recorded[0].started_by, recording.recorded[1].started_by) = (Some(2), Some(2));
                let shell = &mut recording.recorded[2];
                (shell.name, shell.execs, shell.exit_code) = ("sh".to_owned(), 1, code);
                recording.recorded[1].execs = 1;
            })
        };
        assert!(within(None)[0].contains("which took that for all: the exit code of `sh` is 0."), "{:?}", within(None));
        assert!(within(Some(1)).is_empty(), "it passed on that of another one");
    }

    #[test]
    fn a_command_that_was_not_found_is_said() {
        let missing = |code: u8, bytes: u64| {
            said(find, &|recording| {
                let shell = RecordedProcess {
                    name: "sh".to_owned(),
                    exit_code: Some(code),
                    effects: 1,
                    ..RecordedProcess::default()
                };
                recording.recorded.push(shell);
                recording.exit_codes = vec![0];
                let cat = &mut recording.recorded[2];
                (cat.started_by, cat.execs, cat.input) = (Some(3), 1, Some(1));
                recording.channels[1].writers.clear();
                let end = &mut recording.channels[1].readers[0];
                (end.bytes, end.at_end) = (bytes, 1);
            })
        };
        let text = "A part of `sh` ended with exit code 127, as if a command was not found: `cat` got nothing from it, and the exit \
                    code is 0. `set -o pipefail` keeps it.";
        assert_eq!(missing(127, 0), [text]);
        assert!(missing(1, 0).is_empty() && missing(127, 5).is_empty());
    }
}
