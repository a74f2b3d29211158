//! What the processes of a pipeline execute, from samples: stacks by process, and their roles.

use super::collect::RecordedCounts;
use super::names::process_names;
use super::raw::{PR_IN_USER, PR_UNREADABLE, PrTrace};
use super::stages;
use super::timeline::{Id, id};
use super::user_code::UserFunctions;
use crate::collect::stacks::{LocatedFrame, UNKNOWN, USER, located_kernel_frames, whole_stack};
use crate::kernel::symbols::Symbols;
use crate::profile::{Folded, Moved, Profile, Unit, attribute};
use crate::result::{Collector, CollectorReport, Outcome, Status};
use std::collections::{BTreeMap, HashMap};

/// Add the samples of `counts`, if there are any. `index`: the recorded processes.
pub(super) fn add(
    outcome: &mut Outcome,
    counts: &RecordedCounts,
    index: &BTreeMap<Id, usize>,
    kernel: &Symbols,
    user: Option<&UserFunctions>,
) {
    let Some(sampling) = counts.clock else { return };
    let traces = counts.traces.iter();
    let named: HashMap<u64, Vec<LocatedFrame>> =
        traces.map(|(key, trace)| (*key, located_kernel_frames(trace.addresses(), kernel))).collect();
    let mut stacks: BTreeMap<usize, Folded> = BTreeMap::new();
    let (mut total, mut unresolved) = (0, 0);
    let labels = process_names(&outcome.document);
    for (sample, count) in &counts.samples {
        let Some(process) = index.get(&id(&sample.who)) else { continue };
        let kernel_frames = named.get(&sample.trace).map_or(&[][..], Vec::as_slice);
        let unreadable = [LocatedFrame::of(UNKNOWN)];
        let user_trace = counts.traces.get(&sample.user_trace).map_or(&[][..], PrTrace::addresses);
        let mut user_frames = user.map(|user| user.frames(sample, user_trace)).unwrap_or_default();
        let kernel_frames = match usize::try_from(sample.trace) {
            Ok(PR_IN_USER) if user_frames.is_empty() => {
                user_frames.push(LocatedFrame::of(USER));
                &[][..]
            }
            Ok(PR_IN_USER) => &[][..],
            Ok(PR_UNREADABLE) => &unreadable[..],
            _ => kernel_frames,
        };
        total += count;
        let leaf = kernel_frames.first().or(user_frames.first());
        unresolved += if leaf.is_some_and(|leaf| leaf.name == UNKNOWN) { *count } else { 0 };
        let frames = whole_stack(labels[*process].as_str(), &user_frames, kernel_frames);
        stacks.entry(*process).or_default().add_located(frames, *count);
    }
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
            .chain(user.and_then(|user| user.problem.clone()))
            .collect(),
    };
    Collector::Sample.name().clone_into(&mut outcome.document.attribution.collector);
    outcome.document.collectors.push(collector);
}
