//! All that is known of one column in one case: made once of its runs, and all that a comparison reads of them.

use super::calls::{self, Bodies};
use super::cycles::ClassMeasure;
use super::entries::{self, CallRates};
use super::input::{Boots, boots};
use super::measure::Measure;
use super::rep::RepMeasure;
use super::user_loops::UserLoops;
use super::work::RoleCalls;
use crate::profile::{ByProcess, ProcessName};
use crate::record::model::work::PipelineWork;
use crate::result::{KernelInfo, LockUse, Outcome, ProcessTotals};
use crate::roles::RoleId;
use crate::util::warning::WarningCode;
use crate::workload::spec::MEMORY_SOURCE;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One column in one case. What is not a sum of all runs is that of the first one.
#[derive(Debug, Clone)]
pub struct CaseMeasure {
    pub kernel: KernelInfo,
    /// What each process did.
    pub totals: ByProcess<ProcessTotals>,
    pub times: Boots,
    /// Intervals of the shares of sampled roles, over all runs; `None` if one is unknown.
    intervals: BTreeMap<(ProcessName, RoleId), Option<[f64; 2]>>,
    /// Absent without a profile. Columns that executed the same share it.
    pub profile: Option<Arc<Measure>>,
    pub calls: RoleCalls,
    pub(crate) bodies: Bodies,
    pub(crate) call_rates: CallRates,
    pub locks: Vec<LockUse>,
    pub classes: Option<ClassMeasure>,
    pub rep: Option<RepMeasure>,
    pub pipeline: Option<PipelineWork>,
    /// Of a counted pipeline.
    pub(crate) user_loops: UserLoops,
    /// What its processes did instead of the requested work.
    changes: BTreeSet<String>,
    /// Whether all runs read a file of zeros in memory.
    from_memory: bool,
}

impl CaseMeasure {
    /// The measures of `columns`, each of which has these runs; absent without a run. `most` as that of [`Measure::of`].
    pub fn of_each(columns: &[Vec<&Outcome>], most: usize) -> Vec<Option<Self>> {
        let mut measures: Vec<Option<Self>> = Vec::with_capacity(columns.len());
        for runs in columns {
            let same = columns.iter().zip(&measures).find(|(earlier, _)| Measure::is_of_both(earlier, runs));
            let profile = match same {
                Some((_, measure)) => measure.as_ref().and_then(|measure| measure.profile.clone()),
                None => Measure::of(runs, most).map(Arc::new),
            };
            measures.push(Self::with_profile(runs, profile));
        }
        measures
    }

    /// The measure of `runs`, whose profile this is.
    fn with_profile(runs: &[&Outcome], profile: Option<Arc<Measure>>) -> Option<Self> {
        let first = *runs.first()?;
        let document = &first.document;
        let warnings = runs.iter().flat_map(|run| &run.document.warnings);
        let changes = warnings.filter(|warning| warning.code == WarningCode::WorkloadChanged);
        let source = |run: &Outcome| run.document.target.workload().and_then(|workload| workload.source.clone());
        Some(Self {
            kernel: document.kernel.clone(),
            totals: document.processes.totals.clone(),
            times: boots(runs),
            intervals: intervals(runs),
            profile,
            calls: RoleCalls::of(document),
            bodies: first.code.as_ref().map(|code| calls::bodies(code, document)).unwrap_or_default(),
            call_rates: first.code.as_ref().map(|code| entries::call_rates(code, document)).unwrap_or_default(),
            locks: document.locks.clone(),
            classes: ClassMeasure::of(runs),
            rep: RepMeasure::of(runs),
            pipeline: PipelineWork::of(document),
            user_loops: first.code.as_ref().map(UserLoops::of).unwrap_or_default(),
            changes: changes.map(|warning| warning.message.clone()).collect(),
            from_memory: runs.iter().all(|run| source(run).is_some_and(|source| source.as_os_str() == MEMORY_SOURCE)),
        })
    }

    /// The first process, to which values per call refer.
    pub fn first(&self) -> Option<(ProcessName, &ProcessTotals)> {
        self.totals.iter().next()
    }

    /// System calls of the first process.
    pub(crate) fn first_calls(&self) -> u64 {
        self.first().map_or(0, |(_, totals)| totals.calls)
    }

    /// Voluntary switches of all processes.
    pub fn sleeps(&self) -> u64 {
        self.totals.values().map(|totals| totals.voluntary_switches).sum()
    }

    pub fn preemptions(&self) -> u64 {
        self.totals.values().map(|totals| totals.involuntary_switches).sum()
    }

    /// What its processes did instead of the requested work, and those of `other` did not.
    pub(crate) fn changes_beyond<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        // The one change is to a file in memory (`splice` on an old kernel): that is what the other was asked for.
        self.changes.difference(&other.changes).map(String::as_str).filter(|_| !other.from_memory)
    }

    /// Whether the intervals of a role's shares are disjoint for any process.
    pub(crate) fn is_apart(&self, other: &Self, role: RoleId) -> bool {
        let interval = |of: &Self, process| of.intervals.get(&(process, role)).copied().unwrap_or(Some([0.0, 0.0]));
        let names: BTreeSet<ProcessName> = self.intervals.keys().map(|(process, _)| *process).collect();
        names.into_iter().any(|name| match (interval(self, name), interval(other, name)) {
            (Some(a), Some(b)) => a[1] < b[0] || b[1] < a[0],
            _ => false,
        })
    }
}

/// Of each process of the target and role: what the intervals of its share cover in all `runs`.
fn intervals(runs: &[&Outcome]) -> BTreeMap<(ProcessName, RoleId), Option<[f64; 2]>> {
    let shares = runs.iter().flat_map(|run| run.document.attribution.processes.of_target());
    let keys = shares.flat_map(|(name, shares)| shares.iter().map(move |share| (name, share.role)));
    let covered = |(name, role)| {
        let of_run = |run: &&Outcome| {
            let share = run.document.attribution.of(name).iter().find(|share| share.role == role);
            share.map_or(Some([0.0, 0.0]), |share| share.share_ci95)
        };
        let both = |a: Option<[f64; 2]>, b: Option<[f64; 2]>| a.zip(b).map(|(a, b)| [a[0].min(b[0]), a[1].max(b[1])]);
        ((name, role), runs.iter().map(of_run).reduce(both).flatten())
    };
    keys.collect::<BTreeSet<_>>().into_iter().map(covered).collect()
}
