//! What the processes of a pipeline execute, from samples: stacks by process, and their roles.

use super::collect::RecordedCounts;
use super::critical::{self, StackOnCpu, StacksOnCpu};
use super::names::process_names;
use super::path::TimedSamples;
use super::raw::{PR_IN_USER, PR_UNREADABLE, PrSample, PrTrace};
use super::stages;
use super::timeline::{Id, id};
use super::user_code::UserFunctions;
use crate::collect::stacks::{LocatedFrame, UNKNOWN, USER, located_kernel_frames, whole_stack};
use crate::kernel::symbols::Symbols;
use crate::profile::{Folded, Moved, Profile, Unit, attribute};
use crate::result::{Collector, CollectorReport, Outcome, Status};
use std::collections::{BTreeMap, HashMap};

/// What names samples.
pub(super) struct SampleNames<'a> {
    pub counts: &'a RecordedCounts,
    /// The recorded processes.
    pub index: &'a BTreeMap<Id, usize>,
    pub kernel: &'a Symbols,
    pub user: Option<&'a UserFunctions>,
}

/// The named stacks of the kernel, by key.
type KernelStacks = HashMap<u64, Vec<LocatedFrame>>;

impl SampleNames<'_> {
    fn kernel_stacks(&self) -> KernelStacks {
        let named = |(key, trace): (&u64, &PrTrace)| (*key, located_kernel_frames(trace.addresses(), self.kernel));
        self.counts.traces.iter().map(named).collect()
    }

    /// The process of a sample, and its frames of the program and of the kernel, innermost first.
    fn of(&self, sample: &PrSample, known: &KernelStacks) -> Option<(usize, [Vec<LocatedFrame>; 2])> {
        let process = *self.index.get(&id(&sample.who))?;
        let user_trace = self.counts.traces.get(&sample.user_trace).map_or(&[][..], PrTrace::addresses);
        let mut user_frames = self.user.map(|user| user.frames(sample, user_trace)).unwrap_or_default();
        let kernel_frames = match usize::try_from(sample.trace) {
            Ok(PR_IN_USER) if user_frames.is_empty() => {
                user_frames.push(LocatedFrame::of(USER));
                Vec::new()
            }
            Ok(PR_IN_USER) => Vec::new(),
            Ok(PR_UNREADABLE) => vec![LocatedFrame::of(UNKNOWN)],
            _ => known.get(&sample.trace).cloned().unwrap_or_default(),
        };
        Some((process, [user_frames, kernel_frames]))
    }
}

/// Add the samples, if there are any, and the critical path with those of them that are `timed`.
pub(super) fn add(outcome: &mut Outcome, names: &SampleNames<'_>, timed: &TimedSamples) {
    let counts = names.counts;
    let Some(sampling) = counts.clock else { return };
    let known = names.kernel_stacks();
    let mut stacks: BTreeMap<usize, Folded> = BTreeMap::new();
    let (mut total, mut unresolved) = (0, 0);
    let labels = process_names(&outcome.document);
    for (sample, count) in &counts.samples {
        let Some((process, [user_frames, kernel_frames])) = names.of(sample, &known) else { continue };
        total += count;
        let leaf = kernel_frames.first().or(user_frames.first());
        unresolved += if leaf.is_some_and(|leaf| leaf.name == UNKNOWN) { *count } else { 0 };
        let frames = whole_stack(labels[process].as_str(), &user_frames, &kernel_frames);
        stacks.entry(process).or_default().add_located(frames, *count);
    }
    let mut on_cpu = StacksOnCpu::new();
    for (sample, slices) in timed.iter() {
        let Some((process, [user_frames, kernel_frames])) = names.of(&sample, &known) else { continue };
        let frames = whole_stack("", &user_frames, &kernel_frames).skip(1).map(|(name, _)| name.to_owned()).collect();
        let weights = slices.iter().map(|(slice, count)| (Some(*slice), *count)).collect();
        on_cpu.entry(process).or_default().push(StackOnCpu { frames, weights });
    }
    outcome.critical_path = critical::folded(&outcome.document, &on_cpu);
    let skid = sampling.clock.skid();
    for (process, stacks) in stacks {
        let cpu_ns = Some(outcome.document.recorded[process].cpu_ns);
        let moved = Moved { cpu_ns, ..stages::moved(&outcome.document, |own| own == process) };
        let shares = attribute(&stacks, Unit::Samples, skid, &moved);
        outcome.document.attribution.processes.insert(labels[process], shares);
        outcome.profiles.push(Profile {
            process: labels[process],
            collector: Collector::Sample.name().to_owned(),
            unit: Unit::Samples,
            skid,
            stacks,
        });
    }
    let lost = counts.state.map_or(0, |state| state.lost_samples);
    let collector = CollectorReport {
        name: Collector::Sample,
        status: if total == 0 || lost > 0 { Status::Partial } else { Status::Ok },
        reason: (total == 0).then(|| "no sample fell into the recording: record for longer".to_owned()),
        samples: total,
        lost,
        unresolved,
        skid: Some(skid),
        cost_percent: None,
        cost_ci95: None,
        notes: std::iter::once(format!("{} at {} Hz", sampling.clock.name(), sampling.frequency))
            .chain(names.user.and_then(|user| user.problem.clone()))
            .collect(),
    };
    Collector::Sample.name().clone_into(&mut outcome.document.attribution.collector);
    outcome.document.collectors.push(collector);
}
