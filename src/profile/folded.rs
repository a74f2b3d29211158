//! Folded stacks: `root;...;leaf weight`, one line per distinct stack, the format of `stackcollapse` and inferno.
//!
//! Kernel and user frames have plain names. The kernel's part of a stack starts at the first frame for which
//! [`is_kernel_entry`] is true; collectors insert [`KERNEL`] if a stack has no such frame.

pub(crate) use crate::roles::{KERNEL, is_kernel_entry};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Stacks with weights, each stack once, in the order of their text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Folded {
    stacks: BTreeMap<String, u64>,
}

/// A line of a folded file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct FoldedError {
    /// Counted from 1.
    pub line: usize,
    pub what: String,
}

/// `name` as a frame of a stack, without separators of frames and lines.
#[must_use]
pub(crate) fn frame_name(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|b| b != b';' && b.is_ascii() && !b.is_ascii_control()) {
        return Cow::Borrowed(name);
    }
    name.chars().map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}

impl Folded {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Add `weight` to the stack whose frames, root first, are joined by `;`. A weight of 0 adds nothing.
    pub fn add(&mut self, stack: impl Into<String>, weight: u64) {
        if weight > 0 {
            let entry = self.stacks.entry(stack.into()).or_insert(0);
            *entry = entry.saturating_add(weight);
        }
    }

    /// Add `weight` to the stack made of `frames`, root first.
    pub fn add_frames<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, weight: u64) {
        let mut stack = String::new();
        for frame in frames {
            if !stack.is_empty() {
                stack.push(';');
            }
            stack.push_str(&frame_name(frame));
        }
        // Neither a comment nor a line without a stack.
        if stack.is_empty() || stack.starts_with('#') {
            stack.insert(0, '_');
        }
        self.add(stack, weight);
    }

    /// Add all stacks of `other`.
    pub fn merge(&mut self, other: &Folded) {
        for (stack, weight) in &other.stacks {
            self.add(stack.clone(), *weight);
        }
    }

    /// The same weight in fewer stacks: each is cut to its longest prefix that has a total weight of at least `least`.
    #[must_use]
    pub(crate) fn pruned(&self, least: u64) -> Folded {
        let mut inclusive: BTreeMap<&str, u64> = BTreeMap::new();
        let parts = |stack: &'_ str| -> Vec<usize> {
            stack.match_indices(';').map(|(end, _)| end).chain(std::iter::once(stack.len())).collect()
        };
        for (stack, weight) in &self.stacks {
            for end in parts(stack) {
                *inclusive.entry(&stack[..end]).or_default() += weight;
            }
        }
        let mut pruned = Folded::new();
        for (stack, weight) in &self.stacks {
            let heavy = |end: &&usize| inclusive.get(&stack[..**end]).is_some_and(|weight| *weight >= least);
            let ends = parts(stack);
            let end = ends.iter().rev().find(heavy).or(ends.first()).copied().unwrap_or(stack.len());
            pruned.add(&stack[..end], *weight);
        }
        pruned
    }

    /// Stacks and weights, in the order of the stacks' text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight))
    }

    /// The sum of all weights.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.stacks.values().fold(0, |sum: u64, weight| sum.saturating_add(*weight))
    }

    /// The number of distinct stacks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// The text of a folded file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.stacks.keys().map(|stack| stack.len() + 12).sum());
        for (stack, weight) in &self.stacks {
            let _ = writeln!(text, "{stack} {weight}");
        }
        text
    }

    /// Parse a folded file. Empty lines and lines that start with `#` are skipped, and repeated stacks are summed.
    /// Weights must be whole numbers (`12.0` is one).
    ///
    /// # Errors
    /// The first line that is not a stack, a space and a weight.
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
        // A map made of sorted stacks takes half the time and memory of one to which they are added one by one.
        stacks.sort_unstable();
        stacks.dedup_by(|(stack, weight), (kept, sum)| {
            let same = stack == kept;
            if same {
                *sum += *weight;
            }
            same
        });
        Ok(Self { stacks: stacks.into_iter().map(|(stack, weight)| (stack.to_owned(), weight)).collect() })
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
        fn no_text_panics(text: String) {
            let _ = Folded::parse(&text);
        }

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
