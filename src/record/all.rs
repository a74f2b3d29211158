//! `record --all`: at which channels of the machine time is lost.

use crate::kernel::environment::Environment;
use crate::kernel::info::KernelInfo;
use crate::record::live::frame::LiveFrame;
use crate::record::live::output::{LiveOutput, LivePlace};
use crate::record::observe::machine::MachineNow;
use crate::record::observe::machine::moved::{ByteCounter, MovedNow};
use crate::record::observe::machine::tally::{MachineTally, sort};
use crate::record::options::{RecordSettings, nanoseconds};
use crate::record::say::machine;
use crate::result::{Document, MachineChannel, MachineView, MeasuredTarget, Observer, Outcome, ProcessGroup, SCHEMA};
use crate::util::clock::monotonic_ns;
use crate::util::warning::{Warning, WarningCode};
use crate::util::{build, cancel};
use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The shortest time between two looks, and the part of a CPU's time that those between the first and the last take.
const OFTEN: Duration = Duration::from_millis(100);
const COST: f64 = 0.05;

/// The same of what a live recording shows: each look reads what all have open.
const LIVE_EVERY: Duration = Duration::from_secs(1);
const LIVE_COST: f64 = 0.2;

/// How often it is looked whether to end.
const STEP: Duration = Duration::from_millis(20);

/// Look at all processes for the duration of `settings`, or until an interruption. `live`: show there what happens meanwhile.
///
/// # Errors
/// When BPF programs were asked for, and the kernel refuses them.
pub(crate) fn record(settings: &RecordSettings, live: Option<LivePlace>) -> Result<Outcome> {
    let environment = Environment::now();
    let started = (settings.observer != Some(Observer::Proc)).then(ByteCounter::start).transpose();
    let (counter, refused) = match started {
        Ok(counter) => (counter, None),
        Err(error) if settings.observer.is_none() => (None, Some(error)),
        Err(error) => return Err(error),
    };
    let mut looks = MachineLooks { counter, ..MachineLooks::default() };
    looks.look(true);
    let begun = Instant::now();
    let lasts = |duration: Duration| begun.elapsed() < duration;
    let mut next = looks.next();
    let mut live = live.map(|place| LiveMachine::start(&looks, place));
    while !cancel::happened() && settings.duration.is_none_or(lasts) {
        if let Some(live) = &mut live {
            live.step(&mut looks);
            if live.output.is_left() {
                break;
            }
        }
        let rest = settings.duration.map_or(STEP, |duration| duration.saturating_sub(begun.elapsed()));
        std::thread::sleep(rest.min(STEP));
        if Instant::now() >= next && settings.duration.is_none_or(lasts) {
            looks.look(false);
            next = looks.next();
        }
    }
    drop(live);
    looks.look(true);
    let mut warnings: Vec<Warning> = refused.map(|why| unseen(&why)).into_iter().collect();
    warnings.extend(looks.lost());
    let duration_ns = nanoseconds(settings.duration.filter(|_| !cancel::happened()));
    let (window_ns, view) = looks.view();
    let findings = machine::findings(&view, window_ns);
    let target = MeasuredTarget::Attached { pids: Vec::new(), group: Some(ProcessGroup::Machine) };
    let mut document = Document {
        schema: SCHEMA.to_owned(),
        version: build::version().to_owned(),
        kernel: KernelInfo::running(),
        mode: target.text(),
        target,
        environment,
        duration_ns,
        warnings,
        machine: Some(view),
        ..Document::default()
    };
    document.processes.window_ns = window_ns;
    document.findings = findings;
    Ok(Outcome { document, ..Outcome::default() })
}

/// What is not seen because of `why`: an error of BPF programs.
fn unseen(why: &anyhow::Error) -> Warning {
    Warning {
        code: WarningCode::LookedOnly,
        message: "bytes and how full pipes are were not recorded".to_owned(),
        action: format!("{why:#}"),
    }
}

/// Looks at all processes, and what they add up to.
#[derive(Default)]
struct MachineLooks {
    counter: Option<ByteCounter>,
    machine: MachineNow,
    moved: Option<MovedNow>,
    tally: MachineTally,
    looks: u64,
    cpu_ns: u64,
    /// CPU time of the last one.
    last: Duration,
}

impl MachineLooks {
    fn look(&mut self, whole: bool) {
        let cpu = || clock_gettime(ClockId::ThreadCPUTime);
        let (before, at) = (cpu(), monotonic_ns());
        self.machine.look(whole);
        // Without an answer of the kernel, what it said before counts.
        self.moved = self.counter.as_ref().and_then(|counter| counter.read().ok()).or_else(|| self.moved.take());
        // Who was read when is not known: in the middle of the look, on the average.
        let middle = at.midpoint(monotonic_ns());
        self.tally.add(&self.machine, self.moved.as_ref(), middle);
        let after = cpu();
        let ns = (after.tv_sec - before.tv_sec) * 1_000_000_000 + (after.tv_nsec - before.tv_nsec);
        self.last = Duration::from_nanos(ns.unsigned_abs());
        self.cpu_ns += ns.unsigned_abs();
        self.looks += 1;
    }

    /// When the next look is due. The first one costs more, because it reads what all have open.
    fn next(&self) -> Instant {
        Instant::now() + self.last.div_f64(COST).max(OFTEN)
    }

    fn lost(&self) -> Option<Warning> {
        let lost = self.counter.as_ref().map_or(0, ByteCounter::lost);
        (lost > 0).then(|| Warning {
            code: WarningCode::CallsNotRecorded,
            message: "more pipes and sockets were used than there is room for: bytes of some of them are missing"
                .to_owned(),
            action: String::new(),
        })
    }

    /// The time of the looks until now, ns, and what they saw.
    fn view(&self) -> (u64, MachineView) {
        let Self { machine, moved, tally, .. } = self;
        let moved = moved.as_ref();
        let view = MachineView {
            looks: self.looks,
            cpu_ns: self.cpu_ns,
            processes: machine.processes.len() as u64,
            unreadable: machine.unreadable(),
            left_out: machine.left_out + tally.left_out(),
            unseen_bytes: moved.map(|moved| tally.unseen_bytes(moved)),
            channels: tally.channels(machine, moved),
        };
        (tally.window_ns(), view)
    }
}

/// Shows what was seen since it was last shown.
struct LiveMachine {
    output: LiveOutput,
    begun: Instant,
    next: Instant,
    /// When it was last shown, and what had been seen by then.
    before_ns: u64,
    before: HashMap<(u64, u32), MachineChannel>,
}

impl LiveMachine {
    fn start(looks: &MachineLooks, place: LivePlace) -> Self {
        let begun = Instant::now();
        let (before_ns, view) = looks.view();
        let before = by_place(view.channels);
        Self { output: LiveOutput::start(place, false), begun, next: begun + LIVE_EVERY, before_ns, before }
    }

    /// Look and show it, if it is time to.
    fn step(&mut self, looks: &mut MachineLooks) {
        if Instant::now() < self.next {
            return;
        }
        looks.look(true);
        let begun = Instant::now();
        let (ns, mut view) = looks.view();
        let window = ns - std::mem::replace(&mut self.before_ns, ns);
        let before = std::mem::replace(&mut self.before, by_place(view.channels.clone()));
        for channel in &mut view.channels {
            let Some(before) = before.get(&(channel.inode, channel.device)) else { continue };
            channel.full_ns = channel.full_ns.saturating_sub(before.full_ns);
            channel.empty_ns = channel.empty_ns.saturating_sub(before.empty_ns);
            // With the first bytes of a channel, earlier waits count as lost, too.
            channel.lost_ns = channel.lost_ns.saturating_sub(before.lost_ns).min(window);
            channel.bytes = channel.bytes.map(|bytes| bytes.saturating_sub(before.bytes.unwrap_or_default()));
        }
        sort(&mut view.channels);
        let elapsed = format!("{} s", self.begun.elapsed().as_secs());
        let said: Vec<String> = machine::findings(&view, window).into_iter().map(|finding| finding.text).collect();
        let line = || format!("{elapsed}: {}", said.first().map_or("", |text| text));
        self.output.show(|| LiveFrame::of_machine(&view, window, said.clone(), elapsed.clone()), line);
        let cost = looks.last + begun.elapsed();
        self.next = Instant::now() + cost.div_f64(LIVE_COST).max(LIVE_EVERY);
    }
}

fn by_place(channels: Vec<MachineChannel>) -> HashMap<(u64, u32), MachineChannel> {
    channels.into_iter().map(|channel| ((channel.inode, channel.device), channel)).collect()
}
