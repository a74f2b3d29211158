//! The phase of a window: when it begins in relation to the timer tick, and after how much warm-up.

/// The number of a window among windows of one workload, from 0. What a kernel does in a window depends a little on its
/// phase: which instruction a timer tick interrupts, and which pages the allocator holds in its lists. Several phases
/// show how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phase(pub u32);

/// The longest tick that stock kernels have: `CONFIG_HZ=250`.
const TICK_NS: f64 = 4e6;

/// The fractional parts of multiples of the golden ratio are spread evenly, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_895;

impl Phase {
    /// Nanoseconds after a tick, below [`TICK_NS`]. None for the first phase.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "below a tick")]
    pub(crate) fn tick_offset_ns(self) -> i64 {
        ((f64::from(self.0) * GOLDEN).fract() * TICK_NS) as i64
    }

    /// Blocks to add to the warm-up. None for the first phase.
    #[must_use]
    pub(crate) fn warmup_blocks(self) -> u64 {
        // Odd, so that the ring of the pipe and the lists of the page allocator stop at other places.
        u64::from(self.0) * 7
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_spread_over_a_tick_and_the_first_changes_nothing() {
        assert_eq!((Phase(0).tick_offset_ns(), Phase(0).warmup_blocks()), (0, 0));
        let mut offsets: Vec<i64> = (0..8).map(|phase| Phase(phase).tick_offset_ns()).collect();
        offsets.sort_unstable();
        offsets.push(4_000_000);
        for pair in offsets.windows(2) {
            assert!((200_000..1_000_000).contains(&(pair[1] - pair[0])), "{offsets:?}");
        }
    }
}
