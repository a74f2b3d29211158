//! Stacks of [`super::perfetto`]'s traces, as its StackSample: what was sampled, and exact counts of guests.
//!
//! Stored stacks have no times. So each stack of a process is one sample with all of its weight, at the begin of the process.

use super::perfetto_proto::{
    ExecutionContext, FrameKind, InternedCallstack, InternedData, InternedFrame, InternedString, PerfettoSample,
    SampleCounter, SampleMode, SampleUnit, StackSampleDefaults, TaskContext, TracePacket, TracePacketDefaults,
};
use super::samples::{SampledFrame, Samples, ValueKind};
use std::collections::HashMap;

/// Whose samples they are, for the page.
const SOURCE: &str = "pipeprof";

/// What a packet needs that has been interned (SEQ_NEEDS_INCREMENTAL_STATE).
const NEEDS_INTERNED: u32 = 2;

/// The packets of `samples`, of which the first has what the others name. `guest`: the code ran in a virtual machine.
pub(super) fn packets(samples: &Samples, guest: bool, first: u32) -> Vec<TracePacket> {
    let packet = |flags| TracePacket { sequence_flags: flags, ..TracePacket::default() };
    let defaults = StackSampleDefaults { source: SOURCE.to_owned() };
    let mut all = vec![TracePacket {
        interned_data: Some(interned(samples)),
        trace_packet_defaults: Some(TracePacketDefaults { stack_sample_defaults: Some(defaults) }),
        ..packet(first)
    }];
    for sample in &samples.samples {
        let Some(process) = samples.processes.get(sample.process) else { continue };
        let leaf = samples.frames_of(sample).next_back();
        // What sleeps executes nothing.
        let mode = leaf.filter(|_| sample.role.is_some()).map(|(_, frame)| mode(frame, guest));
        let weights = (1..).zip(&sample.values).filter(|(_, weight)| **weight > 0);
        all.extend(weights.map(|(counter, weight)| TracePacket {
            timestamp: Some(process.begin_ns),
            stack_sample: Some(PerfettoSample {
                task_context: Some(TaskContext { pid: process.pid, tid: process.pid }),
                execution_context: mode.map(|mode| ExecutionContext { mode: mode.into() }),
                callstack_iid: sample.stack as u64 + 1,
                primary_descriptor_iid: counter,
                primary_weight: *weight,
            }),
            ..packet(NEEDS_INTERNED)
        }));
    }
    all
}

fn mode(frame: &SampledFrame, guest: bool) -> SampleMode {
    match (frame.is_kernel, guest) {
        (false, false) => SampleMode::User,
        (true, false) => SampleMode::Kernel,
        (false, true) => SampleMode::GuestUser,
        (true, true) => SampleMode::GuestKernel,
    }
}

/// Frames, stacks and kinds of values: their numbers are their places, from 1 on.
fn interned(samples: &Samples) -> InternedData {
    let (mut functions, mut sources) = (Strings::default(), Strings::default());
    let frame = |(iid, frame): (u64, &SampledFrame)| InternedFrame {
        iid,
        function_name_id: functions.number(&frame.name),
        source_path_iid: frame.file.as_deref().map(|file| sources.number(file)),
        line_number: frame.line,
        kind: if frame.is_kernel { FrameKind::Kernel } else { FrameKind::Native }.into(),
    };
    let frames = (1..).zip(&samples.frames).map(frame).collect();
    let stack = |(iid, frames): (u64, &Vec<u32>)| InternedCallstack {
        iid,
        frame_ids: frames.iter().map(|frame| u64::from(*frame) + 1).collect(),
    };
    InternedData {
        function_names: functions.all,
        frames,
        callstacks: (1..).zip(&samples.stacks).map(stack).collect(),
        source_paths: sources.all,
        stack_sample_counter_descriptors: (1..).zip(&samples.values).map(|(iid, kind)| counter(iid, kind)).collect(),
    }
}

fn counter(iid: u64, kind: &ValueKind) -> SampleCounter {
    let (unit, multiplier) = match (kind.name.as_str(), kind.unit) {
        ("instructions", _) => (SampleUnit::Instructions, None),
        ("estimated_cycles", _) => (SampleUnit::CpuCycles, None),
        (_, "nanoseconds") => (SampleUnit::Nanoseconds, None),
        (_, "microseconds") => (SampleUnit::Nanoseconds, Some(1000)),
        _ => (SampleUnit::Count, None),
    };
    SampleCounter { iid, name: kind.name.clone(), unit: unit.into(), unit_multiplier: multiplier }
}

/// Texts, each once.
#[derive(Default)]
struct Strings {
    all: Vec<InternedString>,
    known: HashMap<String, u64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        *self.known.entry(text.to_owned()).or_insert_with(|| {
            let iid = self.all.len() as u64 + 1;
            self.all.push(InternedString { iid, str: text.as_bytes().to_vec() });
            iid
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::perfetto::FORMAT;
    use super::super::perfetto_proto::PerfettoTrace;
    use super::super::source::Exported;
    use super::super::tests::{gallery, odd};
    use prost::Message as _;
    use std::collections::BTreeMap;

    #[test]
    fn stacks_have_the_weights_of_the_result_and_every_number_resolves() {
        for (outcome, modes) in [(gallery("6.1-write-exact"), [4, 5]), (odd(), [1, 2])] {
            let bytes = FORMAT.files(&Exported::Result(&outcome)).unwrap().remove(0).1;
            let trace = PerfettoTrace::decode(&bytes[..]).unwrap();
            let data = trace.packet.iter().find_map(|packet| packet.interned_data.clone()).unwrap();
            let (mut sums, mut seen) = (BTreeMap::new(), Vec::new());
            for sample in trace.packet.iter().filter_map(|packet| packet.stack_sample.clone()) {
                let stack = &data.callstacks[sample.callstack_iid as usize - 1];
                for frame in stack.frame_ids.iter().map(|frame| &data.frames[*frame as usize - 1]) {
                    assert_eq!(data.function_names[frame.function_name_id as usize - 1].iid, frame.function_name_id);
                }
                let counter = &data.stack_sample_counter_descriptors[sample.primary_descriptor_iid as usize - 1];
                let task = sample.task_context.unwrap();
                *sums.entry((counter.name.clone(), task.pid)).or_insert(0) += sample.primary_weight;
                seen.extend(sample.execution_context.map(|context| context.mode));
            }
            seen.sort_unstable();
            seen.dedup();
            assert!(seen.iter().all(|mode| modes.contains(mode)) && seen.contains(&modes[1]), "{seen:?}");
            let samples = Exported::Result(&outcome).samples().unwrap();
            for (value, kind) in samples.values.iter().enumerate() {
                for (process, named) in samples.processes.iter().enumerate() {
                    let sum: u64 = samples.of(process, value).map(|(_, weight)| weight).sum();
                    assert_eq!(sums.remove(&(kind.name.clone(), named.pid)).unwrap_or(0), sum, "{}", kind.name);
                }
            }
            assert_eq!(sums, BTreeMap::new());
        }
    }
}
