//! How long the pipeline would take if one process cost nothing, on CPUs that no other program uses: for each thread, a
//! clock that stands still while that process runs or sleeps of itself. A thread that another one wakes goes on at the
//! later of their clocks.
//!
//! Waits for a CPU that something else had are not part of it: who runs when depends on what else wants to run. Instead,
//! the clocks share CPUs of their own. A thread goes on once these have had the time for what it executed.

use super::chain::{Chain, SLICES, Slices};

/// Processes for which this is computed.
pub(crate) const ASSUMED: usize = 32;

/// The clock of a process for which it is not.
pub(crate) const NO_CLOCK: u8 = u8::MAX;

/// The clock of which no process is left out.
pub(crate) const OF_ALL: usize = 0;

/// An idle CPU starts a thread within this time, ns. If it took longer, the thread came from the queue of another one.
const START: u64 = 200_000;

/// Times since the begin, ns: of [`OF_ALL`], and each as if one process cost nothing.
pub(crate) type Clocks = [u64; ASSUMED + 1];

/// The later of each two.
pub(crate) fn later(clocks: &mut Clocks, others: &Clocks) {
    clocks.iter_mut().zip(others).for_each(|(clock, other)| *clock = (*clock).max(*other));
}

/// What happened to a thread for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    OnCpu,
    /// It could run, and the CPU was idle, or something else had it.
    ForCpu {
        idle: bool,
    },
    /// What takes its time, whoever has the CPUs.
    Else,
}

/// The time of the CPUs that is used up, by slice of the time of each clock.
#[derive(Debug)]
pub(crate) struct UsedCpus {
    cpus: u64,
    /// Clocks that are used.
    clocks: usize,
    length: u64,
    used: Vec<Clocks>,
}

impl UsedCpus {
    /// So many, which nobody has used yet.
    pub(crate) fn new(cpus: u64, slices: &Slices) -> Self {
        Self { cpus, clocks: OF_ALL + 1, length: slices.length, used: vec![[0; ASSUMED + 1]; SLICES as usize] }
    }

    /// Nobody has used them: the time begins anew.
    pub(crate) fn reset(&mut self, slices: &Slices) {
        self.length = slices.length;
        self.used.fill([0; ASSUMED + 1]);
    }

    /// Join each two slices.
    pub(crate) fn join(&mut self) {
        self.length *= 2;
        for at in 0..self.used.len() {
            let sum = |clock: usize| self.used.get(2 * at..2 * at + 2).map_or(0, |two| two[0][clock] + two[1][clock]);
            self.used[at] = std::array::from_fn(sum);
        }
    }

    /// Another process has a clock. Until now, it has cost nothing.
    pub(crate) fn add_clock(&mut self) {
        self.used.iter_mut().for_each(|used| used[self.clocks] = used[OF_ALL]);
        self.clocks += 1;
    }

    /// When a thread that wants to run from `from` on has run for `ns`.
    fn run(&mut self, clock: usize, from: u64, ns: u64) -> u64 {
        let (mut at, mut left) = (from, ns);
        while left > 0 {
            let Some(used) = self.used.get_mut((at / self.length) as usize) else { return at + left };
            let end = (at / self.length + 1) * self.length;
            let part = left.min(end - at).min(self.length * self.cpus - used[clock]);
            used[clock] += part;
            left -= part;
            at = if left == 0 { at + part } else { end };
        }
        at
    }
}

/// What the path that ends at a thread is made of, and what it would be.
#[derive(Debug, Clone)]
pub(crate) struct PathState {
    pub chain: Chain,
    pub clocks: Clocks,
}

impl PathState {
    pub(crate) fn new(slices: &Slices) -> Self {
        Self { chain: Chain::new(slices), clocks: [0; ASSUMED + 1] }
    }

    /// Add a part that lasts until `to`, of the process with the clock `own`.
    pub(crate) fn extend(
        &mut self,
        slices: &Slices,
        cpus: &mut UsedCpus,
        part: u32,
        (own, spent): (u8, Spent),
        to: u64,
    ) {
        let ns = to.saturating_sub(self.chain.at);
        if ns == 0 {
            return;
        }
        self.chain.extend(slices, part, to);
        for clock in (0..cpus.clocks).filter(|clock| *clock != usize::from(own)) {
            self.clocks[clock] = match spent {
                Spent::OnCpu => cpus.run(clock, self.clocks[clock], ns),
                Spent::ForCpu { idle: false } => continue,
                Spent::ForCpu { idle: true } => self.clocks[clock] + ns.min(START),
                Spent::Else => self.clocks[clock] + ns,
            };
        }
    }

    /// Another process has a clock, the one with this number.
    pub(crate) fn add_clock(&mut self, clock: u8) {
        self.clocks[usize::from(clock)] = self.clocks[OF_ALL];
    }

    /// Go on where the path of who has woken the thread is.
    pub(crate) fn follow(&mut self, waker: Self) {
        self.chain = waker.chain;
        later(&mut self.clocks, &waker.clocks);
    }
}
