//! How long the pipeline would take if one process cost nothing: for each thread, a clock that stands still while that
//! process runs or sleeps of itself. A thread that another one wakes goes on at the later of their clocks.

use super::chain::{Chain, Slices};

/// Processes for which this is computed.
pub(super) const ASSUMED: usize = 32;

/// The clock of a process for which it is not.
pub(super) const NO_CLOCK: u8 = u8::MAX;

/// Times since the begin, each as if one process cost nothing, ns.
pub(super) type Clocks = [u64; ASSUMED];

/// The later of each two.
pub(super) fn later(clocks: &mut Clocks, others: &Clocks) {
    clocks.iter_mut().zip(others).for_each(|(clock, other)| *clock = (*clock).max(*other));
}

/// What the path that ends at a thread is made of, and what it would be.
#[derive(Debug, Clone)]
pub(super) struct PathState {
    pub chain: Chain,
    pub clocks: Clocks,
}

impl PathState {
    pub(super) fn new(slices: &Slices) -> Self {
        Self { chain: Chain::new(slices), clocks: [0; ASSUMED] }
    }

    /// Add a part that lasts until `to`, and would not be there if one of these processes cost nothing.
    pub(super) fn extend(&mut self, slices: &Slices, part: u32, of: [u8; 2], to: u64) {
        let ns = to.saturating_sub(self.chain.at);
        if ns == 0 {
            return;
        }
        self.chain.extend(slices, part, to);
        let kept = of.map(|clock| self.clocks.get(usize::from(clock)).copied());
        self.clocks.iter_mut().for_each(|clock| *clock += ns);
        for (clock, kept) in of.into_iter().zip(kept) {
            if let Some((clock, kept)) = self.clocks.get_mut(usize::from(clock)).zip(kept) {
                *clock = kept;
            }
        }
    }

    /// Go on where the path of who has woken the thread is.
    pub(super) fn follow(&mut self, waker: Self) {
        self.chain = waker.chain;
        later(&mut self.clocks, &waker.clocks);
    }
}
