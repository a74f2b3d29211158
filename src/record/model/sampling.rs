//! What the processes of a pipeline execute, from samples: stacks by process, and their roles.

use crate::collect::samples::SampleNames;
use crate::collect::stacks::whole_stack;
use crate::profile::{Moved, Profile, Unit, attribute};
use crate::record::model::names::process_names;
use crate::record::model::stages;
use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::path::TimedSamples;
use crate::record::observe::raw::{PrSample, PrWho};
use crate::record::say::critical::{self, StackOnCpu, StacksOnCpu};
use crate::result::{Collector, CollectorReport, Outcome, Status};
use std::collections::BTreeMap;

/// Add the samples, if there are any, and the critical path with those of them that are `timed`. `index`: the recorded
/// processes.
pub(crate) fn add(
    outcome: &mut Outcome,
    counts: &RecordedCounts,
    index: &BTreeMap<PrWho, usize>,
    names: &SampleNames<'_>,
    timed: &TimedSamples,
) {
    let Some(sampling) = counts.clock else { return };
    let labels = process_names(&outcome.document);
    let process = |sample: &PrSample| index.get(&sample.who).copied();
    let mut folded = names.folded(|sample| Some(labels[process(sample)?]));
    let mut on_cpu = StacksOnCpu::new();
    for (sample, slices) in timed.iter() {
        let Some(process) = process(&sample) else { continue };
        let [user, kernel] = names.frames(&sample);
        let frames = whole_stack("", &user, &kernel).skip(1).map(|(name, _)| name.to_owned()).collect();
        let weights = slices.iter().map(|(slice, count)| (Some(*slice), *count)).collect();
        on_cpu.entry(process).or_default().push(StackOnCpu { frames, weights });
    }
    outcome.critical_path = critical::folded(&outcome.document, &on_cpu);
    let skid = sampling.clock.skid();
    for (process, name) in labels.into_iter().enumerate() {
        let Some(stacks) = folded.stacks.remove(&name) else { continue };
        let cpu_ns = Some(outcome.document.recorded[process].cpu_ns);
        let moved = Moved { cpu_ns, ..stages::moved(&outcome.document, |own| own == process) };
        let shares = attribute(&stacks, Unit::Samples, skid, &moved);
        outcome.document.attribution.processes.insert(name, shares);
        outcome.profiles.push(Profile {
            process: name,
            collector: Collector::Sample.name().to_owned(),
            unit: Unit::Samples,
            skid,
            stacks,
        });
    }
    let lost = folded.lost.samples;
    let collector = CollectorReport {
        status: if folded.total == 0 || lost > 0 { Status::Partial } else { Status::Ok },
        reason: (folded.total == 0).then(|| "no sample fell into the recording: record for longer".to_owned()),
        lost,
        unresolved: folded.unresolved,
        skid: Some(skid),
        notes: [sampling.notes(), folded.notes].concat(),
        ..CollectorReport::ok(Collector::Sample, folded.total)
    };
    Collector::Sample.name().clone_into(&mut outcome.document.attribution.collector);
    outcome.document.collectors.push(collector);
}
