//! What processes and pipes did over time. The counts of the BPF programs are read several times while the pipeline
//! runs, so that nothing is written per event. There are at most [`SLICES`] slices of time: when there are more, each
//! two become one, so that memory does not grow with the length of a recording.

use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::raw::{PR_STOPPED, PR_WRITE, PrWho};
use crate::result::{RecordedChannel, Timeline, TimelinePipe, TimelineProcess};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Most slices.
const SLICES: usize = 240;

/// Length of the first slices. Reading the counts of a short pipeline takes about 0.1 ms.
const FIRST: Duration = Duration::from_millis(20);

/// Their greatest length.
const LAST: Duration = Duration::from_secs(3600);

/// Most processes, and most pipes.
const MOST: usize = 256;

/// Inode and device.
type PipeKey = (u64, u32);

/// Of a process, ns: running, runnable, asleep at an empty pipe, asleep at a full one, throttled (which is runnable, too), stopped.
type States = [u64; 6];

/// Of a pipe: bytes written; slots in use and slots, each summed over the calls at which they were read; ns that writers
/// slept because it was full, and readers because it was empty.
type PipeFlow = [u64; 5];

/// Since the begin, or in a slice.
#[derive(Debug, Clone, Default, PartialEq)]
struct TimelineSums {
    processes: BTreeMap<PrWho, States>,
    pipes: BTreeMap<PipeKey, PipeFlow>,
}

impl TimelineSums {
    fn add(&mut self, more: &Self) {
        more.processes.iter().for_each(|(who, states)| add_to(&mut self.processes, *who, states));
        more.pipes.iter().for_each(|(pipe, flow)| add_to(&mut self.pipes, *pipe, flow));
    }
}

/// Collects slices.
pub(crate) struct TimelineRecorder {
    length: Duration,
    next: Instant,
    /// The programs' clock, ns.
    last_at: u64,
    last: TimelineSums,
    slices: Vec<(u64, TimelineSums)>,
    /// Of processes that have ended since then and are no longer counted, and what they are from now on.
    ended: TimelineSums,
    groups: HashMap<PrWho, PrWho>,
    /// When the first process began, and the last one of these ended.
    begin: u64,
    end: u64,
}

impl TimelineRecorder {
    pub(crate) fn start() -> Self {
        Self::with_slices_of(FIRST)
    }

    /// For a time that is known about: the length of the first slices.
    pub(crate) fn for_time(time: Duration) -> Self {
        Self::with_slices_of((time / SLICES as u32).max(FIRST))
    }

    fn with_slices_of(length: Duration) -> Self {
        Self {
            length,
            next: Instant::now() + length,
            last_at: 0,
            last: TimelineSums::default(),
            slices: Vec::new(),
            ended: TimelineSums::default(),
            groups: HashMap::new(),
            begin: u64::MAX,
            end: 0,
        }
    }

    /// Time until the counts have to be read.
    pub(crate) fn due(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// `read` the counts, if it is time, and return them. Without an answer of the kernel, there is no slice.
    pub(crate) fn step(&mut self, read: impl FnOnce() -> Option<RecordedCounts>) -> Option<RecordedCounts> {
        self.due().is_zero().then(|| {
            let begin = Instant::now();
            let counts = read();
            counts.iter().for_each(|counts| self.add(counts));
            // Many counts are read less often, so that it takes a tenth of the time at most.
            self.next = Instant::now() + self.length.max(10 * begin.elapsed());
            counts
        })?
    }

    /// Add what processes have counted that have ended. The next counts are without them; each is part of one of `groups`
    /// then.
    pub(crate) fn end(&mut self, ended: &RecordedCounts, groups: HashMap<PrWho, PrWho>) {
        self.ended.add(&sums(ended));
        self.groups.extend(groups);
        self.begin = ended.processes.iter().map(|(_, process)| process.begin).fold(self.begin, u64::min);
        self.end = ended.processes.iter().map(|(_, process)| process.end).fold(self.end, u64::max);
    }

    /// Add a slice that ends where `counts` do.
    pub(crate) fn add(&mut self, counts: &RecordedCounts) {
        let sums = sums(counts);
        self.begin = counts.processes.iter().map(|(_, process)| process.begin).fold(self.begin, u64::min);
        // Once all processes have ended, the time since then is no part of the window.
        let at = counts.processes.iter().map(|(_, process)| process.end).fold(self.end, u64::max);
        let from = if self.last_at == 0 { self.begin } else { self.last_at };
        if at > from {
            let mut all = sums.clone();
            all.add(&std::mem::take(&mut self.ended));
            let mut slice = difference(&all, &self.last);
            for (who, group) in self.groups.drain() {
                if let Some(states) = slice.processes.remove(&who) {
                    add_to(&mut slice.processes, group, &states);
                }
            }
            self.slices.push((at - from, slice));
            (self.last, self.last_at) = (sums, at);
        }
        if self.slices.len() >= SLICES {
            self.slices = self.slices.chunks(2).map(joined).collect();
            self.length = (self.length * 2).min(LAST);
        }
    }

    /// The slices by process and pipe. `index` has the processes of the recording, `pipes` its pipes.
    pub(crate) fn finish(self, index: &BTreeMap<PrWho, usize>, pipes: &[RecordedChannel]) -> Timeline {
        let mut processes: BTreeMap<usize, TimelineProcess> = BTreeMap::new();
        for (place, (ns, sums)) in self.slices.iter().enumerate() {
            for (who, states) in &sums.processes {
                let Some(process) = index.get(who).copied().filter(|process| *process < MOST) else { continue };
                let row = processes.entry(process).or_insert_with(|| TimelineProcess::new(process, self.slices.len()));
                let always = [&mut row.running, &mut row.runnable, &mut row.empty, &mut row.full];
                let seldom = [&mut row.throttled, &mut row.stopped];
                for (shares, state) in always.into_iter().chain(seldom).zip(states) {
                    if *state == 0 {
                        continue;
                    }
                    shares.resize(self.slices.len(), 0.0);
                    shares[place] = rounded(shares[place] + *state as f64 / *ns as f64);
                }
            }
        }
        let lengths: Vec<u64> = self.slices.iter().map(|(ns, _)| *ns).collect();
        processes.values_mut().for_each(|row| throttled_before(row, &lengths));
        let pipes = most_used(pipes).into_iter().map(|at| {
            let pipe = &pipes[at];
            let flow = |sums: &TimelineSums| sums.pipes.get(&(pipe.inode, pipe.device)).copied().unwrap_or_default();
            let flows: Vec<PipeFlow> = self.slices.iter().map(|(_, sums)| flow(sums)).collect();
            TimelinePipe {
                pipe: at,
                bytes: flows.iter().map(|flow| flow[0]).collect(),
                filled: self.slices.iter().zip(&flows).map(|((ns, _), flow)| filled(*ns, flow)).collect(),
            }
        });
        Timeline { slice_ns: lengths, processes: processes.into_values().collect(), pipes: pipes.collect() }
    }
}

/// For how long a thread was throttled is known once it runs again, but that it is runnable at once: what is too much for a slice
/// belongs to those before.
fn throttled_before(row: &mut TimelineProcess, lengths: &[u64]) {
    let mut rest = 0.0;
    for (place, (throttled, ns)) in row.throttled.iter_mut().zip(lengths).enumerate().rev() {
        let ns = *ns as f64;
        rest += *throttled * ns;
        let here = rest.min(row.runnable[place] * ns);
        *throttled = rounded(here / ns);
        rest -= here;
    }
}

/// The pipes that were used, by index; of too many, those that moved most.
fn most_used(pipes: &[RecordedChannel]) -> Vec<usize> {
    let moved = |at: &usize| pipes[*at].ends().map(|end| end.bytes).sum::<u64>();
    let mut used: Vec<usize> = (0..pipes.len()).filter(|at| pipes[*at].is_used()).collect();
    used.sort_by_key(|at| Reverse(moved(at)));
    used.truncate(MOST);
    used.sort_unstable();
    used
}

/// The mean part of a pipe that was in use in a slice of `ns`: all of it while a writer waits for room, nothing while a
/// reader waits for data, otherwise what was read after calls. `None` if nothing is known.
fn filled(ns: u64, [_, filled, slots, full, empty]: &PipeFlow) -> Option<f64> {
    let share = |part: u64| (part as f64 / ns.max(1) as f64).min(1.0);
    let at_calls = (*slots > 0).then(|| *filled as f64 / *slots as f64);
    mean_fill(share(*full), share(*empty), at_calls).map(rounded)
}

/// The mean part of a channel that was in use in a time: all of it for the share in which a writer waited for room, nothing
/// for that in which a reader waited for data, and otherwise what was read after calls, if it was. `None` if nothing is known.
pub(crate) fn mean_fill(full: f64, empty: f64, at_calls: Option<f64>) -> Option<f64> {
    let rest = (1.0 - full - empty).max(0.0);
    match at_calls {
        Some(part) => Some((full + rest * part) / (full + empty + rest)),
        None => (full + empty > 0.0).then(|| full / (full + empty)),
    }
}

/// To three digits: a timeline is a picture.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

fn sums(counts: &RecordedCounts) -> TimelineSums {
    let mut sums = TimelineSums::default();
    for (who, process) in &counts.processes {
        let states = sums.processes.entry(*who).or_default();
        states[0] += process.cpu_ns;
        states[1] += process.runnable_ns;
        states[4] += process.throttled_ns;
    }
    for (reason, wait) in counts.waits.iter().filter(|(reason, _)| reason.call as usize == PR_STOPPED) {
        sums.processes.entry(reason.who).or_default()[5] += wait.ns;
    }
    for (end, at_end) in &counts.ends {
        let writes = end.side as usize == PR_WRITE;
        let states = sums.processes.entry(end.who).or_default();
        states[if writes { 3 } else { 2 }] += at_end.blocked_ns;
        let flow = sums.pipes.entry((end.inode, end.device)).or_default();
        flow[0] += if writes { at_end.bytes } else { 0 };
        flow[1] += at_end.filled;
        flow[2] += at_end.slots;
        flow[if writes { 3 } else { 4 }] += at_end.blocked_ns;
    }
    sums
}

/// What was added since `before`. A thread that ends between two readings of maps can be missing in one of them.
fn difference(now: &TimelineSums, before: &TimelineSums) -> TimelineSums {
    fn maps<K: Ord + Copy, const N: usize>(
        now: &BTreeMap<K, [u64; N]>,
        before: &BTreeMap<K, [u64; N]>,
    ) -> BTreeMap<K, [u64; N]> {
        let less = |key: &K, sum: &[u64; N]| {
            let mut sum = *sum;
            let earlier = before.get(key).copied().unwrap_or([0; N]);
            sum.iter_mut().zip(earlier).for_each(|(sum, earlier)| *sum = sum.saturating_sub(earlier));
            sum
        };
        now.iter()
            .map(|(key, sum)| (*key, less(key, sum)))
            .filter(|(_, sum)| sum.iter().any(|part| *part > 0))
            .collect()
    }
    TimelineSums { processes: maps(&now.processes, &before.processes), pipes: maps(&now.pipes, &before.pipes) }
}

/// Slices as one.
fn joined(slices: &[(u64, TimelineSums)]) -> (u64, TimelineSums) {
    let mut all = (0, TimelineSums::default());
    for (ns, sums) in slices {
        all.0 += ns;
        all.1.add(sums);
    }
    all
}

fn add_to<K: Ord, const N: usize>(sums: &mut BTreeMap<K, [u64; N]>, key: K, more: &[u64; N]) {
    sums.entry(key).or_insert([0; N]).iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observe::raw::{PrCounts, PrEnd, PrProcess};
    use bytemuck::Zeroable as _;

    fn counts(at: u64, cpu: u64, full: u64, bytes: u64) -> RecordedCounts {
        let who = PrWho { stage: 1, ..PrWho::zeroed() };
        let process = PrProcess { begin: 100, end: at, cpu_ns: cpu, ..PrProcess::zeroed() };
        let end = PrEnd { who, inode: 7, device: 9, side: PR_WRITE as u32 };
        let at_end = PrCounts { blocked_ns: full, bytes, filled: bytes, slots: 2 * bytes, ..PrCounts::zeroed() };
        RecordedCounts { at, processes: vec![(who, process)], ends: vec![(end, at_end)], ..RecordedCounts::default() }
    }

    #[test]
    fn the_fill_is_known_while_somebody_waits() {
        assert_eq!(filled(100, &[0, 0, 0, 100, 0]), Some(1.0));
        assert_eq!(filled(100, &[0, 1, 2, 0, 100]), Some(0.0));
        assert_eq!(filled(100, &[0, 1, 2, 0, 0]), Some(0.5));
        assert_eq!(filled(100, &[0, 0, 0, 0, 0]), None);
        assert_eq!(filled(100, &[0, 0, 0, 30, 10]), Some(0.75));
        // Two writers wait.
        assert_eq!(filled(100, &[0, 1, 2, 200, 0]), Some(1.0));
    }

    #[test]
    fn slices_are_differences_and_memory_does_not_grow() {
        let mut recorder = TimelineRecorder::start();
        recorder.add(&counts(200, 50, 50, 10));
        recorder.add(&counts(300, 150, 50, 10));
        let pipe = RecordedChannel { inode: 7, device: 9, ..RecordedChannel::default() };
        let used =
            RecordedChannel { writers: vec![crate::result::RecordedEnd { sleeps: 1, ..Default::default() }], ..pipe };
        let index = BTreeMap::from([(PrWho { stage: 1, ..PrWho::zeroed() }, 0)]);
        let timeline = recorder.finish(&index, std::slice::from_ref(&used));
        assert_eq!(timeline.slice_ns, [100, 100]);
        let [process] = &timeline.processes[..] else { panic!() };
        assert_eq!((&process.running[..], &process.full[..]), (&[0.5, 1.0][..], &[0.5, 0.0][..]));
        assert_eq!(
            (&timeline.pipes[0].bytes[..], &timeline.pipes[0].filled[..]),
            (&[10, 0][..], &[Some(0.75), None][..])
        );

        let mut long = TimelineRecorder::start();
        (1..100_000).for_each(|n| long.add(&counts(100 + 10 * n, 10 * n, 0, n)));
        let timeline = long.finish(&index, &[used]);
        assert!((SLICES / 2..SLICES).contains(&timeline.slice_ns.len()), "{}", timeline.slice_ns.len());
        assert_eq!(timeline.slice_ns.iter().sum::<u64>(), 999_990);
        assert_eq!(timeline.pipes[0].bytes.iter().sum::<u64>(), 99_999);
        assert!(timeline.processes[0].running.iter().all(|share| *share == 1.0));
    }

    #[test]
    fn a_thread_is_throttled_while_it_is_runnable() {
        let of = |throttled: [f64; 4]| {
            let mut row = TimelineProcess {
                runnable: vec![0.5, 1.0, 1.0, 0.0],
                throttled: throttled.to_vec(),
                ..TimelineProcess::new(0, 4)
            };
            throttled_before(&mut row, &[10, 10, 20, 10]);
            row.throttled
        };
        // 27 ns of it are known at the end of the third slice, or in the last one.
        assert_eq!(of([0.0, 0.0, 1.35, 0.0]), [0.0, 0.7, 1.0, 0.0]);
        assert_eq!(of([0.0, 0.0, 0.0, 2.7]), [0.0, 0.7, 1.0, 0.0]);
        assert_eq!(of([0.2, 0.0, 0.0, 0.0]), [0.2, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn of_thousands_of_pipes_those_stay_that_moved_most() {
        let pipe = |inode| {
            let end = crate::result::RecordedEnd { bytes: inode % 1000, sleeps: 1, ..Default::default() };
            RecordedChannel { inode, writers: vec![end], ..RecordedChannel::default() }
        };
        let pipes: Vec<RecordedChannel> = (0..5000).map(pipe).collect();
        let mut recorder = TimelineRecorder::start();
        recorder.add(&counts(200, 50, 50, 10));
        let kept = recorder.finish(&BTreeMap::new(), &pipes).pipes;
        assert_eq!(kept.len(), MOST);
        assert!(kept.is_sorted_by_key(|row| row.pipe) && kept.iter().all(|row| pipes[row.pipe].inode % 1000 >= 948));
        let all = most_used(&pipes[..MOST]);
        assert!(all.iter().copied().eq(0..MOST));
    }

    #[test]
    fn a_process_that_ends_between_two_slices_counts_once() {
        let mut recorder = TimelineRecorder::start();
        let [who, group] = [0, 1 << 31].map(|tgid| PrWho { stage: 1, tgid, ..PrWho::zeroed() });
        recorder.add(&counts(200, 50, 20, 10));
        recorder.end(&counts(250, 90, 25, 12), HashMap::from([(who, group)]));
        // Another process goes on.
        let mut other = counts(300, 30, 0, 0);
        other.processes[0].0.tgid = 7;
        other.ends.clear();
        recorder.add(&other);
        let pipe = RecordedChannel {
            inode: 7,
            device: 9,
            writers: vec![crate::result::RecordedEnd { sleeps: 1, ..Default::default() }],
            ..RecordedChannel::default()
        };
        let timeline = recorder.finish(&BTreeMap::from([(who, 0), (group, 0)]), &[pipe]);
        assert_eq!(timeline.slice_ns, [100, 100]);
        let [process] = &timeline.processes[..] else { panic!("{timeline:?}") };
        assert_eq!((&process.running[..], &process.full[..]), (&[0.5, 0.4][..], &[0.2, 0.05][..]));
        assert_eq!(timeline.pipes[0].bytes, [10, 2]);
    }
}
