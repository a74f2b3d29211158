//! What the BPF programs have counted, and how it adds up.

use crate::collect::samples::{CountedSamples, SamplingClock};
use crate::record::observe::raw::{
    PrCounts, PrEnd, PrHead, PrName, PrNamedFile, PrOffCpu, PrProcess, PrReason, PrSaid, PrSample, PrState, PrStream,
    PrStreamed, PrWait, PrWho,
};
use std::collections::HashMap;

/// The members of a group of ended processes.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub pids: Vec<u32>,
    /// From the begin to the end of each, ns.
    pub lived_ns: u64,
}

/// Everything counted, by key.
#[derive(Debug, Default)]
pub(crate) struct RecordedCounts {
    /// The programs' clock when they were read, ns.
    pub at: u64,
    pub processes: Vec<(PrWho, PrProcess)>,
    pub ends: Vec<(PrEnd, PrCounts)>,
    pub waits: Vec<(PrReason, PrWait)>,
    /// What processes wrote first after a fork.
    pub heads: Vec<(PrEnd, PrHead)>,
    /// What processes wrote to their standard error, of the last ones that did.
    pub said: Vec<(PrWho, PrSaid)>,
    /// What processes wrote to files, or read from them as their standard input.
    pub streams: Vec<(PrStream, PrStreamed)>,
    /// What they did with names of files.
    pub names: Vec<(PrName, PrNamedFile)>,
    /// Those that ended with another exit code than 0, the first [`MOST_FAILURES`].
    pub failures: Vec<(PrWho, PrProcess)>,
    /// When those were started that have ended.
    pub starts: Vec<ProcessStart>,
    pub state: Option<PrState>,
    /// Events for which the kernel skipped a program, as [`passed_over`](crate::collect::bpf::Object::passed_over) has it; not counted before 5.12, where
    /// it skips no program of a raw tracepoint.
    pub skipped: u64,
    /// Why requests to io_uring were not seen, although the kernel reports them.
    pub no_rings: Option<String>,
    /// Sleeps by the stacks of the sleeper and of its waker.
    pub off_cpu: Vec<(PrOffCpu, PrWait)>,
    /// Waits for locks, by the stack of the waiting thread; absent if the kernel does not report them.
    pub lock_waits: Option<Vec<(PrSample, PrWait)>>,
    /// The samples, all stacks, and the clock of the samples.
    pub sampled: CountedSamples,
    pub clock: Option<SamplingClock>,
    /// Of those among `processes` that stand for several which have ended.
    pub members: HashMap<PrWho, Members>,
}

/// When a process was started, and by which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStart {
    pub tgid: u32,
    pub parent: u32,
    /// By the programs' clock, ns.
    pub at: u64,
}

impl ProcessStart {
    pub(crate) fn of((who, process): &(PrWho, PrProcess)) -> Self {
        Self { tgid: who.tgid, parent: process.parent as u32, at: process.begin }
    }
}

/// More processes that failed are not listed.
pub(crate) const MOST_FAILURES: usize = 256;

/// The smaller one of two numbers, of which 0 is unknown.
fn least_known(one: u64, other: u64) -> u64 {
    [one, other].into_iter().filter(|known| *known > 0).min().unwrap_or(0)
}

/// Add the counts of one thread of a process, or of another process.
pub(crate) fn add_process(sum: &mut PrProcess, more: &PrProcess) {
    let begin = least_known(sum.begin, more.begin);
    let end = sum.end.max(more.end);
    let last = |sum, more| if more == 0 { sum } else { more };
    let (signal, code) = (last(sum.signal, more.signal), last(sum.code, more.code));
    let (got, failure) = (last(sum.got, more.got), last(sum.failure, more.failure));
    let refusal = if more.refused_at > sum.refused_at { more } else { &*sum };
    let refusal = [refusal.refusal, refusal.refused_at];
    let parent = last(sum.parent, more.parent);
    let (sender, told) = (last(sum.sender, more.sender), last(sum.told, more.told));
    let (told_at, told_how) = (least_known(sum.told_at, more.told_at), last(sum.told_how, more.told_how));
    let (ended, port) = (last(sum.ended, more.ended), last(sum.port, more.port));
    let filling_bytes = last(sum.filling_bytes, more.filling_bytes);
    let asked_alive = last(sum.asked_alive, more.asked_alive);
    let fuller = if more.descriptors > 0 { more } else { &*sum };
    let table = [fuller.descriptors, fuller.looked_at, fuller.pipes_open, fuller.sockets_open];
    let locked = one_output([sum.locked, sum.locked_device], [more.locked, more.locked_device]);
    let locked_by = last(sum.locked_by, more.locked_by);
    let (unready_by, refused_file) = (last(sum.unready_by, more.unready_by), last(sum.refused_file, more.refused_file));
    let pages = sum.pages.max(more.pages);
    let last_read = if more.read_file > 0 { more } else { &*sum };
    let read_name = last_read.read_name;
    let last_read = [last_read.read_file, last_read.read_to, last_read.read_size];
    let (dropped, full_device) = (sum.dropped.max(more.dropped), last(sum.full_device, more.full_device));
    let output = one_output([sum.output, sum.output_device], [more.output, more.output_device]);
    let input = one_output([sum.input, sum.input_device], [more.input, more.input_device]);
    add_words(sum, more);
    (sum.begin, sum.end, sum.signal, sum.code, sum.parent) = (begin, end, signal, code, parent);
    [sum.output, sum.output_device] = output;
    [sum.input, sum.input_device] = input;
    (sum.sender, sum.told, sum.told_at, sum.told_how) = (sender, told, told_at, told_how);
    (sum.ended, sum.port, sum.filling_bytes, sum.asked_alive) = (ended, port, filling_bytes, asked_alive);
    [sum.descriptors, sum.looked_at, sum.pipes_open, sum.sockets_open] = table;
    [sum.locked, sum.locked_device] = locked;
    sum.locked_by = locked_by;
    (sum.unready_by, sum.refused_file, sum.dropped) = (unready_by, refused_file, dropped);
    (sum.full_device, sum.got, sum.failure, sum.pages) = (full_device, got, failure, pages);
    [sum.refusal, sum.refused_at] = refusal;
    [sum.read_file, sum.read_to, sum.read_size] = last_read;
    sum.read_name = read_name;
}

/// The standard input or output of two threads or processes: unknown where it is 0, and several where it is this.
pub(crate) const SEVERAL: [u64; 2] = [u64::MAX; 2];

fn one_output(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    match (one, other) {
        (known, [0, _]) | ([0, _], known) => known,
        (one, other) if one == other => one,
        _ => SEVERAL,
    }
}

/// Add each number of a struct of such.
fn add_words<T: bytemuck::Pod>(sum: &mut T, more: &T) {
    let words: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(sum));
    for (sum, more) in words.iter_mut().zip(bytemuck::cast_slice::<_, u64>(std::slice::from_ref(more))) {
        *sum = sum.wrapping_add(*more);
    }
}

/// Add the counts of one thread, or of one process, at the same side of a pipe.
pub(crate) fn add(sum: &mut PrCounts, more: &PrCounts) {
    let slots = [sum.first_slots, sum.last_slots, sum.least_slots];
    let last_at = sum.last_at.max(more.last_at);
    let first_at = least_known(sum.first_at, more.first_at);
    add_words(sum, more);
    (sum.first_at, sum.last_at) = (first_at, last_at);
    // These are not sums.
    let [first, last, least] = slots;
    sum.first_slots = if first == 0 { more.first_slots } else { first };
    sum.last_slots = if more.last_slots == 0 { last } else { more.last_slots };
    sum.least_slots = least_known(least, more.least_slots);
}
