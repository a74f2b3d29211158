//! Calling contexts under the names of functions, and the roles of stacks that end in them.

use super::names::Names;
use super::raw::{Block, BlockCount, Raw, Root};
use super::switch_work::{SwitchWork, is_entry};
use crate::arch::{Flow, decoded};
use crate::profile::folded::{KERNEL, frame_name, is_kernel_entry};
use crate::roles::{self, AFTER_SWITCH, RoleId};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// Frame for contexts entered before the window, whose outer callers are unknown.
pub(crate) const UNFOLLOWED: &str = "[since before the window]";

/// Frame of instructions of the processes whose context could not be followed.
pub(crate) const UNATTRIBUTED: &str = "[unattributed]";

/// The callers of a context.
pub(super) struct Callers {
    /// Outermost first.
    frames: Vec<String>,
    /// Whether work of a switch makes one of these calls.
    after_switch: bool,
    /// Number of frames above those of this work; absent if one below them has a role of its own.
    above: Option<usize>,
}

/// The function at the end of a stack, for some of its instructions.
#[derive(PartialEq)]
pub(super) struct LastFrame {
    pub name: String,
    /// The name of its file, for user code.
    file: Option<String>,
    pub(crate) has_symbol: bool,
    role: Option<RoleId>,
    is_switch_work: bool,
    in_kernel: bool,
}

/// What begins the stack of a thread of the kernel that has run since before the window, so that it shows no entry: `first` is
/// its first frame, with its address.
fn kernel_mark(first: Option<(u64, &str)>) -> Option<&'static str> {
    first.filter(|(address, name)| address >> 63 == 1 && !is_kernel_entry(name)).map(|_| KERNEL)
}

impl LastFrame {
    pub(super) fn in_kernel(&self) -> bool {
        self.in_kernel
    }

    /// That of the instruction at `address`, executed by the process at `place`, in this block if it is known.
    fn of(names: &Names, work: &SwitchWork, place: usize, block: Option<u32>, address: u64) -> Self {
        let function = match block {
            Some(block) => names.function_at(names.place(block, address)),
            None => names.function(address),
        };
        let name = frame_name(&function.name).into_owned();
        let in_kernel = address >> 63 == 1;
        Self {
            file: function.file.map(|file| frame_name(file).into_owned()),
            has_symbol: function.start.is_some(),
            role: in_kernel.then(|| roles::of_frame(&name)).flatten().map(|role| role.id),
            is_switch_work: work.contains(place, address),
            in_kernel,
            name,
        }
    }
}

impl Callers {
    fn of(raw: &Raw, names: &Names, work: &SwitchWork, node: u32) -> Self {
        let mut path = Vec::new();
        raw.path(node, &mut path);
        let root = raw.root(node);
        let start = match root {
            Some(Root::Unfollowed) => &[KERNEL, UNFOLLOWED][..],
            Some(Root::Unattributed(_)) => &[KERNEL, UNATTRIBUTED],
            _ => &[],
        };
        let place = root.map_or(raw.processes, |root| root.place(raw.processes));
        let after_switch = path.iter().any(|call| work.contains(place, *call));
        let first = path.first().map(|address| (*address, frame_name(&names.function(*address).name).into_owned()));
        let mark = kernel_mark(first.as_ref().map(|(address, name)| (*address, &**name))).filter(|_| start.is_empty());
        let called = path.into_iter().map(|address| frame_name(&names.function(address).name).into_owned());
        let frames: Vec<String> = start.iter().copied().chain(mark).map(str::to_owned).chain(called).collect();
        let last_role = frames.iter().rposition(|frame| roles::of_frame(frame).is_some());
        let above = last_role.filter(|at| after_switch && is_entry(&frames[*at])).map(|at| at + 1);
        Self { frames, after_switch, above }
    }

    /// The stack of these callers, and of `last` below them.
    pub(super) fn stack<'a>(&'a self, last: Option<&'a LastFrame>) -> impl DoubleEndedIterator<Item = &'a str> + Clone {
        let role = last.and_then(|last| last.role);
        let above = self.above.filter(|_| role.is_none());
        let is_entry = role == Some(RoleId::Syscall);
        let is_below = is_entry && (self.after_switch || last.is_some_and(|last| last.is_switch_work));
        let (outer, inner) = self.frames.split_at(above.unwrap_or_default());
        let mark = |is_here: bool| is_here.then_some(AFTER_SWITCH);
        let kernel = last.filter(|last| self.frames.is_empty() && last.in_kernel && !is_kernel_entry(&last.name));
        let frames =
            kernel.map(|_| KERNEL).into_iter().chain(outer.iter().map(String::as_str)).chain(mark(above.is_some()));
        let file = last.and_then(|last| last.file.as_deref());
        let frames = frames.chain(inner.iter().map(String::as_str)).chain(file);
        frames.chain(last.map(|last| &*last.name)).chain(mark(is_below))
    }
}

fn address_range(from: u64, bytes: u64) -> Range<u64> {
    from..from.saturating_add(bytes)
}

/// The functions of which `count` has instructions: the index of the first instruction in the block, the number of those that
/// were executed, and the frame. `frames`: those of the block.
pub(super) fn functions_of<'f>(
    count: &BlockCount,
    frames: &'f [(u16, LastFrame)],
) -> impl Iterator<Item = (u16, u64, &'f LastFrame)> {
    let starts = std::iter::once(0).chain(frames.iter().map(|(end, _)| *end));
    let all = starts.zip(frames).map(|(from, (to, last))| {
        let executed = (*to).min(count.to).saturating_sub(from.max(count.from));
        (from, u64::from(executed), last)
    });
    all.filter(|(_, executed, _)| *executed > 0)
}

/// The functions of a block's instructions: the end of each, and its frame.
type LastFrames = Rc<[(u16, LastFrame)]>;

/// The stacks of one window, and their roles.
pub(super) struct Contexts<'a> {
    pub raw: &'a Raw,
    pub names: &'a Names,
    work: SwitchWork,
    callers: HashMap<u32, Rc<Callers>>,
    /// By block and place of the process.
    last: HashMap<(u32, usize), LastFrames>,
    roles: HashMap<(u32, Option<u64>, bool), RoleId>,
    called: HashMap<(u32, Option<u64>), RoleId>,
    entered: HashMap<(u32, u64), Option<RoleId>>,
}

impl<'a> Contexts<'a> {
    pub(super) fn new(raw: &'a Raw, names: &'a Names) -> Self {
        let work = SwitchWork::of(raw, names);
        Self {
            raw,
            names,
            work,
            callers: HashMap::new(),
            last: HashMap::new(),
            roles: HashMap::new(),
            called: HashMap::new(),
            entered: HashMap::new(),
        }
    }

    pub(super) fn callers(&mut self, node: u32) -> Rc<Callers> {
        let of = || Rc::new(Callers::of(self.raw, self.names, &self.work, node));
        self.callers.entry(node).or_insert_with(of).clone()
    }

    /// Those of a block that is executed in the context `node`.
    pub(super) fn last_frames(&mut self, node: u32, block: u32) -> LastFrames {
        let place = self.place(node);
        let of = || {
            let mut frames: Vec<(u16, LastFrame)> = Vec::new();
            let instructions = self.raw.blocks.get(block as usize).into_iter().flat_map(Block::instructions);
            let mut rest = address_range(0, 0);
            for (end, (address, _)) in (1..).zip(instructions) {
                let is_work = self.work.contains(place, address);
                if rest.contains(&address)
                    && let Some(last) = frames.last_mut().filter(|(_, last)| last.is_switch_work == is_work)
                {
                    last.0 = end;
                    continue;
                }
                rest = address_range(address, self.names.rest(block, address));
                let frame = LastFrame::of(self.names, &self.work, place, Some(block), address);
                match frames.last_mut() {
                    Some(last) if last.1 == frame => last.0 = end,
                    _ => frames.push((end, frame)),
                }
            }
            frames.into()
        };
        self.last.entry((block, place)).or_insert_with(of).clone()
    }

    fn place(&self, node: u32) -> usize {
        self.raw.root(node).map_or(self.raw.processes, |root| root.place(self.raw.processes))
    }

    /// As [`Self::role`], by functions only: work of a switch calls the scheduler.
    fn called_role(&mut self, node: u32, leaf: Option<u64>) -> RoleId {
        let start = leaf.map(|leaf| self.names.function(leaf).start.unwrap_or(leaf));
        if let Some(role) = self.called.get(&(node, start)) {
            return *role;
        }
        let address = leaf;
        let leaf = leaf.map(|leaf| frame_name(&self.names.function(leaf).name).into_owned());
        let callers = self.callers(node);
        let first = address.zip(leaf.as_deref()).filter(|_| callers.frames.is_empty());
        let frames = kernel_mark(first).into_iter().chain(callers.frames.iter().chain(&leaf).map(String::as_str));
        let role = roles::of_stack(frames).0.id;
        self.called.insert((node, start), role);
        role
    }

    /// The role that a call of `function` by `node` enters, unless one of its functions is among the callers. Functions
    /// without a role enter none: not the code that returns from an interrupt, either.
    fn entered_role(&mut self, node: u32, function: u64) -> Option<RoleId> {
        if let Some(role) = self.entered.get(&(node, function)) {
            return *role;
        }
        let name = self.names.function(function).name;
        let has_role = !roles::is_cold(&name) && roles::of_frame(&name).is_some();
        let role = has_role.then(|| self.called_role(node, Some(function)));
        let callers = self.callers(node);
        let is_within = |role: &RoleId| {
            callers.frames.iter().any(|frame| roles::of_frame(frame).is_some_and(|found| found.id == *role))
        };
        let role = role.filter(|role| !is_within(role));
        self.entered.insert((node, function), role);
        role
    }

    /// The role of the stack of `node`, and below it the function that contains `leaf`, if given.
    pub(super) fn role(&mut self, node: u32, leaf: Option<u64>) -> RoleId {
        let start = leaf.map(|leaf| self.names.function(leaf).start.unwrap_or(leaf));
        let place = self.place(node);
        let key = (node, start, leaf.is_some_and(|leaf| self.work.contains(place, leaf)));
        if let Some(role) = self.roles.get(&key) {
            return *role;
        }
        let last = leaf.map(|leaf| LastFrame::of(self.names, &self.work, place, None, leaf));
        let role = roles::of_stack(self.callers(node).stack(last.as_ref())).0.id;
        self.roles.insert(key, role);
        role
    }

    /// Whether a call of the scheduler in the stack of `node` is a preemption.
    pub(super) fn preempts(&mut self, node: u32) -> bool {
        self.callers(node).frames.iter().any(|frame| roles::preempts(frame))
    }
}

/// Entries of a role by a process: calls of the role's functions from outside, not below another of its functions. Compilers
/// decide which helpers of a role are functions.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoleEntry {
    /// The place of the process.
    pub place: usize,
    pub role: RoleId,
    /// The index of a count, and how many entries each of its times is. Less than none for tail calls, which are counted at
    /// the jump.
    pub count: usize,
    pub times: i64,
}

/// All entries of roles. The sum over the counts of a process and role is their number.
pub(super) fn entries(contexts: &mut Contexts<'_>) -> Vec<RoleEntry> {
    let (raw, names) = (contexts.raw, contexts.names);
    let start = |address| names.function(address).start.filter(|start| *start == address && address >> 63 == 1);
    // Of each block: the index of an instruction, a function that begins there, and one that it jumps to from another.
    type Step = (u16, Option<u64>, Option<(u64, u64)>);
    let steps = |block: &Block| {
        let step = |(at, (address, code)): (u16, (u64, &[u8]))| {
            let instruction = decoded(raw.processor, code, address);
            let target = Some(instruction.target).filter(|_| instruction.flow == Flow::Jump).and_then(start);
            let jump = target.filter(|target| names.function(address).start != Some(*target));
            let step = (at, start(address), jump.map(|target| (target, address)));
            (step.1.is_some() || step.2.is_some()).then_some(step)
        };
        (0..).zip(block.instructions()).filter_map(step).collect::<Vec<Step>>()
    };
    let mut known: HashMap<u32, Vec<Step>> = HashMap::new();
    // By count, context and function: entries, and of these jumps from other functions, which are tail calls.
    let mut entries = Vec::new();
    let mut jumps = Vec::new();
    for (index, count) in raw.counts.iter().enumerate() {
        let Some(block) = raw.blocks.get(count.block as usize) else { continue };
        if !matches!(raw.root(count.node), Some(Root::Process(_) | Root::Unattributed(_))) {
            continue;
        }
        let steps = known.entry(count.block).or_insert_with(|| steps(block));
        for (_, entry, jump) in steps.iter().filter(|(at, ..)| (count.from..count.to).contains(at)) {
            entries.extend(entry.map(|address| (index, count.node, address)));
            jumps.extend(jump.map(|(target, from)| (index, count.node, target, from)));
        }
    }
    let mut found = Vec::new();
    let mut enter = |contexts: &mut Contexts<'_>, count, node, function, callers: &[(Option<u64>, i64)]| {
        let Some((root, role)) = raw.root(node).zip(contexts.entered_role(node, function)) else { return };
        let outside = callers.iter().filter(|(from, _)| contexts.called_role(node, *from) != role);
        let times = outside.map(|(_, times)| times).sum();
        if times != 0 {
            found.push(RoleEntry { place: root.place(raw.processes), role, count, times });
        }
    };
    for (count, node, function) in entries {
        enter(contexts, count, node, function, &[(None, 1)]);
    }
    for (count, node, function, from) in jumps {
        enter(contexts, count, node, function, &[(None, -1), (Some(from), 1)]);
    }
    found
}

/// How often each process entered each role, by the place of the process.
pub(super) fn entered(contexts: &mut Contexts<'_>) -> BTreeMap<(usize, RoleId), u64> {
    let mut sums: BTreeMap<(usize, RoleId), i128> = BTreeMap::new();
    for entry in entries(contexts) {
        let times = contexts.raw.counts.get(entry.count).map_or(0, |count| count.times);
        *sums.entry((entry.place, entry.role)).or_default() += i128::from(entry.times) * i128::from(times);
    }
    let positive = |(key, sum)| Some((key, u64::try_from(sum).ok().filter(|sum| *sum > 0)?));
    sums.into_iter().filter_map(positive).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::insn::raw::{BlockCount, tests::file};
    use crate::kernel::symbols::Symbols;

    const K: u64 = 0xffff_ffff_8100_0000;

    #[test]
    fn a_helper_of_a_role_below_another_role_is_no_call_from_outside() {
        let functions = ["entry_SYSCALL_64_after_hwframe", "vfs_read", "security_file_permission", "fsnotify_perm"];
        let address = |place: usize| K + 64 * place as u64;
        let symbols: String =
            functions.iter().enumerate().map(|(place, name)| format!("{:016x} T {name}\n", address(place))).collect();
        let blocks = [0, 1, 2, 3].map(|place| Block { address: address(place), code: vec![0x90], lengths: vec![1] });
        // Each calls the next.
        let nodes = [(3, 3, address(0) + 8), (7, 3, address(1) + 8), (8, 3, address(2) + 8)];
        let count = |(block, node)| BlockCount { node, block, from: 0, to: 1, times: 10, tapered: 10 };
        let counts: Vec<BlockCount> = (0..).zip([3, 7, 8, 9]).map(count).collect();
        let raw = Raw::parse(&file("", 40, &nodes, &blocks, &counts, &[])).unwrap();
        let names = Names::new(Symbols::read(symbols.as_bytes()).unwrap(), None, &raw);
        let found = entered(&mut Contexts::new(&raw, &names));
        let expected = [RoleId::Syscall, RoleId::Vfs, RoleId::Lsm].map(|role| ((0, role), 10));
        assert_eq!(found, expected.into());
    }
}
