//! Sum a collector's results over several runs.

use crate::collect::Collected;
use crate::profile::attribution::{self, RoleWeights};
use crate::profile::{ByProcess, Folded, Profile, Unit};
use crate::result::{Collector, CollectorReport, FunctionCalls, Status, Warning};
use crate::roles::Skid;

/// The summed results of a collector.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    pub status: Status,
    pub reasons: Vec<String>,
    pub unit: Unit,
    /// The skid of its samples.
    pub skid: Skid,
    pub stacks: ByProcess<Folded>,
    /// Weights by role of each run.
    pub(crate) by_pair: ByProcess<Vec<RoleWeights>>,
    pub functions: Vec<FunctionCalls>,
    pub samples: u64,
    pub lost: u64,
    pub unresolved: u64,
    pub notes: Vec<String>,
    pub warnings: Vec<Warning>,
    given_up: bool,
}

impl Gathered {
    /// A collector without results, and the reason.
    pub fn nothing(status: Status, reason: String) -> Self {
        Self { status, reasons: vec![reason], ..Self::default() }
    }

    /// A collector's results of its first run.
    pub fn first(collected: Collected) -> Self {
        let Collected { status, unit, skid, .. } = collected;
        let mut gathered = Self { status, unit, skid, ..Self::default() };
        gathered.add(collected);
        gathered
    }

    /// Keep the results so far: a later run could not be profiled.
    pub(crate) fn break_off(&mut self, reason: &str) {
        self.status = Status::Partial;
        self.given_up = true;
        push_new(&mut self.reasons, [reason.to_owned()]);
    }

    /// Whether further runs are pointless.
    pub fn given_up(&self) -> bool {
        self.given_up || matches!(self.status, Status::Failed | Status::Unavailable)
    }

    /// Add the results of another run.
    pub fn add(&mut self, collected: Collected) {
        self.status = worse(self.status, collected.status);
        push_new(&mut self.reasons, collected.reason);
        push_new(&mut self.notes, collected.notes);
        push_new(&mut self.warnings, collected.warnings);
        for (process, stacks) in collected.stacks.iter() {
            self.stacks.get_or_default(process).merge(stacks);
            if !stacks.is_empty() {
                self.by_pair.get_or_default(process).push(attribution::by_role(stacks, collected.skid));
            }
        }
        for function in collected.functions {
            self.add_function(function);
        }
        self.samples += collected.samples;
        self.lost += collected.lost;
        self.unresolved += collected.unresolved;
    }

    /// What the collector `name` reports. `cost`: in percent of the time, with its interval.
    pub fn report(&self, name: Collector, cost: Option<(f64, Option<[f64; 2]>)>) -> CollectorReport {
        CollectorReport {
            name,
            status: self.status,
            reason: (!self.reasons.is_empty()).then(|| self.reasons.join("; ")),
            samples: self.samples,
            lost: self.lost,
            unresolved: self.unresolved,
            skid: self.stacks.values().any(|stacks| !stacks.is_empty()).then_some(self.skid),
            cost_percent: cost.map(|(median, _)| median),
            cost_ci95: cost.and_then(|(_, interval)| interval),
            notes: self.notes.clone(),
        }
    }

    /// The profiles of processes with stacks.
    pub fn profiles(&self, collector: Collector) -> impl Iterator<Item = Profile> {
        let profile = move |(process, stacks): (_, &Folded)| Profile {
            process,
            collector: collector.name().to_owned(),
            unit: self.unit,
            skid: self.skid,
            stacks: stacks.clone(),
        };
        self.stacks.iter().filter(|(_, stacks)| !stacks.is_empty()).map(profile)
    }

    fn add_function(&mut self, new: FunctionCalls) {
        let same =
            |old: &&mut FunctionCalls| old.process == new.process && old.symbol == new.symbol && old.how == new.how;
        let Some(old) = self.functions.iter_mut().find(same) else {
            self.functions.push(new);
            return;
        };
        old.calls += new.calls;
        old.missed += new.missed;
        old.total_ns = sum(old.total_ns, new.total_ns);
        old.self_ns = sum(old.self_ns, new.self_ns);
        old.corrected_self_ns = sum(old.corrected_self_ns, new.corrected_self_ns);
        old.log2_ns.merge(&new.log2_ns);
    }
}

/// The sum if both values are present.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a? + b?)
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, new: impl IntoIterator<Item = T>) {
    for item in new {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

fn worse(a: Status, b: Status) -> Status {
    let rank = |status| match status {
        Status::Ok => 0,
        Status::Partial => 1,
        Status::Unavailable => 2,
        Status::Failed => 3,
    };
    // If only some runs were profiled, the result is partial.
    match (rank(a), rank(b)) {
        (a_rank, b_rank) if a_rank == b_rank => a,
        _ => Status::Partial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProcessName;
    use crate::result::Log2Histogram;
    use crate::roles::RoleId;

    fn collected(calls: u64, total_ns: Option<u64>) -> Collected {
        let mut stacks = Folded::new();
        stacks.add("writer;pipe_write", 3);
        Collected {
            skid: Skid::CpuClock,
            stacks: [(ProcessName::WRITER, stacks)].into_iter().collect(),
            functions: vec![FunctionCalls {
                calls,
                total_ns,
                log2_ns: Log2Histogram(vec![0, calls]),
                ..FunctionCalls::none(ProcessName::WRITER, RoleId::PipeWrite, "pipe_write", "kprobe")
            }],
            samples: 3,
            lost: 1,
            notes: vec!["at 4999 Hz".into()],
            ..Collected::default()
        }
    }

    #[test]
    fn pairs_add_up() {
        let mut gathered = Gathered::first(collected(5, Some(50)));
        gathered.add(collected(7, Some(70)));
        assert_eq!(gathered.functions.len(), 1);
        assert_eq!(gathered.functions[0].calls, 12);
        assert_eq!(gathered.functions[0].total_ns, Some(120));
        assert_eq!(gathered.functions[0].log2_ns.0, [0, 12]);
        assert_eq!(gathered.stacks.get(ProcessName::WRITER).unwrap().total(), 6);
        assert_eq!((gathered.samples, gathered.lost), (6, 2));
        assert_eq!(gathered.notes, ["at 4999 Hz"]);
        gathered.add(collected(1, None));
        assert_eq!(gathered.functions[0].total_ns, None, "a sum with an unknown part is unknown");
        assert!(!gathered.given_up());
        gathered.break_off("gone");
        assert!(gathered.given_up());
        assert_eq!((gathered.status, gathered.samples), (Status::Partial, 9), "what it gave is kept");
    }
}
