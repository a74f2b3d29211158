//! How each stage spent the window: the basis of the answer.

use crate::record::model::labels;
use crate::record::model::stages::Stages;
use crate::result::{Document, WaitReason};
use std::collections::BTreeMap;

/// How long a stage slept for others, as shares of the window, cut at 1, because several threads can sleep at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StageTime {
    /// The stage's name: `xz`, or `stage2-cat`.
    pub name: String,
    /// Asleep for data, by pipe (index in the recording).
    pub empty: BTreeMap<usize, f64>,
    /// Asleep for room, by pipe.
    pub full: BTreeMap<usize, f64>,
    /// Asleep until another process opens the other end of a FIFO.
    pub opening: f64,
}

/// How long each of `stages` slept for others.
pub(crate) fn times(recording: &Document, stages: &Stages) -> Vec<StageTime> {
    let window = recording.processes.window_ns.max(1) as f64;
    let share = |ns: u64| (ns as f64 / window).min(1.0);
    let opening = |members: &Vec<usize>| {
        let waits = members.iter().filter_map(|at| recording.recorded[*at].waits.get(&WaitReason::Open));
        share(waits.map(|wait| wait.ns).sum())
    };
    let named = stages.iter().zip(labels::of_stages(recording, stages));
    let mut times: Vec<StageTime> =
        named.map(|(members, name)| StageTime { name, opening: opening(members), ..StageTime::default() }).collect();
    for (at, pipe) in recording.channels.iter().enumerate() {
        for (ends, readers) in [(&pipe.readers, true), (&pipe.writers, false)] {
            let mut asleep: BTreeMap<usize, u64> = BTreeMap::new();
            for (stage, end) in ends.iter().filter_map(|end| Some((stages.of(end.process)?, end))) {
                *asleep.entry(stage).or_default() += end.blocked_ns;
            }
            for (stage, ns) in asleep.into_iter().filter(|(_, ns)| *ns > 0) {
                let time = &mut times[stage];
                let shares = if readers { &mut time.empty } else { &mut time.full };
                shares.insert(at, share(ns));
            }
        }
    }
    times
}
