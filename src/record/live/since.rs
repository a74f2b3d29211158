//! What was counted since an earlier moment.

use crate::record::observe::counted::RecordedCounts;
use crate::record::observe::raw::{PrCounts, PrProcess, PrState};
use std::collections::HashMap;

impl RecordedCounts {
    /// What was counted since `before`, of processes that have not ended before it. The window begins there.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let processes = added(&self.processes, &before.processes).into_iter().filter_map(|(who, new, all)| {
            let begin = all.begin.max(before.at);
            // These are not sums.
            let PrProcess { end, threads, execs, signal, code, .. } = all;
            (end > before.at).then_some((who, PrProcess { begin, end, threads, execs, signal, code, ..new }))
        });
        let ends = added(&self.ends, &before.ends).into_iter().map(|(end, new, all)| {
            let [first_slots, least_slots] = [all.last_slots; 2];
            let PrCounts { last_slots, unsent, first_at, last_at, .. } = all;
            (end, PrCounts { first_slots, least_slots, last_slots, unsent, first_at, last_at, ..new })
        });
        let waits = added(&self.waits, &before.waits).into_iter().map(|(reason, new, _)| (reason, new));
        Self {
            at: self.at,
            processes: processes.collect(),
            ends: ends.collect(),
            waits: waits.collect(),
            state: self.state.zip(before.state).map(|(now, before)| PrState {
                lost_tasks: now.lost_tasks - before.lost_tasks,
                lost_ends: now.lost_ends - before.lost_ends,
                lost_processes: now.lost_processes - before.lost_processes,
                lost_waits: now.lost_waits - before.lost_waits,
                unseen: now.unseen - before.unseen,
                lost_steps: now.lost_steps - before.lost_steps,
                ..now
            }),
            ..Self::default()
        }
    }
}

/// Keys with what was added to their numbers, and with all of these. A sleep can change its reason when it ends: less
/// than before is nothing.
fn added<K: bytemuck::Pod, V: bytemuck::Pod>(now: &[(K, V)], before: &[(K, V)]) -> Vec<(K, V, V)> {
    let before: HashMap<&[u8], &V> = before.iter().map(|(key, value)| (bytemuck::bytes_of(key), value)).collect();
    let difference = |(key, all): &(K, V)| {
        let mut new = *all;
        if let Some(earlier) = before.get(bytemuck::bytes_of(key)) {
            let words: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut new));
            let earlier: &[u64] = bytemuck::cast_slice(std::slice::from_ref(*earlier));
            words.iter_mut().zip(earlier).for_each(|(word, earlier)| *word = word.saturating_sub(*earlier));
        }
        (*key, new, *all)
    };
    now.iter().map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observe::raw::{PrEnd, PrReason, PrWait, PrWho};
    use bytemuck::Zeroable as _;

    #[test]
    fn only_what_happened_since_then_is_counted() {
        let who = |tgid| PrWho { tgid, ..PrWho::zeroed() };
        let process = |end, cpu_ns| PrProcess { begin: 10, end, cpu_ns, threads: 2, execs: 1, ..PrProcess::zeroed() };
        let end = PrEnd { who: who(1), ..PrEnd::zeroed() };
        let counts = |bytes, slots| PrCounts { bytes, first_slots: 16, last_slots: slots, ..PrCounts::zeroed() };
        let reason = PrReason { who: who(1), ..PrReason::zeroed() };
        let before = RecordedCounts {
            at: 100,
            processes: vec![(who(1), process(100, 30)), (who(2), process(50, 20))],
            ends: vec![(end, counts(7, 16))],
            waits: vec![(reason, PrWait { count: 1, ns: 40 })],
            ..RecordedCounts::default()
        };
        let now = RecordedCounts {
            at: 200,
            processes: vec![(who(1), process(200, 90)), (who(2), process(50, 20)), (who(3), process(150, 5))],
            ends: vec![(end, counts(19, 32))],
            waits: vec![(reason, PrWait { count: 2, ns: 30 })],
            ..RecordedCounts::default()
        };
        let new = now.since(&before);
        let [(_, first), (third, last)] = &new.processes[..] else { panic!("{:?}", new.processes) };
        assert_eq!((first.begin, first.end, first.cpu_ns, first.threads), (100, 200, 60, 2));
        assert_eq!((third.tgid, last.begin, last.cpu_ns), (3, 100, 5));
        let (_, pipe) = new.ends[0];
        assert_eq!((pipe.bytes, pipe.first_slots, pipe.last_slots, pipe.least_slots), (12, 32, 32, 32));
        assert_eq!((new.waits[0].1.count, new.waits[0].1.ns), (1, 0));
    }
}
