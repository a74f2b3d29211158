//! An imported profile as a recording that has samples and nothing else.

use super::{ImportFormat, ImportedProfile};
use crate::profile::{Moved, Profile, Unit, attribute};
use crate::record::model::{
    ImportedFrom, ProcessSamples, RECORDING_SCHEMA, RecordedProcess, RecordedSamples, Recording,
};
use crate::report::answer::largest_roles;
use crate::result::{Collector, CollectorReport};
use crate::roles::{KERNEL, Skid, is_kernel_entry};
use crate::util::build;
use crate::util::text::{clean, counted, grouped};

/// Commands that the answer names, and the part of all samples that each of them needs.
const NAMED: usize = 3;
const NAMED_SHARE: f64 = 0.1;

/// From this part of all samples on, missing names are a caution.
const MANY: f64 = 0.1;

/// The recording, and the stacks of its commands.
pub(crate) fn recording(imported: &ImportedProfile, file: &str, skid: Skid) -> (Recording, Vec<Profile>) {
    let mut commands: Vec<_> = imported.commands.iter().collect();
    commands.sort_by_key(|(_, stacks)| std::cmp::Reverse(stacks.total()));
    let mut recording = Recording {
        schema: RECORDING_SCHEMA.to_owned(),
        version: build::version().to_owned(),
        imported: Some(ImportedFrom {
            file: file.to_owned(),
            format: imported.format.title().to_owned(),
            event: imported.event.clone(),
        }),
        ..Recording::default()
    };
    recording.kernel.release = imported.release.clone().unwrap_or_default();
    let (mut samples, mut profiles) = (Vec::new(), Vec::new());
    for (process, (name, stacks)) in commands.into_iter().enumerate() {
        recording.processes.push(RecordedProcess { name: name.to_string(), ..RecordedProcess::default() });
        samples.push(ProcessSamples {
            process,
            name: name.to_string(),
            samples: stacks.total(),
            roles: attribute(stacks, Unit::Samples, skid, &Moved::default()),
        });
        profiles.push(Profile {
            process: *name,
            collector: Collector::Sample.name().to_owned(),
            unit: Unit::Samples,
            skid,
            stacks: stacks.clone(),
        });
    }
    let total = samples.iter().map(|process| process.samples).sum();
    let counts = StackCounts::of(&profiles);
    let rule = match skid {
        Skid::CpuClock => {
            "samples that were due while interrupts were off are counted for the caller that had them off, as for a clock \
             (--skid none: they are not)"
        }
        Skid::None => {
            "samples are counted for the function in which they were taken, as for a hardware counter (--skid cpu-clock: \
             those at the end of code without interrupts, for its caller)"
        }
    };
    let mut notes = vec![rule.to_owned()];
    if imported.without_stack > 0 {
        notes.push(format!("{} without a stack left out", counted(imported.without_stack, "sample")));
    }
    let collector = CollectorReport {
        lost: imported.without_stack,
        unresolved: counts.unnamed,
        skid: Some(skid),
        notes,
        ..CollectorReport::ok(Collector::Sample, total)
    };
    recording.findings = findings(&samples, total);
    recording.cautions = cautions(imported, &counts, total);
    recording.samples = Some(RecordedSamples { processes: samples, collector });
    (recording, profiles)
}

/// `` `dd` spends 41 % of its time on a CPU copying data into the pipe, 20 % in user code and 9 % waking up the other
/// process. ``
fn findings(samples: &[ProcessSamples], total: u64) -> Vec<String> {
    let large = |process: &&ProcessSamples| process.samples as f64 >= NAMED_SHARE * total as f64;
    let spends = |process: &ProcessSamples| {
        let roles = largest_roles(&process.roles, " of its time on a CPU")?;
        Some(format!("`{}` ({}) spends {roles}.", clean(&process.name), counted(process.samples, "sample")))
    };
    let named: Vec<String> = samples.iter().filter(large).take(NAMED).filter_map(spends).collect();
    if named.is_empty() { vec!["No command has a tenth of the samples: see the tables.".to_owned()] } else { named }
}

/// Samples by what their stacks lack.
#[derive(Debug, Default)]
struct StackCounts {
    /// In the kernel.
    kernel: u64,
    /// With callers.
    deep: u64,
    /// Whose innermost function has no name.
    unnamed: u64,
}

impl StackCounts {
    fn of(profiles: &[Profile]) -> Self {
        let mut counts = Self::default();
        for (stack, weight) in profiles.iter().flat_map(|profile| profile.stacks.iter()) {
            let frames = stack.frames().skip(1);
            counts.kernel += if frames.clone().any(is_kernel_entry) { weight } else { 0 };
            counts.deep += if frames.clone().filter(|frame| *frame != KERNEL).count() > 1 { weight } else { 0 };
            counts.unnamed += if frames.clone().last() == Some("[unknown]") { weight } else { 0 };
        }
        counts
    }
}

fn cautions(imported: &ImportedProfile, counts: &StackCounts, total: u64) -> Vec<String> {
    let mut cautions = Vec::new();
    if counts.kernel == 0 {
        let why = match imported.format {
            ImportFormat::Pprof => {
                "many profilers of programs, such as Go's, sample user code only: use perf for the rest"
            }
            ImportFormat::PerfScript | ImportFormat::Folded => {
                "perf samples user code only without the right to sample the kernel (kernel.perf_event_paranoid below \
                 2, or root)"
            }
        };
        cautions.push(format!("No sample is in the kernel: {why}."));
    }
    if counts.deep == 0 {
        cautions.push("No sample has callers, which many roles depend on: record with `perf record -g`.".to_owned());
    }
    if counts.unnamed as f64 > MANY * total as f64 {
        cautions.push(format!(
            "{:.0} % of the samples are in functions without a name: let perf read the kernel's symbols \
             (kernel.kptr_restrict 0, or root), and install debug symbols.",
            100.0 * counts.unnamed as f64 / total as f64
        ));
    }
    if !imported.other_events.is_empty() {
        let other: Vec<String> = imported
            .other_events
            .iter()
            .map(|(event, samples)| format!("{} ({})", clean(event), grouped(*samples)))
            .collect();
        cautions.push(format!(
            "The file has other events, too, which are left out: {}. Choose one with --event.",
            other.join(", ")
        ));
    }
    cautions
}
