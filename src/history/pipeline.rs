//! The counts of recorded pipelines.

use super::{CountSpan, HistoryPoint};
use crate::campaign::CellStore;
use crate::record::Recording;
use crate::record::change::certain;
use crate::roles::{RoleId, SCHEDULING};
use crate::util::cancel;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;

/// The counts of a pipeline on these kernels: what the kernel executed for all stages, per KiB that went through the
/// pipes. User code is left out, because it hides the kernel and does not depend on it.
pub(super) fn points(store: &CellStore, cells: &[(usize, String)]) -> Result<Vec<HistoryPoint>> {
    let point = |(kernel, id): &(usize, String)| {
        cancel::check()?;
        counts(&store.recording(id)?, *kernel, id).with_context(|| store.path(id, false).display().to_string())
    };
    cells.iter().map(point).collect()
}

fn counts(recording: &Recording, kernel: usize, id: &str) -> Result<HistoryPoint> {
    let counted = recording.instructions.as_ref().context("the recording has no counted instructions")?;
    let bytes: u64 = recording.pipes.iter().map(|pipe| pipe.bytes()).sum();
    ensure!(bytes > 0, "nothing went through the pipes, so there is no count per KiB");
    let kib = bytes as f64 / 1024.0;
    let mut roles: BTreeMap<RoleId, f64> = BTreeMap::new();
    for share in counted.stages.iter().flat_map(|stage| &stage.roles).filter(|share| share.role != RoleId::User) {
        *roles.entry(share.role).or_default() += share.weight as f64 / kib;
    }
    let total: f64 = roles.values().sum();
    let without: f64 = roles.iter().filter(|(role, _)| !SCHEDULING.contains(role)).map(|(_, value)| value).sum();
    // One window: what the schedule can change, as in comparisons of recordings.
    let margin = certain(counted.cpus, !recording.on_disk.is_empty()) / 2.0 * without;
    let span = |value: f64| CountSpan { value, low: (value - margin).max(0.0), high: value + margin };
    Ok(HistoryPoint {
        kernel,
        cell: id.to_owned(),
        windows: 1,
        without_scheduling: span(without),
        total: span(total),
        roles: roles.into_iter().map(|(role, value)| (role, span(value))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Collector, CollectorReport};
    use crate::profile::RoleShare;
    use crate::record::model::{RecordedEnd, RecordedInstructions, RecordedPipe, StageInstructions};

    fn recording(cpus: u32) -> Recording {
        let share = |role, weight| RoleShare {
            role,
            weight,
            symbols: Vec::new(),
            share: 0.0,
            share_ci95: None,
            interrupts_off: 0,
            ns_per_kib: None,
            instructions_per_kib: None,
            instructions_per_call: None,
            calls_per_mib: None,
            cycles: None,
            entered: None,
        };
        let stage = |roles| StageInstructions { roles, ..StageInstructions::default() };
        let end = RecordedEnd { bytes: 4096, ..RecordedEnd::default() };
        Recording {
            pipes: vec![RecordedPipe { writers: vec![end], ..RecordedPipe::default() }],
            instructions: Some(RecordedInstructions {
                cpus,
                stages: vec![
                    stage(vec![share(RoleId::User, 900_000), share(RoleId::CopyIn, 4_000)]),
                    stage(vec![share(RoleId::CopyIn, 400), share(RoleId::Wait, 40)]),
                ],
                others: 5,
                collector: CollectorReport::ok(Collector::Insn, 0),
                symbols: Vec::new(),
            }),
            ..Recording::default()
        }
    }

    #[test]
    fn a_point_has_the_kernels_part_per_kib_and_what_the_schedule_can_change() {
        let point = counts(&recording(1), 3, "x").unwrap();
        assert_eq!((point.kernel, point.windows, point.without_scheduling.value), (3, 1, 1_100.0));
        assert_eq!((point.total.value, point.roles[&RoleId::Wait].value), (1_110.0, 10.0));
        assert_eq!(point.roles[&RoleId::CopyIn], CountSpan { value: 1_100.0, low: 1_094.5, high: 1_105.5 });
        assert!(!point.roles.contains_key(&RoleId::User));
        let wider = counts(&recording(2), 3, "x").unwrap().without_scheduling;
        assert_eq!((wider.low, wider.high), (1_083.5, 1_116.5));
        let idle = Recording { pipes: Vec::new(), ..recording(1) };
        assert!(counts(&idle, 0, "x").unwrap_err().to_string().contains("nothing went through the pipes"));
    }
}
