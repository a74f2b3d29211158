//! The order in which pairs run: blocks, each with one pair alone and one per collector, shuffled by a seed, so that
//! drift of the machine falls on all of them alike.

use crate::document::{Collector, ExecutedOn};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// The least blocks that give an interval.
pub const LEAST: u32 = 6;
/// Blocks in an emulated guest, whose times say nothing.
const EMULATED: u32 = 3;

/// The number of blocks of a request for `runs`: 0 leaves it to where it runs.
#[must_use]
pub fn settled(runs: u32, executed_on: ExecutedOn) -> u32 {
    match (runs, executed_on) {
        (0, ExecutedOn::Tcg) => EMULATED,
        (0, ExecutedOn::Hardware | ExecutedOn::Kvm) => LEAST,
        (runs, _) => runs,
    }
}

/// One pair to run: under which collector, or alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Counted from 0.
    pub block: u32,
    pub collector: Option<Collector>,
}

/// `runs` blocks of one pair alone and one pair per collector, each block in its own shuffled order. The same seed
/// gives the same order.
#[must_use]
pub fn blocks(runs: u32, collectors: &[Collector], seed: u64) -> Vec<Slot> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut slots = Vec::new();
    for block in 0..runs {
        let mut order: Vec<Slot> = std::iter::once(None)
            .chain(collectors.iter().copied().map(Some))
            .map(|collector| Slot { block, collector })
            .collect();
        order.shuffle(&mut rng);
        slots.append(&mut order);
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_every_setting_once() {
        let collectors = [Collector::Sample, Collector::Kprobe];
        let slots = blocks(20, &collectors, 7);
        assert_eq!(slots.len(), 60);
        for block in 0..20 {
            let of_block: Vec<_> = slots.iter().filter(|slot| slot.block == block).collect();
            assert_eq!(of_block.len(), 3);
            for wanted in [None, Some(Collector::Sample), Some(Collector::Kprobe)] {
                assert_eq!(of_block.iter().filter(|slot| slot.collector == wanted).count(), 1);
            }
        }
    }

    #[test]
    fn the_seed_decides_the_order() {
        let collectors = [Collector::Sample, Collector::Kprobe];
        assert_eq!(blocks(20, &collectors, 7), blocks(20, &collectors, 7));
        assert_ne!(blocks(20, &collectors, 7), blocks(20, &collectors, 8));
    }
}
