//! An imported profile as a result that has samples and nothing else.

use super::{ImportFormat, ImportedProfile};
use crate::profile::{Folded, Moved, ProcessName, Profile, RoleShare, Unit, attribute};
use crate::record::process_names;
use crate::report::answer::largest_roles;
use crate::result::{
    Attribution, Collector, CollectorReport, Document, Finding, FindingKind, ImportedFrom, MeasuredTarget, Outcome,
    RecordedProcess, SCHEMA,
};
use crate::roles::{KERNEL, Skid, is_kernel_entry};
use crate::util::build;
use crate::util::text::{clean, counted, grouped};

/// Commands that the answer names, and the part of all samples that each of them needs.
const NAMED: usize = 3;
const NAMED_SHARE: f64 = 0.1;

/// From this part of all samples on, missing names are a caution.
const MANY: f64 = 0.1;

/// The result, with the stacks of its commands.
pub fn outcome(imported: &ImportedProfile, file: &str, skid: Skid) -> Outcome {
    let mut commands: Vec<_> = imported.commands.iter().collect();
    commands.sort_by_key(|(_, stacks)| std::cmp::Reverse(stacks.total()));
    let from = ImportedFrom {
        file: file.to_owned(),
        format: imported.format.title().to_owned(),
        event: imported.event.clone(),
    };
    let mut document = Document {
        schema: SCHEMA.to_owned(),
        version: build::version().to_owned(),
        mode: file.to_owned(),
        target: MeasuredTarget::Imported(from),
        ..Document::default()
    };
    document.kernel.release = imported.release.clone().unwrap_or_default();
    Collector::Sample.name().clone_into(&mut document.attribution.collector);
    let named =
        |(name, _): &(&ProcessName, &Folded)| RecordedProcess { name: name.to_string(), ..RecordedProcess::default() };
    document.recorded = commands.iter().map(named).collect();
    let mut profiles = Vec::new();
    for (process, (_, stacks)) in process_names(&document).into_iter().zip(commands) {
        let shares = attribute(stacks, Unit::Samples, skid, &Moved::default());
        document.attribution.processes.insert(process, shares);
        profiles.push(Profile {
            process,
            collector: Collector::Sample.name().to_owned(),
            unit: Unit::Samples,
            skid,
            stacks: stacks.clone(),
        });
    }
    let total = profiles.iter().map(|profile| profile.stacks.total()).sum();
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
    document.findings = findings(&document.attribution, total);
    document.cautions = cautions(imported, &counts, total);
    document.collectors = vec![collector];
    Outcome { document, profiles, ..Outcome::default() }
}

/// `` `dd` spends 41 % of its time on a CPU copying data into the pipe, 20 % in user code and 9 % waking up the other
/// process. ``
fn findings(attribution: &Attribution, total: u64) -> Vec<Finding> {
    let spends = |(name, roles): (ProcessName, &Vec<RoleShare>)| {
        let samples = attribution.weight(name);
        let large = samples as f64 >= NAMED_SHARE * total as f64;
        let roles = largest_roles(roles, " of its time on a CPU").filter(|_| large)?;
        Some(format!("`{name}` ({}) spends {roles}.", counted(samples, "sample")))
    };
    let named: Vec<String> = attribution.processes.iter().filter_map(spends).take(NAMED).collect();
    let none = || vec!["No command has a tenth of the samples: see the tables.".to_owned()];
    let texts = if named.is_empty() { none() } else { named };
    texts.into_iter().map(|text| Finding::new(FindingKind::Imported, None, text)).collect()
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
