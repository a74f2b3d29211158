//! Whether a program that executes more or fewer instructions in user code does other work, or the same with other code: loops that
//! run as often, with other instructions in them.
//!
//! How often instructions are executed is the number of turns of the loop that they are in. A compiler decides how many
//! instructions a turn has, and in which function they are; it does not decide how many turns there are, but for loops that
//! it unrolls or makes of vectors: those have a part of the turns.

use super::measure::as_f64;
use super::model::UserWork;
use crate::collect::insn::source_lines;
use crate::result::code::{ExecutedCode, ExecutedInstruction};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Numbers of turns are the same within this part.
const SAME: f64 = 0.001;

/// Turns of a loop that handles so many elements at once, or so many turns in one.
const UNROLLED: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// The work is the same if instructions in loops that only one side has are at most this part of the change.
const FEW: f64 = 0.2;

/// A loop explains a change with at least this part of it.
const MOST: f64 = 0.5;

/// The user code that the target executed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UserLoops {
    /// Instructions, by how often each was executed.
    by_turns: BTreeMap<u64, u64>,
    /// By their number of turns.
    loops: BTreeMap<u64, UserLoop>,
    total: u64,
}

/// The function with most of the instructions of a number of turns.
#[derive(Debug, Clone, Default, PartialEq)]
struct UserLoop {
    function: String,
    instructions: u64,
    /// Where its file is on this machine, the function's address there and the loop's first instruction.
    first: Option<(PathBuf, u64, ExecutedInstruction)>,
}

impl UserLoops {
    pub(crate) fn of(code: &ExecutedCode) -> Self {
        let mut loops = Self::default();
        for function in code.functions.iter().filter(|function| function.file.is_some()) {
            let mut own: BTreeMap<u64, (u64, &ExecutedInstruction)> = BTreeMap::new();
            for instruction in &function.instructions {
                let turns = code.of_target(&instruction.counts);
                own.entry(turns).or_insert((0, instruction)).0 += turns;
            }
            let file = function.file.as_ref().and_then(|file| code.files.get(file));
            for (turns, (instructions, first)) in own.into_iter().filter(|(turns, _)| *turns > 0) {
                *loops.by_turns.entry(turns).or_default() += instructions;
                loops.total += instructions;
                let largest = loops.loops.entry(turns).or_default();
                if instructions > largest.instructions {
                    let first = file.map(|file| (file.clone(), function.address, first.clone()));
                    *largest = UserLoop { function: function.name.clone(), instructions, first };
                }
            }
        }
        loops
    }

    /// Whether a loop has so many turns, or so many more or less as unrolling makes of them.
    fn has(&self, turns: u64) -> bool {
        let close = |wanted: f64| {
            let [low, high] = [wanted * (1.0 - SAME), wanted * (1.0 + SAME)].map(|end| end.round() as u64);
            self.by_turns.range(low..=high.max(low)).next().is_some()
        };
        UNROLLED.iter().any(|many| close(as_f64(turns) * as_f64(*many)) || close(as_f64(turns) / as_f64(*many)))
    }

    /// The instructions in loops that `other` does not have.
    fn own(&self, other: &Self) -> f64 {
        as_f64(self.by_turns.iter().filter(|(turns, _)| !other.has(**turns)).map(|(_, of)| of).sum())
    }

    /// What differs from `before`; `None` if that is not known.
    pub(crate) fn since(&self, before: &Self) -> Option<UserWork> {
        if self.total == 0 || before.total == 0 {
            return None;
        }
        let change = as_f64(self.total) - as_f64(before.total);
        if self.own(before) + before.own(self) <= FEW * change.abs() {
            return Some(UserWork::OtherCode);
        }
        let is_new = |(turns, of): &(&u64, &u64)| !before.has(**turns) && as_f64(**of) >= MOST * change;
        let (turns, _) = self.by_turns.iter().filter(is_new).max_by_key(|(_, of)| **of).filter(|_| change > 0.0)?;
        let UserLoop { function, first, .. } = self.loops.get(turns)?;
        let line = first.as_ref().and_then(|(path, address, first)| source_lines::of_one(path, *address, first));
        Some(UserWork::Loop { function: function.clone(), line, turns: *turns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProcessName;
    use crate::result::code::{CODE_SCHEMA, ExecutedFunction};

    /// Functions with the turns of each instruction.
    fn code(functions: &[(&str, &[(u64, usize)])]) -> UserLoops {
        let instruction = |turns| ExecutedInstruction {
            offset: 0,
            code: "90".to_owned(),
            counts: vec![turns],
            iterations: Vec::new(),
        };
        let function = |(name, turns): &(&str, &[(u64, usize)])| ExecutedFunction {
            name: (*name).to_owned(),
            file: Some("gate".to_owned()),
            address: 0x1000,
            instructions: turns.iter().flat_map(|(turns, many)| vec![instruction(*turns); *many]).collect(),
        };
        UserLoops::of(&ExecutedCode {
            schema: CODE_SCHEMA.to_owned(),
            processor: crate::arch::Processor::X86_64,
            processes: vec![ProcessName::new("stage1-gate")],
            files: std::collections::BTreeMap::new(),
            functions: functions.iter().map(function).collect(),
        })
    }

    #[test]
    fn loops_that_run_as_often_are_the_same_work() {
        let before = code(&[("main", &[(1, 20), (500, 12)]), ("sum", &[(500, 4), (2_048_000, 5)])]);
        // Inlined, and with less in a turn.
        let inlined = code(&[("main", &[(1, 30), (500, 13), (2_048_000, 4)])]);
        assert_eq!(inlined.since(&before), Some(UserWork::OtherCode));
        // Of vectors of eight.
        let vectors = code(&[("main", &[(1, 30), (500, 13), (256_000, 9)])]);
        assert_eq!(vectors.since(&before), Some(UserWork::OtherCode));
        assert_eq!(before.since(&vectors), Some(UserWork::OtherCode));
    }

    #[test]
    fn a_loop_that_runs_more_often_is_named() {
        let before = code(&[("main", &[(1, 20), (500, 12)]), ("sum", &[(2_048_000, 5)])]);
        let more = code(&[("main", &[(1, 20), (500, 12)]), ("sum", &[(2_048_000, 5)]), ("find", &[(124_750, 4)])]);
        assert_eq!(
            more.since(&before),
            Some(UserWork::Loop { function: "find".to_owned(), line: None, turns: 124_750 })
        );
        assert_eq!(before.since(&more), None, "a loop that has gone is no reason that is known");
        assert_eq!(code(&[]).since(&before), None);
    }
}
