//! The flags of `pipeprof run` that give [`RunOptions`]: the inverse of the command line.

use super::{RunOptions, WindowSizing};
use crate::result::Selection;
use crate::util::text::value_name;
use crate::vm::GuestMachine;
use crate::workload::axes::AXES;
use crate::workload::spec::{Amount, Pin};

impl RunOptions {
    /// The words after `pipeprof run`, in an order that depends on the options only. Defaults are left out.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Words::default();
        words.value("--kernel", self.kernel.as_deref());
        self.workload_words(&mut words);
        self.machine_words(&mut words);
        words.value("--collect", self.collect.as_ref().map(collectors));
        words.unless(self.loader, &Self::default().loader, "--loader", value_name);
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

    /// The words that say in which guest it runs: those for `pipeprof record`, too.
    pub(crate) fn guest_words(&self) -> Vec<String> {
        let mut words = Words::default();
        words.value("--kernel", self.kernel.as_deref());
        self.machine_words(&mut words);
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
            Some(Amount::Bytes(bytes)) => words.value("--bytes", Some(bytes)),
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
        words.value("--warmup", workload.warmup_bytes);
        words.switch("--unsafe-pipe", workload.unsafe_pipe);
    }

    fn machine_words(&self, words: &mut Words) {
        let (machine, default) = (&self.machine, GuestMachine::default());
        words.unless(machine.accel, &default.accel, "--accel", value_name);
        words.value("--cpus", machine.cpus);
        words.unless(machine.memory, &default.memory, "--memory", |bytes| bytes.to_string());
        for append in &machine.append {
            words.value("--append", Some(append));
        }
        words.value("--cpu", machine.cpu.as_deref());
        words.switch("--no-snapshot", machine.no_snapshot);
        let seconds = |limit: std::time::Duration| limit.as_secs_f64().to_string();
        words.unless(machine.boot_limit, &default.boot_limit, "--boot-limit", seconds);
        words.unless(machine.time_limit, &default.time_limit, "--time-limit", seconds);
    }
}

#[derive(Default)]
struct Words(Vec<String>);

impl Words {
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
