//! The phase of a window: when it begins in relation to the timer tick, and after how much warm-up.

/// The number of a window among windows of one workload, from 0. What a kernel does in a window depends a little on its
/// phase: which instruction a timer tick interrupts, and which pages the allocator holds in its lists. Several phases
/// show how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phase(pub u32);

/// The longest tick that stock kernels have: `CONFIG_HZ=250`.
const TICK_NS: f64 = 4e6;

/// Bytes, about, by which the warm-ups of neighbouring phases differ: a fifth of what the page allocator's lists take between
/// two refills (2,016 pages on 6.12), so that five phases meet them at different points.
const WARMUP: u64 = 7 << 18;

/// Most calls by which they differ, for small blocks.
const MOST_CALLS: u64 = 4096;

/// The fractional parts of multiples of the golden ratio are spread evenly, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_895;

impl Phase {
    /// Nanoseconds after a tick, below [`TICK_NS`]. None for the first phase.
    pub fn tick_offset_ns(self) -> i64 {
        ((f64::from(self.0) * GOLDEN).fract() * TICK_NS) as i64
    }

    /// Bytes to add to the warm-up. None for the first phase.
    pub fn warmup_bytes(self) -> u64 {
        u64::from(self.0) * WARMUP
    }

    /// The same as blocks of this many bytes, about.
    pub fn warmup_blocks(self, block: u64) -> u64 {
        // Odd, so that the ring of the pipe and the lists of the page allocator stop at other places.
        u64::from(self.0) * ((WARMUP / block.max(1)).clamp(7, MOST_CALLS) | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_spread_over_a_tick_and_the_first_changes_nothing() {
        assert_eq!((Phase(0).tick_offset_ns(), Phase(0).warmup_blocks(4096)), (0, 0));
        assert_eq!([1 << 18, 1 << 17, 4096, 1 << 30].map(|block| Phase(2).warmup_blocks(block)), [14, 30, 898, 14]);
        assert_eq!(Phase(1).warmup_blocks(1), 4097);
        let mut offsets: Vec<i64> = (0..8).map(|phase| Phase(phase).tick_offset_ns()).collect();
        offsets.sort_unstable();
        offsets.push(4_000_000);
        for pair in offsets.windows(2) {
            assert!((200_000..1_000_000).contains(&(pair[1] - pair[0])), "{offsets:?}");
        }
    }
}
