//! What the screen shows of the last second, whatever is looked at.

use crate::record::model::labels::labels;
use crate::record::say::pipe_rows::PipeRow;
use crate::record::say::states::ProcessState;
use crate::record::say::{answer, machine, pipe_rows, tables, words};
use crate::report::block::ReportBlock;
use crate::report::number::number;
use crate::result::{Document, MachineChannel, MachineView, RecordLevel};
use crate::util::text::{capitalized, counted};

/// A second.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveFrame {
    /// What is recorded.
    pub title: String,
    pub elapsed: String,
    /// The critical path in words, then what else there is to say.
    pub said: Vec<String>,
    pub channels: Vec<LiveChannel>,
    pub processes: Vec<LiveProcess>,
}

/// A channel in this second. The name identifies it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveChannel {
    pub name: String,
    /// From 0 to 1.
    pub fill: Option<f64>,
    /// Bytes per second.
    pub rate: Option<u64>,
    /// Shares of the time: a writer waited for room, a reader for data, or time was lost by either.
    pub full: f64,
    pub empty: f64,
    pub lost: f64,
    /// For whom who waits there waits in the end.
    pub cause: String,
    /// What is shown when it is opened.
    pub details: Vec<ReportBlock>,
}

/// A process in this second. The name identifies it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveProcess {
    pub name: String,
    pub state: Option<ProcessState>,
    /// Whether most of the critical path is its.
    pub is_on_path: bool,
    /// Shares of the time: on a CPU, and asleep at channels.
    pub cpu: f64,
    pub asleep: f64,
    /// Other sleeps.
    pub waits: String,
    pub details: Vec<ReportBlock>,
}

fn part(ns: u64, window: u64) -> f64 {
    (ns as f64 / window.max(1) as f64).min(1.0)
}

impl LiveFrame {
    /// Of what was recorded in a second.
    pub(crate) fn of_recording(shown: &Document, elapsed: String) -> Self {
        let window = shown.processes.window_ns;
        let labels = labels(shown);
        let longest = words::longest(shown);
        let path = match words::made_of(shown) {
            Some(parts) => format!("Now: {parts}."),
            None => "Nothing of it runs now.".to_owned(),
        };
        let others = answer::busy_others(&shown.others).map(|busy| format!("{}.", capitalized(&busy)));
        let channel = |row: &PipeRow<'_>| LiveChannel {
            name: row.name.clone(),
            fill: row.fill(window),
            rate: (shown.level != RecordLevel::Sched).then(|| per_second(row.bytes(), window)),
            full: part(row.blocked_ns(false), window),
            empty: part(row.blocked_ns(true), window),
            lost: part(row.blocked_ns(false) + row.blocked_ns(true), window),
            cause: String::new(),
            details: tables::of_channel(shown, row, &labels),
        };
        let processes = tables::telling(shown).into_iter().map(|(at, process)| {
            let ends = shown.channels.iter().flat_map(|channel| channel.ends());
            let asleep = ends.filter(|end| end.process == at).map(|end| end.blocked_ns).sum();
            LiveProcess {
                name: labels[at].clone(),
                state: ProcessState::main(shown, at),
                is_on_path: longest == Some(at),
                cpu: process.cpu_ns as f64 / window.max(1) as f64,
                asleep: part(asleep, window),
                waits: tables::other_waits(shown, at, process),
                details: tables::of_process(shown, (at, process), &labels),
            }
        });
        Self {
            title: shown.mode.clone(),
            elapsed,
            said: [path].into_iter().chain(others).collect(),
            channels: pipe_rows::rows(shown).iter().map(channel).collect(),
            processes: processes.collect(),
        }
    }

    /// Of what was seen of a machine in the last time of `window` ns. `said` are sentences about it.
    pub(crate) fn of_machine(view: &MachineView, window: u64, said: Vec<String>, elapsed: String) -> Self {
        let channel = |channel: &MachineChannel| {
            let fill = channel.slots.map(|[used, slots]| used as f64 / slots.max(1) as f64);
            LiveChannel {
                name: machine::name(channel),
                fill,
                rate: channel.bytes.map(|bytes| per_second(bytes, window)),
                full: part(channel.full_ns, window),
                empty: part(channel.empty_ns, window),
                lost: part(channel.lost_ns, window),
                cause: machine::cause(channel),
                details: machine::details(channel),
            }
        };
        let telling = machine::telling(view, window);
        Self {
            title: format!("all {} of this machine", counted(view.processes, "process")),
            elapsed,
            said,
            channels: telling.into_iter().map(channel).collect(),
            processes: Vec::new(),
        }
    }
}

/// Rates below this are not meaningful.
const LEAST: f64 = 0.01;

/// MiB of bytes per second.
pub(crate) fn mib(rate: u64) -> String {
    match rate as f64 / (1 << 20) as f64 {
        little if little > 0.0 && little < LEAST => format!("<{LEAST}"),
        rate => number(rate),
    }
}

fn per_second(bytes: u64, window: u64) -> u64 {
    (bytes as f64 * 1e9 / window.max(1) as f64) as u64
}
