//! A function's executed instructions as text: disassembled, with counts; the most frequent ones are marked.

use crate::arch::{Disassembler, disassembler};
use crate::profile::{ProcessName, listed};
use crate::result::code::{ExecutedCode, ExecutedFunction, ExecutedInstruction};
use crate::util::text::grouped;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Names for the targets of calls and jumps: other functions, and offsets in this one.
struct Targets {
    starts: HashMap<u64, String>,
    own: std::ops::Range<u64>,
    name: String,
}

impl Targets {
    fn name(&self, address: u64) -> Option<String> {
        let own = || format!("{}+{:#x}", self.name, address - self.own.start);
        self.starts.get(&address).cloned().or_else(|| self.own.contains(&address).then(own))
    }
}

/// The processes whose counts are summed: `writer, reader and others`.
fn all_of(code: &ExecutedCode) -> String {
    let names: Vec<&str> = code.processes.iter().filter(|name| name.is_of_target()).map(|name| name.as_str()).collect();
    if names.len() == code.processes.len() {
        return listed(code.processes.iter().copied());
    }
    format!("{} and others", names.join(", "))
}

/// The text. With `process`, only its counts.
pub fn render(function: &ExecutedFunction, code: &ExecutedCode, release: &str, process: Option<ProcessName>) -> String {
    let mut text = String::new();
    let whose = process.map_or_else(|| all_of(code), |process| process.to_string());
    let counts = |instruction: &ExecutedInstruction| code.of(&instruction.counts, process);
    let total = function.instructions.iter().map(counts).fold(0, u64::saturating_add);
    let calls = code.of(function.calls(), process);
    let place = function.file.as_deref().unwrap_or(release);
    let _ = writeln!(text, "{} at {:#x}, {place}", function.name, function.address);
    let _ = write!(text, "{} instructions in {} calls, {whose}", grouped(total), grouped(calls));
    if calls > 0 {
        let _ = write!(text, "; {:.1} per call", total as f64 / calls as f64);
    }
    let _ = writeln!(
        text,
        "\n> marks what was executed most often\n\n  {:>12} {:>9}  {:>6}",
        "count", "per call", "offset"
    );
    let last = function.instructions.last();
    let end = last.map_or(0, |last| function.address.saturating_add(end_of(last)));
    // Addresses of user code are those of its file.
    let starts = code.functions.iter().filter(|other| other.address > 0 && other.file == function.file);
    let targets = Targets {
        starts: starts.map(|function| (function.address, function.name.clone())).collect(),
        own: function.address..end,
        name: function.name.clone(),
    };
    let mut text_of = disassembler(code.processor, Box::new(move |address| targets.name(address)));
    let hottest = function.instructions.iter().map(counts).max().unwrap_or(0);
    let mut next = 0;
    for instruction in &function.instructions {
        if instruction.offset > next && next > 0 {
            let _ =
                writeln!(text, "  {:>12}            {:>6}  {} bytes not executed", "", "", instruction.offset - next);
        }
        let count = counts(instruction);
        next = end_of(instruction);
        let mark = if count == hottest && count > 0 { '>' } else { ' ' };
        let per_call = if calls > 0 { format!("{:.2}", count as f64 / calls as f64) } else { String::new() };
        let _ =
            write!(text, "{mark} {:>12} {per_call:>9}  {:>6}  ", grouped(count), format!("+{:x}", instruction.offset));
        text.push_str(&disassembled(instruction, function.address, &mut text_of));
        let iterations = code.of(&instruction.iterations, process);
        if iterations > 0 {
            let _ = write!(text, "    ; {} iterations", grouped(iterations));
            if count > 0 {
                let _ = write!(text, ", {:.0} each time", iterations as f64 / count as f64);
            }
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// The offset of the instruction after `instruction`.
fn end_of(instruction: &ExecutedInstruction) -> u64 {
    instruction.offset.saturating_add((instruction.code.len() / 2) as u64)
}

fn disassembled(instruction: &ExecutedInstruction, start: u64, text_of: &mut Disassembler) -> String {
    let bytes = instruction.bytes();
    if bytes.len() * 2 != instruction.code.len() {
        return "(bad)".to_owned();
    }
    text_of(&bytes, start.saturating_add(instruction.offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::code::CODE_SCHEMA;

    #[test]
    fn a_function_reads_as_it_ran() {
        let instruction = |offset, code: &str, count, iterations| ExecutedInstruction {
            offset,
            code: code.to_owned(),
            counts: vec![count, 1, 0],
            iterations: if iterations == 0 { Vec::new() } else { vec![iterations, 0, 0] },
        };
        let copy = ExecutedFunction {
            name: "copy_user_enhanced_fast_string".to_owned(),
            file: None,
            address: 0xffff_ffff_8140_0000,
            instructions: vec![
                instruction(0, "83fa40", 320, 0),
                instruction(3, "7202", 320, 0),
                instruction(7, "89d1", 320, 0),
                instruction(9, "f3a4", 320, 1_310_720),
                instruction(0xb, "e9f0ff0f00", 300, 0),
            ],
        };
        let thunk = ExecutedFunction {
            name: "__x86_return_thunk".to_owned(),
            file: None,
            address: 0xffff_ffff_8150_0000,
            instructions: Vec::new(),
        };
        let code = ExecutedCode {
            schema: CODE_SCHEMA.to_owned(),
            processor: crate::arch::Processor::X86_64,
            processes: vec![ProcessName::WRITER, ProcessName::READER, ProcessName::OTHER],
            functions: vec![copy, thunk],
        };
        insta::assert_snapshot!(render(&code.functions[0], &code, "6.1.0", Some(ProcessName::WRITER)), @r"
        copy_user_enhanced_fast_string at 0xffffffff81400000, 6.1.0
        1,580 instructions in 320 calls, writer; 4.9 per call
        > marks what was executed most often

                 count  per call  offset
        >          320      1.00      +0  cmp $0x40,%edx
        >          320      1.00      +3  jb copy_user_enhanced_fast_string+0x7
                                          2 bytes not executed
        >          320      1.00      +7  mov %edx,%ecx
        >          320      1.00      +9  rep movsb (%rsi),(%rdi)    ; 1,310,720 iterations, 4096 each time
                   300      0.94      +b  jmp __x86_return_thunk
        ");
        assert!(render(&code.functions[0], &code, "6.1.0", None).contains("321"));
        let bytes = code.to_bytes().unwrap();
        assert_eq!(ExecutedCode::from_bytes(&bytes).unwrap(), code);
        assert_eq!(code.to_bytes().unwrap(), bytes);
        assert!(ExecutedCode::from_bytes(&bytes[..bytes.len() / 2]).is_err());
    }

    #[test]
    fn numbers_that_do_not_fit_are_shown() {
        let instruction = |offset| ExecutedInstruction {
            offset,
            code: "90".to_owned(),
            counts: vec![u64::MAX; 2],
            iterations: Vec::new(),
        };
        let function = ExecutedFunction {
            name: "f".to_owned(),
            file: None,
            address: u64::MAX - 1,
            instructions: vec![instruction(0), instruction(u64::MAX)],
        };
        let code = ExecutedCode {
            schema: CODE_SCHEMA.to_owned(),
            processor: crate::arch::Processor::X86_64,
            processes: vec![ProcessName::WRITER, ProcessName::READER],
            functions: vec![function.clone()],
        };
        assert_eq!((function.total(), code.of_target(function.calls())), (u64::MAX, u64::MAX));
        let shown = render(&function, &code, "6.1.0", None);
        assert!(shown.contains("18,446,744,073,709,551,615 instructions"), "{shown}");
    }
}
