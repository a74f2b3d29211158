//! The command line that asks for a measurement, for people: programs read the measurement.

use super::{GuestMachine, Keep, Measurement, RecordingRequest, RecordingTarget, RunOptions, WindowSizing};
use crate::result::{RecordLevel, Selection};
use crate::util::choice::Choice as _;
use crate::util::size;
use crate::util::text::quoted;
use crate::workload::axes::AXES;
use crate::workload::spec::{Amount, Pin};

impl Measurement {
    /// The command line.
    pub fn command(&self) -> String {
        let (name, words) = match self {
            Self::Pair(options) => ("run", options.words()),
            Self::Recording(request) => ("record", request.words()),
        };
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        format!("pipeprof {name} {}", words.join(" "))
    }
}

impl RunOptions {
    /// The words after `pipeprof run`, in an order that depends on the options only. Defaults are left out.
    pub fn words(&self) -> Vec<String> {
        let mut words = Words::default();
        words.value("--kernel", self.kernel.as_deref());
        self.workload_words(&mut words);
        words.machine(&self.machine);
        words.value("--collect", self.collect.as_ref().map(collectors));
        words.unless(self.loader, &Self::default().loader, "--loader", |loader| loader.name().to_owned());
        words.value("--probe", self.probe.as_ref());
        words.value("--runs", self.runs);
        words.value("--until", self.stop.until.map(percent));
        words.value("--max-time", self.stop.max_time_ns.map(nanoseconds));
        words.unless(self.seed, &Self::default().seed, "--seed", |seed| seed.to_string());
        let sizing = WindowSizing::default();
        words.unless(self.sizing.precision, &sizing.precision, "--precision", percent);
        words.unless(self.sizing.limit, &sizing.limit, "--window-limit", |limit| limit.to_string());
        words.switch("--no-memcg", !self.memcg);
        words.value("--vmlinux", self.vmlinux.as_ref().map(|path| path.display()));
        words.value("--cycle-model", self.cycle_model.as_ref().map(|path| path.display()));
        words.0
    }

    fn workload_words(&self, words: &mut Words) {
        let workload = &self.workload;
        words.value("--mode", workload.mode.as_deref());
        for axis in AXES {
            let value = workload.overrides.get(axis.name).map(|value| axis.format(value));
            words.value(&format!("--{}", axis.name), value);
        }
        match workload.amount {
            Some(Amount::Bytes(bytes)) => words.value("--bytes", Some(size::format(bytes))),
            Some(Amount::DurationNs(ns)) => words.value("--duration", Some(nanoseconds(ns))),
            Some(Amount::Calls(calls)) => words.value("--calls", Some(calls)),
            None => {}
        }
        match workload.pin {
            Some(Pin::None) => words.value("--pin", Some("none")),
            Some(Pin::Cpus { writer, reader }) => words.value("--pin", Some(format!("{writer},{reader}"))),
            Some(Pin::Auto) | None => {}
        }
        words.switch("--verify", workload.verify);
        words.value("--warmup", workload.warmup_bytes.map(size::format));
        words.switch("--unsafe-pipe", workload.unsafe_pipe);
    }
}

impl RecordingRequest {
    /// The words after `pipeprof record`. Defaults are left out.
    fn words(&self) -> Vec<String> {
        let mut words = Words::default();
        words.value("--kernel", self.kernel.as_deref());
        words.machine(&self.machine);
        words.value("--collect", self.collect.map(|collector| collector.name()));
        words.value("--probe", self.probe.as_ref());
        words.value("--duration", self.duration_ns.map(nanoseconds));
        words.unless(self.level, &RecordLevel::default(), "--level", |level| level.name().to_owned());
        words.switch("--switches", self.switches);
        words.value("--observe", self.observer.map(|observer| observer.name()));
        if let Some(Keep { ns, until, repeat }) = &self.keep {
            words.value("--keep", Some(nanoseconds(*ns)));
            until.iter().for_each(|until| words.value("--until", Some(until.text())));
            words.unless(*repeat, &1, "--repeat", |repeat| repeat.to_string());
        }
        words.value("--pipe-size", self.pipe_size);
        words.value("--runs", self.runs);
        self.files.iter().for_each(|file| words.value("--file", Some(file.text())));
        self.disk.iter().for_each(|file| words.value("--disk", Some(file.text())));
        self.changes.iter().for_each(|change| words.value("--try", Some(change.text())));
        words.switch("--advise", self.advise);
        match &self.target {
            RecordingTarget::Pipeline(pipeline) => {
                words.0.push("--".to_owned());
                words.0.extend(if pipeline.shell {
                    pipeline.stages.iter().filter_map(|words| words.last().cloned()).collect()
                } else {
                    pipeline.stages.join(&"|".to_owned())
                });
            }
            RecordingTarget::Attached(pids) => {
                pids.iter().for_each(|pid| words.value("--pid", Some(pid)));
            }
            RecordingTarget::Cgroup(path) => words.value("--cgroup", Some(path)),
            RecordingTarget::Container(name) => words.value("--container", Some(name)),
            RecordingTarget::All => words.switch("--all", true),
        }
        words.0
    }
}

#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn machine(&mut self, machine: &GuestMachine) {
        let default = GuestMachine::default();
        self.unless(machine.accel, &default.accel, "--accel", |accel| accel.name().to_owned());
        self.value("--cpus", machine.cpus);
        self.unless(machine.memory, &default.memory, "--memory", |bytes| bytes.to_string());
        for append in &machine.append {
            self.value("--append", Some(append));
        }
        self.value("--cpu", machine.cpu.as_deref());
        self.switch("--no-snapshot", machine.no_snapshot);
        let seconds = |limit: std::time::Duration| limit.as_secs_f64().to_string();
        self.unless(machine.boot_limit, &default.boot_limit, "--boot-limit", seconds);
        self.unless(machine.time_limit, &default.time_limit, "--time-limit", seconds);
    }
    /// `--flag=VALUE`: values may begin with a hyphen.
    fn value(&mut self, flag: &str, value: Option<impl std::fmt::Display>) {
        self.0.extend(value.map(|value| format!("{flag}={value}")));
    }

    fn switch(&mut self, flag: &str, on: bool) {
        self.0.extend(on.then(|| flag.to_owned()));
    }

    fn unless<T: PartialEq>(&mut self, value: T, default: &T, flag: &str, text: impl Fn(T) -> String) {
        if value != *default {
            self.value(flag, Some(text(value)));
        }
    }
}

fn nanoseconds(ns: u64) -> String {
    format!("{ns}ns")
}

fn collectors(selection: &Selection) -> String {
    match selection {
        Selection::Auto => "auto".to_owned(),
        Selection::List(list) if list.is_empty() => "none".to_owned(),
        Selection::List(list) => list.iter().map(|collector| collector.name()).collect::<Vec<_>>().join(","),
    }
}

/// A percentage that is read as exactly `part` again: a division by 100 does not always undo a multiplication.
fn percent(part: f64) -> String {
    let near = part * 100.0;
    let candidates = [near, near.next_up(), near.next_down()];
    let exact = candidates.into_iter().find(|percent| percent / 100.0 == part);
    format!("{}%", exact.unwrap_or(near))
}
