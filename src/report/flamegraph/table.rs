//! Stacks as numbers: each name of a frame is kept once, and a stack is a slice of the names' numbers.

use crate::profile::{CallStack, ProcessName};
use crate::roles::{Attributable as _, FrameFact, FrameFacts};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Deeper frames of a stack are drawn as one. More are unreadable, and a hostile file must not cause a huge picture.
const DEEPEST: usize = 400;

/// The frame for everything deeper than [`DEEPEST`].
const DEEPER: &str = "[deeper]";

/// Part of the names of all functions in the worker's hot loop.
const HOT_LOOP: &str = "::workload::worker::hot::";

/// Mixes hashes of paths: odd, from the golden ratio.
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is known about a name.
#[derive(Debug, Clone, Copy)]
struct NameFacts {
    facts: FrameFacts,
    in_hot_loop: bool,
    is_process: bool,
}

/// The stacks of a picture: of each, the frames to draw, from the lowest to the highest.
#[derive(Debug, Clone)]
pub(super) struct StackTable<'a> {
    processes: &'a [ProcessName],
    reverse: bool,
    names: Vec<&'a str>,
    known: Vec<NameFacts>,
    numbers: HashMap<&'a str, u32, RandomState>,
    /// The frames of all stacks, by number of their name.
    frames: Vec<u32>,
    /// Where each stack ends in `frames`.
    ends: Vec<usize>,
    weights: Vec<u64>,
    /// The stack added last, and all its frames, root first.
    last: Option<CallStack<'a>>,
    last_frames: Vec<u32>,
}

impl<'a> StackTable<'a> {
    /// An empty table. Roots named like `processes` are drawn after others, in this order. With `reverse`, leaves are
    /// the lowest frames.
    pub(super) fn new(processes: &'a [ProcessName], reverse: bool) -> Self {
        Self {
            processes,
            reverse,
            names: Vec::new(),
            known: Vec::new(),
            numbers: HashMap::default(),
            frames: Vec::new(),
            ends: Vec::new(),
            weights: Vec::new(),
            last: None,
            last_frames: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, stack: CallStack<'a>, weight: u64) {
        self.take(stack);
        let hidden = self.hidden();
        let drawn = self.last_frames.len() - hidden.len();
        let deeper = (drawn > DEEPEST).then(|| self.number(DEEPER));
        let (before, after) = (&self.last_frames[..hidden.start], &self.last_frames[hidden.end..]);
        let upwards = before.iter().chain(after);
        if self.reverse {
            self.frames.extend(upwards.rev().take(DEEPEST));
        } else {
            self.frames.extend(upwards.take(DEEPEST));
        }
        self.frames.extend(deeper);
        self.ends.push(self.frames.len());
        self.weights.push(weight);
    }

    /// All frames of the stack added last, root first, also those that are not drawn.
    pub(super) fn last_facts(&self) -> impl DoubleEndedIterator<Item = FrameFacts> + Clone {
        self.last_frames.iter().map(|number| self.known[*number as usize].facts)
    }

    /// Make the frames of `stack` `last_frames`. Those that it has in common with the last one, mostly all but a few in the
    /// order of [`crate::profile::Folded`], are not looked up again.
    fn take(&mut self, stack: CallStack<'a>) {
        let common = self.last.map_or(0, |last| stack.common(last));
        self.last_frames.truncate(common);
        for name in stack.frames().skip(common) {
            let number = self.number(name);
            self.last_frames.push(number);
        }
        self.last = Some(stack);
    }

    fn number(&mut self, name: &'a str) -> u32 {
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.known.push(NameFacts {
                facts: FrameFacts::of(name),
                in_hot_loop: name.contains(HOT_LOOP),
                is_process: self.processes.iter().any(|process| process.as_str() == name),
            });
            (self.names.len() - 1) as u32
        })
    }

    /// The frames of the last stack that are not drawn: those of pipeprof's worker between `main` and its hot loop,
    /// because they are in every stack. Folded files contain them.
    fn hidden(&self) -> std::ops::Range<usize> {
        let known = |number: &u32| self.known[*number as usize];
        let frames = &self.last_frames;
        let kernel =
            frames.iter().position(|frame| known(frame).facts.is(FrameFact::StartsKernel)).unwrap_or(frames.len());
        let root = usize::from(frames.first().is_some_and(|frame| known(frame).is_process));
        let hot = frames[..kernel].iter().rposition(|frame| known(frame).in_hot_loop).unwrap_or(0);
        root..hot.max(root)
    }

    /// The number of stacks.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn weight(&self, stack: usize) -> u64 {
        self.weights[stack]
    }

    /// The drawn frames of a stack, by number of their name.
    fn frames(&self, stack: usize) -> &[u32] {
        let start = stack.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.frames[start..self.ends[stack]]
    }

    /// The number of drawn frames.
    pub(super) fn depth(&self, stack: usize) -> usize {
        self.frames(stack).len()
    }

    /// The name of the drawn frame at `depth`.
    pub(super) fn name(&self, stack: usize, depth: usize) -> &'a str {
        self.names[self.frames(stack)[depth] as usize]
    }

    /// The order of names by their `key`. Names with equal key have the same place.
    pub(super) fn places(&self, key: impl Fn(&'a str) -> &'a str) -> SiblingPlaces {
        let keys: Vec<&str> = self.names.iter().map(|name| key(name)).collect();
        let mut distinct = keys.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let place = |key: &&str| 1 + distinct.partition_point(|other| other < key) as u32;
        let lowest = |key: &&str| {
            let process = self.processes.iter().position(|process| process.as_str() == *key);
            process.map_or_else(|| place(key), |process| (1 + distinct.len() + process) as u32)
        };
        SiblingPlaces { lowest: keys.iter().map(lowest).collect(), others: keys.iter().map(place).collect() }
    }

    /// The place of the drawn frame at `depth` among its siblings; 0 where the stack has ended.
    pub(super) fn place(&self, stack: usize, depth: usize, places: &SiblingPlaces) -> u32 {
        let of_depth = if depth == 0 { &places.lowest } else { &places.others };
        self.frames(stack).get(depth).map_or(0, |number| of_depth[*number as usize])
    }

    /// All stacks, sorted so that those with the same places are next to each other.
    pub(super) fn grouped(&self, places: &SiblingPlaces) -> Vec<u32> {
        let path = |stack: u32| self.frames(stack as usize).iter().map(|number| places.others[*number as usize]);
        // Numbers are faster to compare than paths.
        let hash =
            |stack: u32| path(stack).fold(0u64, |hash, place| (hash ^ u64::from(place)).wrapping_mul(HASH_FACTOR));
        let mut hashed: Vec<(u64, u32)> = (0..self.len() as u32).map(|stack| (hash(stack), stack)).collect();
        hashed.sort_unstable_by(|one, other| one.0.cmp(&other.0).then_with(|| path(one.1).cmp(path(other.1))));
        hashed.into_iter().map(|(_, stack)| stack).collect()
    }

    /// Whether all drawn frames have the same places.
    pub(super) fn same_path(&self, one: u32, other: u32, places: &SiblingPlaces) -> bool {
        let path = |stack: u32| self.frames(stack as usize).iter().map(|number| places.others[*number as usize]);
        path(one).eq(path(other))
    }
}

/// The places of names among siblings, by number of the name, counted from 1.
#[derive(Debug, Clone)]
pub(super) struct SiblingPlaces {
    /// Among the lowest frames, where processes come last.
    lowest: Vec<u32>,
    others: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Folded;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const PAIR: [ProcessName; 3] = [ProcessName::WRITER, ProcessName::READER, ProcessName::OTHER];

    fn stack<'a>(stacks: &'a Folded, text: &str) -> CallStack<'a> {
        stacks.iter().find(|(stack, _)| stack.to_string() == text).unwrap().0
    }

    fn folded<'t>(texts: impl IntoIterator<Item = &'t str>) -> Folded {
        let mut folded = Folded::new();
        texts.into_iter().for_each(|text| folded.add(text, 1));
        folded
    }

    fn names<'a>(table: &StackTable<'a>, stack: usize) -> Vec<&'a str> {
        (0..table.depth(stack)).map(|depth| table.name(stack, depth)).collect()
    }

    #[test]
    fn the_worker_s_frames_before_its_hot_loop_are_not_drawn() {
        let whole = "writer;core::ops::call_once;pipeprof::main;pipeprof::workload::worker::hot::run;\
                     pipeprof::workload::worker::hot::around;write;entry_SYSCALL_64;pipe_write";
        let frames = ["writer", "pipeprof::workload::worker::hot::around", "write", "entry_SYSCALL_64", "pipe_write"];
        let others = ["writer;main;write;entry_SYSCALL_64", "main", "reader", ""];
        let stacks = folded(others.into_iter().chain([whole]));
        let mut table = StackTable::new(&PAIR, false);
        table.add(stack(&stacks, whole), 1);
        assert_eq!(names(&table, 0), frames);
        assert_eq!(table.last_facts().count(), 8);
        for (index, whole) in others.into_iter().enumerate() {
            table.add(stack(&stacks, whole), 1);
            assert_eq!(names(&table, index + 1).join(";"), whole);
        }
    }

    proptest! {
        #[test]
        fn stacks_are_read_back_in_any_order(texts in prop::collection::vec("[abé]{0,2}(;[abé]{0,2}){0,5}", 1..20)) {
            let stacks = folded(texts.iter().map(String::as_str));
            for reverse in [false, true] {
                let mut table = StackTable::new(&PAIR, reverse);
                for (index, text) in texts.iter().enumerate() {
                    table.add(stack(&stacks, text), 1);
                    let mut frames: Vec<&str> = text.split(';').collect();
                    if reverse {
                        frames.reverse();
                    }
                    prop_assert_eq!(names(&table, index), frames);
                }
            }
        }

        #[test]
        fn equal_paths_are_next_to_each_other(texts in prop::collection::vec("[ab](;[ab](_noprof)?){0,2}", 1..40)) {
            let mut table = StackTable::new(&PAIR, false);
            let stacks = folded(texts.iter().map(String::as_str));
            let mut expected: BTreeMap<String, Vec<u32>> = BTreeMap::new();
            for (index, text) in texts.iter().enumerate() {
                table.add(stack(&stacks, text), 1);
                expected.entry(text.replace("_noprof", "")).or_default().push(index as u32);
            }
            let places = table.places(crate::roles::canonical);
            let grouped = table.grouped(&places);
            let mut groups: Vec<Vec<u32>> = grouped
                .chunk_by(|one, other| table.same_path(*one, *other, &places))
                .map(|group| {
                    let mut group = group.to_vec();
                    group.sort_unstable();
                    group
                })
                .collect();
            groups.sort_unstable();
            let mut expected: Vec<Vec<u32>> = expected.into_values().collect();
            expected.sort_unstable();
            prop_assert_eq!(groups, expected);
        }
    }
}
