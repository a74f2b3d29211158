//! Folded stacks: `root;...;leaf weight`, one line per distinct stack, the format of `stackcollapse` and inferno.
//!
//! Kernel and user frames have plain names. The kernel's part of a stack starts at the first frame for which
//! [`is_kernel_entry`] is true; collectors insert [`KERNEL`] if a stack has no such frame.

pub use crate::roles::{KERNEL, is_kernel_entry};

use super::places::{FramePlace, LocatedStack, PlacedStacks, StoredPlaces};
use super::stacks::{CallStack, LastText, StackMap};
use crate::util::text::is_hidden;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Stacks with weights, each stack once, in the order of their text. Frames can have places ([`FramePlace`]): a stack
/// then has several parts, which differ in places only.
#[derive(Debug, Clone, Default)]
pub struct Folded {
    stacks: StackMap<u64>,
    places: PlacedStacks,
}

/// A line of a folded file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct FoldedError {
    /// Counted from 1.
    pub line: usize,
    pub what: String,
}

/// `name` as a frame of a stack, without separators of frames and lines, and without what is hidden.
pub fn frame_name(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|b| b != b';' && b.is_ascii() && !b.is_ascii_control()) {
        return Cow::Borrowed(name);
    }
    name.chars().map(|c| if c == ';' || is_hidden(c) { '_' } else { c }).collect()
}

impl Folded {
    pub fn new() -> Self {
        Self::default()
    }

    /// Add `weight` to the stack whose frames, root first, are joined by `;`. A weight of 0 adds nothing.
    pub fn add(&mut self, stack: impl AsRef<str>, weight: u64) {
        self.add_stack(stack.as_ref().split(';'), weight);
    }

    /// Add `weight` to the stack of `frames`, root first, which are those of another profile.
    pub fn add_stack<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, weight: u64) {
        if weight > 0 {
            let (_, sum) = self.stacks.entry(frames);
            *sum = sum.saturating_add(weight);
        }
    }

    /// Add `weight` to the stack made of `frames`, root first, which can have any names.
    pub fn add_frames<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, weight: u64) {
        self.add_located(frames.into_iter().map(|frame| (frame, None)), weight);
    }

    /// The same with the places of the frames.
    pub fn add_located<'a>(&mut self, frames: impl IntoIterator<Item = (&'a str, Option<FramePlace>)>, weight: u64) {
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (name, place) in frames {
            names.push(frame_name(name));
            places.push(place);
        }
        // Neither a comment nor a line without a stack.
        if names.is_empty() {
            names.push(Cow::Borrowed("_"));
        } else if let [first, rest @ ..] = &mut names[..]
            && (first.starts_with('#') || (first.is_empty() && rest.is_empty()))
        {
            *first = Cow::Owned(format!("_{first}"));
        }
        if weight == 0 {
            return;
        }
        let (stack, sum) = self.stacks.entry(names.iter().map(|name| &**name));
        *sum = sum.saturating_add(weight);
        self.places.add(stack, places, weight);
    }

    /// Add all stacks of `other`.
    pub fn merge(&mut self, other: &Folded) {
        // Exact profiles, which are merged most, have no places.
        if other.places.is_empty() {
            other.iter().for_each(|(stack, weight)| self.add_stack(stack.frames(), weight));
            return;
        }
        for located in other.located() {
            let (stack, sum) = self.stacks.entry(located.stack.frames());
            *sum = sum.saturating_add(located.weight);
            self.places.add(stack, located.places().map(Option::<&FramePlace>::cloned).collect(), located.weight);
        }
    }

    /// The same weight in fewer stacks: each is cut to its longest prefix that has a total weight of at least `least`.
    pub fn pruned(&self, least: u64) -> Folded {
        let mut inclusive = StackMap::<u64>::default();
        for (stack, weight) in self.iter() {
            for end in 1..=stack.frames().len() {
                *inclusive.entry(stack.frames().take(end)).1 += weight;
            }
        }
        let mut pruned = Folded::new();
        for (stack, weight) in self.iter() {
            let depth = stack.frames().len();
            let heavy =
                |end: &usize| inclusive.find(stack.frames().take(*end)).is_some_and(|(_, weight)| *weight >= least);
            let end = (1..=depth).rev().find(heavy).unwrap_or(1);
            pruned.add_stack(stack.frames().take(end), weight);
        }
        pruned
    }

    /// Stacks and weights, in the order of the stacks' text.
    pub fn iter(&self) -> impl Iterator<Item = (CallStack<'_>, u64)> {
        self.stacks.iter().map(|(stack, weight)| (stack, *weight))
    }

    /// The parts of all stacks that differ in places, in the order of the stacks' text. The part of a stack without
    /// places comes last.
    pub fn located(&self) -> impl Iterator<Item = LocatedStack<'_>> {
        self.stacks.numbered().flat_map(|(index, stack, weight)| self.places.of(index, stack, *weight))
    }

    /// The sum of all weights.
    pub fn total(&self) -> u64 {
        self.stacks.values().fold(0, |sum: u64, weight| sum.saturating_add(*weight))
    }

    /// The number of distinct stacks.
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The places of all frames, in the form that is stored; `None` if no frame has a place.
    pub fn stored_places(&self) -> Option<StoredPlaces> {
        (!self.places.is_empty()).then(|| StoredPlaces::of(self.located()))
    }

    /// Give the frames the places that were stored with these stacks.
    pub fn restore_places(&mut self, stored: &StoredPlaces) -> Result<(), &'static str> {
        let mut placed = PlacedStacks::default();
        let mut weights = BTreeMap::<usize, u64>::new();
        let deepest = self.iter().map(|(stack, _)| stack.frames().len()).max().unwrap_or(0);
        for located in stored.stacks(deepest)? {
            let (weight, frames) = located?;
            if weight == 0 {
                continue;
            }
            let (names, places): (Vec<&str>, Vec<_>) = frames.into_iter().unzip();
            let (stack, whole) = self.stacks.find(names).ok_or("it has a stack that is missing there")?;
            let sum = weights.entry(stack).or_default();
            *sum = sum.saturating_add(weight);
            if *sum > *whole {
                return Err("its weights are larger than those there");
            }
            placed.add(stack, places, weight);
        }
        self.places = placed;
        Ok(())
    }

    /// The text of a folded file.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (stack, weight) in self.iter() {
            let _ = writeln!(text, "{stack} {weight}");
        }
        text
    }

    /// Parse a folded file. Empty lines and lines that start with `#` are skipped, and repeated stacks are summed.
    /// Weights must be whole numbers (`12.0` is one).
    pub fn parse(text: &str) -> Result<Self, FoldedError> {
        let mut stacks: Vec<(&str, u64)> = Vec::new();
        let mut total = 0u64;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let error = |what: &str| FoldedError { line: index + 1, what: what.to_owned() };
            let (stack, weight) = line.rsplit_once(' ').ok_or_else(|| error("no weight behind the stack"))?;
            let whole = match weight.split_once('.') {
                Some((whole, zeros)) if zeros.bytes().all(|b| b == b'0') => whole,
                Some(_) => return Err(error("the weight is a fraction: multiply all weights so that they are whole")),
                None => weight,
            };
            let weight: u64 = whole.parse().map_err(|_| error("the weight after the stack is not a whole number"))?;
            if stack.is_empty() {
                return Err(error("the stack is empty"));
            }
            total = total.checked_add(weight).ok_or_else(|| error("the weights add up to more than 64 bits hold"))?;
            if weight > 0 {
                stacks.push((stack, weight));
            }
        }
        // Texts in order have most frames in common with the one before. Few files are not in order.
        stacks.sort_unstable();
        Ok(Self::of_sorted(stacks.into_iter()))
    }

    /// The profile of these texts, which are fastest to read in order.
    fn of_sorted<'t>(stacks: impl Iterator<Item = (&'t str, u64)>) -> Self {
        let mut folded = Self::new();
        let mut last = LastText::default();
        for (stack, weight) in stacks {
            let frames = folded.stacks.numbers(stack, &mut last);
            let (_, sum) = folded.stacks.entry_of(frames);
            *sum = sum.saturating_add(weight);
        }
        folded
    }
}

impl PartialEq for Folded {
    fn eq(&self, other: &Self) -> bool {
        let same = |(own, other): (LocatedStack<'_>, LocatedStack<'_>)| {
            own.weight == other.weight && own.frames().eq(other.frames())
        };
        self.stacks == other.stacks
            && self.located().count() == other.located().count()
            && self.located().zip(other.located()).all(same)
    }
}

impl Eq for Folded {}

/// A map from texts to weights, without places.
impl Serialize for Folded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(stack, weight)| (stack.to_string(), weight)))
    }
}

impl<'de> Deserialize<'de> for Folded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stacks = BTreeMap::<String, u64>::deserialize(deserializer)?;
        Ok(Self::of_sorted(stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight))))
    }
}

/// The stacks without their places.
#[cfg(any(doc, fuzzing, test, feature = "testing"))]
impl StoredPlaces {
    pub fn names(&self) -> Result<Folded, &'static str> {
        let mut folded = Folded::new();
        for stack in self.stacks(usize::MAX)? {
            let (weight, frames) = stack?;
            folded.add_stack(frames.iter().map(|(name, _)| *name), weight);
        }
        Ok(folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut folded = Folded::new();
        folded.add_frames(["write", "entry;odd", "do_syscall_64"], 3);
        folded.add("write;a frame with spaces 12", 4);
        let text = folded.to_text();
        assert_eq!(text, "write;a frame with spaces 12 4\nwrite;entry_odd;do_syscall_64 3\n");
        assert_eq!(Folded::parse(&text), Ok(folded));
    }

    #[test]
    fn frames_of_any_name_are_read_back() {
        for frames in [&["#1", "b"][..], &["#"], &[""], &[], &["", "b"], &["a\nb;c", "\u{85}"]] {
            let mut folded = Folded::new();
            folded.add_frames(frames.iter().copied(), 3);
            assert_eq!(Folded::parse(&folded.to_text()), Ok(folded), "{frames:?}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| Folded::parse(text).unwrap_err().to_string();
        assert_eq!(error("a 1\n\nb"), "line 3: no weight behind the stack");
        assert_eq!(error("a x"), "line 1: the weight after the stack is not a whole number");
        assert!(error("a 1.5").starts_with("line 1: the weight is a fraction"));
        assert_eq!(error(" 5"), "line 1: the stack is empty");
        assert_eq!(error(&format!("a {}\nb 1", u64::MAX)), "line 2: the weights add up to more than 64 bits hold");
        assert_eq!(Folded::parse("# a comment\na 1.0\na 2\n").unwrap().to_text(), "a 3\n");
    }

    #[test]
    fn pruning_cuts_leaves_and_keeps_the_weight() {
        let folded = Folded::parse("a;b;c 1\na;b;d 2\na;e 9\nf;g 1\n").unwrap();
        assert_eq!(folded.pruned(3).to_text(), "a;b 3\na;e 9\nf 1\n");
        assert_eq!(folded.pruned(0), folded);
        assert_eq!(folded.pruned(100).to_text(), "a 12\nf 1\n");
    }

    proptest::proptest! {
        #[test]
        fn lines_in_any_order_are_summed(lines in proptest::collection::vec(("[ab](;[ab])?", 0u64..9), 0..20)) {
            let (mut text, mut added) = (String::new(), Folded::new());
            for (stack, weight) in lines {
                let _ = writeln!(text, "{stack} {weight}");
                added.add(stack, weight);
            }
            proptest::prop_assert_eq!(Folded::parse(&text), Ok(added));
        }
    }
}
