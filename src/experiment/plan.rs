//! The plan of an experiment: what to measure, and in which order.

use super::stop::StopRule;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;

/// How to handle a cell that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// Measure it again in later blocks.
    #[default]
    TryAgain,
    /// Skip it in later blocks.
    GiveUp,
    /// End the experiment with its error.
    Abort,
}

/// An experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<C> {
    /// Cells, each measured once per block.
    pub lanes: Vec<C>,
    /// Number of blocks; with [`StopRule::until`], the minimum.
    pub blocks: usize,
    pub seed: u64,
    /// Whether to shuffle the lanes of each block.
    pub shuffled: bool,
    pub on_failure: OnFailure,
    pub stop: StopRule,
}

/// One measurement of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Index of the lane.
    pub lane: usize,
    /// Counted from 0.
    pub block: usize,
}

impl Task {
    /// `0001-1`: lane and block, counted from 1.
    pub(super) fn name(self) -> String {
        format!("{:04}-{}", self.lane + 1, self.block + 1)
    }
}

impl<C> Plan<C> {
    /// Shuffled blocks of `cells`. A failed cell is measured again in the next block.
    pub fn new(cells: impl IntoIterator<Item = C>, blocks: usize, seed: u64) -> Self {
        let lanes = cells.into_iter().collect();
        Self { lanes, blocks, seed, shuffled: true, on_failure: OnFailure::default(), stop: StopRule::default() }
    }

    /// The tasks of all planned blocks, in the order in which they begin.
    pub fn order(&self) -> Vec<Task> {
        let mut random = SmallRng::seed_from_u64(self.seed);
        (0..self.blocks).flat_map(|block| self.block(block, &mut random)).collect()
    }

    /// The tasks of block `block`. `random` comes from the plan's seed and was used for the earlier blocks.
    pub(super) fn block(&self, block: usize, random: &mut SmallRng) -> Vec<Task> {
        let mut order: Vec<Task> = (0..self.lanes.len()).map(|lane| Task { lane, block }).collect();
        if self.shuffled {
            order.shuffle(random);
        }
        order
    }
}
