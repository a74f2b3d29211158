//! The frames that are wide enough to be drawn.

use super::table::{SiblingPlaces, StackTable};
use std::fmt::Write as _;
use std::ops::Range;

/// Narrower frames, in percent of the width, are not drawn: at 1200 pixels they are half a pixel. The folded file keeps
/// them.
pub(super) const MIN_WIDTH_PERCENT: f64 = 0.05;

/// One frame in one context, or frames next to each other that are too narrow even together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FrameNode<'a> {
    /// `None` for frames that are too narrow to be drawn.
    pub name: Option<&'a str>,
    /// Number of frames below it.
    pub depth: usize,
    /// Weight of this frame with all its callees.
    pub weight: u64,
    /// Weight of the stacks that end here.
    pub own: u64,
    /// Its stacks, by place in the order of the tree.
    stacks: Range<usize>,
}

/// The frames of a flame graph, each before those above it. Siblings are in the order of their names, processes in the
/// order of the target, as bytes flow.
///
/// Frames of less than [`MIN_WIDTH_PERCENT`] are not made at all, nor what is above them. Such siblings next to each
/// other are one node as long as they are too narrow together, so that the number of nodes depends on the width of the
/// picture, not on the number of stacks.
#[derive(Debug, Clone)]
pub(super) struct FrameTree<'a> {
    nodes: Vec<FrameNode<'a>>,
    /// The numbers of all stacks, those of a node next to each other.
    order: Vec<u32>,
}

/// What is needed to make nodes.
struct Growth<'t, 'a> {
    table: &'t StackTable<'a>,
    places: &'t SiblingPlaces,
    least: f64,
    tree: FrameTree<'a>,
    /// Place and number of each stack of one node, to sort them.
    sorting: Vec<(u32, u32)>,
}

/// Stacks of one node that have the same next frame, or several ones that are too narrow together.
struct Sibling {
    stacks: Range<usize>,
    weight: u64,
    is_narrow: bool,
}

impl<'a> FrameTree<'a> {
    /// The tree of all stacks. Frames with equal `places` are merged, and have the name that was added first.
    pub(super) fn of(table: &StackTable<'a>, places: &SiblingPlaces) -> Self {
        let stacks = table.len();
        let total = (0..stacks).fold(0u64, |total, stack| total.saturating_add(table.weight(stack)));
        // As inferno computes it, with the same rounding.
        let least = MIN_WIDTH_PERCENT / (100.0 / total as f64);
        let tree = Self { nodes: Vec::new(), order: (0..stacks as u32).collect() };
        let mut growth = Growth { table, places, least, tree, sorting: Vec::new() };
        growth.add_above(None, 0..stacks, 0);
        growth.tree
    }

    /// The stacks that contain this node.
    pub(super) fn stacks_of(&self, node: &FrameNode<'_>) -> &[u32] {
        &self.order[node.stacks.clone()]
    }

    /// What `paint` makes of each node that is wide enough, its name, and its stack up to there. The index of each is its
    /// number in [`FrameTree::lines`].
    pub(super) fn painted<T>(&self, mut paint: impl FnMut(&FrameNode<'a>, &'a str, &str) -> T) -> Vec<Option<T>> {
        let mut path = String::new();
        let mut ends: Vec<usize> = Vec::new();
        let painted = |node: &FrameNode<'a>| {
            let name = node.name?;
            ends.truncate(node.depth);
            path.truncate(ends.last().copied().unwrap_or(0));
            if !ends.is_empty() {
                path.push(';');
            }
            path.push_str(name);
            ends.push(path.len());
            Some(paint(node, name, &path))
        };
        self.nodes.iter().map(painted).collect()
    }

    /// A line for inferno per node with self weight. Frames are named by the index of their node, with equal
    /// numbers of digits, so that the lines are sorted as text, which inferno requires.
    pub(super) fn lines(&self) -> Vec<String> {
        let digits = self.nodes.len().to_string().len();
        let mut path = String::new();
        let mut lines = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            path.truncate(node.depth * (digits + 1));
            let _ = write!(path, "{index:0digits$}");
            if node.own > 0 {
                lines.push(format!("{path} {}", node.own));
            }
            path.push(';');
        }
        lines
    }
}

impl Growth<'_, '_> {
    fn is_narrow(&self, weight: u64) -> bool {
        (weight as f64) < self.least
    }

    /// Add all nodes above `node`, which has these stacks. `depth` is limited by the table, so that recursion is safe.
    fn add_above(&mut self, node: Option<usize>, stacks: Range<usize>, depth: usize) {
        for sibling in self.siblings(node, stacks, depth) {
            let Sibling { stacks, weight, is_narrow } = sibling;
            let first = self.tree.order[stacks.start] as usize;
            self.tree.nodes.push(FrameNode {
                name: (!is_narrow).then(|| self.table.name(first, depth)),
                depth,
                weight,
                own: if is_narrow { weight } else { 0 },
                stacks: stacks.clone(),
            });
            if !is_narrow {
                self.add_above(Some(self.tree.nodes.len() - 1), stacks, depth + 1);
            }
        }
    }

    /// Sort the stacks of `node` by their frame at `depth`, and by number where it is the same. The weight of those
    /// without such a frame is the node's own.
    fn siblings(&mut self, node: Option<usize>, stacks: Range<usize>, depth: usize) -> Vec<Sibling> {
        let order = &mut self.tree.order[stacks.clone()];
        let mut sorting = std::mem::take(&mut self.sorting);
        sorting.clear();
        sorting.extend(order.iter().map(|stack| (self.table.place(*stack as usize, depth, self.places), *stack)));
        if !sorting.is_sorted() {
            sorting.sort_unstable();
            for (stack, (_, sorted)) in order.iter_mut().zip(&sorting) {
                *stack = *sorted;
            }
        }
        let mut siblings: Vec<Sibling> = Vec::new();
        let mut start = stacks.start;
        for same in sorting.chunk_by(|(one, _), (other, _)| one == other) {
            let weight =
                same.iter().fold(0u64, |sum, (_, stack)| sum.saturating_add(self.table.weight(*stack as usize)));
            let stacks = start..start + same.len();
            start = stacks.end;
            let ended = same.first().is_some_and(|(place, _)| *place == 0);
            if ended && let Some(node) = node {
                self.tree.nodes[node].own = weight;
            } else if weight > 0 && !ended {
                self.add_sibling(&mut siblings, stacks, weight);
            }
        }
        self.sorting = sorting;
        siblings
    }

    /// Narrow ones are added to the one before while they are narrow together.
    fn add_sibling(&self, siblings: &mut Vec<Sibling>, stacks: Range<usize>, weight: u64) {
        let is_narrow = self.is_narrow(weight);
        match siblings.last_mut() {
            Some(last) if is_narrow && last.is_narrow && self.is_narrow(last.weight.saturating_add(weight)) => {
                last.weight += weight;
                last.stacks.end = stacks.end;
            }
            _ => siblings.push(Sibling { stacks, weight, is_narrow }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Folded, ProcessName};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const PAIR: [ProcessName; 3] = [ProcessName::WRITER, ProcessName::READER, ProcessName::OTHER];

    fn table(stacks: &Folded) -> StackTable<'_> {
        let mut table = StackTable::new(&PAIR, false);
        for (stack, weight) in stacks.iter() {
            table.add(stack, weight);
        }
        table
    }

    fn tree<'a>(table: &StackTable<'a>) -> FrameTree<'a> {
        FrameTree::of(table, &table.places(|name| name))
    }

    #[test]
    fn processes_are_ordered_as_bytes_flow_and_others_by_name() {
        let stacks = Folded::parse("reader;b 1\nother;c 1\nwriter;z 1\nwriter;a 1\nzsh 1\nbash 1\n").unwrap();
        let table = table(&stacks);
        let names: Vec<&str> = tree(&table).nodes.iter().filter_map(|node| node.name).collect();
        assert_eq!(names, ["bash", "zsh", "writer", "a", "z", "reader", "b", "other", "c"]);
    }

    #[test]
    fn narrow_siblings_are_merged_up_to_the_least_width() {
        // 0.04 % each of the left ones, too wide for one frame together; 0.01 % each of the right ones.
        let stacks =
            Folded::parse("a;1;x 4\na;2;x 4\na;wide 9978\nb;1 1\nb;2 1\nb;3;x 1\nb;4 1\nb;5 1\nb;6 1\nc;1 4\n")
                .unwrap();
        let table = table(&stacks);
        let tree = tree(&table);
        let nodes: Vec<(Option<&str>, usize, u64)> =
            tree.nodes.iter().map(|node| (node.name, node.depth, node.weight)).collect();
        let expected = [
            (Some("a"), 0, 9986),
            (None, 1, 4),
            (None, 1, 4),
            (Some("wide"), 1, 9978),
            (Some("b"), 0, 6),
            (None, 1, 4),
            (None, 1, 2),
            (None, 0, 4),
        ];
        assert_eq!(nodes, expected);
        assert_eq!(tree.lines(), ["0;1 4", "0;2 4", "0;3 9978", "4;5 4", "4;6 2", "7 4"]);
        assert_eq!(
            tree.painted(|_, _, path| path.to_owned()).into_iter().flatten().collect::<Vec<_>>(),
            ["a", "a;wide", "b"]
        );
    }

    #[test]
    fn nodes_depend_on_the_width_of_the_picture_not_on_the_number_of_stacks() {
        let mut stacks = Folded::new();
        for stack in 0..100_000 {
            stacks.add(format!("root;{stack};leaf"), 1);
        }
        let table = table(&stacks);
        // 2,000 frames of 0.05 %, each made of 50 stacks less one.
        let nodes = tree(&table).nodes.len();
        assert!((2000..2100).contains(&nodes), "{nodes}");
    }

    proptest! {
        #[test]
        fn every_wide_frame_is_drawn_with_its_weight(
            lines in prop::collection::vec(("[ab][0-9.]?(;[ab][0-9.]?){0,4}", prop_oneof![1u64..4, 1u64..4000]), 1..200)
        ) {
            let mut stacks = Folded::new();
            for (stack, weight) in lines {
                stacks.add(stack, weight);
            }
            let least = MIN_WIDTH_PERCENT / (100.0 / stacks.total() as f64);
            let mut weights: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
            let mut own: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
            for (stack, weight) in stacks.iter() {
                let frames: Vec<&str> = stack.frames().collect();
                for depth in 1..=frames.len() {
                    *weights.entry(frames[..depth].to_vec()).or_default() += weight;
                }
                own.insert(frames, weight);
            }
            weights.retain(|_, weight| *weight as f64 >= least);
            let expected: Vec<(String, u64, u64)> = weights
                .into_iter()
                .map(|(path, weight)| (path.join(";"), weight, own.get(&path).copied().unwrap_or(0)))
                .collect();

            let table = table(&stacks);
            let tree = tree(&table);
            let painted = tree.painted(|node, _, path| (path.to_owned(), node.weight, node.own));
            prop_assert_eq!(painted.into_iter().flatten().collect::<Vec<_>>(), expected);
            let lines = tree.lines();
            prop_assert!(lines.is_sorted());
            let sum = |line: &String| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
            prop_assert_eq!(lines.iter().map(sum).sum::<u64>(), stacks.total());
        }
    }
}
