//! Programs that were killed: by the kernel, for a fault of their own, or by others.

use crate::profile::few;
use crate::record::model::labels::{is_one, labels};
use crate::record::say::findings::view::after;
use crate::record::say::first_of::first_of;
use crate::result::{
    ChannelKind, Document, ExecutedOn, Finding, FindingKind, InVain, LeftProcesses, RecordedProcess, WaitReason,
};
use crate::util::text::counted;
use std::collections::BTreeSet;

/// Signals by which the kernel ends a program for what it did.
const FAULTS: [(i32, &str, &str); 6] = [
    (libc::SIGILL, "SIGILL", "illegal instruction"),
    (libc::SIGABRT, "SIGABRT", "it aborted"),
    (libc::SIGBUS, "SIGBUS", "bad memory access"),
    (libc::SIGFPE, "SIGFPE", "arithmetic error"),
    (libc::SIGSEGV, "SIGSEGV", "invalid memory access"),
    (libc::SIGSYS, "SIGSYS", "forbidden system call"),
];

/// Signals by which others end a program.
const REQUESTS: [(i32, &str); 8] = [
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGTERM, "SIGTERM"),
];

/// The longest chain of processes, of which each started the next one, that is looked at.
const MOST_STARTERS: usize = 64;

/// What goes on for so long afterwards was not about to end, ns; and how long a script may wait until it ends itself.
const LONG_NS: u64 = 300_000_000;
pub(crate) const ITSELF_NS: u64 = 2_000_000_000;

/// What goes on for so long after who had started it was ended was to end, too, ns.
const ORPHANED_NS: u64 = 1_000_000_000;

/// Why a signal is blocked.
const BLOCKED: &str = " A program inherits what is blocked over `fork` and `exec`: who starts it has to reset that in between \
                       (`sigprocmask`).";

/// Why the first process of a container goes on.
const INIT: &str = " It is process 1 of its PID namespace, as in a container, which ignores each signal that it has no handler for, and \
                    what it has started got none. An init before it (`docker run --init`, `tini`), or `exec` before a last \
                    program that has a handler, ends it; a shell runs a `trap` only when its program has ended.";

/// What waits for its child for so much of its life is only around that.
const WRAPS: f64 = 0.9;

/// When a terminal hangs up, and what does not end then.
const HUNG_UP: &str = ": the shell that led its session had ended, or the other side of the terminal was closed. What is to go on needs `setsid` or \
                       `nohup` before it, and other files in place of the terminal (`</dev/null >log 2>&1`)";

/// A shell that starts so many processes after SIGTERM does not only clean up.
const WENT_ON: u64 = 3;

/// A program that ends another one after some time, and how long it takes at most to end itself then, ns.
pub(crate) const TIMEOUT: &str = "timeout";
const SOON: u64 = 100_000_000;

/// What ends a program with those that it has started.
pub(crate) const BOTH_END: &str =
    "Signals to the whole group end both (`start_new_session` and `killpg`, `setsid` and `kill -- -PID`).";

/// Who was killed, and by what.
pub(crate) fn findings(recording: &Document) -> Vec<Finding> {
    let all = |kind: FindingKind, say: &dyn Fn(&RecordedProcess) -> Option<String>| {
        let each = recording.recorded.iter().enumerate();
        first_of(each.filter_map(|(at, process)| Some(Finding::new(kind, [at], say(process)?))))
    };
    let crashed = all(FindingKind::Crashed, &|process| crashed(recording, process));
    let labels = labels(recording);
    let each = recording.recorded.iter().enumerate();
    let goes_on = each.filter_map(|(at, process)| {
        let text = goes_on(recording, &labels, at, process)?;
        Some(Finding::new(FindingKind::Held, [at], text))
    });
    let group = (0..recording.recorded.len()).find_map(|at| group(recording, &labels, at));
    let spared = (0..recording.recorded.len()).find_map(|at| spared(recording, &labels, at));
    let orphaned = || (0..recording.recorded.len()).find_map(|at| orphaned(recording, &labels, at));
    let trapped = || (0..recording.recorded.len()).find_map(|at| trapped_late(recording, &labels, at));
    let deaf = || (0..recording.recorded.len()).find_map(|at| deaf(recording, &labels, at));
    let spared = spared.or_else(orphaned).or_else(trapped).or_else(deaf);
    let group = group.or(spared).into_iter().collect();
    [all(FindingKind::Starved, &starved), crashed, group, ended(recording), first_of(goes_on)].concat()
}

/// Who was ended by its own signal, which also ended others that it had not started: those of its process group.
fn group(recording: &Document, labels: &[String], at: usize) -> Option<Finding> {
    let all = &recording.recorded;
    let process = all.get(at).filter(|_| !recording.was_limited())?;
    // What it ended can be gone before it is.
    let is_ending = process.told_to_end_by == Some(at)
        && process.told_to_end_in_vain.is_none()
        && process.signal.is_none()
        && process.end_ns >= recording.processes.window_ns;
    let (number, signal) = if is_ending {
        (process.told_signal?, told_signal(process))
    } else {
        (process.signal.filter(|_| process.ended_by == Some(at))?, requested(process)?)
    };
    let starters =
        |of: usize| std::iter::successors(Some(of), |of| all.get(*of)?.started_by).skip(1).take(MOST_STARTERS);
    // As far as it is known who started whom.
    let is_other = |(of, other): &(usize, &RecordedProcess)| {
        let hit = *of != at && other.ended_by == Some(at) && other.signal == Some(number);
        let above = || starters(at).any(|starter| starter == *of);
        hit && (above() || other.started_by.is_some() && starters(*of).all(|starter| starter != at))
    };
    let others: Vec<usize> = all.iter().enumerate().filter(is_other).map(|(of, _)| of).collect();
    if others.is_empty() {
        return None;
    }
    let text = format!(
        "`{}` sent {signal} to its whole process group at {} (as `kill 0` does), and so ended {}, too, which it had not started. \
         `kill $(jobs -p)`, or the ids of its children, ends only those; `setsid` before it gives it a group of its own.",
        labels.get(at)?,
        after(process.end_ns),
        few(others.iter().filter_map(|of| labels.get(*of)).map(|name| format!("`{name}`")))
    );
    let which = [at].into_iter().chain(others);
    Some(Finding { at_ns: Some(process.end_ns), ..Finding::new(FindingKind::GroupEnded, which, text) })
}

/// Who ended one of the processes that it had started, and then itself, but not the others.
fn spared(recording: &Document, labels: &[String], at: usize) -> Option<Finding> {
    let all = &recording.recorded;
    let process = all.get(at).filter(|process| process.is_one() && !recording.was_limited())?;
    let ended = all
        .iter()
        .position(|of| of.ended_by == Some(at) && of.started_by.is_none_or(|by| by == at) && by_others(of))?;
    let left = process.left.as_ref().filter(|left| left.until_ns > process.end_ns + LONG_NS)?;
    let others: Vec<usize> = left.processes.iter().copied().filter(|of| *of != ended).collect();
    if others.is_empty() || all[ended].end_ns + ITSELF_NS < process.end_ns {
        return None;
    }
    let text = format!(
        "`{}` ended `{}`, and itself at {}, but {} that it had started went on {} ({}). A signal to the whole group (`kill -- -PID`), \
         or one to each, ends all.",
        labels.get(at)?,
        labels.get(ended)?,
        after(process.end_ns),
        counted(left.count, "process"),
        until(recording, left),
        few(others.iter().filter_map(|of| labels.get(*of)).map(|name| format!("`{name}`")))
    );
    let which = [at, ended].into_iter().chain(others);
    Some(Finding { at_ns: Some(process.end_ns), ..Finding::new(FindingKind::GroupEnded, which, text) })
}

/// `until 2.04 s`: how long those went on that were left.
fn until(recording: &Document, left: &LeftProcesses) -> String {
    if left.until_ns >= recording.processes.window_ns {
        return "to the end of the recording".to_owned();
    }
    format!("until {}", after(left.until_ns))
}

/// Who was ended by a signal that its own child did not get, and which went on.
fn orphaned(recording: &Document, labels: &[String], at: usize) -> Option<Finding> {
    let all = &recording.recorded;
    let process = all.get(at)?;
    let (by, signal) = (process.ended_by.filter(|by| *by != at)?, requested(process)?);
    let left = process.left.as_ref().filter(|left| left.until_ns > process.end_ns + ORPHANED_NS)?;
    // As `sudo` does. What others have started can be a service; copies of themselves are not.
    let waited = process.waits.get(&WaitReason::Child).map_or(0, |wait| wait.ns) as f64;
    let passes_on = process.is_shell() || waited > 0.0 && waited >= WRAPS * process.lived_ns as f64;
    let alive = |of: &&usize| {
        let is_part = |child: &RecordedProcess| passes_on || child.execs == 0 && child.name == process.name;
        let late = |child: &RecordedProcess| child.end_ns > process.end_ns + ORPHANED_NS && is_part(child);
        all.get(**of).is_some_and(|child| late(child) && child.told_to_end_by.is_none())
    };
    let children: Vec<usize> = left.processes.iter().filter(alive).copied().collect();
    if children.is_empty() || children.contains(&by) || !is_one(recording, at) {
        return None;
    }
    let text = format!(
        "`{}` was ended by {signal} of `{}` at {}, but what it had started ({}) got none, and went on {}. {BOTH_END}",
        labels.get(at)?,
        labels.get(by)?,
        after(process.end_ns),
        few(children.iter().filter_map(|of| labels.get(*of)).map(|name| format!("`{name}`"))),
        until(recording, left)
    );
    let which = [at, by].into_iter().chain(children);
    Some(Finding { at_ns: Some(process.end_ns), ..Finding::new(FindingKind::GroupEnded, which, text) })
}

/// A copy of a process, in one row with it, which that was to end by SIGTERM.
fn copy_goes_on(process: &RecordedProcess, label: &str) -> Option<String> {
    let told = process.told_to_end_ns?;
    let is_pair = process.pids.len() == 2 && process.forks > 0 && process.end_ns > told + ORPHANED_NS;
    (is_pair && process.told_to_end_in_vain == Some(InVain::Blocked) && !hung_up(process)).then(|| {
        format!(
            "A copy of `{label}` goes on although `{label}`, which had forked it, sent it SIGTERM at {}, which is blocked there. A copy has what was \
             blocked before the `fork`, but not a thread that waits for the signal (`sigwait`): it has to unblock it (`sigprocmask`), or to \
             start such a thread.",
            after(told)
        )
    })
}

/// A program that was to end, and still ran at the end of the recording.
fn goes_on(recording: &Document, labels: &[String], at: usize, process: &RecordedProcess) -> Option<String> {
    let is_there = process.end_ns >= recording.processes.window_ns && recording.is_excerpt();
    let is_killed = process.signal == Some(libc::SIGKILL.cast_unsigned());
    if process.told_to_end_by == Some(at) {
        return copy_goes_on(process, labels.get(at)?);
    }
    let by = process.told_to_end_by.filter(|_| is_there || is_killed)?;
    if !is_one(recording, at) && !hung_up(process) {
        return None;
    }
    let [how, blocked] = match process.told_to_end_in_vain {
        Some(InVain::Ignored) => ["it ignores", ""],
        Some(InVain::Handled) => ["it handles", ""],
        Some(InVain::Blocked) => ["it has blocked", BLOCKED],
        Some(InVain::Init) => ["it ignores", INIT],
        None => ["it ignores or handles", ""],
    };
    let told = told_signal(process);
    // SIGHUP that has a handler is a request.
    let hung_up = hung_up(process);
    let is_init = process.told_to_end_in_vain == Some(InVain::Init);
    if hung_up && (!is_killed || process.told_to_end_in_vain != Some(InVain::Ignored)) {
        return None;
    }
    if hung_up {
        return Some(format!(
            "`{}` did not end at the SIGHUP of `{}`, which it ignores, and was ended by SIGKILL at {}. It can have inherited that, as from \
             `nohup`, and a shell cannot trap what was ignored when it was started: who starts it has to set SIGHUP to its default before.",
            labels.get(at)?,
            labels.get(by)?,
            after(process.end_ns)
        ));
    }
    if is_killed {
        let waits = if is_init {
            ""
        } else if process.is_shell() && process.started_since >= WENT_ON {
            // Its program ended meanwhile, and it started others.
            let why = match process.told_to_end_in_vain {
                Some(InVain::Handled) => {
                    "Its `trap` does not `exit`, so that it goes on where it was: `trap 'cleanup; exit 143' TERM`"
                }
                Some(InVain::Ignored) => "It ignores that signal (`trap '' TERM`, or as what started it did)",
                _ => "It ignores that signal, or its `trap` does not `exit`: `trap 'cleanup; exit 143' TERM`",
            };
            return Some(format!(
                "`{}` went on after the SIGTERM of `{}` at {}: it started {} since, and was ended by SIGKILL at {}. {why}.",
                labels.get(at)?,
                labels.get(by)?,
                after(process.told_to_end_ns.unwrap_or(process.begin_ns)),
                counted(process.started_since, "process"),
                after(process.end_ns)
            ));
        } else if process.is_shell() && process.told_to_end_in_vain != Some(InVain::Ignored) {
            " A shell waits for its program, which gets no signal, and runs its `trap` only after that: `exec` before the last \
             command passes it on, or a `trap` that ends the program, which runs as `program & wait`."
        } else {
            ""
        };
        let waits = if waits.is_empty() && ignores_keyboard(process) { AS_A_JOB } else { waits };
        return Some(format!(
            "`{}` did not end at the {told} of `{}`, which {how}, and was ended by SIGKILL at {}.{waits}{blocked}",
            labels.get(at)?,
            labels.get(by)?,
            after(process.end_ns)
        ));
    }
    let kills = if recording.recorded.get(by)?.name == TIMEOUT { ", as `timeout -k 1` sends it" } else { "" };
    Some(format!(
        "`{}` goes on although `{}` sent it {told}, which {how}. SIGKILL ends it{kills}.{blocked}",
        labels.get(at)?,
        labels.get(by)?
    ))
}

fn hung_up(process: &RecordedProcess) -> bool {
    process.told_signal == Some(libc::SIGHUP.cast_unsigned())
}

/// The name of the signal that it was to end by.
fn told_signal(process: &RecordedProcess) -> &'static str {
    let is_it = |number: i32| process.told_signal == Some(number.cast_unsigned());
    let faults = FAULTS.iter().map(|(number, name, _)| (*number, *name));
    let named = REQUESTS.into_iter().chain(faults).find(|(number, _)| is_it(*number));
    named.map_or("SIGTERM", |(_, name)| name)
}

/// A shell that got SIGTERM, for which it has a `trap`, while it waited for a program, which got none.
fn trapped_late(recording: &Document, labels: &[String], at: usize) -> Option<Finding> {
    let all = &recording.recorded;
    let process = all.get(at).filter(|process| process.is_shell() && is_one(recording, at) && !hung_up(process))?;
    let (by, told) = (process.told_to_end_by, process.told_to_end_ns?);
    if by == Some(at) {
        return None;
    }
    let waited = process.waits.get(&WaitReason::Child).map_or(0, |wait| wait.ns);
    // One that passes the signal on waits for what it has started.
    let passes_on = |of: &RecordedProcess| of.ended_by == Some(at) || of.told_to_end_by == Some(at);
    let is_late = process.signal.is_none()
        && process.end_ns < recording.processes.window_ns.max(told)
        && process.end_ns > told + ORPHANED_NS
        && waited > ORPHANED_NS
        && process.told_to_end_in_vain == Some(InVain::Handled);
    if !is_late || all.iter().any(passes_on) {
        return None;
    }
    let went_on = if process.started_since >= WENT_ON {
        format!(
            " It started {} since: `exit` in the `trap` ends the script.",
            counted(process.started_since, "process")
        )
    } else {
        String::new()
    };
    let text = format!(
        "`{}` got the {} of {} at {}, for which it has a `trap`, and went on until {}: a shell runs a `trap` only when its program has \
         ended, which got no signal. With the program as `program & wait`, it runs at once.{went_on}",
        labels.get(at)?,
        told_signal(process),
        by.and_then(|by| labels.get(by)).map_or("another process".to_owned(), |by| format!("`{by}`")),
        after(told),
        after(process.end_ns)
    );
    let processes = [at].into_iter().chain(by);
    Some(Finding { at_ns: Some(told), ..Finding::new(FindingKind::GroupEnded, processes, text) })
}

/// Why a job of a script is deaf to Ctrl-C.
const AS_A_JOB: &str =
    " The shell of a script starts a background job (`&`) so; SIGTERM ends it, and after `set -m`, SIGINT does, too.";

/// Whether a program ignores SIGINT or SIGQUIT of another one.
fn ignores_keyboard(process: &RecordedProcess) -> bool {
    let is_keyboards = [libc::SIGINT, libc::SIGQUIT].iter().any(|of| process.told_signal == Some(of.cast_unsigned()));
    is_keyboards && process.told_to_end_in_vain == Some(InVain::Ignored)
}

/// A program that ignores the SIGINT of another one, as a shell lets background jobs of a script do.
fn deaf(recording: &Document, labels: &[String], at: usize) -> Option<Finding> {
    let all = &recording.recorded;
    let process = all.get(at).filter(|_| is_one(recording, at))?;
    let (by, told) = (process.told_to_end_by.filter(|by| *by != at)?, process.told_to_end_ns?);
    let goes_on = process.end_ns > told + ORPHANED_NS && process.signal != Some(libc::SIGKILL.cast_unsigned());
    if !ignores_keyboard(process) || !goes_on {
        return None;
    }
    let starter = process.started_by.and_then(|by| all.get(by)).is_some_and(RecordedProcess::is_shell);
    let jobs = if starter {
        "the shell of a script starts a background job (`&`) so"
    } else {
        "what started it can have done so"
    };
    let trap = if process.is_shell() { ", and no `trap` changes what a shell ignores from its begin" } else { "" };
    let signal = told_signal(process);
    let text = format!(
        "`{}` ignores the {signal} that `{}` sent it at {}, and goes on: {jobs}{trap}. SIGTERM ends it; after `set -m`, a script's jobs get \
         {signal}, too.",
        labels.get(at)?,
        labels.get(by)?,
        after(told)
    );
    Some(Finding { at_ns: Some(told), ..Finding::new(FindingKind::GroupEnded, [at, by], text) })
}

/// A program that the kernel ended because there was no memory.
fn starved(process: &RecordedProcess) -> Option<String> {
    process.out_of_memory.then(|| {
        format!(
            "`{}` was killed for lack of memory (SIGKILL), and what it had not written is lost. It ends if its cgroup's limit \
             (`memory.max`, a container's) is larger, or if it keeps less in memory.",
            process.name
        )
    })
}

/// A program that a fault of its own ended. A shell reports only that of the last one.
fn crashed(recording: &Document, process: &RecordedProcess) -> Option<String> {
    let number = i32::try_from(process.signal?).ok()?;
    // Sent by `kill`, also by its own.
    if process.ended_by.is_some() && number != libc::SIGABRT {
        return None;
    }
    let (_, name, what) = FAULTS.into_iter().find(|(signal, ..)| *signal == number)?;
    let advice = match number {
        libc::SIGILL if recording.executed_on == ExecutedOn::Tcg => {
            ": the guest's CPU may lack what it was compiled for; try --cpu max"
        }
        _ => "",
    };
    Some(format!("`{}` was killed by {name} ({what}){advice}.", process.name))
}

/// The name of a signal that lets a program do nothing more: SIGKILL, or one for a fault of its own.
pub(crate) fn at_once(signal: Option<u32>) -> Option<&'static str> {
    let number = i32::try_from(signal?).ok()?;
    let fault = FAULTS.iter().find(|(fault, ..)| *fault == number).map(|(_, name, _)| *name);
    fault.or((number == libc::SIGKILL).then_some("SIGKILL"))
}

/// The signal with which another program has ended this one.
pub(crate) fn requested(process: &RecordedProcess) -> Option<&'static str> {
    let is_it = |(number, _): &&(i32, &str)| process.signal == Some(number.cast_unsigned());
    REQUESTS.iter().find(is_it).map(|(_, name)| *name)
}

/// Whether another program has ended this one.
pub(crate) fn by_others(process: &RecordedProcess) -> bool {
    requested(process).is_some()
}

/// Whether a signal had stopped it for more than half of the recording: then what ended it is not why it did nothing.
fn was_stopped(recording: &Document, process: &RecordedProcess) -> bool {
    let stopped = process.waits.get(&WaitReason::Stopped).map_or(0, |wait| wait.ns);
    stopped > recording.processes.window_ns / 2
}

/// The programs that others have ended: for each signal a sentence. pipeprof itself does so after `--duration`.
fn ended(recording: &Document) -> Vec<Finding> {
    if recording.was_limited() {
        return Vec::new();
    }
    let labels = labels(recording);
    let all = || recording.recorded.iter();
    let sentence = |(number, signal): (i32, &str)| {
        let is_several = |at: usize| recording.recorded[at].pids.len() > 1 && !is_one(recording, at);
        // Who ends what it has started itself, and ends well then, has done with it.
        let is_job = |at: usize, process: &RecordedProcess| {
            let by = process.ended_by.and_then(|by| recording.recorded.get(by));
            let own = || process.ended_by == process.started_by && recording.exit_codes.iter().all(|code| *code == 0);
            by.is_some_and(|by| by.is_shell() && (is_several(at) || own()) || is_several(at) && own())
        };
        let by = |at: usize, process: &RecordedProcess| {
            let is_it = process.signal == Some(number.cast_unsigned()) && !process.out_of_memory;
            // Who interrupts the recording knows.
            let is_end = process.ended_by.is_none_or(|by| by == at) && recording.ended_by_interruption(process.end_ns);
            // Another rule says what ended it.
            is_it && !is_end && !is_job(at, process) && process.ended_by_thread.is_none()
        };
        let (which, last): (Vec<usize>, Vec<u64>) = all()
            .enumerate()
            .filter(|(at, process)| by(*at, process))
            .map(|(at, process)| (at, process.end_ns))
            .unzip();
        // Of a row with several processes, it was one at least.
        let named = |at: &usize| {
            let name = labels.get(*at)?;
            let all = recording.recorded[*at].pids.len();
            Some(if is_several(*at) { format!("`{name}` (one or more of {all})") } else { format!("`{name}`") })
        };
        let names: BTreeSet<String> = which.iter().filter_map(named).collect();
        let last = last.into_iter().max()?;
        // It waits for its program, and ends with it.
        let is_over = |other: &RecordedProcess| other.name == TIMEOUT && other.end_ns.abs_diff(last) < SOON;
        let senders: BTreeSet<Option<usize>> = which.iter().map(|at| recording.recorded[*at].ended_by).collect();
        let is_timeout = |by: &Option<usize>| by.is_none_or(|by| recording.recorded[by].name == TIMEOUT);
        let is_over = number != libc::SIGHUP && all().any(is_over) && senders.iter().all(is_timeout);
        let why = if is_over { format!(": the time of `{TIMEOUT}` was over") } else { String::new() };
        let were = if names.len() == 1 { "was" } else { "were" };
        let sender = match senders.into_iter().collect::<Vec<_>>()[..] {
            [Some(by)] if !which.contains(&by) => labels.get(by).map(|name| format!(" of `{name}`")),
            _ => None,
        };
        let names = few(names);
        // The kernel sends it when the leader of a session ends, or the other side of the terminal is closed. Without a terminal, it
        // was a process that is not recorded.
        let has_terminal = recording.channels.iter().any(|channel| channel.kind == ChannelKind::Pty);
        let unsent = || which.iter().all(|at| recording.recorded[*at].ended_by.is_none());
        let stopped = || which.iter().all(|at| was_stopped(recording, &recording.recorded[*at]));
        let hung_up = number == libc::SIGHUP && has_terminal && unsent() && !stopped();
        // A shell that only waited for its next command had nothing to do any more.
        let idle = |at: &usize| {
            let shell = &recording.recorded[*at];
            let runs = |of: &RecordedProcess| of.started_by == Some(*at) && of.end_ns >= shell.end_ns;
            shell.is_shell() && shell.is_one() && !all().any(runs)
        };
        if hung_up && which.iter().all(idle) {
            return None;
        }
        // Who only waited there has another trouble.
        let waited = |at: &usize| {
            let reads = recording.channels.iter().flat_map(|channel| &channel.readers).filter(|end| end.process == *at);
            2 * reads.map(|end| end.blocked_ns).sum::<u64>() >= recording.processes.window_ns
        };
        let (kind, why) = match hung_up {
            true => (
                if which.iter().all(waited) { FindingKind::Ended } else { FindingKind::GroupEnded },
                format!(" when {} terminal hung up{HUNG_UP}", if which.len() > 1 { "their" } else { "its" }),
            ),
            false => (FindingKind::Ended, why),
        };
        let text = format!("{names} {were} ended by {signal}{}{why}.", sender.unwrap_or_default());
        Some(Finding { at_ns: Some(last), ..Finding::new(kind, which, text) })
    };
    REQUESTS.into_iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests;
