//! How channels and rings are used: sizes, and what is not seen of them.

use crate::profile::listed;
use crate::record::model::labels::with_id;
use crate::record::observe::user_pages;
use crate::record::say::findings::view::FindingView;
use crate::record::say::first_of::first_of;
use crate::record::say::words;
use crate::report::number::{percent, time};
use crate::result::{
    CriticalPath, DEFAULT_SLOTS, Document, Finding, FindingKind, PathWhat, PipeHolder, RecordedProcess, RecordedStream,
    Until, UserPipes,
};
use crate::util::size::rough;
use crate::util::text::{clean, counted, grouped};

/// Fewer calls are no stream of blocks.
const MANY: u64 = 10;

/// So many times what the channel holds, and so many sleeps for each call.
const LARGE: f64 = 4.0;
const SLEEPS: f64 = 2.0;

/// Above this part of user code on either side, the turns are not what takes the time.
const USER: f64 = 0.6;

/// `` `a` writes blocks of 1.3 MiB to the pipe to `b`, which holds 64.0 KiB: it slept 6,305 times, once for every 64.3 KiB. A larger
/// pipe (F_SETPIPE_SZ) or shared memory takes fewer turns. ``
pub(crate) fn large_blocks(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, channel, end) in view.writers() {
        let holds = channel.slots.map(|[_, slots, _]| 4096 * slots).or(channel.buffer.map(|[_, bytes, _]| bytes));
        let Some(holds) = holds.filter(|holds| *holds > 0) else { continue };
        let calls = end.all_calls();
        let block = end.bytes as f64 / calls.max(1) as f64;
        let is_large = calls >= MANY && block >= LARGE * holds as f64 && end.sleeps as f64 >= SLEEPS * calls as f64;
        let moves = |process: usize| {
            view.document.recorded.get(process).and_then(|of| of.user_share).is_none_or(|user| user <= USER)
        };
        if !is_large || !moves(end.process) || !channel.readers.iter().all(|end| moves(end.process)) {
            continue;
        }
        let larger = if channel.kind.is_pipe() { "pipe (F_SETPIPE_SZ)" } else { "buffer (SO_SNDBUF)" };
        let text = format!(
            "{} writes blocks of {} to {}, which holds {}: it slept {} times, once for every {}. A larger {larger} or shared \
             memory takes fewer turns.",
            view.name(end.process),
            rough(block as u64),
            view.pipe_to(channel),
            rough(holds),
            grouped(end.sleeps),
            rough(end.bytes / end.sleeps.max(1))
        );
        let finding = Finding::new(FindingKind::LargeBlocks, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(end.sleeps), bytes: Some(block as u64), ..finding });
    }
    found
}

/// So many calls take time, if each writes no more than this, as `dd` does.
const SMALL_WRITES_MANY: u64 = 10_000;

/// Fewer in each second take no time that matters: a call takes some microseconds.
const EACH_SECOND: f64 = 5_000.0;
const SMALL: u64 = 512;
/// Larger reads of a file are lines.
const SMALL_READ: u64 = 16;

/// From this part of the path on, the process is worth a change.
const MUCH: f64 = 0.3;

/// What writes less often.
const BUFFER: &str = "a buffer (`BufWriter`, `bufio.Writer`, `setvbuf`) that is not flushed after each (as `std::endl` does) writes many at once";
const READ_BUFFER: &str = "a buffer (`fread`, `BufReader`, `bufio.Reader`) reads blocks";
const BLOCKS: &str = "`bs=1M` moves more at once";
const LOOP: &str = "a loop of a shell handles each line by itself, and its `echo` or `printf` writes at once; `awk` or `sed` handles blocks";

/// `` `report` writes `a.json` with 210,000 calls of 4 bytes in the mean, and is on a CPU 80 % of the time: ... ``
pub(crate) fn small_writes(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    // On a busy machine, it waits for what it would use.
    let on_cpu = |at: usize| view.on_path(at, PathWhat::OnCpu);
    let wants_cpu = |at: usize| on_cpu(at) + view.on_path(at, PathWhat::ForCpu);
    let is_small = |stream: &&RecordedStream| {
        !stream.script
            && stream.calls >= SMALL_WRITES_MANY
            && stream.calls as f64 >= EACH_SECOND * view.window() / 1e9
            && stream.bytes / stream.calls <= if stream.writes { SMALL } else { SMALL_READ }
            && wants_cpu(stream.process) >= MUCH
    };
    let text = |stream: &RecordedStream| {
        let process = document.recorded.get(stream.process);
        let advice = if process.is_some_and(|process| process.name == "dd") {
            BLOCKS
        } else if !stream.writes {
            READ_BUFFER
        } else if process.is_some_and(RecordedProcess::is_shell) {
            LOOP
        } else {
            BUFFER
        };
        let text = format!(
            "{} {} `{}` with {} calls of {} in the mean, and {} {} of the time: {}.",
            view.name(stream.process),
            if stream.writes { "writes" } else { "reads" },
            clean(&stream.file),
            grouped(stream.calls),
            counted(stream.bytes.div_ceil(stream.calls), "byte"),
            if on_cpu(stream.process) >= MUCH { "is on a CPU" } else { "is on a CPU or waits for one" },
            percent(if on_cpu(stream.process) >= MUCH { on_cpu(stream.process) } else { wants_cpu(stream.process) }),
            advice
        );
        Finding { count: Some(stream.calls), ..Finding::new(FindingKind::SmallCalls, [stream.process], text) }
    };
    document.streams.iter().filter(is_small).map(text).collect()
}

/// `` The pipe from `dd` to `wc` holds only 8 KiB; the default is 64 KiB. ``
pub(crate) fn small_pipe(view: &FindingView<'_>) -> Vec<Finding> {
    // Looks do not see the size of a pipe.
    if let (Some(_), Some(user)) = (view.document.looks, &view.document.user_pipes) {
        let text = format!("New pipes hold only 8 KiB or less; {}.", used_up(user));
        return vec![Finding { count: Some(user.pipes), ..Finding::new(FindingKind::UserPages, None, text) }];
    }
    let small = view.document.channels.iter().enumerate().filter_map(|(at, pipe)| {
        let [_, _, least] = pipe.slots.filter(|[_, _, least]| *least < DEFAULT_SLOTS && pipe.bytes() > 0)?;
        let user = view.document.user_pipes.as_ref().filter(|_| least <= user_pages::LEAST_SLOTS);
        let (kind, why) = match user {
            Some(user) => (FindingKind::UserPages, used_up(user)),
            None => (FindingKind::SmallPipe, "the default is 64 KiB".to_owned()),
        };
        let [from, to] = [&pipe.writers, &pipe.readers].map(|ends| view.names(ends));
        let [from, to] = [from, to].map(|names| if names.is_empty() { "outside".to_owned() } else { names });
        let text = format!("The pipe from {from} to {to} holds only {}; {why}.", counted(least * 4, "KiB"));
        let pipes = user.map(|user| user.pipes);
        Some(Finding { channels: vec![at], count: pipes, ..Finding::new(kind, None, text) })
    });
    first_of(small)
}

/// Why a new pipe of a user is small, and what helps.
fn used_up(user: &UserPipes) -> String {
    let UserPipes { uid, pipes, soft_pages, holders } = user;
    let holder = |of: &PipeHolder| {
        let who = with_id(&of.name, of.pid, None, of.container.as_ref());
        format!("{who}: {}", grouped(of.pipes))
    };
    let who = match &holders[..] {
        [] => String::new(),
        holders => format!(", most of them in {}", listed(holders.iter().map(holder))),
    };
    format!(
        "user {uid} has {} open{who}, and with them all {} pages of fs.pipe-user-pages-soft: close those that are not used, \
         or raise the limit with `sysctl fs.pipe-user-pages-soft={}`, or for one program with CAP_SYS_RESOURCE",
        counted(*pipes, "pipe"),
        grouped(*soft_pages),
        soft_pages.saturating_mul(RAISED)
    )
}

/// What the limit is raised by.
const RAISED: u64 = 4;

/// Their part of the requests from which on they are worth a sentence.
const SHARE: f64 = 0.1;

/// `` Threads of the kernel (iou-wrk) did 57 of the 77 requests of `rsync` to io_uring. ``
pub(crate) fn ring_threads(view: &FindingView<'_>) -> Vec<Finding> {
    let window = view.document.processes.window_ns;
    let mut found = Vec::new();
    for (at, process) in view.document.recorded.iter().enumerate() {
        let (name, all, theirs) = (view.name(at), process.ring_requests, process.worker_requests);
        if theirs > 0 && theirs as f64 >= SHARE * all as f64 {
            let part = if theirs == all { "all".to_owned() } else { grouped(theirs) };
            let text = format!(
                "Threads of the kernel (iou-wrk) did {part} of the {} of {name} to io_uring, and woke it each time.",
                counted(all, "request")
            );
            found.push(Finding {
                count: Some(theirs),
                of: Some(all),
                ..Finding::new(FindingKind::RingThreads, [at], text)
            });
        }
        if process.poller_ns > 0 {
            let (spent, share) =
                (time(process.poller_ns as f64 / 1e9), percent(process.poller_ns as f64 / window.max(1) as f64));
            let text = format!(
                "A thread of the kernel (iou-sqp) polls for the requests of {name} to io_uring: it was on a CPU for \
                 {spent}, {share} of the time."
            );
            found.push(Finding { ns: Some(process.poller_ns), ..Finding::new(FindingKind::RingThreads, [at], text) });
        }
    }
    found
}

/// `` `fio` uses io_uring, whose reads and writes are not recorded. ``
pub(crate) fn unseen(view: &FindingView<'_>) -> Vec<Finding> {
    let of = |at, count, text| Finding { count: Some(count), ..Finding::new(FindingKind::Unseen, [at], text) };
    let processes = view.document.recorded.iter().enumerate();
    let found = processes.flat_map(|(at, process)| {
        let (name, [rings, requests]) = (&process.name, [process.io_uring_calls, process.unseen_requests]);
        let are = if requests == 1 { "is" } else { "are" };
        let not = format!("of which {} {are} not recorded", counted(requests, "request"));
        [
            (rings > 0)
                .then(|| of(at, rings, format!("`{name}` uses io_uring, whose reads and writes are not recorded."))),
            (requests > 0).then(|| of(at, requests, format!("`{name}` uses io_submit, {not}."))),
        ]
    });
    first_of(found.flatten())
}

/// From this part of the recording on, it says the same as the first sentence.
const MOST: f64 = 0.8;

/// `` The last 0.70 s were 96 % `cat` stopped by `bash` and 4 % other parts. ``
pub(crate) fn at_stall(view: &FindingView<'_>) -> Vec<Finding> {
    let until = view.document.trigger.as_ref().and_then(|trigger| trigger.until);
    let (Some(Until::Full(ns) | Until::Empty(ns)), Some(path)) = (until, &view.document.path) else {
        return Vec::new();
    };
    let last = last_of(path, ns);
    let all: u64 = path.slice_ns.iter().sum();
    let ns: u64 = last.slice_ns.iter().sum();
    if ns as f64 > MOST * all as f64 {
        return Vec::new();
    }
    let processes: Vec<usize> = last.parts.first().and_then(|part| part.process).into_iter().collect();
    let text = words::made_of(&Document { path: Some(last), ..view.document.clone() })
        .map(|parts| format!("The last {} were {parts}.", time(ns as f64 / 1e9)));
    text.into_iter()
        .map(|text| Finding { ns: Some(ns), ..Finding::new(FindingKind::Stall, processes.clone(), text) })
        .collect()
}

/// The last slices of a path, of at least so many ns.
fn last_of(path: &CriticalPath, ns: u64) -> CriticalPath {
    let mut left = ns;
    let is_wanted = |slice: &&u64| {
        let wanted = left > 0;
        left = left.saturating_sub(**slice);
        wanted
    };
    let count = path.slice_ns.iter().rev().take_while(is_wanted).count();
    let first = path.slice_ns.len() - count;
    let mut last = CriticalPath { slice_ns: path.slice_ns[first..].to_vec(), ..CriticalPath::default() };
    for part in &path.parts {
        let slices = part.slices.get(first..).unwrap_or_default().to_vec();
        let ns = slices.iter().sum();
        last.parts.extend((ns > 0).then(|| crate::result::PathPart { slices, ns, ..part.clone() }));
    }
    last.parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::{Container, PathPart, ProcLooks, Trigger, WaitReason};

    fn blocks(recording: &mut Document, calls: u64, sleeps: u64) {
        let end = &mut recording.channels[0].writers[0];
        (end.bytes, end.calls, end.sleeps) = (100 << 20, [("write".to_owned(), calls)].into(), sleeps);
    }

    #[test]
    fn blocks_that_no_pipe_holds_are_said() {
        let text = "`seq` writes blocks of 1.0 MiB to the pipe to `grep`, which holds 64.0 KiB: it slept 1,600 times, once for \
                    every 64.0 KiB. A larger pipe (F_SETPIPE_SZ) or shared memory takes fewer turns.";
        assert_eq!(said(large_blocks, &|recording| blocks(recording, 100, 1600)), [text]);
    }

    #[test]
    fn what_fits_or_is_computed_is_not() {
        assert!(said(large_blocks, &|recording| blocks(recording, 1600, 4000)).is_empty(), "as large as the pipe");
        assert!(said(large_blocks, &|recording| blocks(recording, 100, 50)).is_empty(), "hardly a sleep");
        let computed = said(large_blocks, &|recording| {
            blocks(recording, 100, 1600);
            recording.recorded[1].user_share = Some(0.9);
        });
        assert!(computed.is_empty(), "{computed:?}");
    }

    fn writes(calls: u64, ns: u64) -> Vec<String> {
        said(small_writes, &|recording| {
            let part = PathPart { process: Some(1), what: PathWhat::OnCpu, ns, ..PathPart::default() };
            recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
            let stream =
                RecordedStream { process: 1, file: "a.json".to_owned(), writes: true, ..RecordedStream::default() };
            recording.streams = vec![RecordedStream { calls, bytes: 4 * calls, ..stream }];
        })
    }

    #[test]
    fn small_writes_to_a_file_are_said() {
        let text = "`grep` writes `a.json` with 210,000 calls of 4 bytes in the mean, and is on a CPU 80 % of the time: a buffer \
                    (`BufWriter`, `bufio.Writer`, `setvbuf`) that is not flushed after each (as `std::endl` does) writes many at once.";
        assert_eq!(writes(210_000, WINDOW / 5 * 4), [text]);
        let dd = said(small_writes, &|recording| {
            let part = PathPart { process: Some(1), what: PathWhat::OnCpu, ns: WINDOW, ..PathPart::default() };
            recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
            recording.recorded[1].name = "dd".to_owned();
            let (calls, file) = (614_400, "copy".to_owned());
            let stream =
                RecordedStream { process: 1, file, writes: true, calls, bytes: 512 * calls, ..Default::default() };
            recording.streams = vec![stream];
        });
        assert!(dd[0].ends_with(
            "614,400 calls of 512 bytes in the mean, and is on a CPU 100 % of the time: `bs=1M` moves more at once."
        ));
        assert!(writes(9000, WINDOW).is_empty() && writes(210_000, WINDOW / 10).is_empty());
        let reads = said(small_writes, &|recording| {
            let part = PathPart { process: Some(1), what: PathWhat::OnCpu, ns: WINDOW, ..PathPart::default() };
            recording.path = Some(CriticalPath { parts: vec![part], ..CriticalPath::default() });
            let (calls, file) = (4_027_884, "init.sql".to_owned());
            recording.streams = vec![RecordedStream { process: 1, file, calls, bytes: calls, ..Default::default() }];
        });
        let text = "`grep` reads `init.sql` with 4,027,884 calls of 1 byte in the mean, and is on a CPU 100 % of the time: a buffer (`fread`, \
                    `BufReader`, `bufio.Reader`) reads blocks.";
        assert_eq!(reads, [text]);
    }

    #[test]
    fn a_small_pipe_is_said_with_its_cause() {
        let small = said(small_pipe, &|recording| recording.channels[0].slots = Some([16, 2, 2]));
        assert_eq!(small, ["The pipe from `seq` to `grep` holds only 8 KiB; the default is 64 KiB."]);
        let text = "The pipe from `seq` to `grep` holds only 8 KiB; user 65534 has 1,101 pipes open, most of them in `node` \
                    (process 12, in container web): 900, and with them all 16,384 pages of fs.pipe-user-pages-soft: close those \
                    that are not used, or raise the limit with `sysctl fs.pipe-user-pages-soft=65536`, or for one program with \
                    CAP_SYS_RESOURCE.";
        let of_user = said(small_pipe, &|recording| {
            recording.channels[0].slots = Some([2; 3]);
            let container = Some(Container { id: "1".to_owned(), name: Some("web".to_owned()) });
            let holders = vec![PipeHolder { pid: 12, name: "node".to_owned(), container, pipes: 900 }];
            recording.user_pipes = Some(UserPipes { uid: 65_534, pipes: 1101, soft_pages: 16_384, holders });
        });
        assert_eq!(of_user, [text]);
        assert!(said(small_pipe, &|recording| recording.channels[0].slots = Some([256; 3])).is_empty());
        let looked = said(small_pipe, &|recording| {
            recording.looks = Some(ProcLooks::default());
            recording.user_pipes =
                Some(UserPipes { uid: 1000, pipes: 1101, soft_pages: 16_384, ..UserPipes::default() });
        });
        assert!(
            looked[0].starts_with("New pipes hold only 8 KiB or less; user 1000 has 1,101 pipes open, and with them")
        );
    }

    #[test]
    fn threads_of_the_kernel_are_named_where_they_do_the_work() {
        let of = |theirs, poller_ns| {
            said(ring_threads, &|recording| {
                recording.processes.window_ns = 2_000_000_000;
                recording.recorded[0].ring_requests = 77;
                recording.recorded[0].worker_requests = theirs;
                recording.recorded[0].poller_ns = poller_ns;
            })
        };
        let workers =
            "Threads of the kernel (iou-wrk) did 57 of the 77 requests of `seq` to io_uring, and woke it each time.";
        assert_eq!(of(57, 0), [workers]);
        assert_eq!(of(7, 0), Vec::<String>::new());
        let poller = of(0, 1_500_000_000).remove(0);
        assert!(poller.starts_with("A thread of the kernel (iou-sqp) polls") && poller.contains("75 %"), "{poller}");
    }

    #[test]
    fn what_is_not_recorded_is_said() {
        let found = said(unseen, &|recording| {
            recording.recorded[0].io_uring_calls = 7;
            recording.recorded[1].unseen_requests = 2;
        });
        let uring = "`seq` uses io_uring, whose reads and writes are not recorded.";
        assert_eq!(found, [uring, "`grep` uses io_submit, of which 2 requests are not recorded."]);
    }

    fn kept(recording: &mut Document, until: Until) {
        let slice = recording.processes.window_ns / 8;
        let part = |process, what, slices: [u64; 8]| {
            let slices = slices.map(|has| has * slice).to_vec();
            PathPart { process: Some(process), what, ns: slices.iter().sum(), slices, ..PathPart::default() }
        };
        let stopped = PathWhat::Asleep { reason: WaitReason::Stopped };
        let parts =
            vec![part(0, PathWhat::OnCpu, [1, 1, 1, 1, 1, 1, 0, 0]), part(2, stopped, [0, 0, 0, 0, 0, 0, 1, 1])];
        recording.path = Some(CriticalPath { parts, slice_ns: vec![slice; 8], ..CriticalPath::default() });
        recording.trigger = Some(Trigger { until: Some(until), name: "grep".to_owned() });
    }

    #[test]
    fn what_happened_last_is_said() {
        let of = |until: Until| said(at_stall, &|recording| kept(recording, until));
        assert_eq!(of(Until::Full(600_000_000)), ["The last 1.00 s were 100 % `cat` stopped."]);
        assert_eq!(
            of(Until::Empty(1_100_000_000))[0],
            "The last 1.50 s were 67 % `cat` stopped and 33 % `seq` on a CPU."
        );
        assert!(of(Until::Stopped).is_empty() && of(Until::Full(3_900_000_000)).is_empty());
        assert!(said(at_stall, &|recording| recording.path = None).is_empty());
    }
}
