//! Calls that a process makes again and again, or that fail, whatever the channel.

use crate::profile::few;
use crate::record::say::findings::effort::used_up::{Said, full_table, no_process, used_port};
use crate::record::say::findings::view::FindingView;
use crate::record::say::standstill::{full_name, inherited_lock};
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, PathWhat, RecordedProcess, SeenProcess, WaitReason};
use crate::util::text::{clean, counted, error_message, grouped, plural};

/// Fewer are no load: questions how much there is to read, failed reads and writes, failed closes, and calls of `fsync`.
const ASKS: u64 = 10_000;
const BAD_CALLS: u64 = 10_000;
const CLOSES: u64 = 50_000;
const SYNCS: u64 = 100;
const TINY: u64 = 100_000;

/// So many questions for each read are no preparation of it.
const FOR_EACH: u64 = 10;

/// From this part of its life on that it does not sleep, a process only looks; from this part of the window on, closes matter;
/// and from this part of its own path on, waits for the disk, if that is more than [`WORTH`] of all of it.
const AWAKE: f64 = 0.5;
const CLOSING: f64 = 0.1;
const TINY_SHARE: f64 = 0.3;
const DISK: f64 = 0.3;
const WORTH: f64 = 0.1;

/// `` `a.py` called `fsync` 1,000 times, and waits for the disk 85 % of the time: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let rules = [
        asks,
        child_asks,
        closes,
        bad_calls,
        failed,
        ends,
        used_port,
        full_table,
        no_process,
        locked_out,
        syncs,
        lost_child,
        gone_lock,
        tiny_calls,
        refused_sizes,
    ];
    let each = view.document.recorded.iter().enumerate();
    each.flat_map(|(at, process)| {
        let found = rules.iter().filter_map(move |rule| rule(view, at, process));
        found.map(move |(kind, count, text)| Finding { count: Some(count), ..Finding::new(kind, [at], text) })
    })
    .collect()
}

/// What it changed under a lock that others need not have had to wait for.
fn gone_lock(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = process.gone_locks;
    let text = format!(
        "{} went on {} with the lock of a file that had been deleted before it got it: another process can have that of a new file with \
         its name at the same time. Do not delete a file whose lock others may wait for, or compare `fstat` with `stat` of the path after \
         the lock, and open it again if they differ.",
        view.name(at),
        counted(count, "time"),
    );
    (count > 0).then_some((FindingKind::Raced, count, text))
}

fn asks(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = process.fill_asks;
    if count < ASKS {
        return None;
    }
    let reads: u64 = view.readers().filter(|(_, _, end)| end.process == at).map(|(_, _, end)| end.all_calls()).sum();
    // What it waits for a CPU, it would use.
    let awake = (process.cpu_ns + process.runnable_ns) as f64 / process.lived_ns.max(1) as f64;
    let text = format!(
        "{} asked {} times how much there is to read (FIONREAD, as `available()` does) and read {}: it does not sleep meanwhile. \
         `read` or `poll` waits for data.",
        view.name(at),
        grouped(count),
        counted(reads, "time"),
    );
    (count >= FOR_EACH * reads && awake >= AWAKE).then_some((FindingKind::FillAsks, count, text))
}

fn child_asks(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = process.watches;
    let awake = (process.cpu_ns + process.runnable_ns) as f64 / process.lived_ns.max(1) as f64;
    let text = format!(
        "{} asked {} times whether a child had ended, without waiting between (`waitpid` with WNOHANG), and is on a CPU {} of the time. \
         Without WNOHANG, it sleeps until one ends.",
        view.name(at),
        grouped(count),
        percent((process.cpu_ns as f64 / view.window()).min(1.0))
    );
    (count >= ASKS && 2 * count >= process.calls && awake >= AWAKE).then_some((FindingKind::ChildAsks, count, text))
}

fn closes(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    // Other programs only set close-on-exec.
    let sets = process.failure.as_ref().is_some_and(|(call, error)| call == "fcntl" && *error == libc::EBADF)
        && 2 * process.failed_closes < process.failed_calls;
    let (count, what, with) = match sets {
        true => (process.failed_calls, "called `fcntl` for", " with CLOSE_RANGE_CLOEXEC sets this for"),
        false => (process.failed_closes, "closed", " closes"),
    };
    let share = process.cpu_ns as f64 / view.window();
    // Each of them before it executes a program.
    let name = if view.is_one(at) {
        view.name(at)
    } else {
        format!("`{}` ({} processes, before they execute a program)", clean(&process.name), process.pids.len())
    };
    let text = format!(
        "{name} {what} {} descriptors that were not open (EBADF), and is on a CPU {} of the time: such a loop goes up to the limit of \
         open files (`ulimit -n`). `close_range`{with} all with one call.",
        grouped(count),
        percent(share.min(1.0))
    );
    let is_so = count >= CLOSES && 2 * count >= process.calls && share >= CLOSING;
    is_so.then_some((FindingKind::BadDescriptors, count, text))
}

fn bad_calls(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = process.bad_calls;
    let text = format!(
        "{} of {} calls of {} read or wrote a descriptor that is not open (EBADF), again and again.",
        grouped(count),
        grouped(process.calls),
        view.name(at)
    );
    (count >= BAD_CALLS && 2 * count >= process.calls).then_some((FindingKind::BadDescriptors, count, text))
}

/// Errors from here on do not leave the kernel.
const FIRST_INNER: i32 = 512;

/// Fewer failed calls, or a smaller part of all, are how programs look for something.
const FAILED: u64 = 100_000;
const FAILED_SHARE: f64 = 0.8;

fn failed(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = process.failed_calls;
    let (call, error) = process.failure.as_ref()?;
    // These have rules of their own, or are how a program waits.
    let is_known = [libc::EAGAIN, libc::EBADF, libc::EPIPE, libc::EINTR, libc::ETIMEDOUT].contains(error);
    let closes = 2 * process.failed_closes >= count;
    if is_known || closes || count < FAILED || (count as f64) < FAILED_SHARE * process.calls as f64 {
        return None;
    }
    // What ended the recording ended that call, and the others failed for another reason.
    if *error >= FIRST_INNER && call != "ioctl" && view.goes_on(process) && view.document.is_cut_off() {
        return None;
    }
    // Inside of the kernel: the call begins anew after a signal (include/linux/errno.h, ERESTARTSYS).
    let what =
        if *error >= FIRST_INNER { "it has to begin anew after a signal".to_owned() } else { error_message(*error) };
    let why = if call == "ioctl" && (*error >= FIRST_INNER || *error == libc::EIO) {
        " It is in a background process group of its terminal, as `timeout` makes one (without `--foreground`): the kernel answers with \
         SIGTTOU, which it ignores or blocks. `</dev/null` leaves the terminal alone."
    } else if *error == libc::ENOTTY && process.input.is_none() {
        " It expects a terminal: it may have come to the end of its standard input (`</dev/null`) before, and has to stop there."
    } else {
        " It has to look at what they return."
    };
    let text = format!(
        "{} of {} system calls of {} failed, the last one `{call}` with \"{what}\", and it is on a CPU {} of the time.{why}",
        grouped(count),
        grouped(process.calls),
        view.name(at),
        percent((process.cpu_ns as f64 / view.window()).min(1.0))
    );
    Some((FindingKind::FailedCalls, count, text))
}

/// Of the calls; who reads many files to their ends opens them before.
const ENDS: f64 = 0.4;

fn ends(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let on_cpu = process.cpu_ns as f64 / process.lived_ns.max(1) as f64;
    let which = match process.ended {
        Some(0) => "its standard input".to_owned(),
        fd => format!("descriptor {}", fd.unwrap_or_default()),
    };
    let text = format!(
        "{} read {which} {} times at its end, and is on a CPU {} of the time: it is a file or a device such as /dev/null, and each \
         read returns at once. It has to stop at the end of file.",
        view.name(at),
        grouped(process.ends),
        percent(on_cpu.min(1.0))
    );
    let many = process.ends / process.pids.len().max(1) as u64 >= BAD_CALLS;
    let mostly = process.ends as f64 >= ENDS * process.calls as f64;
    let awake = (process.cpu_ns + process.runnable_ns) as f64 / process.lived_ns.max(1) as f64;
    (many && mostly && awake >= AWAKE).then_some((FindingKind::AtEnd, process.ends, text))
}

/// Who waits for this part of its life at a full pipe stands still.
const STUCK: f64 = 0.5;

fn locked_out(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let file = process.locked_out.as_ref()?;
    // The program `flock` gets it for the shell that started it.
    // A row has the ids of all that it was, also of those that have executed another program since.
    let is_own = |of: &SeenProcess| match of.recorded {
        // Several processes of one program can be one row.
        Some(row) if row == at => file.refused == of.pid || view.is_one(at),
        Some(row) => Some(row) == process.started_by,
        None => process.pids.contains(&of.pid),
    };
    if file.holders.is_empty() || file.holders.iter().any(is_own) {
        return None;
    }
    // A script that goes on well has asked whether another one runs.
    let well = !view.document.exit_codes.is_empty() && view.document.exit_codes.iter().all(|code| *code == 0);
    if process.name == "flock" && well && !file.inherited {
        return None;
    }
    let several = file.holders.len() > 1;
    let has_ended = |of: &SeenProcess| {
        let row = of.recorded.and_then(|at| view.document.recorded.get(at));
        row.is_some_and(|row| row.end_ns < view.document.processes.window_ns)
    };
    let how = match (file.inherited, several) {
        (true, false) => file.holders.iter().map(|holder| inherited_lock(view.document, holder)).collect(),
        (true, true) => " They have inherited the open file from who took the lock: that has to keep it from what it starts (O_CLOEXEC; in a \
                         shell `9>&-` behind the command, for descriptor 9)."
            .to_owned(),
        (false, _) => String::new(),
    };
    // Who has the lock, and stands still with it.
    let stuck = |of: &SeenProcess| {
        let row = of.recorded.filter(|row| view.is_one(*row))?;
        let lived = view.document.recorded.get(row)?.lived_ns as f64;
        let mut full =
            view.writers().filter(|(_, _, end)| end.process == row && end.blocked_ns as f64 >= STUCK * lived);
        full.next().map(|(_, pipe, _)| {
            format!(" {} waits for room in {}, and keeps the lock meanwhile.", full_name(of), view.pipe_to(pipe))
        })
    };
    let how = if how.is_empty() { file.holders.iter().filter_map(stuck).collect() } else { how };
    let failed = view.document.failures.iter().filter(|failed| failed.process == at).count() as u64;
    let all = match process.own_pids().count() as u64 {
        all if failed > 1 && all >= failed => {
            format!(" {} of its {} processes failed.", grouped(failed), grouped(all))
        }
        _ => String::new(),
    };
    let waits =
        if of_sqlite(view, at) { " SQLite waits with `PRAGMA busy_timeout = 5000` (`.timeout 5000`)." } else { "" };
    let text = format!(
        "{} did not get the lock of `{}`, and did not wait for it: {} {} it.{how}{all}{waits}",
        view.name(at),
        clean(&file.path),
        few(file.holders.iter().map(full_name)),
        match several {
            _ if file.holders.iter().all(has_ended) => "had",
            true => "have",
            false => "has",
        }
    );
    Some((FindingKind::FileLock, file.holders.len() as u64, text))
}

/// Whether a process uses a database of SQLite.
fn of_sqlite(view: &FindingView<'_>, at: usize) -> bool {
    view.document.named_files.iter().any(|file| file.process == at && file.is_of_sqlite())
}

fn syncs(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    if process.syncs < SYNCS {
        return None;
    }
    let asleep = view.on_path(at, PathWhat::Asleep { reason: WaitReason::Disk });
    // On a busy machine, each of these sleeps is followed by a wait for a CPU.
    let for_cpu = view.on_path(at, PathWhat::ForCpu);
    let is_crowded = process.waits.get(&WaitReason::Disk).is_some_and(|wait| wait.count >= process.syncs);
    let waits = asleep + if is_crowded { for_cpu } else { 0.0 };
    let of_database = of_sqlite(view, at);
    let text = format!(
        "{} called `fsync` {} times, and waits for files{} {} of the time: each call waits until the disk has all that was written. \
         One for many lines, or at the end, waits less often{}.",
        view.name(at),
        grouped(process.syncs),
        if is_crowded && for_cpu > asleep { ", and then for a CPU," } else { "" },
        percent(waits),
        if of_database { ": in SQLite, many changes between `BEGIN` and `COMMIT`" } else { "" }
    );
    // Of a script with other parts, its own part counts, if that is worth a change.
    let awake = view.all_on_path(at) - if is_crowded { 0.0 } else { for_cpu };
    (waits >= DISK * awake && waits > WORTH).then_some((FindingKind::Syncs, process.syncs, text))
}

/// Reads and writes of files, of a byte or a few each.
fn tiny_calls(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    if let Some(said) = many_writes(view, at, process) {
        return Some(said);
    }
    let count = process.tiny_calls;
    let share = process.cpu_ns as f64 / view.window();
    let text = format!(
        "{} made {} reads and writes of files of fewer than 16 bytes each, and is on a CPU {} of the time: each of them is a call of the \
         kernel. A buffer moves thousands of bytes with one (`BufReader`, `fread`, `bs=64K`).",
        view.name(at),
        grouped(count),
        percent(share.min(1.0))
    );
    // A shell has to read its input so.
    let is_so = count >= TINY && 2 * count >= process.calls && share >= TINY_SHARE && !process.is_shell();
    is_so.then_some((FindingKind::TinyCalls, count, text))
}

/// So many writes for each second on a CPU are small ones: one of 4 KiB takes longer.
const WRITES_EACH_SECOND: f64 = 300_000.0;

/// The same of writes to what is no pipe, whose sizes are not counted.
fn many_writes(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = process.effects;
    let cpu = process.cpu_ns as f64 / 1e9;
    let counted_else = view.writers().any(|(_, _, end)| end.process == at && 2 * end.all_calls() > count);
    let streamed = view.document.streams.iter().any(|of| of.process == at && of.writes && 2 * of.calls > count);
    let text = format!(
        "{} made {} writes, {} for each second on a CPU: these are small, as of a line each, and each is a call of the kernel. A buffer \
         (`BufWriter`, `bufio.Writer`, stdio) makes one of many.",
        view.name(at),
        grouped(count),
        grouped((count as f64 / cpu.max(0.001)) as u64),
    );
    let is_so = 2 * count >= process.calls
        && count as f64 >= WRITES_EACH_SECOND * cpu
        && cpu >= TINY_SHARE * view.window() / 1e9;
    (is_so && count >= TINY && !counted_else && !streamed).then_some((FindingKind::TinyCalls, count, text))
}

/// Pipes that were to be larger than the user may have them.
fn refused_sizes(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = process.refused_sizes;
    let text = format!(
        "{} wanted to make pipes larger {} and was refused (F_SETPIPE_SZ, EPERM): a user without CAP_SYS_RESOURCE may have \
         fs.pipe-user-pages-soft pages in all pipes (16,384 by default, 64 MiB), and fs.pipe-max-size bytes in one. Such a pipe stays as it \
         is; what needs fewer or smaller pipes, or another limit, goes on.",
        view.name(at),
        counted(count, "time")
    );
    (count > 0).then_some((FindingKind::UserPages, count, text))
}

/// The exit codes of children that nobody can get any more.
fn lost_child(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Said {
    let count = process.gone_children;
    let (which, of) = if count == 1 {
        ("a child that the kernel had not kept".to_owned(), "its exit code is")
    } else {
        (
            format!("{} {} that the kernel had not kept", grouped(count), plural(count, "process")),
            "their exit codes are",
        )
    };
    let why = match view.left_by(at, |process| process.ignores_sigchld) {
        Some(by) => {
            let by = view.name(by);
            format!(
                "It inherited from {by} that SIGCHLD is ignored, so the kernel keeps no ended children. Between `fork` and `exec`, {by} \
                 has to set that to its default (SIG_DFL)."
            )
        }
        None => "It ignores SIGCHLD, so that the kernel keeps no ended children, or another wait of its own was first, as one for any child in \
                 a signal handler."
            .to_owned(),
    };
    let text = format!("{} waited for {which} (ECHILD): {of} lost. {why}", view.name(at));
    // Who has started none asks for processes of others.
    (count > 0 && process.forks > 0).then_some((FindingKind::LostChild, count, text))
}

#[cfg(test)]
mod tests;
