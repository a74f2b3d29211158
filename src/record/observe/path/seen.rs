//! The path of a recording without steps: at each look, what the end of the pipeline waited for since the look before.

use super::chain::{Chain, JoinedSlices, Slices};
use super::close::PathEnds;
use super::command_lines::CommandLines;
use super::parts::{PartKey, part};
use super::process_ids::ProcessIds;
use crate::record::observe::raw::PrWho;
use crate::result::PathWhat;
use indexmap::IndexSet;

/// What was seen so far.
#[derive(Debug)]
pub(crate) struct SeenPath {
    slices: Slices,
    chain: Chain,
    processes: IndexSet<PrWho>,
    parts: IndexSet<PartKey>,
    pub command_lines: CommandLines,
    pub ids: ProcessIds,
}

impl SeenPath {
    pub(crate) fn new(begin: u64) -> Self {
        let slices = Slices::new(begin);
        let (processes, parts) = (IndexSet::new(), IndexSet::new());
        let (chain, command_lines, ids) = (Chain::new(&slices), CommandLines::default(), ProcessIds::default());
        Self { slices, chain, processes, parts, command_lines, ids }
    }

    /// Until `at`, the end waited for this process, which did `what`.
    pub(crate) fn add(&mut self, who: PrWho, what: PathWhat, at: u64) {
        while self.slices.are_over(at) {
            self.slices.length *= 2;
            self.chain.join(&mut JoinedSlices::default());
        }
        let process = self.processes.insert_full(who).0 as u32;
        let number = self.parts.insert_full(part(process, what)).0 as u32;
        self.chain.extend(&self.slices, number, at);
    }

    pub(crate) fn finish(self) -> PathEnds {
        let who = |key: &PartKey| self.processes.get_index(key.process as usize).copied();
        let parts = self.parts.iter().map(|key| (who(key), *key)).collect();
        PathEnds::seen(self.slices, self.chain, parts, (self.command_lines, self.ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable as _;
    use std::collections::BTreeMap;

    #[test]
    fn what_was_seen_adds_up_to_the_window_however_long_it_is() {
        let who = |tgid| PrWho { tgid, ..PrWho::zeroed() };
        let mut path = SeenPath::new(1000);
        for look in 1..=10_000_u64 {
            let what = if look % 4 == 0 { PathWhat::ForCpu } else { PathWhat::OnCpu };
            path.add(who(1 + u32::from(look % 2 == 0)), what, 1000 + look * 5_000_000);
        }
        let window = [1000, 1000 + 50_000_000_000 + 7];
        let index = BTreeMap::from([(who(1), 0), (who(2), 1)]);
        let path = path.finish().path(window, &index, |_| None, false, 0).unwrap();
        assert_eq!(path.parts.iter().map(|part| part.ns).sum::<u64>(), window[1] - window[0]);
        let of =
            |process, what| path.parts.iter().find(|part| (part.process, part.what) == (process, what)).unwrap().ns;
        assert_eq!(of(Some(0), PathWhat::OnCpu), 25_000_000_000);
        assert_eq!(of(Some(1), PathWhat::ForCpu), 12_500_000_000);
        assert!(path.slice_ns.len() <= 128 && path.ceilings.is_empty(), "{:?}", path.ceilings);
    }
}
