//! What a process executes once per switch on its way back to user code: rescheduling, restartable sequences, registers of
//! the FPU. How often it does so depends on the schedule, and compilers inline it in other functions of each kernel. So it
//! is found by branches and counts: code of system call entry and exit out of the straight line, that a process executes no
//! more often than the switches explain.

use super::names::Names;
use super::raw::Raw;
use crate::arch::{Flow, Instruction, decoded};
use crate::roles::{self, RoleId};
use std::collections::{BTreeMap, HashSet};

/// Entered once by each task that is switched away (arch/x86/entry/entry_64.S, arch/arm64/kernel/entry.S).
const SWITCHES: [&str; 2] = ["__switch_to_asm", "cpu_switch_to"];

/// Whether `frame` is a function of system call entry and exit.
pub(super) fn is_entry(frame: &str) -> bool {
    roles::of_frame(frame).is_some_and(|role| role.id == RoleId::Syscall)
}

/// The instructions of one window that are such work.
pub(super) struct SwitchWork {
    /// By the place of the process.
    addresses: Vec<HashSet<u64>>,
}

/// An executed instruction, and how often each process and others executed it.
struct CountedInstruction {
    instruction: Instruction,
    is_start: bool,
    times: Vec<u64>,
}

/// The executed instructions of a function, with its cold part, by address.
type FunctionCode = BTreeMap<u64, CountedInstruction>;

impl SwitchWork {
    pub(super) fn of(raw: &Raw, names: &Names) -> Self {
        let mut functions: BTreeMap<String, FunctionCode> = BTreeMap::new();
        let mut switches = vec![0; raw.processes + 1];
        let is_looked_at = |address| {
            let name = names.function(address).name;
            is_entry(&name) || SWITCHES.contains(&&*name)
        };
        let looked_at: Vec<bool> = raw
            .blocks
            .iter()
            .map(|block| block.instructions().any(|(address, _)| address >> 63 == 1 && is_looked_at(address)))
            .collect();
        for count in raw.counts.iter().filter(|count| looked_at.get(count.block as usize) == Some(&true)) {
            let Some(root) = raw.root(count.node) else { continue };
            let place = root.place(raw.processes);
            for (address, code) in raw.executed(count) {
                let function = names.function(address);
                let is_start = function.start == Some(address) && !roles::is_cold(&function.name);
                if is_start && SWITCHES.contains(&&*function.name) {
                    switches[place] += count.times;
                }
                if is_entry(&function.name) {
                    let known = functions.entry(roles::function_name(&function.name).to_owned()).or_default();
                    let one = known.entry(address).or_insert_with(|| CountedInstruction {
                        instruction: decoded(raw.processor, code, address),
                        is_start,
                        times: vec![0; raw.processes + 1],
                    });
                    one.times[place] += count.times;
                }
            }
        }
        let mut addresses = vec![HashSet::new(); raw.processes];
        for code in functions.values() {
            let branches = Branches::of(code);
            for (at, (address, one)) in code.iter().enumerate() {
                // After rescheduling, the kernel looks for work once more. A window may begin between a switch and the return.
                let most = |place: &usize| 2 * switches[*place] + 1;
                let rarely = |place: &usize| (1..=most(place)).contains(&one.times[*place]);
                let places: Vec<usize> =
                    (0..raw.processes).filter(|place| switches[*place] > 0 && rarely(place)).collect();
                if !places.is_empty() && branches.is_detour(at) {
                    places.into_iter().for_each(|place| _ = addresses[place].insert(*address));
                }
            }
        }
        Self { addresses }
    }

    /// Whether the instruction at `address` is such work of the process at this place.
    pub(super) fn contains(&self, place: usize, address: u64) -> bool {
        self.addresses.get(place).is_some_and(|addresses| addresses.contains(&address))
    }
}

/// Where the executed instructions of a function lead, by their index.
struct Branches {
    next: Vec<Vec<usize>>,
    /// Whether it is executed if no conditional branch is taken: where compilers put what is likely. Empty if that does not
    /// lead through the function.
    straight: Vec<bool>,
}

impl Branches {
    fn of(code: &FunctionCode) -> Self {
        let addresses: Vec<u64> = code.keys().copied().collect();
        let index = |address: u64| addresses.binary_search(&address).ok();
        let mut next = Vec::new();
        let mut straight = vec![false; addresses.len()];
        for (at, one) in code.values().enumerate() {
            let target = || index(one.instruction.target);
            next.push(match one.instruction.flow {
                Flow::Return | Flow::Indirect => Vec::new(),
                Flow::Jump => target().into_iter().collect(),
                // What was not executed between a branch and the next executed instruction leads there.
                Flow::Branch => (at + 1 < addresses.len()).then_some(at + 1).into_iter().chain(target()).collect(),
                Flow::Call | Flow::Next => index(one.instruction.next).into_iter().collect::<Vec<usize>>(),
            });
        }
        let mut here = code.values().position(|one| one.is_start);
        let mut last = None;
        while let Some(at) = here.filter(|at| !std::mem::replace(&mut straight[*at], true)) {
            last = code.values().nth(at);
            here = next[at].first().copied();
        }
        let ends = [Flow::Return, Flow::Jump, Flow::Indirect];
        let leads_through = here.is_none() && last.is_some_and(|last| ends.contains(&last.instruction.flow));
        Self { next, straight: if leads_through { straight } else { Vec::new() } }
    }

    /// Whether the instruction `at` is not in the straight line, and leads back to it.
    fn is_detour(&self, at: usize) -> bool {
        let is_straight = |at: usize| self.straight.get(at) == Some(&true);
        let mut seen = vec![false; self.next.len()];
        let mut open = vec![at];
        while let Some(here) = open.pop() {
            if is_straight(here) {
                return here != at;
            }
            if !std::mem::replace(&mut seen[here], true) {
                open.extend(&self.next[here]);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use crate::collect::insn::names::Names;
    use crate::collect::insn::profile::{count, profiles};
    use crate::collect::insn::raw::{Block, BlockCount, Raw, tests::file};
    use crate::kernel::symbols::Symbols;
    use crate::profile::ProcessName;
    use crate::roles::RoleId;

    const K: u64 = 0xffff_ffff_8100_0000;

    /// The stacks of two processes that make ten system calls each. `[n, s]`: `n` times, the way back has work to do, and
    /// the process is switched away `s` times.
    fn stacks(processes: [[u64; 2]; 2]) -> [String; 2] {
        let symbols = [("do_syscall_64", 0), ("exit_to_user_mode_loop", 64), ("helper", 128), ("__switch_to_asm", 192)];
        let symbols: String = symbols.map(|(name, at)| format!("{:016x} T {name}\n", K + at)).concat();
        let block = |at: u64, code: &[u8], lengths: &[u8]| Block {
            address: K + at,
            code: code.to_vec(),
            lengths: lengths.to_vec(),
        };
        let blocks = [
            // nop; jne to the call
            block(0, &[0x90, 0x75, 4], &[1, 2]),
            // nop; ret
            block(3, &[0x90, 0xc3], &[1, 1]),
            // call exit_to_user_mode_loop
            block(7, &[0xe8, 52, 0, 0, 0], &[5]),
            // jmp to the nop before ret
            block(12, &[0xeb, 0xf5], &[2]),
            // call helper
            block(64, &[0xe8, 59, 0, 0, 0], &[5]),
            block(69, &[0xc3], &[1]),
            block(128, &[0xc3], &[1]),
            block(192, &[0x90], &[1]),
        ];
        // The call in do_syscall_64, and that below it, of each process.
        let nodes = [(3, 3, K + 7), (7, 3, K + 64), (5, 5, K + 7), (9, 5, K + 64)];
        let mut counts = Vec::new();
        for ([work, switches], [root, called, below]) in processes.into_iter().zip([[3, 7, 8], [5, 9, 10]]) {
            let each = [(root, 10), (root, 10), (root, work), (root, work)];
            let each = each.into_iter().chain([(called, work), (called, work), (below, work), (root, switches)]);
            let count = |(block, (node, times)): (u32, (u32, u64))| BlockCount {
                node,
                block,
                from: 0,
                to: blocks[block as usize].lengths.len() as u16,
                times,
                tapered: times,
            };
            counts.extend((0..).zip(each).map(count).filter(|count| count.times > 0));
        }
        let begun = counts.iter().map(BlockCount::instructions).sum();
        let raw = Raw::parse(&file("", begun, &nodes, &blocks, &counts, &[])).unwrap();
        let names = Names::new(Symbols::read(symbols.as_bytes()).unwrap(), None, &raw);
        let processes = [ProcessName::WRITER, ProcessName::READER];
        let counted = count(&raw, &names, &processes).unwrap();
        // It is no call from outside of its function's role.
        assert_eq!(counted.entered.get(&(ProcessName::WRITER, RoleId::Syscall)), Some(&10));
        let plain = counted.profiles;
        assert_eq!(profiles(&raw, &names, &processes).unwrap(), plain);
        [0, 1].map(|process| plain[process].stacks.to_text())
    }

    const MARKED: &str = "\
[kernel];__switch_to_asm SWITCHES
do_syscall_64 40
do_syscall_64;[after-switch] 2N
do_syscall_64;exit_to_user_mode_loop;[after-switch] 2N
do_syscall_64;exit_to_user_mode_loop;[after-switch];helper N
";

    #[test]
    fn what_each_switch_adds_to_the_way_back_is_found_by_its_count() {
        let marked = |n: u64, switches: u64| {
            let text = MARKED.replace("2N", &(2 * n).to_string()).replace('N', &n.to_string());
            text.replace("SWITCHES", &switches.to_string())
        };
        // In some calls, and in each of them: a call of several switches has this work once.
        assert_eq!(stacks([[3, 4], [10, 40]]), [marked(3, 4), marked(10, 40)]);
    }

    #[test]
    fn work_of_a_call_stays_with_the_call() {
        // As where each call has closed a file.
        let [writer, reader] = stacks([[10, 2], [10, 0]]);
        assert!(!writer.contains("after-switch") && !reader.contains("after-switch"), "{writer}{reader}");
        assert!(writer.contains("do_syscall_64;exit_to_user_mode_loop;helper 10\n"), "{writer}");
    }
}
