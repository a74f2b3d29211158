//! The counts of recorded pipelines.

use super::{CountSpan, HistoryPoint};
use crate::campaign::CellStore;
use crate::record::Recording;
use crate::roles::{RoleId, SCHEDULING};
use crate::util::cancel;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;

/// The counts of a pipeline on these kernels, without those on which nothing went through its pipes. Counts are what the
/// kernel executed for all stages, per KiB that went through the pipes. User code is left out, because it hides the kernel
/// and does not depend on it.
pub(super) fn points(store: &CellStore, cells: &[(usize, String)]) -> Result<Vec<HistoryPoint>> {
    let mut points = Vec::new();
    for (kernel, id) in cells {
        cancel::check()?;
        let recording = store.recording(id)?;
        let point = counts(&recording, *kernel, id);
        points.extend(point.with_context(|| store.path(id, false).display().to_string())?);
    }
    Ok(points)
}

/// `None` if nothing went through the pipes.
fn counts(recording: &Recording, kernel: usize, id: &str) -> Result<Option<HistoryPoint>> {
    let counted = recording.instructions.as_ref().context("the recording has no counted instructions")?;
    let bytes: u64 = recording.pipes.iter().map(|pipe| pipe.bytes()).sum();
    if bytes == 0 {
        return Ok(None);
    }
    let kib = bytes as f64 / 1024.0;
    let mut roles: BTreeMap<RoleId, f64> = BTreeMap::new();
    for share in counted.stages.iter().flat_map(|stage| &stage.roles).filter(|share| share.role != RoleId::User) {
        *roles.entry(share.role).or_default() += share.weight as f64 / kib;
    }
    let total: f64 = roles.values().sum();
    let without: f64 = roles.iter().filter(|(role, _)| !SCHEDULING.contains(role)).map(|(_, value)| value).sum();
    // How far the runs are from the first, which the roles are of. User code is the same in all of them.
    let runs = counted.runs();
    let spread = |value: f64| CountSpan::of(&runs.iter().map(|run| value + (run - runs[0]) / kib).collect::<Vec<_>>());
    Ok(Some(HistoryPoint {
        kernel,
        cell: id.to_owned(),
        windows: runs.len(),
        without_scheduling: spread(without),
        total: spread(total),
        roles: roles.into_iter().map(|(role, value)| (role, CountSpan::of(&[value]))).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Collector, CollectorReport};
    use crate::profile::RoleShare;
    use crate::record::model::{RecordedEnd, RecordedInstructions, RecordedPipe, StageInstructions};

    fn recording() -> Recording {
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
        let stage =
            |roles, runs: [u64; 2]| StageInstructions { roles, runs: runs.to_vec(), ..StageInstructions::default() };
        let end = RecordedEnd { bytes: 4096, ..RecordedEnd::default() };
        Recording {
            pipes: vec![RecordedPipe { writers: vec![end], ..RecordedPipe::default() }],
            instructions: Some(RecordedInstructions {
                cpus: 1,
                stages: vec![
                    stage(vec![share(RoleId::User, 900_000), share(RoleId::CopyIn, 4_000)], [904_000, 904_040]),
                    stage(vec![share(RoleId::CopyIn, 400), share(RoleId::Wait, 40)], [400, 380]),
                ],
                others: 5,
                collector: CollectorReport::ok(Collector::Insn, 0),
                symbols: Vec::new(),
            }),
            ..Recording::default()
        }
    }

    #[test]
    fn a_point_has_the_kernels_part_per_kib() {
        let point = counts(&recording(), 3, "x").unwrap().unwrap();
        assert_eq!((point.kernel, point.windows), (3, 2));
        assert_eq!(point.without_scheduling, CountSpan::of(&[1_100.0, 1_105.0]));
        assert_eq!((point.total.value, point.roles[&RoleId::Wait].value), (1_110.0, 10.0));
        assert_eq!(point.roles[&RoleId::CopyIn], CountSpan::of(&[1_100.0]));
        assert!(!point.roles.contains_key(&RoleId::User));
        let idle = Recording { pipes: Vec::new(), ..recording() };
        assert_eq!(counts(&idle, 0, "x").unwrap(), None);
        assert!(counts(&Recording::default(), 0, "x").is_err());
    }
}
