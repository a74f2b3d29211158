//! One list of samples from stored stacks, from which every format for stacks is written.

use crate::kernel::symbols::KERNEL_START;
use crate::profile::places::FramePlace;
use crate::profile::{Attributor, Folded, Profile};
use crate::roles::{RoleId, is_kernel_entry};
use crate::util::text::clean;
use std::collections::HashMap;
use std::sync::Arc;

/// The stacks of all processes with their weights, and what was measured.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// What was run.
    pub title: String,
    /// pipeprof's version.
    pub version: String,
    /// The kernel's release.
    pub release: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// Length of the profiled windows together, ns; 0 if unknown.
    pub duration_ns: u64,
    /// What [`StackSample::values`] are, the main one first.
    pub values: Vec<ValueKind>,
    pub processes: Vec<SampledProcess>,
    pub frames: Vec<SampledFrame>,
    /// Indices of frames, root first. Each stack once.
    pub stacks: Vec<Vec<u32>>,
    /// By process, in the order of the stacks' text.
    pub samples: Vec<StackSample>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueKind {
    /// `instructions`
    pub name: String,
    /// `count`, `nanoseconds` or `microseconds`.
    pub unit: &'static str,
}

/// A process that has samples, or of which it is known what it did over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampledProcess {
    pub name: String,
    /// Its process id; made up if it was not stored.
    pub pid: u32,
    /// From the begin of the window, ns.
    pub begin_ns: u64,
    /// What it did most, over time, in a recording.
    pub phases: Vec<ProcessPhase>,
}

/// A part of the time in which a process mostly did one thing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessPhase {
    pub what: &'static str,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Its mean share of this time.
    pub share: f64,
}

/// A frame: a function of the kernel or of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampledFrame {
    pub name: String,
    pub(crate) is_kernel: bool,
    /// The instruction's address, otherwise the function's first one, if either is known.
    pub address: Option<u64>,
    /// Whether the address is that of the instruction.
    pub(crate) is_instruction: bool,
    /// The program, library or kernel module, if known.
    pub module: Option<Arc<str>>,
    /// The source file, if known.
    pub file: Option<Arc<str>>,
    /// The line in it, if known.
    pub line: Option<u32>,
}

/// The weight of one stack in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSample {
    /// Index in [`Samples::processes`].
    pub process: usize,
    /// Index in [`Samples::stacks`].
    pub stack: usize,
    /// Absent for sleeps.
    pub role: Option<RoleId>,
    /// Whether interrupts were off, so that the sample was attributed to the caller.
    pub interrupts_off: bool,
    /// One for each of [`Samples::values`].
    pub values: Vec<u64>,
}

impl Samples {
    /// The frames of a sample, root first.
    pub(crate) fn frames_of(&self, sample: &StackSample) -> impl DoubleEndedIterator<Item = (u32, &SampledFrame)> {
        let stack = self.stacks.get(sample.stack).map_or(&[][..], Vec::as_slice);
        stack.iter().filter_map(|index| Some((*index, self.frames.get(*index as usize)?)))
    }

    /// The samples of one process with a value of this kind.
    pub fn of(&self, process: usize, value: usize) -> impl Iterator<Item = (&StackSample, u64)> {
        let own = self.samples.iter().filter(move |sample| sample.process == process);
        own.filter_map(move |sample| Some((sample, *sample.values.get(value)?))).filter(|(_, weight)| *weight > 0)
    }
}

/// What distinguishes samples with the same stack: process, stack, role, interrupts off.
type SampleKey = (usize, usize, Option<RoleId>, bool);

/// Makes [`Samples`].
#[derive(Debug, Default)]
pub(super) struct SamplesBuilder {
    pub samples: Samples,
    frames: HashMap<(String, bool, Option<FramePlace>), u32>,
    stacks: HashMap<Vec<u32>, usize>,
    places: HashMap<SampleKey, usize>,
    /// Addresses of the kernel's functions, and of others.
    addresses: HashMap<(String, bool), u64>,
}

impl SamplesBuilder {
    /// Functions with their addresses. A name with several addresses gets none.
    pub(super) fn know<'a>(&mut self, functions: impl Iterator<Item = (&'a str, u64)>) {
        let mut several = Vec::new();
        for (name, address) in functions {
            let key = (clean(name), address >= KERNEL_START);
            if self.addresses.insert(key.clone(), address).is_some_and(|other| other != address) {
                several.push(key);
            }
        }
        for key in several {
            self.addresses.remove(&key);
        }
    }

    /// The index of the process of this name.
    pub(super) fn process(&mut self, name: &str) -> usize {
        let processes = &mut self.samples.processes;
        processes.iter().position(|process| process.name == name).unwrap_or_else(|| {
            let pid = processes.len() as u32 + 1;
            processes.push(SampledProcess { name: name.to_owned(), pid, ..SampledProcess::default() });
            processes.len() - 1
        })
    }

    /// The index of this kind of value.
    pub(super) fn value(&mut self, name: &str, unit: &'static str) -> usize {
        let values = &mut self.samples.values;
        values.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            values.push(ValueKind { name: name.to_owned(), unit });
            values.len() - 1
        })
    }

    /// Add the stacks of a profile, as `value`, and if its CPU time is known also as `time`: its index and nanoseconds.
    pub(super) fn add(&mut self, profile: &Profile, value: usize, time: Option<(usize, u64)>) {
        let process = self.process(profile.process.as_str());
        let attributor = Attributor::new(&profile.stacks, profile.skid);
        let total = u128::from(profile.stacks.total()).max(1);
        // The weight of the stacks before, so that the rounded times add up.
        let mut before = 0u128;
        for located in profile.stacks.located() {
            let (placed, weight) = (attributor.place(located.stack), located.weight);
            let mut frames: Vec<(&str, Option<&FramePlace>)> = located.frames().collect();
            // Collectors that sample put the process first; it is a dimension of its own.
            if frames.len() > 1 && frames.first().is_some_and(|(name, _)| *name == profile.process.as_str()) {
                frames.remove(0);
            }
            let entry = frames.iter().position(|(name, _)| is_kernel_entry(name)).unwrap_or(frames.len());
            let frames = frames.into_iter().enumerate().map(|(depth, (name, place))| (name, depth >= entry, place));
            let stack = self.stack(frames);
            let values = self.sample((process, stack, Some(placed.role.id), placed.interrupts_off));
            add_to(values, value, weight);
            if let Some((time, ns)) = time {
                let at = |weight: u128| u128::from(ns) * weight / total;
                let after = before + u128::from(weight);
                add_to(values, time, u64::try_from(at(after) - at(before)).unwrap_or(u64::MAX));
                before = after;
            }
        }
    }

    /// Add sleeps of the kernel's stacks, whose first frame names the process as `process_of` does.
    pub(super) fn add_sleeps(&mut self, sleeps: &Folded, value: usize, process_of: impl Fn(&str) -> String) {
        for (sleep, weight) in sleeps.iter() {
            let process = self.process(&process_of(sleep.root()));
            let frames = sleep.frames().skip(1);
            let last = frames.len().saturating_sub(1);
            let is_kernel = |depth: usize, frame: &str| depth < last && frame != "--" && !frame.starts_with('[');
            let stack = self.stack(frames.enumerate().map(|(depth, frame)| (frame, is_kernel(depth, frame), None)));
            add_to(self.sample((process, stack, None, false)), value, weight);
        }
    }

    pub(super) fn finish(mut self) -> Samples {
        let samples = &mut self.samples;
        let texts = [&mut samples.title, &mut samples.version, &mut samples.release, &mut samples.started];
        let names = samples.processes.iter_mut().map(|process| &mut process.name);
        let kinds = samples.values.iter_mut().map(|kind| &mut kind.name);
        // Files are not trusted.
        texts.into_iter().chain(names).chain(kinds).for_each(|text| *text = clean(text));
        let kinds = samples.values.len();
        self.samples.samples.iter_mut().for_each(|sample| sample.values.resize(kinds, 0));
        self.samples.samples.sort_by_key(|sample| sample.process);
        self.samples
    }

    /// The index of the stack of these frames: name, whether it is the kernel's, and place.
    fn stack<'a>(&mut self, frames: impl Iterator<Item = (&'a str, bool, Option<&'a FramePlace>)>) -> usize {
        let indices: Vec<u32> = frames.map(|(name, is_kernel, place)| self.frame(name, is_kernel, place)).collect();
        *self.stacks.entry(indices).or_insert_with_key(|indices| {
            self.samples.stacks.push(indices.clone());
            self.samples.stacks.len() - 1
        })
    }

    fn frame(&mut self, name: &str, is_kernel: bool, place: Option<&FramePlace>) -> u32 {
        // Files are not trusted.
        let key = (clean(name), is_kernel, place.cloned());
        if let Some(index) = self.frames.get(&key) {
            return *index;
        }
        let index = self.samples.frames.len() as u32;
        let known = || self.addresses.get(&(clean(name), is_kernel)).copied();
        let text = |text: &Option<Arc<str>>| text.as_deref().map(|text| clean(text).into());
        self.samples.frames.push(SampledFrame {
            name: key.0.clone(),
            is_kernel,
            address: place.and_then(|place| place.address).or_else(known),
            is_instruction: place.is_some_and(|place| place.address.is_some()),
            module: place.and_then(|place| text(&place.module)),
            file: place.and_then(|place| text(&place.file)),
            line: place.and_then(|place| place.line),
        });
        self.frames.insert(key, index);
        index
    }

    fn sample(&mut self, key: SampleKey) -> &mut Vec<u64> {
        let samples = &mut self.samples.samples;
        let place = *self.places.entry(key).or_insert_with(|| {
            let (process, stack, role, interrupts_off) = key;
            samples.push(StackSample { process, stack, role, interrupts_off, values: Vec::new() });
            samples.len() - 1
        });
        &mut samples[place].values
    }
}

fn add_to(values: &mut Vec<u64>, kind: usize, weight: u64) {
    if values.len() <= kind {
        values.resize(kind + 1, 0);
    }
    values[kind] = values[kind].saturating_add(weight);
}
