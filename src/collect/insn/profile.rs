//! Make stacks, calls and executed code from blocks and contexts.

use super::class;
use super::contexts::{Contexts, entered, functions_of};
use super::held;
use super::names::{CodePlace, Names};
use super::raw::{Block, Raw, RepCount, Root, UserReturns};
use super::user_contexts::UserContextTree;
use crate::arch::Processor;
use crate::profile::cycles::InstructionClass;
use crate::profile::folded::frame_name;
use crate::profile::{ByProcess, CallStack, ClassCounts, ClassifiedStacks, Folded, ProcessName, Profile, Unit};
use crate::result::code::{CODE_SCHEMA, ExecutedCode, ExecutedFunction, ExecutedInstruction};
use crate::result::{Collector, CollectorReport, FunctionCalls, LockUse, Status};
use crate::roles::{self, RoleId, SCHEDULING, Skid};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The collector's name in profiles.
pub const NAME: &str = "insn";

/// What one window executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// By process number; the last one is for others. Of user code of foreign programs, functions without callers.
    pub profiles: Vec<Profile>,
    /// Of each process, with the calling contexts of its user code if they could be followed; empty if they were not counted.
    pub contexts: Vec<Profile>,
    /// The instructions of these profiles by class.
    pub classes: ByProcess<ClassifiedStacks>,
    /// Calls of the roles' functions, by process.
    pub functions: Vec<FunctionCalls>,
    /// How often each process entered each role: calls of the role's functions from outside of the role.
    pub entered: BTreeMap<(ProcessName, RoleId), u64>,
    pub locks: Vec<LockUse>,
    pub code: ExecutedCode,
    pub report: CollectorReport,
}

/// The stacks of a window, its parts weighed: for comparisons with other windows. [`count`] has what was executed.
pub fn profiles(raw: &Raw, names: &Names, processes: &[ProcessName]) -> Result<Vec<Profile>> {
    check(raw, processes)?;
    let mut stacks = vec![Folded::default(); processes.len() + 1];
    let mut contexts = Contexts::new(raw, names);
    for count in &raw.counts {
        let Some(root) = raw.root(count.node) else { continue };
        let (callers, frames) = (contexts.callers(count.node), contexts.last_frames(count.node, count.block));
        for (_, executed, last) in functions_of(count, &frames).filter(|_| count.tapered > 0) {
            stacks[root.place(raw.processes)].add_stack(callers.stack(Some(last)), executed * count.tapered);
        }
    }
    if let Some(others) = stacks.last_mut() {
        let least = others.total() / 1000;
        let mut short = Folded::default();
        others.iter().for_each(|(stack, weight)| short.add_stack(shortened(stack, weight < least), weight));
        *others = short;
    }
    Ok(with_others(processes).zip(stacks).map(profile).collect())
}

fn check(raw: &Raw, processes: &[ProcessName]) -> Result<()> {
    ensure!(raw.processes == processes.len(), "{} processes were counted, not {}", raw.processes, processes.len());
    Ok(())
}

/// Bytes that `rep` instructions of the processes moved in a window, without the roles that depend on scheduling. They come
/// in no bursts, so the parts of the window are not weighed.
pub fn rep_bytes(raw: &Raw, names: &Names) -> u64 {
    let mut contexts = Contexts::new(raw, names);
    let bytes = |rep: &RepCount| {
        let block = raw.blocks.get(rep.block as usize)?;
        let place = raw.root(rep.node)?.place(raw.processes);
        let role = contexts.role(rep.node, Some(block.last_address()));
        let counts = place < raw.processes && !SCHEDULING.contains(&role);
        counts.then(|| iterations(block, rep.accesses) * class::rep_element(block))
    };
    raw.reps.iter().filter_map(bytes).sum()
}

/// Give names to `raw`, which identifies `processes` by number.
pub fn count(raw: &Raw, names: &Names, processes: &[ProcessName]) -> Result<Counted> {
    check(raw, processes)?;
    let followed = (names.is_of_programs() && raw.follows_user_code()).then(|| (raw, UserContextTree::of(raw)));
    let plain = followed.as_ref().map(|(raw, tree)| tree.without(raw));
    let raw = plain.as_ref().unwrap_or(raw);
    let mut stacks = vec![ClassifiedStacks::default(); processes.len() + 1];
    let classes: Vec<Vec<InstructionClass>> =
        raw.blocks.iter().map(|block| class::of_block(raw.processor, block)).collect();
    let mut contexts = Contexts::new(raw, names);
    let (mut unattributed, mut unfollowed, mut unnamed) = (0, 0, 0);
    for count in &raw.counts {
        let Some(root) = raw.root(count.node) else { continue };
        let (callers, frames) = (contexts.callers(count.node), contexts.last_frames(count.node, count.block));
        let mut classes = classes.get(count.block as usize).into_iter().flatten().skip(count.from.into());
        for (_, executed, last) in functions_of(count, &frames) {
            let mut counts = ClassCounts::default();
            for class in classes.by_ref().take(executed.try_into()?) {
                counts.add(*class, count.times);
            }
            if !last.has_symbol {
                unnamed += executed * count.times;
            }
            stacks[root.place(raw.processes)].add(callers.stack(Some(last)), counts);
        }
        match root {
            Root::Unfollowed => unfollowed += count.instructions(),
            Root::Unattributed(_) => unattributed += count.instructions(),
            Root::Process(_) | Root::Other => {}
        }
    }
    for rep in &raw.reps {
        let (Some(root), Some(block)) = (raw.root(rep.node), raw.blocks.get(rep.block as usize)) else { continue };
        let (callers, frames) = (contexts.callers(rep.node), contexts.last_frames(rep.node, rep.block));
        let rep_bytes = iterations(block, rep.accesses) * class::rep_element(block);
        let counts = ClassCounts { rep_bytes, ..ClassCounts::default() };
        stacks[root.place(raw.processes)].add(callers.stack(frames.last().map(|(_, last)| last)), counts);
    }
    let code = executed(raw, names, processes);
    if let Some(others) = stacks.last_mut() {
        let least = others.instructions().total() / 1000;
        let mut short = ClassifiedStacks::default();
        others.iter().for_each(|(stack, counts)| short.add(shortened(stack, counts.instructions() < least), *counts));
        *others = short;
    }
    let classes: ByProcess<ClassifiedStacks> = with_others(processes).zip(stacks).collect();
    let stacks: Vec<Folded> = classes.values().map(ClassifiedStacks::instructions).collect();
    let totals: Vec<u64> = stacks.iter().map(Folded::total).collect();
    let mut report = report(raw, &code, &totals, unfollowed);
    report.lost = unattributed;
    report.unresolved = unnamed;
    if unattributed > 0 {
        report.status = Status::Partial;
        let names: Vec<&str> = processes.iter().map(|process| process.as_str()).collect();
        let reason =
            format!("{unattributed} instructions of {} could not be attributed to a call path", names.join(" and "));
        report.reason = Some(reason);
    }
    let profiles: Vec<Profile> = with_others(processes).zip(stacks).map(profile).collect();
    let whole = followed.map(|(raw, tree)| tree.stacks(raw, &mut contexts)).unwrap_or_default();
    let users = of_users(&raw.user_returns, &profiles, whole, &mut report);
    let entered = entered(&mut contexts).into_iter();
    let entered = entered.filter_map(|((place, role), calls)| Some(((*processes.get(place)?, role), calls))).collect();
    let locks = held::uses(&mut contexts, &code, processes);
    Ok(Counted { profiles, contexts: users, classes, functions: calls(&code), entered, locks, code, report })
}

fn profile((process, stacks): (ProcessName, Folded)) -> Profile {
    Profile { process, collector: NAME.to_owned(), unit: Unit::Instructions, skid: Skid::None, stacks }
}

/// A process whose returns match no call more often has no calling contexts in user code: one in so many.
const MOST_ODD: u64 = 50;

/// Fewer odd returns are those of children that were forked in a function.
const FEWEST_ODD: u64 = 100;

/// The profiles with calling contexts of user code, `whole`; of processes whose calls could not be followed, the `plain` ones.
fn of_users(
    returns: &[UserReturns],
    plain: &[Profile],
    whole: Vec<Folded>,
    report: &mut CollectorReport,
) -> Vec<Profile> {
    let mut of_process = |((plain, stacks), returns): ((&Profile, Folded), &UserReturns)| {
        let is_followed = returns.odd < FEWEST_ODD || returns.odd.saturating_mul(MOST_ODD) <= returns.all;
        if is_followed {
            return profile((plain.process, stacks));
        }
        report.notes.push(format!(
            "user code of {} has no callers: {} of its {} returns match no call, as those of coroutines do",
            plain.process, returns.odd, returns.all
        ));
        plain.clone()
    };
    plain.iter().zip(whole).zip(returns).map(&mut of_process).collect()
}

/// The iterations of a block's `rep` instruction.
fn iterations(block: &Block, accesses: u64) -> u64 {
    // cmps (a6, a7) loads twice in each iteration.
    let twice = block.code.last().is_some_and(|opcode| matches!(opcode, 0xa6 | 0xa7));
    if twice { accesses / 2 } else { accesses }
}

/// The processes, then others.
fn with_others(processes: &[ProcessName]) -> impl Iterator<Item = ProcessName> {
    processes.iter().copied().chain(std::iter::once(ProcessName::OTHER))
}

/// A stack of others, which have many small ones: those below a thousandth of their total end after their fourth frame.
/// The sum does not change.
fn shortened(stack: CallStack<'_>, small: bool) -> impl Iterator<Item = &str> {
    stack.frames().take(if small { 4 } else { usize::MAX })
}

struct Seen {
    code: Vec<u8>,
    counts: Vec<u64>,
    iterations: Vec<u64>,
}

/// How often each instruction of each block was executed, by the place of the process. A count adds only where it begins and
/// subtracts where it ends: contexts are many more than blocks.
fn times(raw: &Raw, places: usize) -> Vec<Vec<Vec<u64>>> {
    let mut all: Vec<Vec<Vec<u64>>> = vec![Vec::new(); raw.blocks.len()];
    for count in &raw.counts {
        let at = count.block as usize;
        let (Some(root), Some(block), Some(sums)) = (raw.root(count.node), raw.blocks.get(at), all.get_mut(at)) else {
            continue;
        };
        if sums.is_empty() {
            *sums = vec![vec![0; block.lengths.len() + 1]; places];
        }
        let own = &mut sums[root.place(places - 1)];
        own[usize::from(count.from)] = own[usize::from(count.from)].wrapping_add(count.times);
        own[usize::from(count.to)] = own[usize::from(count.to)].wrapping_sub(count.times);
    }
    for sums in all.iter_mut().flatten() {
        let mut sum = 0_u64;
        for here in sums {
            sum = sum.wrapping_add(*here);
            *here = sum;
        }
    }
    all
}

/// All executed instructions, by function.
fn executed(raw: &Raw, names: &Names, processes: &[ProcessName]) -> ExecutedCode {
    let none = vec![0; processes.len() + 1];
    let mut seen: BTreeMap<CodePlace, Seen> = BTreeMap::new();
    for ((number, block), times) in (0..).zip(&raw.blocks).zip(times(raw, none.len())) {
        for (at, (address, code)) in block.instructions().enumerate() {
            let counts = || times.iter().map(|of| of.get(at).copied().unwrap_or(0));
            if counts().all(|count| count == 0) {
                continue;
            }
            let seen = seen.entry(names.place(number, address)).or_insert_with(|| Seen {
                code: code.to_vec(),
                counts: none.clone(),
                iterations: none.clone(),
            });
            seen.counts.iter_mut().zip(counts()).for_each(|(sum, count)| *sum += count);
        }
    }
    let mut accesses: BTreeMap<(u32, usize), u64> = BTreeMap::new();
    for rep in &raw.reps {
        let Some(root) = raw.root(rep.node) else { continue };
        *accesses.entry((rep.block, root.place(processes.len()))).or_default() += rep.accesses;
    }
    for ((block, place), accesses) in accesses {
        let Some(code) = raw.blocks.get(block as usize) else { continue };
        if let Some(seen) = seen.get_mut(&names.place(block, code.last_address())) {
            seen.iterations[place] += iterations(code, accesses);
        }
    }
    let mut functions: BTreeMap<(String, Option<String>, u64), Vec<ExecutedInstruction>> = BTreeMap::new();
    for (place, seen) in seen {
        let function = names.function_at(place);
        let start = function.start.unwrap_or(0);
        let mut code = String::new();
        for byte in &seen.code {
            let _ = write!(code, "{byte:02x}");
        }
        let key = (frame_name(&function.name).into_owned(), function.file.map(str::to_owned), start);
        functions.entry(key).or_default().push(ExecutedInstruction {
            offset: place.address - start,
            code,
            counts: seen.counts,
            iterations: if seen.iterations == none { Vec::new() } else { seen.iterations },
        });
    }
    let functions = functions.into_iter().map(|((name, file, address), instructions)| ExecutedFunction {
        name,
        file,
        address,
        instructions,
    });
    ExecutedCode {
        schema: CODE_SCHEMA.to_owned(),
        processor: raw.processor,
        processes: with_others(processes).collect(),
        files: names.paths(),
        functions: functions.collect(),
    }
}

/// The number of entries of the roles' functions.
fn calls(code: &ExecutedCode) -> Vec<FunctionCalls> {
    let mut calls = Vec::new();
    for (index, process) in code.processes.iter().copied().enumerate() {
        for function in code.functions.iter().filter(|function| function.address >> 63 == 1) {
            let Some(role) = roles::of_frame(&function.name) else { continue };
            let entered = function.calls().get(index).copied().unwrap_or(0);
            if entered > 0 {
                calls.push(FunctionCalls {
                    calls: entered,
                    ..FunctionCalls::none(process, role.id, &function.name, NAME)
                });
            }
        }
    }
    calls.sort_by(|a, b| (a.process, a.role, &a.symbol).cmp(&(b.process, b.role, &b.symbol)));
    calls
}

fn report(raw: &Raw, code: &ExecutedCode, totals: &[u64], unfollowed: u64) -> CollectorReport {
    let total = raw.totals.completed();
    let of_each: Vec<String> =
        totals.iter().zip(&code.processes).map(|(total, process)| format!("{total} {process}")).collect();
    let mut iterations = vec![0; totals.len()];
    for instruction in code.functions.iter().flat_map(|function| &function.instructions) {
        for (sum, n) in iterations.iter_mut().zip(&instruction.iterations) {
            *sum += n;
        }
    }
    let repeated = (0..).zip(iterations.iter().zip(&code.processes));
    let repeated: Vec<String> = repeated
        .map(|(place, (times, process))| format!("{times}{} ({process})", if place == 0 { " times" } else { "" }))
        .collect();
    let mut notes = vec![format!("{total} instructions executed in the window: {}", of_each.join(", "))];
    if code.processor == Processor::X86_64 {
        notes.push(format!("rep instructions count once; they repeated {}", repeated.join(", ")));
    }
    notes.extend([
        format!(
            "{} switches of tasks, {} interrupts and faults in kernel code, {unfollowed} instructions of others under \
             callers from before the window",
            raw.totals.switches, raw.totals.traps
        ),
        "instructions are not time: no caches, no memory bandwidth, no CPUs that run in parallel".to_owned(),
    ]);
    CollectorReport { skid: Some(Skid::None), notes, ..CollectorReport::ok(Collector::Insn, total) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::insn::raw::{BlockCount, RepCount, tests::file};
    use crate::kernel::symbols::Symbols;

    const K: u64 = 0xffff_ffff_8100_0000;

    fn sample() -> Counted {
        let kernel = format!("{K:016x} T ksys_write\n{:016x} t pipe_write\n{:016x} T __alloc_pages\n", K + 64, K + 128);
        // rep movsb at the end of pipe_write's block, and a block that runs from pipe_write into the next function.
        let blocks = [
            Block { address: K + 64, code: vec![0x90, 0xf3, 0xa4], lengths: vec![1, 2] },
            Block { address: K + 127, code: vec![0x90, 0x90], lengths: vec![1, 1] },
            Block { address: K + 128, code: vec![0x90], lengths: vec![1] },
        ];
        let counts = [
            BlockCount { node: 7, block: 0, from: 0, to: 2, times: 10, tapered: 10 },
            BlockCount { node: 7, block: 0, from: 0, to: 1, times: 1, tapered: 1 },
            BlockCount { node: 7, block: 1, from: 0, to: 2, times: 3, tapered: 3 },
            BlockCount { node: 2, block: 2, from: 0, to: 1, times: 5, tapered: 5 },
            BlockCount { node: 4, block: 2, from: 0, to: 1, times: 2, tapered: 2 },
        ];
        let begun = counts.iter().map(BlockCount::instructions).sum();
        let reps = [
            RepCount { node: 7, block: 0, accesses: 640, tapered: 640 },
            RepCount { node: 3, block: 0, accesses: 60, tapered: 60 },
        ];
        let raw = Raw::parse(&file("", begun, &[(3, 3, K + 8)], &blocks, &counts, &reps)).unwrap();
        let names = Names::new(Symbols::read(kernel.as_bytes()).unwrap(), None, &raw);
        assert!(count(&raw, &names, &[ProcessName::OTHER]).is_err());
        let processes = [ProcessName::WRITER, ProcessName::READER];
        let counted = count(&raw, &names, &processes).unwrap();
        assert_eq!(profiles(&raw, &names, &processes).unwrap(), counted.profiles);
        assert_eq!(rep_bytes(&raw, &names), 700);
        counted
    }

    #[test]
    fn every_instruction_is_in_one_stack() {
        let counted = sample();
        let text: String = counted.profiles.iter().map(|profile| profile.stacks.to_text()).collect();
        insta::assert_snapshot!(text, @r"
        [kernel];[unattributed];__alloc_pages 2
        [kernel];ksys_write;__alloc_pages 3
        [kernel];ksys_write;pipe_write 24
        [kernel];[since before the window];__alloc_pages 5
        ");
        assert_eq!(counted.report.samples, 34);
        assert_eq!(counted.report.lost, 2);
        assert_eq!(counted.report.status, Status::Partial);
    }

    #[test]
    fn a_process_whose_calls_cannot_be_followed_keeps_its_functions() {
        let plain = sample().profiles;
        let whole: Vec<Folded> = ["main;f", "main;g"]
            .map(|stack| {
                let mut stacks = Folded::default();
                stacks.add(stack, 9);
                stacks
            })
            .into();
        let found = |odd: u64| {
            let mut report = CollectorReport::ok(Collector::Insn, 0);
            let returns = [UserReturns { all: 1000, odd }, UserReturns { all: 1000, odd: 0 }];
            let found = of_users(&returns, &plain, whole.clone(), &mut report);
            (found.into_iter().map(|profile| profile.stacks).collect::<Vec<_>>(), report.notes)
        };
        assert_eq!(found(99), (whole.clone(), Vec::new()));
        let (stacks, notes) = found(500);
        assert_eq!(stacks, [plain[0].stacks.clone(), whole[1].clone()]);
        assert!(notes[0].starts_with("user code of writer has no callers: 500 of its 1000 returns"), "{notes:?}");
    }

    #[test]
    fn windows_are_weighed_and_what_was_executed_is_not() {
        let kernel = format!("{K:016x} T ksys_write\n{:016x} t pipe_write\n", K + 64);
        let blocks = [Block { address: K + 64, code: vec![0x90, 0x90], lengths: vec![1, 1] }];
        let counts = [
            BlockCount { node: 3, block: 0, from: 0, to: 2, times: 10, tapered: 7 },
            // A burst at the end of the window.
            BlockCount { node: 5, block: 0, from: 0, to: 1, times: 5, tapered: 0 },
        ];
        let raw = Raw::parse(&file("", 25, &[], &blocks, &counts, &[])).unwrap();
        let names = Names::new(Symbols::read(kernel.as_bytes()).unwrap(), None, &raw);
        let processes = [ProcessName::WRITER, ProcessName::READER];
        let totals = |profiles: &[Profile]| profiles.iter().map(|profile| profile.stacks.total()).collect::<Vec<u64>>();
        assert_eq!(totals(&profiles(&raw, &names, &processes).unwrap()), [14, 0, 0]);
        assert_eq!(totals(&count(&raw, &names, &processes).unwrap().profiles), [20, 5, 0]);
    }

    #[test]
    fn calls_are_executions_of_the_first_instruction() {
        let counted = sample();
        let row = |process: &str, symbol: &str| {
            let row = counted.functions.iter().find(|row| row.process.as_str() == process && row.symbol == symbol);
            row.map(|row| row.calls)
        };
        assert_eq!(row("writer", "pipe_write"), Some(11));
        assert_eq!(row("writer", "__alloc_pages"), Some(5));
        assert_eq!(row("other", "__alloc_pages"), Some(5));
    }

    #[test]
    fn iterations_stand_beside_the_instruction() {
        let counted = sample();
        let function = counted.code.functions.iter().find(|function| function.name == "pipe_write").unwrap();
        assert_eq!(function.instructions[1].code, "f3a4");
        assert_eq!(function.instructions[1].counts, [10, 0, 0]);
        assert_eq!(function.instructions[1].iterations, [700, 0, 0]);
    }

    #[test]
    fn each_context_has_its_classes_and_the_bytes_of_its_rep_instructions() {
        let counted = sample();
        let writer = counted.classes.get(ProcessName::WRITER).unwrap();
        let text: Vec<String> = writer
            .iter()
            .map(|(stack, counts)| format!("{stack} {}", serde_json::to_string(counts).unwrap()))
            .collect();
        insta::assert_snapshot!(text.join("\n"), @r#"
        [kernel];[unattributed];__alloc_pages {"other":2}
        [kernel];ksys_write;__alloc_pages {"other":3}
        [kernel];ksys_write;pipe_write {"other":14,"rep":10,"rep_bytes":640}
        [kernel];pipe_write {"rep_bytes":60}
        "#);
        for profile in &counted.profiles {
            assert_eq!(counted.classes.get(profile.process).unwrap().instructions(), profile.stacks);
        }
    }
}
