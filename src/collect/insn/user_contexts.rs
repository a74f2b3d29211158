//! The calling contexts of user code of foreign programs. All that is compared has its functions without callers, so that a
//! program can be counted with contexts once and without them afterwards; flame graphs have both.

use super::contexts::{Contexts, functions_of};
use super::names::Names;
use super::raw::{BlockCount, ContextNode, REST, Raw};
use crate::collect::stacks::USER;
use crate::profile::Folded;
use crate::profile::folded::frame_name;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What runs before `main` is not shown: `_start`, `__libc_start_main`, `__libc_start_call_main`.
const BEFORE_MAIN: usize = 4;

/// Where programs of C, C++ and Rust begin.
const MAIN: &str = "main";

/// What the names of the dynamic linkers of glibc and musl begin with: its functions are one frame.
const LINKERS: [&str; 2] = ["ld-linux", "ld-musl"];

/// The shares of a process's instructions, one in so many, that a context must have to be shown with its user code, and with its
/// kernel code: a flame graph is some 1,000 pixels wide, and the kernel has hundreds of stacks below each context.
const LEAST: [u64; 2] = [2_000, 100];

fn is_user(address: u64) -> bool {
    address >> 63 == 0
}

/// The contexts of one window, in user code and without it.
pub(super) struct UserContextTree {
    /// The contexts without callers in user code.
    plain: Vec<ContextNode>,
    /// Of each context: that of `plain` for kernel code, and the deepest one in user code, or the root.
    kernel: Vec<u32>,
    user: Vec<u32>,
    /// The context with which each is shown, itself if it has enough instructions: in user code, and in the kernel.
    shown: [Vec<u32>; 2],
    /// Of each process, fewer instructions of user code are not shown with their function if their context is not.
    least: Vec<u64>,
    /// The blocks of user code that were executed in each context.
    blocks: HashMap<u32, BTreeSet<u32>>,
    /// Those of each process by their addresses.
    by_address: BTreeMap<(usize, u64), u32>,
}

impl UserContextTree {
    pub(super) fn of(raw: &Raw) -> Self {
        let roots = raw.roots();
        let mut plain: Vec<ContextNode> = raw.nodes[..roots].to_vec();
        let mut known: HashMap<(u32, u64), u32> = HashMap::new();
        let mut kernel: Vec<u32> = (0..).take(roots).collect();
        let mut user = kernel.clone();
        for (own, node) in (0..).zip(&raw.nodes).skip(roots) {
            let parent = node.parent as usize;
            // All that leads from user code to the kernel is one context.
            let (above, address) =
                if is_user(node.address) { (user_root(raw, node.parent), 0) } else { (kernel[parent], node.address) };
            let next = u32::try_from(plain.len()).unwrap_or(u32::MAX);
            let here = *known.entry((above, address)).or_insert_with(|| {
                plain.push(ContextNode { parent: above, root: node.root, address });
                next
            });
            kernel.push(here);
            user.push(if is_user(node.address) { own } else { user[parent] });
        }
        // Of each context: in user code, and in the kernel.
        let mut instructions = vec![[0; 2]; raw.nodes.len()];
        let mut all = vec![0; raw.processes + 1];
        let mut blocks: HashMap<u32, BTreeSet<u32>> = HashMap::new();
        let mut by_address = BTreeMap::new();
        for count in &raw.counts {
            let (Some(block), Some(root)) = (raw.blocks.get(count.block as usize), raw.root(count.node)) else {
                continue;
            };
            let own = &mut instructions[user[count.node as usize] as usize];
            own[usize::from(!is_user(block.address))] += count.instructions();
            all[root.place(raw.processes)] += count.instructions();
            if is_user(block.address) {
                blocks.entry(count.node).or_default().insert(count.block);
                by_address.insert((root.place(raw.processes), block.address), count.block);
            }
        }
        // A context with too few counts with its caller. Callers come before what they call.
        let shown = [0, 1].map(|of| {
            let mut shown: Vec<u32> = (0..).take(raw.nodes.len()).collect();
            for node in (roots..raw.nodes.len()).rev() {
                let ContextNode { parent, root, address } = raw.nodes[node];
                if !is_user(address) || instructions[node][of] < all[root.place(raw.processes)] / LEAST[of] {
                    shown[node] = parent;
                    instructions[parent as usize][of] += instructions[node][of];
                }
            }
            for node in roots..raw.nodes.len() {
                shown[node] = shown[shown[node] as usize];
            }
            shown
        });
        let least = all.into_iter().map(|all| all / LEAST[0]).collect();
        Self { plain, kernel, user, shown, least, blocks, by_address }
    }

    /// The context of `plain` in which this block is executed in the context `node`.
    fn plain_node(&self, raw: &Raw, node: u32, block: u32) -> u32 {
        let is_in_user = raw.blocks.get(block as usize).is_some_and(|block| is_user(block.address));
        if is_in_user && self.user[node as usize] == node {
            return user_root(raw, node);
        }
        self.kernel[node as usize]
    }

    /// What was counted, as without contexts of user code.
    pub(super) fn without(&self, raw: &Raw) -> Raw {
        let mut counts: BTreeMap<(u32, u32, u16, u16), [u64; 2]> = BTreeMap::new();
        for count in &raw.counts {
            let key = (self.plain_node(raw, count.node, count.block), count.block, count.from, count.to);
            let sums = counts.entry(key).or_default();
            sums[0] += count.times;
            sums[1] += count.tapered;
        }
        let counts = counts.into_iter().map(|((node, block, from, to), [times, tapered])| BlockCount {
            node,
            block,
            from,
            to,
            times,
            tapered,
        });
        let mut reps = raw.reps.clone();
        reps.iter_mut().for_each(|rep| rep.node = self.plain_node(raw, rep.node, rep.block));
        Raw {
            totals: raw.totals,
            processor: raw.processor,
            processes: raw.processes,
            user_returns: raw.user_returns.clone(),
            nodes: self.plain.clone(),
            blocks: raw.blocks.clone(),
            counts: counts.collect(),
            reps,
            parts: Vec::new(),
            digest: raw.digest,
        }
    }

    /// The stacks of each process with the callers in user code. `contexts` are those of [`Self::without`].
    pub(super) fn stacks(&self, raw: &Raw, contexts: &mut Contexts<'_>) -> Vec<Folded> {
        // By the context in user code, whether there are others below that, the one without it, and the code.
        let mut sums: BTreeMap<(u32, bool, u32, u32, u16), u64> = BTreeMap::new();
        let in_kernel =
            |block: u32| usize::from(raw.blocks.get(block as usize).is_some_and(|block| !is_user(block.address)));
        for count in &raw.counts {
            let Some(root) = raw.root(count.node) else { continue };
            if root.place(raw.processes) == raw.processes {
                continue;
            }
            let plain = self.plain_node(raw, count.node, count.block);
            let frames = contexts.last_frames(plain, count.block);
            let user = self.user[count.node as usize];
            let shown = self.shown[in_kernel(count.block)][user as usize];
            for (from, executed, _) in functions_of(count, &frames) {
                *sums.entry((shown, shown != user, plain, count.block, from)).or_default() += executed * count.times;
            }
        }
        let mut stacks = vec![Folded::default(); raw.processes];
        let mut callers: HashMap<u32, Vec<String>> = HashMap::new();
        // By the context in user code and the function.
        let mut deeper: BTreeMap<(u32, String), u64> = BTreeMap::new();
        for ((user, is_deeper, plain, block, from), weight) in sums {
            let Some(stacks) = raw.root(user).and_then(|root| stacks.get_mut(root.place(raw.processes))) else {
                continue;
            };
            let users = callers.entry(user).or_insert_with(|| self.callers(raw, contexts.names, user));
            let (kernel, frames) = (contexts.callers(plain), contexts.last_frames(plain, block));
            let Some((_, last)) = frames.iter().find(|(end, _)| *end > from) else { continue };
            let is_in_user = !last.in_kernel() && (plain as usize) < raw.roots();
            if is_in_user && is_deeper {
                *deeper.entry((user, last.name.clone())).or_default() += weight;
                continue;
            }
            let is_main = is_in_user && last.name == MAIN && users.len() <= BEFORE_MAIN;
            let users = users.iter().filter(|_| !is_main).map(String::as_str).chain(is_deeper.then_some(REST));
            if is_in_user {
                stacks.add_stack(users.chain(Some(&*last.name)), weight);
            } else {
                // It begins with `[user]` where it has callers there.
                let kernel = kernel.stack(Some(last)).skip_while(|frame| *frame == USER);
                stacks.add_stack(users.chain(kernel), weight);
            }
        }
        for ((user, name), weight) in deeper {
            let (Some(root), Some(users)) = (raw.root(user), callers.get(&user)) else { continue };
            let place = root.place(raw.processes);
            let name = Some(&*name).filter(|_| weight >= self.least[place]);
            stacks[place].add_stack(users.iter().map(String::as_str).chain([REST]).chain(name), weight);
        }
        stacks
    }

    /// The block with the call or trap at `address`, made in the context `node`.
    fn block(&self, raw: &Raw, node: u32, address: u64) -> Option<u32> {
        let has = |block: &&u32| {
            let block = &raw.blocks[**block as usize];
            (block.address..block.address + block.code.len() as u64).contains(&address)
        };
        let here = self.blocks.get(&node).into_iter().flatten();
        let place = raw.root(node)?.place(raw.processes);
        let near = || self.by_address.range((place, 0)..=(place, address)).next_back().map(|(_, block)| block);
        here.into_iter().find(has).or_else(|| near().filter(has)).copied()
    }

    /// The callers in user code of the context `user`, outermost first, from `main` on if there is one.
    fn callers(&self, raw: &Raw, names: &Names, user: u32) -> Vec<String> {
        let mut nodes = Vec::new();
        let mut here = user;
        while here as usize >= raw.roots() {
            nodes.push(here);
            here = raw.nodes[here as usize].parent;
        }
        let mut frames: Vec<String> = Vec::new();
        for node in nodes.into_iter().rev() {
            let this = &raw.nodes[node as usize];
            let function = match self.block(raw, this.parent, this.address) {
                Some(block) => names.function_at(names.place(block, this.address)),
                None => names.function(this.address),
            };
            let linker = function.file.filter(|file| LINKERS.iter().any(|start| file.starts_with(start)));
            let name = frame_name(linker.unwrap_or(&function.name)).into_owned();
            let is_one = linker.is_some() || name.starts_with('[');
            if !is_one || frames.last() != Some(&name) {
                frames.push(name);
            }
        }
        if let Some(main) = frames.iter().take(BEFORE_MAIN).position(|frame| frame == MAIN) {
            frames.drain(..main);
        }
        frames
    }
}

/// The root of a context of user code.
fn user_root(raw: &Raw, mut node: u32) -> u32 {
    while node as usize >= raw.roots() {
        node = raw.nodes[node as usize].parent;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::insn::raw::{Block, tests::file};

    const K: u64 = 0xffff_ffff_8100_0000;

    /// A process whose `main` calls a function that calls itself, and each of which enters the kernel.
    fn sample() -> Raw {
        let user = |address| Block { address, code: vec![0x90, 0x90], lengths: vec![1, 1] };
        let blocks = [user(0x1000), user(0x2000), Block { address: K, code: vec![0x90], lengths: vec![1] }];
        let process = 3;
        // 7: called by `main`, 8: by that function, 9 and 10: the kernel, entered by each, 11: a call there.
        let nodes = [
            (process, process, 0x1001),
            (7, process, 0x2001),
            (process, process, 0x1000),
            (8, process, 0x2000),
            (10, process, K + 8),
        ];
        let count = |node, block, times| BlockCount { node, block, from: 0, to: 1, times, tapered: times };
        let counts =
            [count(3, 0, 100), count(7, 1, 50), count(8, 1, 40), count(9, 2, 30), count(10, 2, 20), count(11, 2, 9)];
        Raw::parse(&file("", 249, &nodes, &blocks, &counts, &[])).unwrap()
    }

    #[test]
    fn what_is_compared_has_no_callers_in_user_code() {
        let raw = sample();
        let plain = UserContextTree::of(&raw).without(&raw);
        let sum = |raw: &Raw| raw.counts.iter().map(BlockCount::instructions).sum::<u64>();
        assert_eq!(sum(&plain), sum(&raw));
        let mut found: Vec<(Vec<u64>, u32, u64)> = Vec::new();
        for count in &plain.counts {
            let mut path = Vec::new();
            plain.path(count.node, &mut path);
            found.push((path, count.block, count.times));
        }
        found.sort();
        let kernel = vec![(vec![0], 2, 50), (vec![0, K + 8], 2, 9)];
        assert_eq!(found, [vec![(vec![], 0, 100), (vec![], 1, 90)], kernel].concat());
    }

    #[test]
    fn few_instructions_count_with_the_caller() {
        let mut raw = sample();
        raw.counts[0].times = 1_000_000;
        let tree = UserContextTree::of(&raw);
        // A 2,000th of the user code, and a 100th of all in the kernel.
        assert_eq!(tree.shown[0][7..9], [3, 3]);
        assert_eq!(tree.shown[1][9..11], [3, 3]);
        let tree = UserContextTree::of(&sample());
        assert_eq!(tree.shown[0][7..9], [7, 8]);
        assert_eq!(tree.shown[1][9..11], [9, 10]);
    }

    proptest::proptest! {
        #[test]
        fn sums_do_not_change(tree in proptest::collection::vec((0_u32..40, 0_u64..6, 0_u32..3, 1_u64..1_000_000), 1..40)) {
            let user = |address| Block { address, code: vec![0x90, 0x90], lengths: vec![1, 1] };
            let blocks = [user(0x1000), user(0x2000), Block { address: K, code: vec![0x90], lengths: vec![1] }];
            let (mut nodes, mut counts, mut begun) = (Vec::new(), Vec::new(), 0);
            for (at, (parent, address, block, times)) in (0_u32..).zip(tree) {
                // Any node before this one, or the process.
                let parent = if at == 0 { 3 } else { 7 + parent % at };
                let address = if address < 4 { 0x1000 * address } else { K + address };
                nodes.push((parent, 3, address));
                counts.push(BlockCount { node: 7 + at, block, from: 0, to: 1, times, tapered: times });
                begun += times;
            }
            let raw = Raw::parse(&file("", begun, &nodes, &blocks, &counts, &[])).unwrap();
            let plain = UserContextTree::of(&raw).without(&raw);
            proptest::prop_assert_eq!(plain.counts.iter().map(BlockCount::instructions).sum::<u64>(), begun);
            let mut path = Vec::new();
            for count in &plain.counts {
                plain.path(count.node, &mut path);
                let is_plain = path.iter().enumerate().all(|(at, address)| *address >> 63 == 1 || (at == 0 && *address == 0));
                proptest::prop_assert!(is_plain, "{:x?}", path);
            }
        }
    }
}
