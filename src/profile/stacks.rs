//! Stacks as numbers: each name is stored once, and a stack is a list of the numbers of its frames' names.

use foldhash::fast::RandomState;
use indexmap::{IndexMap, IndexSet};
use std::cmp::Ordering;
use std::fmt;
use std::sync::OnceLock;

/// The names of frames, by number.
type FrameNames = IndexSet<Box<str>, RandomState>;

/// A value for each of many stacks. Each stack is stored once; they are read in the order of their text.
#[derive(Debug, Clone)]
pub(crate) struct StackMap<T> {
    names: FrameNames,
    /// By the numbers of the frames' names, root first.
    stacks: IndexMap<Box<[u32]>, T, RandomState>,
    /// The indices of `stacks` in the order of their text; made when it is first needed.
    order: OnceLock<Vec<u32>>,
}

impl<T> Default for StackMap<T> {
    fn default() -> Self {
        Self { names: FrameNames::default(), stacks: IndexMap::default(), order: OnceLock::new() }
    }
}

#[derive(Clone, Copy)]
pub struct CallStack<'a> {
    names: &'a FrameNames,
    frames: &'a [u32],
}

impl<'a> CallStack<'a> {
    /// The names of its frames, root first.
    pub fn frames(self) -> impl DoubleEndedIterator<Item = &'a str> + ExactSizeIterator + Clone {
        let names = self.names;
        self.frames.iter().map(move |number| names.get_index(*number as usize).map_or("", |name| &**name))
    }

    /// Its first frame.
    pub fn root(self) -> &'a str {
        self.frames().next().unwrap_or_default()
    }

    /// Its innermost frame.
    pub fn leaf(self) -> &'a str {
        self.frames().next_back().unwrap_or_default()
    }

    /// The number of its first frames that `other` has, too. Stacks of two profiles have none.
    pub fn common(self, other: CallStack<'_>) -> usize {
        if !std::ptr::eq(self.names, other.names) {
            return 0;
        }
        self.frames.iter().zip(other.frames).take_while(|(own, other)| own == other).count()
    }

    fn text_order(self, other: Self) -> Ordering {
        let common = self.common(other);
        let rest = |stack: Self| {
            let last = stack.frames.len() == common + 1;
            let name = stack.frames().nth(common)?;
            // A name that other frames follow ends with a separator, which is less than a letter and greater than a dot.
            Some(name.bytes().chain((!last).then_some(b';')))
        };
        match (rest(self), rest(other)) {
            (Some(own), Some(other)) => own.cmp(other),
            (own, other) => own.is_some().cmp(&other.is_some()),
        }
    }
}

/// The text of a folded file: frames joined by `;`, root first.
impl fmt::Display for CallStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, frame) in self.frames().enumerate() {
            if index > 0 {
                f.write_str(";")?;
            }
            f.write_str(frame)?;
        }
        Ok(())
    }
}

impl fmt::Debug for CallStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

/// A text whose frames have numbers, so that those of the next one need not be looked up again.
#[derive(Debug, Clone, Default)]
pub(super) struct LastText<'t> {
    text: &'t str,
    frames: Vec<u32>,
}

impl<T> StackMap<T> {
    /// The numbers of the frames in `text`. Those that it has in common with the `last` one are taken from there: most,
    /// if the texts come in order.
    pub(super) fn numbers<'l, 't>(&mut self, text: &'t str, last: &'l mut LastText<'t>) -> &'l [u32] {
        let (new, old) = (text.as_bytes(), last.text.as_bytes());
        let common = new.iter().zip(old).take_while(|(new, old)| new == old).count();
        let (kept, start) = match new[..common].iter().rposition(|byte| *byte == b';') {
            Some(end) => (new[..=end].iter().filter(|byte| **byte == b';').count(), end + 1),
            None => (0, 0),
        };
        last.frames.truncate(kept);
        for name in text[start..].split(';') {
            last.frames.push(self.number(name));
        }
        last.text = text;
        &last.frames
    }

    fn number(&mut self, name: &str) -> u32 {
        let known = self.names.get_index_of(name);
        known.unwrap_or_else(|| self.names.insert_full(name.into()).0) as u32
    }

    /// The number of the stack of these names, root first, and its value. A new one is added as `T::default()`.
    pub(super) fn entry<'f>(&mut self, frames: impl IntoIterator<Item = &'f str>) -> (usize, &mut T)
    where
        T: Default,
    {
        let numbers: Vec<u32> = frames.into_iter().map(|name| self.number(name)).collect();
        self.entry_of(&numbers)
    }

    /// The same for the numbers of the names.
    pub(super) fn entry_of(&mut self, frames: &[u32]) -> (usize, &mut T)
    where
        T: Default,
    {
        let index = self.stacks.get_index_of(frames).unwrap_or_else(|| {
            self.order.take();
            self.stacks.insert_full(frames.into(), T::default()).0
        });
        (index, &mut self.stacks[index])
    }

    /// The number of the stack of these names, and its value, if there is one.
    pub(super) fn find<'f>(&self, frames: impl IntoIterator<Item = &'f str>) -> Option<(usize, &T)> {
        let numbers: Option<Vec<u32>> =
            frames.into_iter().map(|name| self.names.get_index_of(name).map(|number| number as u32)).collect();
        let (index, _, value) = self.stacks.get_full(&numbers?[..])?;
        Some((index, value))
    }

    /// All stacks with their values, in the order of the stacks' text.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (CallStack<'_>, &T)> {
        self.numbered().map(|(_, stack, value)| (stack, value))
    }

    /// The same with the number of each stack.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, CallStack<'_>, &T)> {
        let order = self.order.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.stacks.len() as u32).collect();
            let stack = |index: &u32| {
                let frames = self.stacks.get_index(*index as usize).map_or(&[][..], |(frames, _)| frames);
                CallStack { names: &self.names, frames }
            };
            // By insertion where it is sorted already, as stored files are.
            order.sort_by(|one, other| stack(one).text_order(stack(other)));
            order
        });
        order.iter().filter_map(|index| {
            let (frames, value) = self.stacks.get_index(*index as usize)?;
            Some((*index as usize, CallStack { names: &self.names, frames }, value))
        })
    }

    /// The values, in any order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.stacks.values()
    }

    /// The number of stacks.
    pub(super) fn len(&self) -> usize {
        self.stacks.len()
    }
}

impl<T: PartialEq> PartialEq for StackMap<T> {
    fn eq(&self, other: &Self) -> bool {
        let same = |((one, value), (other, weight)): ((CallStack<'_>, &T), (CallStack<'_>, &T))| {
            value == weight && one.frames().eq(other.frames())
        };
        self.len() == other.len() && self.iter().zip(other.iter()).all(same)
    }
}

impl<T: Eq> Eq for StackMap<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn stacks_are_in_the_order_of_their_text(texts in prop::collection::vec("[ab.0]{0,2}(;[ab.0é]{0,2}){0,3}", 0..30)) {
            let mut stacks = StackMap::<u64>::default();
            let mut expected = BTreeMap::<String, u64>::new();
            let mut last = LastText::default();
            for (index, text) in texts.iter().enumerate() {
                *expected.entry(text.clone()).or_default() += index as u64;
                // By both ways that lead to a stack.
                let (_, value) = if index % 2 == 0 {
                    let numbers = stacks.numbers(text, &mut last).to_vec();
                    stacks.entry_of(&numbers)
                } else {
                    stacks.entry(text.split(';'))
                };
                *value += index as u64;
                prop_assert!(stacks.iter().count() <= index + 1);
            }
            let found: Vec<(String, u64)> = stacks.iter().map(|(stack, value)| (stack.to_string(), *value)).collect();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
            for text in &texts {
                let (index, _) = stacks.find(text.split(';')).unwrap();
                prop_assert!(stacks.numbered().any(|(other, stack, _)| other == index && stack.to_string() == *text));
            }
            prop_assert_eq!(stacks.find(["c"]), None);
        }
    }

    #[test]
    fn equal_stacks_are_equal_in_any_order_of_insertion() {
        let of = |texts: &[&str]| {
            let mut stacks = StackMap::<u64>::default();
            texts.iter().for_each(|text| *stacks.entry(text.split(';')).1 += 1);
            stacks
        };
        assert_eq!(of(&["a;b", "c", "a;b"]), of(&["c", "a;b", "a;b"]));
        assert_ne!(of(&["a;b"]), of(&["a;b", "a;b"]));
        assert_ne!(of(&["a;b"]), of(&["a;c"]));
    }

    #[test]
    fn frames_in_common_are_those_of_one_profile() {
        let mut stacks = StackMap::<u64>::default();
        stacks.entry(["a", "b", "c"]);
        stacks.entry(["a", "b", "d", "e"]);
        let other = stacks.clone();
        let both: Vec<CallStack<'_>> = stacks.iter().map(|(stack, _)| stack).collect();
        assert_eq!(both[0].common(both[1]), 2);
        assert_eq!(both[0].common(other.iter().next().unwrap().0), 0);
        assert_eq!((both[1].root(), both[1].leaf(), both[1].frames().len()), ("a", "e", 4));
    }
}
