//! The backward path that ends at a thread now, as the time of each part in slices of time. When one thread wakes another,
//! the path is handed on: past slices are shared, so that this costs little and memory is bounded.

use std::collections::HashMap;
use std::rc::Rc;

/// Most slices.
pub(crate) const SLICES: u64 = 128;

/// Length of the first slices, ns.
const FIRST: u64 = 2_000_000;

/// Parts, by their number, and their times, ns.
type Parts = Vec<(u32, u64)>;

/// How time is divided. There are at most [`SLICES`]: when there are more, each two become one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slices {
    pub begin: u64,
    pub length: u64,
}

impl Slices {
    pub(crate) fn new(begin: u64) -> Self {
        Self { begin, length: FIRST }
    }

    /// Whether `at` is beyond the last slice.
    pub(crate) fn are_over(&self, at: u64) -> bool {
        at.saturating_sub(self.begin) >= self.length * SLICES
    }

    /// The slice at this time.
    pub(crate) fn of(&self, at: u64) -> u64 {
        at.saturating_sub(self.begin) / self.length
    }

    fn end(&self, slice: u64) -> u64 {
        self.begin + (slice + 1) * self.length
    }
}

/// A slice that is over, and those before it.
#[derive(Debug)]
struct PastSlice {
    slice: u64,
    parts: Parts,
    before: Past,
}

type Past = Option<Rc<PastSlice>>;

/// The path that ends at a thread at a moment: it covers the time from the begin to that moment without gaps.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub at: u64,
    slice: u64,
    parts: Parts,
    past: Past,
}

impl Chain {
    /// An empty one, at the begin.
    pub(crate) fn new(slices: &Slices) -> Self {
        Self { at: slices.begin, slice: 0, parts: Vec::new(), past: None }
    }

    /// Add a part that lasts from its end until `to`.
    pub(crate) fn extend(&mut self, slices: &Slices, part: u32, to: u64) {
        while self.at < to {
            let slice = slices.of(self.at);
            if slice != self.slice {
                if !self.parts.is_empty() {
                    let parts = std::mem::take(&mut self.parts);
                    self.past = Some(Rc::new(PastSlice { slice: self.slice, parts, before: self.past.take() }));
                }
                self.slice = slice;
            }
            let until = to.min(slices.end(slice));
            add(&mut self.parts, part, until - self.at);
            self.at = until;
        }
    }

    /// The slices with their parts, the last one first.
    pub(crate) fn slices(&self) -> Vec<(u64, &[(u32, u64)])> {
        let mut all = vec![(self.slice, &self.parts[..])];
        let mut past = &self.past;
        while let Some(slice) = past {
            all.push((slice.slice, &slice.parts[..]));
            past = &slice.before;
        }
        all
    }

    /// Join each two slices. `joined` has what this made of past slices of other chains.
    pub(crate) fn join(&mut self, joined: &mut JoinedSlices) {
        self.slice /= 2;
        self.past = joined.of(self.past.take());
        if let Some(last) = self.past.clone().filter(|last| last.slice == self.slice) {
            last.parts.iter().for_each(|(part, ns)| add(&mut self.parts, *part, *ns));
            self.past.clone_from(&last.before);
        }
    }
}

fn add(parts: &mut Parts, part: u32, ns: u64) {
    match parts.iter_mut().find(|(known, _)| *known == part) {
        Some((_, sum)) => *sum += ns,
        None => parts.push((part, ns)),
    }
}

/// Past slices and what became of them, so that what is shared stays so.
#[derive(Debug, Default)]
pub(crate) struct JoinedSlices {
    known: HashMap<*const PastSlice, Rc<PastSlice>>,
    /// Their addresses are not used again meanwhile.
    kept: Vec<Rc<PastSlice>>,
}

impl JoinedSlices {
    fn of(&mut self, past: Past) -> Past {
        let mut open = Vec::new();
        let mut next = past;
        let mut joined = None;
        while let Some(slice) = next {
            joined = self.known.get(&Rc::as_ptr(&slice)).cloned();
            if joined.is_some() {
                break;
            }
            next = slice.before.clone();
            open.push(slice);
        }
        for slice in open.into_iter().rev() {
            let mut new = PastSlice { slice: slice.slice / 2, parts: slice.parts.clone(), before: joined.take() };
            if let Some(last) = new.before.clone().filter(|last| last.slice == new.slice) {
                last.parts.iter().for_each(|(part, ns)| add(&mut new.parts, *part, *ns));
                new.before.clone_from(&last.before);
            }
            let new = Rc::new(new);
            self.known.insert(Rc::as_ptr(&slice), Rc::clone(&new));
            self.kept.push(slice);
            joined = Some(new);
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(chain: &Chain) -> HashMap<u32, u64> {
        let mut sums = HashMap::new();
        let parts = chain.slices().into_iter().flat_map(|(_, parts)| parts.to_vec());
        parts.for_each(|(part, ns)| *sums.entry(part).or_default() += ns);
        sums
    }

    #[test]
    fn parts_add_up_and_past_slices_are_shared() {
        let mut slices = Slices::new(1000);
        let mut one = Chain::new(&slices);
        one.extend(&slices, 7, 1000 + 5 * FIRST);
        let mut other = one.clone();
        one.extend(&slices, 8, 1000 + 7 * FIRST + 5);
        other.extend(&slices, 9, 1000 + 6 * FIRST);
        // Time does not go back.
        other.extend(&slices, 9, 1000);
        assert_eq!(sums(&one), [(7, 5 * FIRST), (8, 2 * FIRST + 5)].into());
        assert_eq!(sums(&other), [(7, 5 * FIRST), (9, FIRST)].into());
        let before = [sums(&one), sums(&other)];
        slices.length *= 2;
        let mut joined = JoinedSlices::default();
        one.join(&mut joined);
        other.join(&mut joined);
        assert_eq!([sums(&one), sums(&other)], before);
        assert_eq!(one.slices().into_iter().map(|(slice, _)| slice).collect::<Vec<_>>(), [3, 2, 1, 0]);
        let [shared, same] = [&one, &other].map(|chain| {
            let mut past = chain.past.clone().unwrap();
            while past.slice > 1 {
                past = past.before.clone().unwrap();
            }
            past
        });
        assert!(Rc::ptr_eq(&shared, &same));
        other.extend(&slices, 9, 1000 + 6 * FIRST + 1);
        assert_eq!(sums(&other)[&9], FIRST + 1);
    }
}
