//! Merge stacks into a tree of frames.

use crate::profile::ProcessName;
use crate::profile::folded::is_kernel_entry;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Deeper frames of a stack are drawn as one. More are unreadable, and a hostile file must not cause a huge picture.
const DEEPEST: usize = 400;

/// The frame for everything deeper than [`DEEPEST`].
const DEEPER: &str = "[deeper]";

/// Part of the names of all functions in the worker's hot loop.
const HOT_LOOP: &str = "::workload::worker::hot::";

/// The frames of `stack` to draw, root first. The frames of pipeprof's worker between `main` and its hot loop are left
/// out, because they are in every stack. Folded files contain them.
pub(super) fn drawn<'a>(stack: &'a str, processes: &[ProcessName]) -> Vec<&'a str> {
    let mut frames: Vec<&str> = stack.split(';').collect();
    let kernel = frames.iter().position(|frame| is_kernel_entry(frame)).unwrap_or(frames.len());
    if let Some(hot) = frames[..kernel].iter().rposition(|frame| frame.contains(HOT_LOOP)) {
        let root = usize::from(processes.iter().any(|process| Some(&process.as_str()) == frames.first()));
        if root < hot {
            frames.drain(root..hot);
        }
    }
    frames
}

/// One frame in one context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FrameNode {
    pub name: String,
    /// Weight of this frame with all its callees.
    pub weight: u64,
    /// Weight of the stacks that end here.
    pub own: u64,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
}

/// A forest. Nodes without a parent are roots of stacks (leaves, if stacks are reversed).
#[derive(Debug, Clone, Default)]
pub(super) struct FrameTree {
    nodes: Vec<FrameNode>,
    roots: BTreeMap<String, usize>,
    processes: Vec<ProcessName>,
}

impl FrameTree {
    /// An empty tree. Roots named like `processes` keep their order.
    pub(crate) fn of(processes: &[ProcessName]) -> Self {
        Self { processes: processes.to_vec(), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, node: usize) -> &FrameNode {
        &self.nodes[node]
    }

    /// Add a stack, root first. Frames with equal `key` are merged. Returns the nodes of its path.
    pub(crate) fn add<'a>(
        &mut self,
        stack: &'a str,
        weight: u64,
        reverse: bool,
        key: impl Fn(&'a str) -> &'a str,
    ) -> Vec<usize> {
        let frames = drawn(stack, &self.processes);
        if reverse {
            self.add_frames(frames.into_iter().rev(), weight, key)
        } else {
            self.add_frames(frames.into_iter(), weight, key)
        }
    }

    fn add_frames<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a str>,
        weight: u64,
        key: impl Fn(&'a str) -> &'a str,
    ) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at: Option<usize> = None;
        for name in frames {
            if path.len() > DEEPEST {
                break;
            }
            let name = if path.len() == DEEPEST { DEEPER } else { name };
            let next = self.nodes.len();
            let siblings = match at {
                Some(parent) => &mut self.nodes[parent].children,
                None => &mut self.roots,
            };
            let node = match siblings.get(key(name)) {
                Some(node) => *node,
                None => {
                    siblings.insert(key(name).to_owned(), next);
                    self.nodes.push(FrameNode { name: name.to_owned(), parent: at, ..FrameNode::default() });
                    next
                }
            };
            self.nodes[node].weight += weight;
            path.push(node);
            at = Some(node);
        }
        if let Some(last) = at {
            self.nodes[last].own += weight;
        }
        path
    }

    /// The stack from the root to this node.
    pub(crate) fn prefix(&self, node: usize) -> String {
        let mut names = vec![self.nodes[node].name.as_str()];
        let mut at = node;
        while let Some(parent) = self.nodes[at].parent {
            names.push(&self.nodes[parent].name);
            at = parent;
        }
        names.reverse();
        names.join(";")
    }

    /// All nodes, parents before children. Siblings are in the order of their names, processes in the order of the
    /// target, as bytes flow.
    pub(crate) fn ordered(&self) -> Vec<usize> {
        let mut ordered = Vec::with_capacity(self.nodes.len());
        let mut todo: Vec<usize> = self.roots.values().rev().copied().collect();
        let place = |node: &usize| self.processes.iter().position(|process| process.as_str() == self.nodes[*node].name);
        // The last is taken first. The sort is stable: other roots keep their order, before the processes.
        todo.sort_by_key(|node| std::cmp::Reverse(place(node)));
        while let Some(node) = todo.pop() {
            ordered.push(node);
            todo.extend(self.nodes[node].children.values().rev());
        }
        ordered
    }

    /// A line for inferno per node with self weight. Frames are named by their index in [`FrameTree::ordered`], with
    /// equal numbers of digits, so that the lines are sorted as text, which inferno requires.
    pub(crate) fn lines(&self) -> Vec<String> {
        let digits = self.nodes.len().to_string().len();
        let mut paths: Vec<String> = vec![String::new(); self.nodes.len()];
        let mut lines = Vec::new();
        for (place, node) in self.ordered().into_iter().enumerate() {
            let frame = &self.nodes[node];
            let mut path = frame.parent.map_or_else(String::new, |parent| format!("{};", paths[parent]));
            let _ = write!(path, "{place:0digits$}");
            if frame.own > 0 {
                lines.push(format!("{path} {}", frame.own));
            }
            if !frame.children.is_empty() {
                paths[node] = path;
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: [ProcessName; 3] = [ProcessName::WRITER, ProcessName::READER, ProcessName::OTHER];

    #[test]
    fn the_worker_s_frames_before_its_hot_loop_are_not_drawn() {
        let stack = "writer;core::ops::call_once;pipeprof::main;pipeprof::workload::worker::hot::run;\
                     pipeprof::workload::worker::hot::around;write;entry_SYSCALL_64;pipe_write";
        let frames = ["writer", "pipeprof::workload::worker::hot::around", "write", "entry_SYSCALL_64", "pipe_write"];
        assert_eq!(drawn(stack, &PAIR), frames);
        for whole in ["writer;main;write;entry_SYSCALL_64", "main", "reader", ""] {
            assert_eq!(drawn(whole, &PAIR).join(";"), whole);
        }
    }

    #[test]
    fn processes_are_ordered_as_bytes_flow_and_others_by_name() {
        let mut tree = FrameTree::of(&PAIR);
        for stack in ["reader;b", "other;c", "writer;z", "writer;a", "zsh", "bash"] {
            tree.add(stack, 1, false, |name| name);
        }
        let names: Vec<&str> = tree.ordered().into_iter().map(|node| tree.node(node).name.as_str()).collect();
        assert_eq!(names, ["bash", "zsh", "writer", "a", "z", "reader", "b", "other", "c"]);
    }
}
