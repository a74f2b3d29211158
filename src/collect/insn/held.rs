//! What is executed while the pipe's locks are held.
//!
//! The order of calls follows from the code: in each function of the pipe, follow all executed branches from its start,
//! and count the locks taken less those released. A lock is taken by calling its lock function, or a function that
//! returns with one lock more (`pipe_lock`). The kernel's functions hold the same number of locks each time they reach an
//! instruction; one that does not makes that number unknown, and so the result. Names identify locks by kind, not by
//! object: all mutexes that functions of the pipe lock are pipes' mutexes.

use super::contexts::Contexts;
use super::names::Names;
use super::raw::{Raw, Root};
use crate::arch::{Flow, Instruction, Processor, decoded};
use crate::profile::ProcessName;
use crate::result::code::{ExecutedCode, ExecutedFunction};
use crate::result::{HeldCalls, LockKind, LockUse};
use crate::roles::{self, RoleId, SCHEDULING};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Functions that take a lock, and that release one.
struct Pair {
    kind: LockKind,
    takes: &'static [&'static str],
    releases: &'static [&'static str],
}

const PAIRS: [Pair; 2] = [
    Pair {
        kind: LockKind::Mutex,
        takes: &["mutex_lock", "mutex_lock_nested", "mutex_lock_interruptible", "mutex_lock_killable"],
        releases: &["mutex_unlock"],
    },
    Pair {
        kind: LockKind::Spinlock,
        takes: &["_raw_spin_lock", "_raw_spin_lock_irq", "_raw_spin_lock_irqsave", "_raw_spin_lock_bh", "rt_spin_lock"],
        releases: &[
            "_raw_spin_unlock",
            "_raw_spin_unlock_irq",
            "_raw_spin_unlock_irqrestore",
            "_raw_spin_unlock_bh",
            "rt_spin_unlock",
        ],
    },
];

/// Whether a function works on pipes: `pipe_write`, `splice_to_pipe`, `__x64_sys_vmsplice`.
fn of_pipe(name: &str) -> bool {
    name.contains("pipe") || name.contains("splice")
}

/// Number of locks held; `None` if it is unknown.
type Locks = Option<i32>;

/// The locks that functions of the pipe hold at each of their instructions, less those held when they were called.
struct Locking<'a> {
    pair: &'a Pair,
    processor: Processor,
    /// All executed functions by address.
    functions: HashMap<u64, &'a ExecutedFunction>,
    /// By address of an instruction.
    held: HashMap<u64, Locks>,
    /// What a function adds to the locks of its caller.
    effects: HashMap<u64, Locks>,
    /// Functions being followed, against recursion.
    following: HashSet<u64>,
}

impl<'a> Locking<'a> {
    fn new(code: &'a ExecutedCode, pair: &'a Pair) -> Self {
        let functions = code.functions.iter().filter(|function| function.address >> 63 == 1);
        let functions: HashMap<u64, &ExecutedFunction> =
            functions.map(|function| (function.address, function)).collect();
        let mut flow = Self {
            pair,
            processor: code.processor,
            functions,
            held: HashMap::new(),
            effects: HashMap::new(),
            following: HashSet::new(),
        };
        let mut starts: Vec<u64> = flow.functions.keys().copied().collect();
        starts.sort_unstable();
        for start in starts {
            flow.effect(start);
        }
        flow
    }

    fn is_one_of(&self, start: u64, list: &[&str]) -> bool {
        self.functions.get(&start).is_some_and(|function| list.contains(&roles::base_name(&function.name)))
    }

    fn takes(&self, start: u64) -> bool {
        self.is_one_of(start, self.pair.takes)
    }

    /// The effect of the function at `start`. Functions that are not the pipe's leave no lock behind.
    fn effect(&mut self, start: u64) -> Locks {
        if self.takes(start) {
            return Some(1);
        }
        if self.is_one_of(start, self.pair.releases) {
            return Some(-1);
        }
        let Some(function) = self.functions.get(&start).copied() else { return Some(0) };
        if !of_pipe(&function.name) || roles::is_cold(&function.name) {
            return Some(0);
        }
        if let Some(known) = self.effects.get(&start) {
            return *known;
        }
        if !self.following.insert(start) {
            return Some(0);
        }
        let effect = self.follow(function);
        self.following.remove(&start);
        self.effects.insert(start, effect);
        effect
    }

    /// Follow all executed branches of `function`, with its cold part.
    fn follow(&mut self, function: &ExecutedFunction) -> Locks {
        let own = roles::function_name(&function.name);
        let parts = self.functions.values().copied().filter(|part| {
            part.address == function.address || (roles::is_cold(&part.name) && roles::function_name(&part.name) == own)
        });
        let code: HashMap<u64, Instruction> = parts
            .flat_map(|part| part.instructions.iter().map(|one| (part.address + one.offset, one.bytes())))
            .map(|(address, bytes)| (address, decoded(self.processor, &bytes, address)))
            .collect();
        // Executed instructions that are not reached, such as the targets of indirect jumps, remain unknown.
        let mut held: HashMap<u64, Locks> = HashMap::new();
        let mut effect: Option<Locks> = None;
        let mut ends =
            |locks: Locks| effect = Some(if effect.is_none_or(|known| known == locks) { locks } else { None });
        let mut open: Vec<(u64, Locks)> = vec![(function.address, Some(0))];
        while let Some((address, locks)) = open.pop() {
            let Some(instruction) = code.get(&address) else { continue };
            let locks = match held.get(&address) {
                Some(known) if *known == locks || known.is_none() => continue,
                // Reached with another number of locks: unknown, also from here on.
                Some(_) => None,
                None => locks,
            };
            held.insert(address, locks);
            let target = instruction.target;
            match instruction.flow {
                Flow::Call => {
                    let after = locks.zip(self.effect(target)).map(|(held, effect)| held + effect);
                    open.push((instruction.next, after));
                }
                Flow::Jump if code.contains_key(&target) => open.push((target, locks)),
                Flow::Jump => {
                    ends(locks.zip(self.effect(target)).map(|(held, effect)| held + effect));
                }
                Flow::Branch => {
                    open.push((instruction.next, locks));
                    if code.contains_key(&target) {
                        open.push((target, locks));
                    }
                }
                Flow::Return => ends(locks),
                Flow::Indirect => {}
                Flow::Next => open.push((instruction.next, locks)),
            }
        }
        for address in code.keys() {
            self.held.insert(*address, held.get(address).copied().flatten());
        }
        effect.unwrap_or(Some(0))
    }

    /// The locks that the function of `address` holds there; functions that are not followed hold none themselves.
    fn at(&self, address: u64) -> Locks {
        self.held.get(&address).copied().unwrap_or(Some(0))
    }
}

/// The locks held in the contexts of one window.
struct Nodes<'a> {
    raw: &'a Raw,
    flow: &'a Locking<'a>,
    /// By context: the locks held, and whether it is below a function of the pipe.
    known: HashMap<u32, (Locks, bool)>,
}

impl Nodes<'_> {
    fn of(&mut self, node: u32) -> (Locks, bool) {
        if let Some(known) = self.known.get(&node) {
            return *known;
        }
        let mut path = Vec::new();
        self.raw.path(node, &mut path);
        let mut state = (Some(0), false);
        for address in path {
            let below = self.flow.held.contains_key(&address);
            state = (state.0.zip(self.flow.at(address)).map(|(a, b)| a + b), state.1 || below);
        }
        self.known.insert(node, state);
        state
    }
}

#[derive(Default)]
struct Sums {
    taken: u64,
    instructions: u64,
    without_scheduling: u64,
    unknown: u64,
    /// While held, and in all.
    calls: BTreeMap<(String, RoleId), (u64, u64)>,
}

/// The use of each kind of lock by each of `processes`. Processes that take none are left out.
pub(super) fn uses(contexts: &mut Contexts<'_>, code: &ExecutedCode, processes: &[ProcessName]) -> Vec<LockUse> {
    let mut uses = Vec::new();
    for pair in &PAIRS {
        let flow = Locking::new(code, pair);
        let sums = of_pair(contexts, &flow, processes.len());
        for (process, sums) in processes.iter().zip(sums).filter(|(_, sums)| sums.taken > 0) {
            let mut calls: Vec<HeldCalls> = sums
                .calls
                .into_iter()
                .map(|((function, role), (held, all))| HeldCalls { function, role, held, all })
                .collect();
            calls.sort_by(|a, b| b.held.cmp(&a.held).then(b.all.cmp(&a.all)).then(a.function.cmp(&b.function)));
            uses.push(LockUse {
                process: *process,
                lock: pair.kind,
                taken: sums.taken,
                instructions: sums.instructions,
                without_scheduling: sums.without_scheduling,
                unknown: sums.unknown,
                calls,
            });
        }
    }
    uses
}

fn of_pair(contexts: &mut Contexts<'_>, flow: &Locking<'_>, processes: usize) -> Vec<Sums> {
    let raw = contexts.raw;
    let names: &Names = contexts.names;
    let mut nodes = Nodes { raw, flow, known: HashMap::new() };
    let mut sums: Vec<Sums> = (0..processes).map(|_| Sums::default()).collect();
    for count in &raw.counts {
        let Some(Root::Process(process)) = raw.root(count.node) else { continue };
        let Some(sums) = sums.get_mut(process) else { continue };
        let (outer, below) = nodes.of(count.node);
        for (address, _) in raw.executed(count) {
            let own = flow.held.contains_key(&address);
            if !below && !own {
                continue;
            }
            match outer.zip(flow.at(address)) {
                None => sums.unknown += count.times,
                Some((outer, inner)) if outer + inner > 0 => {
                    sums.instructions += count.times;
                    if !SCHEDULING.contains(&contexts.role(count.node, Some(address))) {
                        sums.without_scheduling += count.times;
                    }
                }
                Some(_) => {}
            }
            let function = names.function(address);
            if below && function.start == Some(address) {
                if flow.takes(address) && by_pipe(raw, flow, count.node) {
                    sums.taken += count.times;
                }
                if let Some(role) = roles::of_frame(&function.name) {
                    let calls = sums.calls.entry((function.name.into_owned(), role.id)).or_default();
                    calls.0 += if outer.is_some_and(|locks| locks > 0) { count.times } else { 0 };
                    calls.1 += count.times;
                }
            }
        }
    }
    sums
}

/// Whether a function of the pipe makes the call of this context.
fn by_pipe(raw: &Raw, flow: &Locking<'_>, node: u32) -> bool {
    raw.nodes.get(node as usize).is_some_and(|node| flow.held.contains_key(&node.address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::code::{CODE_SCHEMA, ExecutedInstruction};

    const BASE: u64 = 0xffff_ffff_8100_0000;

    /// Functions at 256-byte distances. An instruction is its code; `call N` and `jmp N` name the N-th function.
    fn code(functions: &[(&str, &[&str])]) -> ExecutedCode {
        let functions = functions.iter().enumerate().map(|(place, (name, instructions))| {
            let address = BASE + 256 * place as u64;
            let mut offset = 0;
            let instructions = instructions.iter().map(|text| {
                let code = match text.split_once(' ') {
                    Some((what, target)) => {
                        let to = BASE + 256 * target.parse::<u64>().unwrap();
                        let relative = (to as i64 - (address + offset + 5) as i64) as i32;
                        let opcode = if what == "call" { "e8" } else { "e9" };
                        relative.to_le_bytes().iter().fold(opcode.to_owned(), |code, byte| format!("{code}{byte:02x}"))
                    }
                    None => (*text).to_owned(),
                };
                let one = ExecutedInstruction { offset, code, counts: vec![1], iterations: Vec::new() };
                offset += one.code.len() as u64 / 2;
                one
            });
            ExecutedFunction { name: (*name).to_owned(), file: None, address, instructions: instructions.collect() }
        });
        ExecutedCode {
            schema: CODE_SCHEMA.to_owned(),
            processor: Processor::X86_64,
            processes: vec![ProcessName::WRITER],
            files: std::collections::BTreeMap::new(),
            functions: functions.collect(),
        }
    }

    fn held(code: &ExecutedCode, function: usize) -> Vec<Locks> {
        let flow = Locking::new(code, &PAIRS[0]);
        let function = &code.functions[function];
        function.instructions.iter().map(|one| flow.at(function.address + one.offset)).collect()
    }

    const RET: &str = "c3";

    #[test]
    fn a_call_is_under_the_lock_by_the_order_of_the_code() {
        let code = code(&[
            ("mutex_lock", &[RET]),
            ("mutex_unlock", &[RET]),
            ("__alloc_pages", &[RET]),
            // Back to the allocation, as long as a condition holds: 75 f9 is jne -7, over itself and the call.
            ("pipe_write", &["call 2", "call 0", "call 2", "75f9", "call 1", RET]),
        ]);
        assert_eq!(held(&code, 3), [Some(0), Some(0), Some(1), Some(1), Some(1), Some(0)]);
    }

    #[test]
    fn helpers_that_lock_and_tail_calls_are_followed() {
        let code = code(&[
            ("mutex_lock", &[RET]),
            ("mutex_unlock", &[RET]),
            ("pipe_lock", &["call 0", RET]),
            ("pipe_unlock", &["jmp 1"]),
            ("splice_to_pipe", &["call 2", "90", "call 6", "call 3", "90", RET]),
            ("other_lock", &["call 0", RET]),
            // Waits without the lock, and returns with it.
            ("pipe_wait_writable", &["call 3", "90", "call 2", RET]),
        ]);
        assert_eq!(held(&code, 4), [Some(0), Some(1), Some(1), Some(1), Some(0), Some(0)]);
        assert_eq!(held(&code, 6), [Some(0), Some(-1), Some(-1), Some(0)]);
        assert_eq!(held(&code, 5), [Some(0), Some(0)], "not a function of the pipe");
    }

    #[test]
    fn an_instruction_reached_with_and_without_the_lock_is_unknown() {
        // 74 05 is je +5, over the call.
        let code = code(&[("mutex_lock", &[RET]), ("pipe_read", &["7405", "call 0", "90", RET])]);
        assert_eq!(held(&code, 1), [Some(0), Some(0), None, None]);
    }
}
