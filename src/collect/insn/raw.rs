//! Read and check the file that the plugin writes (`plugin/store.c`, `store_write`).

use crate::arch::Processor;
use crate::util::text::fnv1a;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;

const MAGIC: &[u8] = b"PPINSN07";
const END: &[u8] = b"PPEND";
/// Limit of the plugin's memory, in bytes. A window that needs more is rejected.
pub(crate) const MEMORY: u64 = 512 << 20;

/// Processes that the plugin can follow (`PROCESSES` in store.h).
pub const MOST: usize = crate::arch::marker::MOST as usize;

/// The owner of a calling context, by the number of its root (`enum root` in store.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// A process, by number.
    Process(usize),
    /// A process, in a context that could not be followed.
    Unattributed(usize),
    /// Not a process of the target.
    Other,
    /// The same, with unknown callers: it slept since before the window.
    Unfollowed,
}

/// The root of the first process. Each process has two roots, and each root is the node of the same number.
const FIRST: u32 = 3;

impl Root {
    fn of(number: u32, processes: usize) -> Option<Self> {
        match number {
            1 => Some(Self::Other),
            // The first node is unused.
            0 | 2 => Some(Self::Unfollowed),
            _ => {
                let process = (number - FIRST) as usize / 2;
                let root = if (number - FIRST).is_multiple_of(2) { Self::Process } else { Self::Unattributed };
                (process < processes).then(|| root(process))
            }
        }
    }

    /// The index of its process in a list of all `processes`; others come last.
    pub fn place(self, processes: usize) -> usize {
        match self {
            Self::Process(process) | Self::Unattributed(process) => process,
            Self::Other | Self::Unfollowed => processes,
        }
    }
}

/// Returns in user code: of coroutines and other code that changes stacks, many match no call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserReturns {
    pub all: u64,
    pub odd: u64,
}

/// The address of a context for all user code beyond the limits of depth and number (`DEEPER` in store.h).
pub(super) const DEEPER: u64 = 1;

/// Its frame.
pub(super) const REST: &str = "[deeper]";

/// A calling context: the caller's context, and the address of the call, trap or system call in the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextNode {
    pub parent: u32,
    pub root: Root,
    pub address: u64,
}

/// An executed block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub address: u64,
    pub code: Vec<u8>,
    /// Lengths of its instructions; their sum is the code's length.
    pub lengths: Vec<u8>,
}

impl Block {
    /// The address and code of each of its instructions.
    pub fn instructions(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let mut rest = (self.address, &self.code[..]);
        self.lengths.iter().map(move |length| {
            let (address, code) = rest;
            let (code, after) = code.split_at_checked((*length).into()).unwrap_or_default();
            rest = (address + u64::from(*length), after);
            (address, code)
        })
    }

    /// The address of its last instruction.
    pub(crate) fn last_address(&self) -> u64 {
        let last = self.lengths.last().copied().unwrap_or_default();
        self.address + self.code.len() as u64 - u64::from(last)
    }
}

/// Instructions `from..to` of a block, completed so often in one context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCount {
    pub node: u32,
    pub block: u32,
    pub from: u16,
    pub to: u16,
    pub times: u64,
    /// The same, as if all parts of the window had executed the weighted mean of its parts; see docs/exactness.md, "Bursts".
    /// `times` where the plugin was not told to weigh.
    pub tapered: u64,
}

impl BlockCount {
    /// Instructions.
    pub fn instructions(&self) -> u64 {
        u64::from(self.to - self.from) * self.times
    }
}

/// Memory accesses of a block's `rep` instruction, its last one, in one context. They give its iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepCount {
    pub node: u32,
    pub block: u32,
    pub(crate) accesses: u64,
    /// As that of [`BlockCount`].
    pub tapered: u64,
}

/// Both ends of the range of a count that is a [`RepCount`] (`REP_ACCESSES` in store.h).
const REP_ACCESSES: u16 = u16::MAX;

/// Totals counted independently of the contexts (`enum total` in follow.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions begun; each iteration of a `rep` instruction counts as one.
    pub begun: u64,
    /// Of these: faulted, not completed.
    pub(crate) faulted: u64,
    /// Of these: further iterations of a `rep` instruction.
    pub repeated: u64,
    /// Of these: begun again by the emulator.
    pub(crate) replayed: u64,
    /// Interrupts and exceptions in kernel code.
    pub(crate) traps: u64,
    pub switches: u64,
    pub(crate) odd_returns: u64,
    pub(crate) lost_stacks: u64,
    pub(crate) vcpus: u64,
}

impl Totals {
    /// Instructions completed: the sum over all contexts must be equal.
    pub fn completed(&self) -> u64 {
        self.begun.saturating_sub(self.faulted + self.repeated + self.replayed)
    }
}

/// The plugin's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    pub totals: Totals,
    pub processor: Processor,
    /// The number of processes.
    pub processes: usize,
    /// Returns of each process in user code.
    pub user_returns: Vec<UserReturns>,
    pub nodes: Vec<ContextNode>,
    pub blocks: Vec<Block>,
    pub counts: Vec<BlockCount>,
    pub(crate) reps: Vec<RepCount>,
    /// What each of `counts` added in each part of the window, which the first process's system calls divide. Empty where the
    /// plugin was not told to weigh.
    pub parts: Vec<Vec<u32>>,
    /// A hash (FNV-1a) of the file; 0 if it was not read from one.
    pub digest: u64,
}

impl Raw {
    /// Read the plugin's file. An incomplete or inexact profile is an error.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| {
            format!("the plugin left no result in {}: QEMU ended before the plugin could write it", path.display())
        })?;
        let raw = Self::parse(&bytes).with_context(|| format!("the plugin's result, {}", path.display()))?;
        Ok(Self { digest: fnv1a(&bytes), ..raw })
    }

    /// As [`Raw::read`], from bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut from = ByteReader { bytes };
        ensure!(from.take(MAGIC.len())? == MAGIC, "was not written by this version's plugin");
        let problem = from.length()?;
        let problem = from.take(problem)?;
        if !problem.is_empty() {
            bail!("{}", explain(&String::from_utf8_lossy(problem)));
        }
        let totals = from.totals()?;
        let processor = Processor::of_number(from.length()?).context("is of an unknown processor")?;
        let processes = from.length()?;
        ensure!(processes <= MOST, "has more processes than a plugin can follow");
        let returns = |from: &mut ByteReader<'_>| Ok(UserReturns { all: from.u64()?, odd: from.u64()? });
        let user_returns = (0..processes).map(|_| returns(&mut from)).collect::<Result<_>>()?;
        let (nodes, blocks) = (from.nodes(processes)?, from.blocks()?);
        let both = from.counts()?;
        let parts = from.parts(&both)?;
        let reps = both.iter().filter_map(|count| count.as_ref().err().copied()).collect();
        let counts = both.into_iter().filter_map(Result::ok).collect();
        let raw = Self { totals, processor, processes, user_returns, nodes, blocks, counts, reps, parts, digest: 0 };
        ensure!(from.take(END.len())? == END && from.bytes.is_empty(), "has no end mark, or data after it");
        raw.check()?;
        Ok(raw)
    }

    /// The node's root and the addresses of its calls, outermost first.
    pub fn path(&self, mut node: u32, into: &mut Vec<u64>) {
        into.clear();
        while node as usize >= self.roots() {
            let Some(this) = self.nodes.get(node as usize) else { break };
            into.push(this.address);
            node = this.parent;
        }
        into.reverse();
    }

    /// Whether it has calling contexts of user code.
    pub(super) fn follows_user_code(&self) -> bool {
        self.nodes.iter().any(|node| node.address > DEEPER && node.address >> 63 == 0)
    }

    /// Nodes below this number are roots.
    pub fn roots(&self) -> usize {
        FIRST as usize + 2 * self.processes
    }

    /// The executed instructions of a count: their addresses and code.
    pub fn executed(&self, count: &BlockCount) -> impl Iterator<Item = (u64, &[u8])> {
        let block = self.blocks.get(count.block as usize);
        block.into_iter().flat_map(Block::instructions).take(count.to.into()).skip(count.from.into())
    }

    /// The owner of a node's context.
    pub fn root(&self, node: u32) -> Option<Root> {
        self.nodes.get(node as usize).map(|node| node.root)
    }

    fn check(&self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate().skip(self.roots()) {
            ensure!((node.parent as usize) < index && node.parent > 0, "a context has no parent");
        }
        for count in &self.counts {
            ensure!(count.node > 0 && (count.node as usize) < self.nodes.len(), "a count has no context");
            let block = self.blocks.get(count.block as usize).context("a count has no block")?;
            ensure!(count.from < count.to && usize::from(count.to) <= block.lengths.len(), "a count exceeds its block");
        }
        for rep in &self.reps {
            ensure!(rep.node > 0 && (rep.node as usize) < self.nodes.len(), "a rep count has no context");
            ensure!((rep.block as usize) < self.blocks.len(), "a rep count has no block");
        }
        let sum: u64 = self.counts.iter().map(BlockCount::instructions).sum();
        ensure!(sum > 0, "holds no instructions: the window was empty");
        ensure!(
            sum == self.totals.completed(),
            "does not add up: {sum} instructions in contexts, {} executed",
            self.totals.completed()
        );
        Ok(())
    }
}

/// The plugin's reasons for not writing a profile.
fn explain(problem: &str) -> String {
    match problem {
        "never-begun" => "the guest never reached its measured window: the workload did not start".to_owned(),
        "never-ended" => "the guest ended within its measured window: the workload did not finish".to_owned(),
        "memory" => format!(
            "the window needs more than the {} MiB that the plugin may use: measure less (run: --bytes; record: \
             --duration, or less input)",
            MEMORY >> 20
        ),
        "crowded" => "two processes began their windows at the same instruction".to_owned(),
        "uneven" => "a process did not end the window that it began".to_owned(),
        "vcpus" => "more CPUs than the plugin follows (64), or CPUs that it cannot distinguish".to_owned(),
        "processes" => "a process beyond those expected began a window".to_owned(),
        "block" => "a block of code is longer than the plugin can hold".to_owned(),
        other => match other.strip_prefix("patched ") {
            Some(address) => format!(
                "the kernel changed its own code within the window, at {address}: its instructions before and after \
                 would be mixed; the same run meets it again: measure another part (run: --warmup or --bytes; record: \
                 --duration or another --kernel)"
            ),
            None => format!("the plugin reports '{other}'"),
        },
    }
}

struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(n).context("is cut short")?;
        self.bytes = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into()?))
    }

    fn length(&mut self) -> Result<usize> {
        Ok(self.u32()? as usize)
    }

    /// A list of items of at least `size` bytes each. A length beyond the rest of the file is an error.
    fn list<T>(&mut self, size: usize, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let n = self.length()?;
        ensure!(n <= self.bytes.len() / size.max(1), "is cut short");
        (0..n).map(|_| item(self)).collect()
    }

    fn totals(&mut self) -> Result<Totals> {
        let totals = self.list(8, Self::u64)?;
        let [begun, faulted, repeated, replayed, traps, switches, odd_returns, lost_stacks, vcpus] = totals[..] else {
            bail!("was not written by this version's plugin");
        };
        Ok(Totals { begun, faulted, repeated, replayed, traps, switches, odd_returns, lost_stacks, vcpus })
    }

    fn nodes(&mut self, processes: usize) -> Result<Vec<ContextNode>> {
        self.list(16, |from| {
            let (parent, root, address) = (from.u32()?, from.u32()?, from.u64()?);
            Ok(ContextNode { parent, root: Root::of(root, processes).context("a context has no root")?, address })
        })
    }

    fn blocks(&mut self) -> Result<Vec<Block>> {
        self.list(12, |from| {
            let (address, insns, bytes) = (from.u64()?, from.u16()?, from.u16()?);
            let code = from.take(bytes.into())?.to_vec();
            let lengths = from.take(insns.into())?.to_vec();
            let sum: usize = lengths.iter().map(|length| usize::from(*length)).sum();
            ensure!(sum == code.len() && !lengths.contains(&0), "a block's instructions do not add up");
            Ok(Block { address, code, lengths })
        })
    }

    fn counts(&mut self) -> Result<Vec<std::result::Result<BlockCount, RepCount>>> {
        self.list(28, |from| {
            let (node, block, start, to) = (from.u32()?, from.u32()?, from.u16()?, from.u16()?);
            let (times, tapered) = (from.u64()?, from.u64()?);
            if (start, to) == (REP_ACCESSES, REP_ACCESSES) {
                return Ok(Err(RepCount { node, block, accesses: times, tapered }));
            }
            Ok(Ok(BlockCount { node, block, from: start, to, times, tapered }))
        })
    }

    /// [`Raw::parts`]: each has a number for each of `counts`.
    fn parts(&mut self, counts: &[std::result::Result<BlockCount, RepCount>]) -> Result<Vec<Vec<u32>>> {
        self.list(4 * counts.len(), |from| {
            let all =
                from.take(4 * counts.len())?.chunks_exact(4).map(|bytes| bytes.try_into().map(u32::from_le_bytes));
            let kept = counts.iter().zip(all).filter(|(count, _)| count.is_ok());
            Ok(kept.map(|(_, number)| number).collect::<std::result::Result<_, _>>()?)
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Processes of the files made here.
    const TWO: usize = 2;

    /// A plugin's file of two processes with these nodes (below the roots), blocks and counts.
    pub fn file(
        problem: &str,
        begun: u64,
        nodes: &[(u32, u32, u64)],
        blocks: &[Block],
        counts: &[BlockCount],
        reps: &[RepCount],
    ) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let u32s = |out: &mut Vec<u8>, n: usize| out.extend((n as u32).to_le_bytes());
        u32s(&mut out, problem.len());
        out.extend(problem.as_bytes());
        u32s(&mut out, 9);
        out.extend(begun.to_le_bytes());
        out.extend([0; 64]);
        u32s(&mut out, 0);
        u32s(&mut out, TWO);
        out.extend([0; 16 * TWO]);
        let roots = FIRST + 2 * TWO as u32;
        u32s(&mut out, nodes.len() + roots as usize);
        let roots = (0..roots).map(|root| (0, root, 0));
        for (parent, root, address) in roots.chain(nodes.iter().copied()) {
            out.extend(parent.to_le_bytes());
            out.extend(root.to_le_bytes());
            out.extend(address.to_le_bytes());
        }
        u32s(&mut out, blocks.len());
        for block in blocks {
            out.extend(block.address.to_le_bytes());
            out.extend((block.lengths.len() as u16).to_le_bytes());
            out.extend((block.code.len() as u16).to_le_bytes());
            out.extend(&block.code);
            out.extend(&block.lengths);
        }
        u32s(&mut out, counts.len() + reps.len());
        let rep = |rep: &RepCount| BlockCount {
            node: rep.node,
            block: rep.block,
            from: REP_ACCESSES,
            to: REP_ACCESSES,
            times: rep.accesses,
            tapered: rep.tapered,
        };
        for count in counts.iter().copied().chain(reps.iter().map(rep)) {
            out.extend(count.node.to_le_bytes());
            out.extend(count.block.to_le_bytes());
            out.extend(count.from.to_le_bytes());
            out.extend(count.to.to_le_bytes());
            out.extend(count.times.to_le_bytes());
            out.extend(count.tapered.to_le_bytes());
        }
        u32s(&mut out, 0);
        out.extend(END);
        out
    }

    fn sample(begun: u64) -> Vec<u8> {
        let block = Block { address: 0x1000, code: vec![0x90, 0x66, 0x90], lengths: vec![1, 2] };
        let count = BlockCount { node: 7, block: 0, from: 0, to: 2, times: 5, tapered: 5 };
        file("", begun, &[(3, 3, 0x2000)], &[block], &[count], &[])
    }

    #[test]
    fn a_whole_file_is_read() {
        let raw = Raw::parse(&sample(10)).unwrap();
        assert_eq!(raw.totals.completed(), 10);
        assert_eq!(raw.root(7), Some(Root::Process(0)));
        let mut path = Vec::new();
        raw.path(7, &mut path);
        assert_eq!(path, [0x2000]);
    }

    #[test]
    fn each_process_has_two_roots() {
        let roots: Vec<Option<Root>> = (0..8).map(|number| Root::of(number, TWO)).collect();
        let [other, unfollowed] = [Root::Other, Root::Unfollowed].map(Some);
        let [first, second] = [0, 1].map(|process| [Some(Root::Process(process)), Some(Root::Unattributed(process))]);
        assert_eq!(roots, [unfollowed, other, unfollowed, first[0], first[1], second[0], second[1], None]);
        assert_eq!(Root::of(130, MOST), Some(Root::Unattributed(63)));
        assert_eq!(Root::Unattributed(1).place(TWO), 1);
        assert_eq!(Root::Other.place(TWO), 2);
    }

    #[test]
    fn a_file_that_does_not_add_up_is_refused() {
        let error = format!("{:#}", Raw::parse(&sample(11)).unwrap_err());
        assert!(error.contains("10 instructions in contexts, 11 executed"), "{error}");
        assert!(Raw::parse(&file("", 0, &[], &[], &[], &[])).is_err());
    }

    #[test]
    fn the_plugins_problems_are_explained() {
        for (problem, says) in [
            ("never-begun", "never reached its measured window"),
            ("never-ended", "did not finish"),
            ("memory", "512 MiB"),
            ("patched 0xffffffff81000000", "changed its own code within the window, at 0xffffffff81000000"),
        ] {
            let error = Raw::parse(&file(problem, 0, &[], &[], &[], &[])).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn damage_is_never_a_panic(at in 0usize..200, value: u8, cut in 0usize..400) {
            let mut bytes = sample(10);
            let index = at % bytes.len();
            bytes[index] = value;
            bytes.truncate(bytes.len().saturating_sub(cut % 50));
            if let Ok(raw) = Raw::parse(&bytes) {
                let mut path = Vec::new();
                raw.counts.iter().for_each(|count| raw.path(count.node, &mut path));
            }
        }
    }
}
