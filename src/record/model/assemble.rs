//! From what the BPF programs counted to the processes and pipes of a [`Document`](crate::result::Document).

use crate::collect::bpf::shared::Lost;
use crate::record::model::alike::alike;
use crate::record::model::divided::divided;
use crate::record::model::ended::{MOST_APART, stands_out};
use crate::record::model::failures::{failures, starts_of};
use crate::record::model::forks::{doubled, enders, left, parents, zombies};
use crate::record::model::named_files::{lives, named_files};
use crate::record::model::spoken::add_words;
use crate::record::model::streams::streams;
use crate::record::observe::call_names::call_name;
use crate::record::observe::channel_kind::kind_of;
use crate::record::observe::counted::{RecordedCounts, SEVERAL};
use crate::record::observe::raw::{
    PR_AT_ITS_END, PR_ITSELF, PR_KINDS, PR_READY_EVERY, PR_TOLD_BLOCKED, PR_TOLD_HANDLED, PR_TOLD_IGNORED,
    PR_TOLD_INIT, PR_TTIN, PR_TTOU, PR_WRITE, PrCounts, PrEnd, PrProcess, PrState, PrWho,
};
use crate::record::observe::reason::{name_of, text_of, why};
use crate::record::start::launch::MadePipe;
use crate::record::start::running::OpenEnd;
use crate::result::{
    ChannelKind, FailedProcess, FullTable, HeldBy, InVain, NamedFile, ProcessLife, ProcessRefusal, ReadFile,
    RecordedChannel, RecordedEnd, RecordedProcess, RecordedStream,
};
use crate::util::text::grouped;
use crate::util::warning::{Warning, WarningCode};
use bytemuck::Zeroable as _;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The user share is known only roughly below this: five ticks of a kernel of 250 Hz.
const KNOWN_TICKS_NS: u64 = 20_000_000;

/// The processes and pipes of a recording.
#[derive(Debug, Default)]
pub(crate) struct Assembled {
    /// The begin of the window, by the programs' clock, ns.
    pub begin: u64,
    pub window_ns: u64,
    pub processes: Vec<RecordedProcess>,
    pub channels: Vec<RecordedChannel>,
    pub streams: Vec<RecordedStream>,
    pub named_files: Vec<NamedFile>,
    pub lives: Vec<ProcessLife>,
    /// Those that failed, with what names each; without command lines.
    pub failures: Vec<(PrWho, FailedProcess)>,
    /// Indices of `processes`.
    pub index: BTreeMap<PrWho, usize>,
    pub warnings: Vec<Warning>,
}

/// When the window begins and ends, by the programs' clock, ns. `span`: when the path does, which has processes that were not
/// counted for want of room.
pub(crate) fn window(counted: &RecordedCounts, span: Option<[u64; 2]>) -> [u64; 2] {
    let of_processes = counted.processes.iter().map(|(_, process)| [process.begin, process.end]);
    of_processes.chain(span).reduce(|one, other| [one[0].min(other[0]), one[1].max(other[1])]).unwrap_or_default()
}

/// Name everything. `pipes` are those between the stages, and `open` the ends of pipes that were open at the start.
/// `script`: as in [`alike`]. `span`: as in [`window`].
pub(crate) fn assemble(
    counted: &RecordedCounts,
    span: Option<[u64; 2]>,
    pipes: &[MadePipe],
    open: &[OpenEnd],
    script: impl Fn(&PrWho) -> u64,
) -> Assembled {
    let [begin, end] = window(counted, span);
    let mut order: Vec<&(PrWho, PrProcess)> = counted.processes.iter().collect();
    order.sort_by_key(|(who, process)| (who.stage, process.begin, who.tgid));
    let apart = counted.processes.iter().filter(|(_, process)| stands_out(process));
    let apart: BTreeSet<PrWho> = apart.map(|(who, _)| *who).take(MOST_APART).collect();
    let alike = alike(counted, |who| script(who) ^ if apart.contains(who) { u64::from(who.tgid) << 32 } else { 0 });
    let mut processes: Vec<RecordedProcess> = Vec::new();
    let mut index: BTreeMap<PrWho, usize> = BTreeMap::new();
    let mut rows: HashMap<Option<usize>, usize> = HashMap::new();
    let mut pids: HashSet<(usize, u32)> = HashSet::new();
    // When the row that ends last does so, and which it is, by stage and process id. One that comes back to the name of an earlier
    // program, as by a script that finds the program of its own name, begins with that.
    let mut last: HashMap<[u32; 2], (u64, usize)> = HashMap::new();
    let ids: HashSet<u32> = counted.processes.iter().map(|(who, _)| who.tgid).collect();
    for (who, process) in order {
        let at = *rows.entry(alike.get(who).copied()).or_insert(processes.len());
        if at == processes.len() {
            processes.push(RecordedProcess {
                name: name_of(who.name),
                stage: who.stage,
                begin_ns: process.begin - begin,
                user_share: Some(0.0),
                ..RecordedProcess::default()
            });
        }
        index.insert(*who, at);
        // A copy of a process with the name of the program that it then executes, as by `posix_spawn` of the same program.
        let began_as_copy =
            process.execs > 0 && ids.contains(&(process.parent as u32)) && !last.contains_key(&[who.stage, who.tgid]);
        let latest = last.entry([who.stage, who.tgid]).or_insert((process.end, at));
        if process.end >= latest.0 {
            *latest = (process.end, at);
        }
        let (lived, count) = match counted.members.get(who) {
            Some(members) => {
                index.extend(members.pids.iter().map(|pid| (PrWho { tgid: *pid, ..*who }, at)));
                processes[at].pids.extend(&members.pids);
                (members.lived_ns, members.pids.len() as u64)
            }
            None => {
                if pids.insert((at, who.tgid)) {
                    processes[at].pids.push(who.tgid);
                }
                (process.end.saturating_sub(process.begin), 1)
            }
        };
        add_process(&mut processes[at], process, begin, lived);
        // What executes another program of the same name begins anew, and is no further thread.
        let begins = process.execs + if began_as_copy { count } else { 0 };
        processes[at].threads -= begins.saturating_sub(count).min(process.threads.saturating_sub(count));
    }
    for (at, process) in processes.iter_mut().enumerate() {
        let elsewhere = |pid: &u32| last.get(&[process.stage, *pid]).is_some_and(|(_, row)| *row != at);
        process.moved_on = process.pids.iter().copied().filter(elsewhere).collect();
    }
    // If the kernel skipped the program for its last exec, a process ends under a name that it did not have before.
    let used = counted.ends.iter().map(|(end, _)| end.who).chain(counted.waits.iter().map(|(reason, _)| reason.who));
    for who in used {
        if let Some((_, at)) = last.get(&[who.stage, who.tgid]) {
            index.entry(who).or_insert(*at);
        }
    }
    for (reason, wait) in &counted.waits {
        if let Some(at) = index.get(&reason.who) {
            let (process, why) = (&mut processes[*at], why(reason.call, reason.file_type));
            let total = process.waits.entry(why).or_default();
            total.ns += wait.ns;
            total.count += wait.count;
            if reason.holder != [0; 2] {
                process.held_by.entry(why).or_default().insert(match reason.holder.map(|word| word as usize) {
                    [0, PR_ITSELF] => HeldBy::Itself,
                    [0, PR_TTIN] => HeldBy::BackgroundRead,
                    [0, PR_TTOU] => HeldBy::BackgroundWrite,
                    _ => HeldBy::Program(name_of(reason.holder)),
                });
            }
        }
    }
    let parents = parents(counted, &index);
    for (at, parent) in parents {
        processes[at].started_by = parent;
    }
    for (at, ender) in enders(counted, &index, true) {
        processes[at].ended_by = Some(ender);
    }
    for (who, process) in counted.processes.iter().filter(|(_, of)| of.signal > 0 && of.sender >> PR_AT_ITS_END > 0) {
        let number = process.sender >> 32 & !(1 << (PR_AT_ITS_END - 32));
        if let Some(at) = index.get(who).filter(|_| number == process.signal) {
            processes[*at].ended_by_thread = Some(process.end.saturating_sub(begin));
        }
    }
    for (at, sender) in enders(counted, &index, false) {
        processes[at].told_to_end_by = Some(sender);
    }
    let starts = starts_of(counted);
    for (who, told) in counted.processes.iter().filter(|(_, process)| process.told_at > 0) {
        let later = starts.iter().filter(|start| start.parent == who.tgid && start.at > told.told_at);
        let children: BTreeSet<u32> = later.map(|start| start.tgid).collect();
        processes[index[who]].started_since += children.len() as u64;
    }
    for (at, zombies) in zombies(counted, &index) {
        processes[at].zombies = Some(zombies);
    }
    for (at, left) in left(counted, &index, begin) {
        processes[at].left = Some(left);
    }
    let mut channels = channels_of(counted, begin, &index, pipes);
    add_open(&mut channels, &processes, open);
    name_outputs(&mut processes, counted, &index, &channels);
    for channel in &mut channels {
        channel.divided = divided(counted, &index, channel);
    }
    add_words(&mut processes, &counted.said, &index);
    let mut warnings = counted.state.as_ref().map_or_else(Vec::new, |state| losses(state, counted.sampled.lost));
    if let Some(unseen) = counted.state.map(|state| state.unseen).filter(|unseen| *unseen > 0) {
        warnings.push(Warning {
            code: WarningCode::SwitchesUnseen,
            message: format!(
                "{}, it was not seen that a thread began to run, as some virtual machines do not show it",
                counted_and(unseen, ["time", "times"])
            ),
            action: "a few do not matter; its wait counts until the thread's next system call".to_owned(),
        });
    }
    if counted.skipped > 0 {
        warnings.push(Warning {
            code: WarningCode::EventsSkipped,
            message: format!(
                "{} missing, of this pipeline or of other processes: the kernel preempted a BPF program for another \
                 thread",
                counted_and(counted.skipped, ["event is", "events are"])
            ),
            action: "record on an idle machine".to_owned(),
        });
    }
    if let Some(reason) = &counted.no_rings {
        warnings.push(Warning {
            code: WarningCode::RingsNotRecorded,
            message: format!("what io_uring moves is not recorded: {reason}"),
            action: "record again; what system calls move is complete".to_owned(),
        });
    }
    let mut streams = streams(&counted.streams, begin, &index);
    for stream in streams.iter_mut().filter(|stream| stream.writes) {
        let found = doubled(counted, &index, (stream.inode, stream.device));
        stream.doubled = found.filter(|found| found.process == stream.process);
    }
    let named_files = named_files(&counted.names, &counted.processes, begin, &index);
    let lives = lives(&named_files, &counted.processes, [begin, end]);
    let failures = failures(counted, begin, &index);
    let window_ns = end - begin;
    Assembled { begin, window_ns, processes, channels, streams, named_files, lives, failures, index, warnings }
}

/// Which channels were the standard input and output of each process, if they are among those recorded, and the same of all in
/// its row.
fn name_outputs(
    processes: &mut [RecordedProcess],
    counted: &RecordedCounts,
    index: &BTreeMap<PrWho, usize>,
    channels: &[RecordedChannel],
) {
    let known: HashMap<(u64, u64), usize> =
        channels.iter().enumerate().map(|(at, channel)| ((channel.inode, u64::from(channel.device)), at)).collect();
    // Absent if several differ.
    let mut named: HashMap<usize, [Option<usize>; 2]> = HashMap::new();
    let mut files: HashMap<usize, Option<(u64, u64)>> = HashMap::new();
    for (who, process) in counted.processes.iter().filter(|(_, process)| process.execs > 0) {
        let Some(row) = index.get(who) else { continue };
        let ends = [(process.input, process.input_device), (process.output, process.output_device)];
        let is_file = |end: &(u64, u64)| !known.contains_key(end) && end.0 > 0 && <[u64; 2]>::from(*end) != SEVERAL;
        let file = Some(ends[1]).filter(is_file);
        files.entry(*row).and_modify(|known| *known = known.filter(|known| Some(*known) == file)).or_insert(file);
        let ends = ends.map(|end| known.get(&end).copied());
        let row = named.entry(*row).or_insert(ends);
        row.iter_mut().zip(ends).filter(|(known, end)| **known != *end).for_each(|(known, _)| *known = None);
    }
    for (row, [input, output]) in named {
        (processes[row].input, processes[row].output) = (input, output);
    }
    let files = files.into_iter().filter_map(|(row, file)| Some((row, file?)));
    files.for_each(|(row, (inode, device))| processes[row].output_file = Some([inode, device]));
}

/// Bytes of a page; arm64 kernels of distributions have the same, apart from some with 64 KiB.
const PAGE: u64 = 4096;

fn add_process(sum: &mut RecordedProcess, more: &PrProcess, begin: u64, lived_ns: u64) {
    let accounted = more.user_ns + more.system_ns;
    let known = (accounted >= KNOWN_TICKS_NS).then(|| more.user_ns as f64 / accounted as f64);
    // Weighted by CPU time; unknown once a large part is.
    sum.user_share = match (sum.user_share, known) {
        (Some(share), Some(new)) => {
            let all = (sum.cpu_ns + more.cpu_ns).max(1) as f64;
            Some((share * sum.cpu_ns as f64 + new * more.cpu_ns as f64) / all)
        }
        (Some(share), None) if more.cpu_ns < sum.cpu_ns / 10 => Some(share),
        _ => None,
    };
    sum.lived_ns += lived_ns;
    sum.end_ns = sum.end_ns.max(more.end.saturating_sub(begin));
    let told_at = (more.told_at > 0).then(|| more.told_at.saturating_sub(begin));
    sum.told_to_end_ns = told_at.into_iter().chain(sum.told_to_end_ns).min();
    sum.got_signal = u32::try_from(more.got).ok().filter(|signal| *signal > 0).or(sum.got_signal);
    sum.told_signal = u32::try_from(more.told >> 32).ok().filter(|signal| *signal > 0).or(sum.told_signal);
    sum.told_to_end_in_vain = match more.told_how as usize {
        PR_TOLD_IGNORED => Some(InVain::Ignored),
        PR_TOLD_HANDLED => Some(InVain::Handled),
        PR_TOLD_BLOCKED => Some(InVain::Blocked),
        PR_TOLD_INIT => Some(InVain::Init),
        _ => sum.told_to_end_in_vain,
    };
    sum.out_of_memory |= more.starved > 0;
    sum.asked_alive = u32::try_from(more.asked_alive).ok().filter(|pid| *pid > 0).or(sum.asked_alive);
    sum.filling_bytes = sum.filling_bytes.max(more.filling_bytes);
    sum.peak_memory = sum.peak_memory.max(more.pages * PAGE);
    if more.read_file > 0 {
        let read = ReadFile {
            file: text_of(bytemuck::cast_slice(&more.read_name)),
            bytes: more.read_to,
            size: more.read_size,
        };
        sum.last_read = Some(read);
    }
    sum.dropped_datagrams = sum.dropped_datagrams.max(more.dropped);
    sum.refused_locks += more.refusals;
    sum.own_locks += more.own_refusals;
    sum.refused_file = if more.refused_file > 0 { more.refused_file } else { sum.refused_file };
    if more.descriptors > 0 {
        sum.full_table = Some(FullTable {
            calls: more.full_tables,
            descriptors: more.descriptors,
            looked_at: more.looked_at,
            pipes: more.pipes_open,
            sockets: more.sockets_open,
        });
    }
    sum.ended = u32::try_from(more.ended).ok().and_then(|fd| fd.checked_sub(1)).or(sum.ended);
    // The error, and the number of the call.
    if let Some(name) = call_name((more.failure >> 32) as u32).filter(|_| more.failure > 0) {
        sum.failure = Some((name.to_owned(), more.failure as u32 as i32));
    }
    if let Some(name) = call_name((more.refusal >> 32) as u32).filter(|_| more.refusal > 0) {
        let at_ns = more.refused_at.saturating_sub(begin);
        let error = more.refusal as u32 as i32;
        sum.refusal = Some(ProcessRefusal { call: name.to_owned(), error, at_ns });
    }
    sum.signal = u32::try_from(more.signal).ok().filter(|signal| *signal > 0).or(sum.signal);
    sum.exit_code = u8::try_from(more.code).ok().filter(|code| *code > 0).or(sum.exit_code);
    for (sum, more) in [
        (&mut sum.threads, more.threads),
        (&mut sum.forks, more.forks),
        (&mut sum.execs, more.execs),
        (&mut sum.cpu_ns, more.cpu_ns),
        (&mut sum.runnable_ns, more.runnable_ns),
        (&mut sum.throttled_ns, more.throttled_ns),
        (&mut sum.preemptions, more.preemptions),
        (&mut sum.calls, more.calls),
        (&mut sum.io_uring_calls, more.urings),
        (&mut sum.unseen_requests, more.requests),
        (&mut sum.ring_requests, more.rings),
        (&mut sum.worker_requests, more.ring_workers),
        (&mut sum.poller_ns, more.poller_ns),
        (&mut sum.ready_polls, more.polls),
        (&mut sum.timeouts, more.timeouts),
        (&mut sum.watches, more.watches),
        (&mut sum.gone_children, more.gone),
        (&mut sum.syncs, more.syncs),
        (&mut sum.asked_output, more.asked_output),
        (&mut sum.failed_closes, more.unopened),
        (&mut sum.bad_calls, more.bad_calls),
        (&mut sum.tiny_calls, more.tiny),
        (&mut sum.refused_sizes, more.refused_sizes),
        (&mut sum.ends, more.ends),
        (&mut sum.binds, more.binds),
        (&mut sum.fill_asks, more.asks),
        (&mut sum.connects, more.connects),
        (&mut sum.refused_connects, more.refused),
        (&mut sum.full_queues, more.queue_full),
        (&mut sum.failed_calls, more.failed),
        (&mut sum.sends, more.sends),
        (&mut sum.unsendable, more.unsendable),
        (&mut sum.received, more.received),
        (&mut sum.filling, more.filling),
        (&mut sum.ignores_sigpipe, more.ignores_sigpipe),
        (&mut sum.ignores_sigchld, more.ignores_sigchld),
        (&mut sum.without_space, more.no_space),
        (&mut sum.gone_locks, more.gone_locks),
        (&mut sum.refused_writes, more.refused_writes),
        (&mut sum.effects, more.effects),
        (&mut sum.errors, more.errors),
        (&mut sum.failed_forks, more.unforked),
    ] {
        *sum += more;
    }
}

/// The channels with their ends. The pipes that pipeprof made come first.
fn channels_of(
    counted: &RecordedCounts,
    begin: u64,
    index: &BTreeMap<PrWho, usize>,
    made: &[MadePipe],
) -> Vec<RecordedChannel> {
    let mut pipes: Vec<RecordedChannel> = (0u32..)
        .zip(made)
        .map(|(stage, made)| RecordedChannel {
            kind: ChannelKind::Pipe,
            inode: made.inode,
            device: made.device,
            between: Some([stage, stage + 1]),
            ..RecordedChannel::default()
        })
        .collect();
    let known: HashMap<(u64, u32), usize> =
        pipes.iter().enumerate().map(|(at, pipe)| ((pipe.inode, pipe.device), at)).collect();
    let mut ends: BTreeMap<(u64, u32), Vec<&(PrEnd, PrCounts)>> = BTreeMap::new();
    for end in &counted.ends {
        ends.entry((end.0.inode, end.0.device)).or_default().push(end);
    }
    for ((inode, device), ends) in ends {
        let at = known.get(&(inode, device)).copied().unwrap_or(pipes.len());
        if at == pipes.len() {
            pipes.push(RecordedChannel { kind: kind_of(device), inode, device, ..RecordedChannel::default() });
        }
        let mut whole = PrCounts::zeroed();
        let mut sides: [BTreeMap<usize, RecordedEnd>; 2] = Default::default();
        for (end, counts) in ends {
            crate::record::observe::counted::add(&mut whole, counts);
            let Some(process) = index.get(&end.who).copied() else { continue };
            let writes = end.side as usize == PR_WRITE;
            let of_process = || RecordedEnd { process, ..RecordedEnd::default() };
            add_end(sides[usize::from(writes)].entry(process).or_insert_with(of_process), counts, writes, begin);
        }
        let pipe = &mut pipes[at];
        let sizes = (whole.first_slots > 0).then_some([whole.first_slots, whole.last_slots, whole.least_slots]);
        (pipe.slots, pipe.buffer) = if pipe.kind.is_pipe() { (sizes, None) } else { (None, sizes) };
        pipe.mean_filled = (whole.fills > 0).then(|| whole.filled as f64 / whole.fills as f64);
        [pipe.readers, pipe.writers] = sides.map(|ends| ends.into_values().collect());
        pipe.doubled = doubled(counted, index, (inode, device));
    }
    pipes.sort_by_key(|pipe| {
        let first = pipe.writers.iter().map(|end| end.process).min();
        (pipe.between.unwrap_or([u32::MAX; 2]), first.unwrap_or(usize::MAX), pipe.inode)
    });
    pipes
}

/// Add the ends of pipes at which nothing happened: a reader may wait all the time for a writer that makes no call.
fn add_open(pipes: &mut [RecordedChannel], processes: &[RecordedProcess], open: &[OpenEnd]) {
    for end in open {
        let pipe = pipes.iter_mut().find(|pipe| pipe.inode == end.pipe.inode && pipe.device == end.pipe.device);
        let process = processes.iter().position(|process| process.stage == end.stage);
        if let (Some(pipe), Some(process)) = (pipe, process) {
            let ends = if end.writes { &mut pipe.writers } else { &mut pipe.readers };
            if ends.iter().all(|known| processes[known.process].stage != end.stage) {
                ends.push(RecordedEnd { process, ..RecordedEnd::default() });
            }
        }
    }
}

fn add_end(end: &mut RecordedEnd, counts: &PrCounts, writes: bool, begin: u64) {
    if counts.first_at > 0 {
        let [first, last] = [counts.first_at, counts.last_at].map(|at| at.saturating_sub(begin));
        let [known_first, known_last] = end.moved_ns.unwrap_or([first, last]);
        end.moved_ns = Some([known_first.min(first), known_last.max(last)]);
    }
    let [plain, buffer, message, messages] =
        if writes { ["write", "sendto", "sendmsg", "sendmmsg"] } else { ["read", "recvfrom", "recvmsg", "recvmmsg"] };
    let names: [&str; PR_KINDS] =
        [plain, "splice", "vmsplice", "tee", "sendfile", "io_submit", buffer, message, messages, "io_uring"];
    for (name, count) in names.iter().zip(counts.kinds).filter(|(_, count)| *count > 0) {
        *end.calls.entry((*name).to_owned()).or_default() += count;
    }
    for (bucket, count) in counts.sizes.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        if end.log2_sizes.len() <= bucket {
            end.log2_sizes.resize(bucket + 1, 0);
        }
        end.log2_sizes[bucket] += count;
    }
    for (sum, more) in [
        (&mut end.bytes, counts.bytes),
        (&mut end.short, counts.partial),
        (&mut end.eagain, counts.eagain),
        (&mut end.epipe, counts.broken),
        (&mut end.errors, counts.errors),
        (&mut end.requested, counts.asked),
        (&mut end.sleeps, counts.sleeps),
        (&mut end.blocked_ns, counts.blocked_ns),
        (&mut end.runnable_ns, counts.runnable_ns),
        (&mut end.lock_sleeps, counts.lock_sleeps),
        (&mut end.lock_ns, counts.lock_ns),
        (&mut end.wakes, counts.wakes),
        (&mut end.needless, counts.needless),
        (&mut end.at_end, counts.ended),
        (&mut end.parted, counts.parted),
        (&mut end.split, counts.split),
        (&mut end.held_back, counts.held_back),
        (&mut end.ready_polls, counts.ready * PR_READY_EVERY as u64),
        (&mut end.unsent, counts.unsent),
        (&mut end.resumed, counts.resumed),
        (&mut end.lines, counts.lines),
        (&mut end.unended, counts.unended),
        (&mut end.by_read, counts.by_read),
        (&mut end.printed, counts.printed),
        (&mut end.aside, counts.aside),
        (&mut end.watched, counts.watched),
        (&mut end.unwatched, counts.unwatched),
    ] {
        *sum += more;
    }
}

/// The number, and the words for one or for several.
fn counted_and(count: u64, [one, several]: [&str; 2]) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {several}", grouped(count)) }
}

fn losses(state: &PrState, of_samples: Lost) -> Vec<Warning> {
    let lost = [
        (state.lost_tasks, WarningCode::ThreadsNotRecorded, "threads or processes were not recorded: too many at once"),
        (state.lost_processes, WarningCode::ProcessesNotRecorded, "threads ended in processes that were not recorded"),
        (state.lost_ends, WarningCode::CallsNotRecorded, "calls or sleeps at channels were not recorded: too many"),
        (state.lost_waits, WarningCode::SleepsNotRecorded, "sleeps were not recorded: too many processes"),
        (
            state.lost_steps,
            WarningCode::StepsLost,
            "wake-ups and switches were lost, because pipeprof had no CPU: the path is unknown there",
        ),
        (of_samples.stacks, WarningCode::StacksNotRecorded, "stacks were not recorded: too many different ones"),
        (of_samples.samples, WarningCode::SamplesLost, "samples were lost: too many different stacks"),
    ];
    lost.into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, code, what)| Warning {
            code,
            message: format!("{count} {what}"),
            action: "record a shorter part of the pipeline".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_under_an_earlier_name_is_of_the_last_program() {
        let who = |tgid: u32, name: u64| PrWho { tgid, name: [name, 0], ..PrWho::zeroed() };
        let mut counted = RecordedCounts::default();
        for (name, begin) in [(3, 10), (2, 20)] {
            let process = PrProcess { begin, end: begin + 5, execs: 1, ..PrProcess::zeroed() };
            counted.processes.push((who(7, name), process));
        }
        // Neither a process whose exec was not seen, nor one that is not there, has these names.
        for tgid in [7, 8] {
            let end = PrEnd { who: who(tgid, 1), inode: 5, device: 1, side: PR_WRITE as u32 };
            counted.ends.push((end, PrCounts { bytes: 100, ..PrCounts::zeroed() }));
        }
        let found = assemble(&counted, None, &[], &[], |_| 0);
        let of_last = found.index[&who(7, 2)];
        let writers: Vec<_> = found.channels[0].writers.iter().map(|end| (end.process, end.bytes)).collect();
        assert_eq!(writers, [(of_last, 100)]);
        assert_ne!(of_last, found.index[&who(7, 3)]);
    }

    #[test]
    fn an_output_that_differs_is_none() {
        let with = |outputs: &[[u64; 2]]| {
            let mut counted = RecordedCounts::default();
            for (tgid, [output, output_device]) in (7..).zip(outputs.iter().copied()) {
                let process = PrProcess { begin: 10, end: 20, execs: 1, output, output_device, ..PrProcess::zeroed() };
                counted.processes.push((PrWho { tgid, name: [2, 0], ..PrWho::zeroed() }, process));
            }
            assemble(&counted, None, &[], &[], |_| 0).processes[0].output_file
        };
        assert_eq!(with(&[[5, 1]]), Some([5, 1]));
        assert_eq!(with(&[[5, 1], [6, 1]]), None);
        assert_eq!(with(&[SEVERAL]), None, "those of ended processes are one already");
    }
}
