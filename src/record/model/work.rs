//! What tells whether two recordings of a pipeline did the same work, and what a comparison of them shows.

use crate::process::{ProcessTotals, Processes};
use crate::profile::ProcessName;
use crate::record::count::{FEWEST_BYTES, PAGE_FAULTS, REP_BYTES};
use crate::record::model::names::{labels, process_names};
use crate::record::model::stages::{self, Stages};
use crate::record::say::words;
use crate::record::trials::timed::BROKEN_PIPE;
use crate::report::number::number;
use crate::result::{Document, ExecutedOn, RecordLevel, RecordedChannel, RecordedEnd, SystemCallCount};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Pipes whose bytes differ by more than this part did not do the same work.
const SAME_BYTES: f64 = 0.01;

/// As many bytes more or less are another number that is printed, a time or a name.
const FEW_BYTES: u64 = 256;

/// Processes that [`processes`] has by name: those that used the CPUs most.
const NAMED: usize = 50;

/// The name of all others together.
const OTHERS: &str = "others";

/// What a recorded pipeline did, where a run has its workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PipelineWork {
    /// What was recorded, as it was typed.
    pub text: String,
    /// Of each stage. Whether SIGPIPE ends one before it has ended by itself is chance: 0 both times, but for the last one.
    pub exit_codes: Vec<u8>,
    /// Those that were used.
    pub pipes: Vec<PipeWork>,
    /// Whether the kernel skipped programs, so that calls, and with them bytes, may be missing.
    pub(crate) is_partial: bool,
    /// Bytes that instructions with a `rep` prefix copied, cleared or searched; `None` if not counted.
    pub rep_bytes: Option<u64>,
    /// Whether files were on a disk of the guest.
    pub on_disk: bool,
    /// Sleeps at pipes that ended without anything moved, followed by another in the same call; `None` if not seen.
    pub needless: Option<u64>,
    /// Whether its times are those of an emulator.
    pub is_emulated: bool,
    /// The parts of the critical path, in ms.
    pub path: BTreeMap<String, f64>,
    /// Of each stage, if they were counted.
    pub system_calls: Vec<SystemCallCount>,
    /// Page faults of all stages, fewest and most in the counted runs; `None` if not counted.
    pub page_faults: Option<[u64; 2]>,
    /// Sleeps of all stages for each MiB that went through the pipes; `None` of little.
    pub sleeps_per_mib: Option<f64>,
    /// What the wall time was made of: `62 % gzip on a CPU (user code) and 38 % other parts`.
    pub made_of: Option<String>,
}

/// What went through one pipe.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PipeWork {
    /// `dd to wc`.
    pub between: String,
    /// The stages that write and read it, and its number among the pipes between these.
    pub place: ([Vec<usize>; 2], usize),
    /// `None` if calls were not seen.
    pub bytes: Option<u64>,
    /// Whether a writer found no reader: how much was read before is chance.
    pub cut: bool,
    /// Writers and readers.
    pub sides: [PipeUse; 2],
}

/// What the writers or the readers of a pipe did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PipeUse {
    /// `None` if they were not seen, as with `--level sched`.
    pub calls: Option<u64>,
    /// `None` if they were not seen, as by looks into /proc.
    pub sleeps: Option<u64>,
    /// Wake-ups sent to the other side, if they were seen.
    pub wakes: Option<u64>,
    /// Share of the window asleep because the pipe was full (writers) or empty (readers), 0 to 1.
    pub blocked: f64,
}

/// Whether calls were recorded, and with them bytes.
fn has_calls(document: &Document) -> bool {
    document.level != RecordLevel::Sched
}

impl PipeUse {
    fn of(ends: &[RecordedEnd], document: &Document) -> Self {
        let sum = |value: fn(&RecordedEnd) -> u64| ends.iter().map(value).sum::<u64>();
        let seen = |value| document.looks.is_none().then(|| sum(value));
        Self {
            calls: has_calls(document).then(|| sum(RecordedEnd::all_calls)),
            sleeps: seen(|end| end.sleeps),
            wakes: seen(|end| end.wakes),
            blocked: (sum(|end| end.blocked_ns) as f64 / document.processes.window_ns.max(1) as f64).min(1.0),
        }
    }
}

impl PipelineWork {
    /// The work of a recording; `None` for a built-in pair.
    pub fn of(document: &Document) -> Option<Self> {
        if document.target.workload().is_some() {
            return None;
        }
        let mut exit_codes = document.exit_codes.clone();
        let others = exit_codes.split_last_mut().map_or(&mut [][..], |(_, others)| others);
        others.iter_mut().filter(|code| **code == BROKEN_PIPE).for_each(|code| *code = 0);
        let ends = document.channels.iter().flat_map(RecordedChannel::ends);
        let mut path = BTreeMap::new();
        let labels = labels(document);
        for (kind, ns) in document.path.iter().flat_map(words::sums) {
            *path.entry(words::described(document, &labels, &kind, false)).or_default() += ns as f64 / 1e6;
        }
        Some(Self {
            text: document.target.text(),
            exit_codes,
            pipes: pipes(document, &stages::stages(document)),
            is_partial: document.skipped > 0,
            rep_bytes: document.processes.totals.values().map(|totals| totals.counters.get(REP_BYTES)).sum(),
            on_disk: !document.on_disk.is_empty(),
            needless: document.looks.is_none().then(|| ends.map(|end| end.needless).sum()),
            is_emulated: document.executed_on == ExecutedOn::Tcg,
            path,
            system_calls: document.system_calls.clone(),
            page_faults: page_faults(document),
            sleeps_per_mib: sleeps_per_mib(document),
            made_of: words::made_of(document),
        })
    }
}

/// Fewest and most of all counted runs.
fn page_faults(document: &Document) -> Option<[u64; 2]> {
    let of = |processes: &Processes| processes.totals.values().map(|totals| totals.counters.get(PAGE_FAULTS)).sum();
    let runs: Option<Vec<u64>> = document.runs.iter().map(|run| of(&run.processes)).collect();
    let runs = runs?;
    Some([*runs.iter().min()?, *runs.iter().max()?])
}

fn sleeps_per_mib(document: &Document) -> Option<f64> {
    document.ensemble.as_ref()?;
    let bytes: u64 = document.channels.iter().map(RecordedChannel::taken).sum();
    let sleeps: u64 = document.processes.totals.values().map(|totals| totals.voluntary_switches).sum();
    (bytes >= FEWEST_BYTES).then(|| sleeps as f64 / (bytes as f64 / f64::from(1 << 20)))
}

fn pipes(document: &Document, all: &Stages) -> Vec<PipeWork> {
    let names = stages::names(document, all);
    let ended = |end: &RecordedEnd| all.of(end.process).and_then(|stage| document.exit_codes.get(stage));
    let is_cut = |end: &RecordedEnd| end.epipe > 0 || ended(end) == Some(&BROKEN_PIPE);
    let mut seen: BTreeMap<[Vec<usize>; 2], usize> = BTreeMap::new();
    let pipe = |pipe: &RecordedChannel| {
        let between = stages::sides(pipe, all);
        let number = seen.entry(between.clone()).or_default();
        *number += 1;
        PipeWork {
            between: stages::between(pipe, all, &names),
            place: (between, *number),
            bytes: has_calls(document).then(|| pipe.taken()),
            cut: pipe.writers.iter().any(is_cut),
            sides: [&pipe.writers, &pipe.readers].map(|ends| PipeUse::of(ends, document)),
        }
    };
    document.channels.iter().filter(|pipe| pipe.is_used()).map(pipe).collect()
}

/// A process of a recording that was not counted.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkingProcess {
    pub name: ProcessName,
    /// Its own name, if it is one of those [`OTHERS`].
    pub was: ProcessName,
    /// If it is the whole stage.
    pub stage: Option<usize>,
    pub totals: ProcessTotals,
}

/// How many stages a recording has, and what each process did, in the order of the stages. Commands of an imported profile
/// have no times.
pub fn processes(document: &Document) -> (usize, Vec<WorkingProcess>) {
    let all = stages::stages(document);
    if document.target.imported().is_some() {
        let command = |name| WorkingProcess { name, was: name, stage: None, totals: ProcessTotals::default() };
        return (all.len(), document.attribution.processes.names().map(command).collect());
    }
    let mut bytes = vec![[0; 2]; document.recorded.len()];
    for pipe in &document.channels {
        let (writers, readers) = (pipe.writers.iter().map(|end| (0, end)), pipe.readers.iter().map(|end| (1, end)));
        for (side, end) in writers.chain(readers) {
            bytes.get_mut(end.process).into_iter().for_each(|bytes: &mut [u64; 2]| bytes[side] += end.bytes);
        }
    }
    let names = process_names(document);
    let switches = stages::switches(document);
    let mut order: Vec<usize> = all.iter().flatten().copied().collect();
    order.extend((0..document.recorded.len()).filter(|at| all.of(*at).is_none()));
    let mut busiest = order.clone();
    busiest.sort_by_key(|at| std::cmp::Reverse(document.recorded[*at].cpu_ns));
    let named: BTreeSet<usize> = busiest.into_iter().take(NAMED).collect();
    let process = |at: usize| {
        let recorded = &document.recorded[at];
        let user_ns = (recorded.user_share.unwrap_or(0.0).clamp(0.0, 1.0) * recorded.cpu_ns as f64) as u64;
        let totals = ProcessTotals {
            bytes: bytes[at][0].max(bytes[at][1]),
            calls: recorded.calls,
            user_ns,
            system_ns: recorded.cpu_ns.saturating_sub(user_ns),
            voluntary_switches: switches[at][0],
            involuntary_switches: switches[at][1],
            ..ProcessTotals::default()
        };
        let name = if named.contains(&at) { names[at] } else { ProcessName::new(OTHERS) };
        let stage = all.of(at).filter(|stage| all[*stage][..] == [at]);
        WorkingProcess { name, was: names[at], stage, totals }
    };
    (all.len(), order.into_iter().map(process).collect())
}

/// The program of a stage: `gzip` of `stage2-gzip`.
pub fn program(stage: &ProcessName) -> &str {
    stages::unnumbered(stage.as_str())
}

/// In what two pipelines did not do the same.
pub fn unequal(before: &PipelineWork, after: &PipelineWork) -> Vec<String> {
    let mut reasons = Vec::new();
    // A shell has one exit code for all of its stages: that of the last one.
    let [old, new] = [before, after].map(|work| &work.exit_codes[..]);
    let same = if old.len() == 1 || new.len() == 1 { old.last() == new.last() } else { old == new };
    if !same {
        let [old, new] = [before, after].map(|work| {
            let codes: Vec<String> = work.exit_codes.iter().map(u8::to_string).collect();
            if codes.is_empty() { "none".to_owned() } else { codes.join(", ") }
        });
        reasons.push(format!("they ended differently: exit codes {old} and {new}"));
    }
    let far = |(old, new): &(&PipeWork, &PipeWork)| {
        let [Some(first), Some(second)] = [old.bytes, new.bytes] else { return false };
        let difference = first.abs_diff(second);
        let is_far = difference > FEW_BYTES && difference as f64 > SAME_BYTES * first.max(second) as f64;
        is_far && !old.cut && !new.cut
    };
    let all = !before.is_partial && !after.is_partial && before.pipes.len() == after.pipes.len();
    if let Some((old, new)) = before.pipes.iter().zip(&after.pipes).filter(|_| all).find(far) {
        let [first, second] = [old, new].map(|pipe| number(pipe.bytes.unwrap_or(0) as f64 / f64::from(1 << 20)));
        reasons.push(format!("they did not move the same data: from {} {first} and {second} MiB", old.between));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_leaves_early_is_no_other_work() {
        let end = |bytes| RecordedEnd { bytes, sleeps: 1, ..RecordedEnd::default() };
        let recording = |codes: [u8; 2], read| {
            let pipe = RecordedChannel {
                between: Some([0, 1]),
                writers: vec![RecordedEnd { process: 0, ..end(9000) }],
                readers: vec![RecordedEnd { process: 1, ..end(read) }],
                ..RecordedChannel::default()
            };
            let process = |stage| crate::result::RecordedProcess { stage, ..Default::default() };
            let document = Document {
                exit_codes: codes.to_vec(),
                channels: vec![pipe],
                recorded: vec![process(0), process(1)],
                ..Document::default()
            };
            PipelineWork::of(&document).unwrap()
        };
        assert_eq!(unequal(&recording([141, 0], 4096), &recording([0, 0], 8192)), [""; 0]);
        assert!(unequal(&recording([0, 0], 4096), &recording([0, 0], 8192))[0].contains("did not move the same data"));
        assert!(unequal(&recording([1, 0], 4096), &recording([0, 0], 4096))[0].contains("exit codes 1, 0 and 0, 0"));
        assert!(unequal(&recording([0, 0], 4096), &recording([0, 141], 4096))[0].contains("0, 0 and 0, 141"));
        // Looks into /proc see no bytes.
        let unseen = |mut work: PipelineWork| {
            work.pipes[0].bytes = None;
            work
        };
        assert_eq!(unequal(&unseen(recording([0, 0], 0)), &recording([0, 0], 8192)), [""; 0]);
    }
}
