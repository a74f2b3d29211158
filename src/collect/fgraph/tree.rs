//! Build the call tree of one task from entries and exits.

use super::format::GraphEvent;
use crate::util::histogram::Log2Histogram;
use std::collections::{BTreeMap, HashMap};

/// A function called along one path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CallNode {
    pub function: u64,
    /// Index of the caller; the root refers to itself.
    pub parent: usize,
    /// Entries seen.
    pub calls: u64,
    pub returned: u64,
    /// Time of the calls that returned, ns.
    pub total_ns: u64,
    /// The same without traced callees.
    pub self_ns: u64,
    /// Calls that returned, by duration.
    pub(crate) durations: Log2Histogram,
}

/// A task's calls by path. Node 0 is the root: time outside all traced functions.
#[derive(Debug, Clone)]
pub(crate) struct CallTree {
    pub nodes: Vec<CallNode>,
    children: HashMap<(usize, u64), usize>,
    /// The calls that are open, outermost first.
    open: Vec<OpenCall>,
    /// Entries without exit and exits without entry, by function. Calls open at the end do not count.
    pub(crate) unmatched: BTreeMap<u64, u64>,
    /// Calls that were too deep for the kernel to trace.
    pub(crate) overrun: u64,
}

#[derive(Debug, Clone, Copy)]
struct OpenCall {
    node: usize,
    /// The depth in the entry event.
    depth: u64,
    /// Time of callees that returned.
    callees: u64,
    /// Whether it is a call of this tree, not of the one before it.
    counted: bool,
}

impl Default for CallTree {
    fn default() -> Self {
        Self {
            nodes: vec![CallNode::default()],
            children: HashMap::new(),
            open: Vec::new(),
            unmatched: BTreeMap::new(),
            overrun: 0,
        }
    }
}

impl CallTree {
    /// The tree of the calls from now on. Calls that are open are those of this one.
    pub(crate) fn next(&self) -> Self {
        let mut next = Self::default();
        for open in &self.open {
            let (function, parent) = (self.nodes[open.node].function, next.open.last().map_or(0, |open| open.node));
            let node = next.node(parent, function);
            next.open.push(OpenCall { node, callees: 0, counted: false, ..*open });
        }
        next
    }

    /// The node of `function`, called by `parent`.
    fn node(&mut self, parent: usize, function: u64) -> usize {
        let next = self.nodes.len();
        let node = *self.children.entry((parent, function)).or_insert(next);
        if node == next {
            self.nodes.push(CallNode { function, parent, ..CallNode::default() });
        }
        node
    }

    /// The task's next event.
    pub(crate) fn add(&mut self, event: GraphEvent) {
        match event {
            GraphEvent::Entry { function, depth } => {
                // An interrupt just before a function's exit event uses the same depth, so an equal depth does not
                // mean a lost exit.
                while self.open.last().is_some_and(|open| open.depth > depth) {
                    self.give_up();
                }
                let parent = self.open.last().map_or(0, |open| open.node);
                let node = self.node(parent, function);
                self.nodes[node].calls += 1;
                self.open.push(OpenCall { node, depth, callees: 0, counted: true });
            }
            GraphEvent::Fork { .. } | GraphEvent::Exec { .. } => {}
            GraphEvent::Exit { function, depth, took, overrun } => {
                self.overrun = self.overrun.max(overrun);
                let is_it = |open: &OpenCall| open.depth == depth && self.nodes[open.node].function == function;
                let Some(at) = self.open.iter().rposition(is_it) else {
                    *self.unmatched.entry(function).or_insert(0) += 1;
                    return;
                };
                while self.open.len() > at + 1 {
                    self.give_up();
                }
                let Some(open) = self.open.pop().filter(|open| open.counted) else { return };
                let node = &mut self.nodes[open.node];
                node.returned += 1;
                node.durations.add(took);
                node.total_ns = node.total_ns.saturating_add(took);
                node.self_ns = node.self_ns.saturating_add(took.saturating_sub(open.callees));
                if let Some(caller) = self.open.last_mut() {
                    caller.callees = caller.callees.saturating_add(took);
                }
            }
        }
    }

    /// The exit of the innermost open call was lost.
    fn give_up(&mut self) {
        let Some(open) = self.open.pop().filter(|open| open.counted) else { return };
        *self.unmatched.entry(self.nodes[open.node].function).or_insert(0) += 1;
        if let Some(caller) = self.open.last_mut() {
            caller.callees = caller.callees.saturating_add(open.callees);
        }
    }

    /// The nodes of calls that had not returned when tracing ended.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = usize> {
        self.open.iter().filter(|open| open.counted).map(|open| open.node)
    }

    /// The number of calls without an end.
    pub(crate) fn unmatched(&self) -> u64 {
        self.unmatched.values().sum()
    }

    pub(crate) fn calls(&self) -> u64 {
        self.nodes.iter().map(|node| node.calls).sum()
    }

    /// The functions from the root to `node`, itself included.
    pub(crate) fn path(&self, mut node: usize) -> Vec<u64> {
        let mut path = Vec::new();
        while node != 0 {
            path.push(self.nodes[node].function);
            node = self.nodes[node].parent;
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(function: u64, depth: u64) -> GraphEvent {
        GraphEvent::Entry { function, depth }
    }

    fn exit(function: u64, depth: u64, took: u64) -> GraphEvent {
        GraphEvent::Exit { function, depth, took, overrun: 0 }
    }

    fn tree(events: &[GraphEvent]) -> CallTree {
        let mut tree = CallTree::default();
        events.iter().for_each(|event| tree.add(*event));
        tree
    }

    #[test]
    fn self_time_is_without_callees() {
        let tree = tree(&[entry(1, 0), entry(2, 1), exit(2, 1, 30), entry(2, 1), exit(2, 1, 20), exit(1, 0, 100)]);
        assert_eq!(tree.nodes.len(), 3);
        assert_eq!((tree.nodes[1].calls, tree.nodes[1].total_ns, tree.nodes[1].self_ns), (1, 100, 50));
        assert_eq!((tree.nodes[2].calls, tree.nodes[2].total_ns, tree.nodes[2].self_ns), (2, 50, 50));
        assert_eq!(tree.path(2), [1, 2]);
        assert_eq!((tree.unmatched(), tree.unfinished().count()), (0, 0));
    }

    #[test]
    fn recursion_is_a_path_of_its_own() {
        let tree = tree(&[entry(1, 0), entry(1, 1), exit(1, 1, 5), exit(1, 0, 9)]);
        assert_eq!(tree.path(2), [1, 1]);
        assert_eq!(tree.nodes[1].self_ns, 4);
    }

    #[test]
    fn a_lost_exit_is_counted_and_the_rest_stays_right() {
        let tree = tree(&[entry(1, 0), entry(2, 1), entry(3, 1), exit(3, 1, 5), exit(1, 0, 9)]);
        assert_eq!(tree.unmatched, BTreeMap::from([(2, 1)]));
        assert_eq!(tree.nodes[1].self_ns, 4);
    }

    #[test]
    fn an_interrupt_before_the_exit_is_reported_has_its_depth() {
        let tree = tree(&[entry(1, 0), entry(2, 1), entry(9, 1), exit(9, 1, 3), exit(2, 1, 5), exit(1, 0, 9)]);
        assert_eq!((tree.unmatched(), tree.unfinished().count()), (0, 0));
        assert_eq!(tree.path(3), [1, 2, 9]);
        assert_eq!([1, 2, 3].map(|node| tree.nodes[node].self_ns), [4, 2, 3]);
    }

    #[test]
    fn an_interrupt_before_the_entry_is_reported_is_deeper() {
        let tree = tree(&[entry(1, 0), entry(9, 2), exit(9, 2, 3), entry(2, 1), exit(2, 1, 5), exit(1, 0, 9)]);
        assert_eq!((tree.unmatched(), tree.unfinished().count()), (0, 0));
        assert_eq!(tree.path(2), [1, 9]);
    }

    #[test]
    fn calls_that_are_open_are_not_those_of_the_next_tree() {
        let before = tree(&[entry(1, 0), entry(2, 1), exit(2, 1, 5), entry(3, 1)]);
        let mut after = before.next();
        for event in [entry(4, 2), exit(4, 2, 7), exit(3, 1, 90), entry(2, 1), exit(2, 1, 6), exit(1, 0, 100)] {
            after.add(event);
        }
        assert_eq!((before.calls(), before.unfinished().collect::<Vec<_>>()), (3, vec![1, 3]));
        assert_eq!((after.calls(), after.unmatched(), after.unfinished().count()), (2, 0, 0));
        let times: Vec<_> = after.nodes.iter().map(|node| (node.function, node.calls, node.self_ns)).collect();
        assert_eq!(times, [(0, 0, 0), (1, 0, 0), (3, 0, 0), (4, 1, 7), (2, 1, 6)]);
        assert_eq!(after.path(3), [1, 3, 4]);
        // A lost exit of such a call is not one of these calls, either.
        let mut after = before.next();
        after.add(exit(1, 0, 100));
        assert_eq!((after.unmatched(), after.unfinished().count()), (0, 0));
    }

    #[test]
    fn an_exit_from_before_is_counted() {
        assert_eq!(tree(&[exit(7, 0, 5), entry(1, 0)]).unmatched(), 1);
        assert_eq!(tree(&[exit(7, 0, 5), entry(1, 0)]).unfinished().count(), 1);
    }

    proptest! {
        #[test]
        fn any_events_give_a_sound_tree(events in proptest::collection::vec((any::<bool>(), 0..4u64, 0..6u64, any::<u64>()), 0..200)) {
            let mut tree = CallTree::default();
            let mut entries = 0;
            for (enter, function, depth, took) in events {
                entries += u64::from(enter);
                tree.add(if enter { entry(function, depth) } else { exit(function, depth, took) });
            }
            prop_assert_eq!(tree.calls(), entries);
            for (index, node) in tree.nodes.iter().enumerate().skip(1) {
                prop_assert!(node.parent < index && node.returned <= node.calls && node.self_ns <= node.total_ns);
            }
        }
    }
}
