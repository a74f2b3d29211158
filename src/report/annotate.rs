//! A function's executed instructions as text: disassembled, with counts; the most frequent ones are marked.

use crate::arch::{Disassembler, disassembler};
use crate::profile::{ProcessName, listed};
use crate::report::number::percent;
use crate::result::code::{ExecutedCode, ExecutedFunction, ExecutedInstruction, SourceLines, SourcePlace};
use crate::util::text::{clean, counted, grouped};
use std::collections::{BTreeMap, HashMap};
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

/// Lines of sources that are listed.
const LISTED: usize = 10;

/// The lines of sources with the most instructions.
fn by_line(
    function: &ExecutedFunction,
    lines: &SourceLines,
    counts: impl Fn(&ExecutedInstruction) -> u64,
    total: u64,
) -> String {
    let mut sums: BTreeMap<&SourcePlace, u64> = BTreeMap::new();
    for instruction in &function.instructions {
        if let Some(place) = lines.places.get(&instruction.offset) {
            let sum = sums.entry(place).or_default();
            *sum = sum.saturating_add(counts(instruction));
        }
    }
    let mut sums: Vec<(&SourcePlace, u64)> = sums.into_iter().filter(|(_, sum)| *sum > 0).collect();
    sums.sort_by_key(|(place, sum)| (std::cmp::Reverse(*sum), *place));
    let mut text = String::new();
    if !sums.is_empty() {
        let _ = writeln!(text, "\n  {:>14}  {:>6}  source line", "instructions", "share");
    }
    for (place, sum) in sums.iter().take(LISTED) {
        let share = *sum as f64 / total.max(1) as f64;
        let _ = write!(text, "  {:>14}  {:>6}  {}", grouped(*sum), percent(share), shown(place));
        let _ =
            writeln!(text, "{}", lines.text(place).map_or_else(String::new, |line| format!(": {}", cut(&clean(line)))));
    }
    if sums.len() > LISTED {
        let rest = sums.iter().skip(LISTED).map(|(_, sum)| sum).fold(0, |all: u64, sum| all.saturating_add(*sum));
        let _ = writeln!(
            text,
            "  {:>14}  {:>6}  {} more",
            grouped(rest),
            "",
            counted((sums.len() - LISTED) as u64, "line")
        );
    }
    text
}

/// A line of a source, up to 70 characters.
fn cut(line: &str) -> String {
    match line.char_indices().nth(70) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// `gate.c:12 (step in hash)`: the file's name, and what is inlined there, the innermost function first.
fn shown(place: &SourcePlace) -> String {
    let file = place.file.rsplit('/').next().unwrap_or(&place.file);
    let inlined: Vec<String> = place.functions.iter().rev().map(|name| clean(name)).collect();
    let inlined = if inlined.is_empty() { String::new() } else { format!(" ({})", inlined.join(" in ")) };
    format!("{}:{}{inlined}", clean(file), place.line)
}

/// The text. With `process`, only its counts.
pub fn render(
    function: &ExecutedFunction,
    code: &ExecutedCode,
    release: &str,
    process: Option<ProcessName>,
    lines: &SourceLines,
) -> String {
    let mut text = String::new();
    let whose = process.map_or_else(|| all_of(code), |process| process.to_string());
    let counts = |instruction: &ExecutedInstruction| code.of(&instruction.counts, process);
    let total = function.instructions.iter().map(counts).fold(0, u64::saturating_add);
    let calls = code.of(function.calls(), process);
    let place = function.file.as_deref().unwrap_or(release);
    let _ = writeln!(text, "{} at {:#x}, {place}", function.name, function.address);
    let _ = write!(text, "{} in {}, {whose}", counted(total, "instruction"), counted(calls, "call"));
    if calls > 0 {
        let _ = write!(text, "; {:.1} per call", total as f64 / calls as f64);
    }
    let by_line = by_line(function, lines, counts, total);
    let _ = write!(text, "\n{by_line}{}", if by_line.is_empty() { "" } else { "\n" });
    let _ =
        writeln!(text, "> marks what was executed most often\n\n  {:>12} {:>9}  {:>6}", "count", "per call", "offset");
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
    let mut last_place = None;
    for instruction in &function.instructions {
        if instruction.offset > next && next > 0 {
            let _ =
                writeln!(text, "  {:>12}            {:>6}  {} bytes not executed", "", "", instruction.offset - next);
        }
        let place = lines.places.get(&instruction.offset);
        if let Some(place) = place.filter(|place| last_place != Some(*place)) {
            let _ = writeln!(text, "  {:>12}            {:>6}  {}", "", "", shown(place));
            last_place = Some(place);
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
            files: BTreeMap::new(),
            functions: vec![copy, thunk],
        };
        insta::assert_snapshot!(render(&code.functions[0], &code, "6.1.0", Some(ProcessName::WRITER), &SourceLines::default()), @r"
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
        assert!(render(&code.functions[0], &code, "6.1.0", None, &SourceLines::default()).contains("321"));
        let bytes = code.to_bytes().unwrap();
        assert_eq!(ExecutedCode::from_bytes(&bytes).unwrap(), code);
        assert_eq!(code.to_bytes().unwrap(), bytes);
        assert!(ExecutedCode::from_bytes(&bytes[..bytes.len() / 2]).is_err());
    }

    #[test]
    fn lines_of_sources_stand_beside_their_instructions() {
        let instruction = |offset, count| ExecutedInstruction {
            offset,
            code: "90".to_owned(),
            counts: vec![count],
            iterations: Vec::new(),
        };
        let function = ExecutedFunction {
            name: "main".to_owned(),
            file: Some("in".to_owned()),
            address: 0x1060,
            instructions: vec![instruction(0, 1), instruction(1, 500), instruction(2, 500), instruction(3, 1)],
        };
        let code = ExecutedCode {
            schema: CODE_SCHEMA.to_owned(),
            processor: crate::arch::Processor::X86_64,
            processes: vec![ProcessName::new("stage1-in")],
            files: BTreeMap::new(),
            functions: vec![function.clone()],
        };
        let place = |line: u32, functions: &[&str]| SourcePlace {
            file: "/src/in.c".to_owned(),
            line,
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
        };
        let step = place(2, &["hash", "step"]);
        let places = [(0, place(1, &[])), (1, step.clone()), (2, step), (3, place(9, &[]))].into();
        let sources = [("/src/in.c".to_owned(), vec!["{".to_owned(), "\treturn sum * 31 + byte;".to_owned()])].into();
        let lines = SourceLines { places, sources };
        insta::assert_snapshot!(render(&function, &code, "6.12", None, &lines), @r"
        main at 0x1060, in
        1,002 instructions in 1 call, stage1-in; 1002.0 per call

            instructions   share  source line
                   1,000   100 %  in.c:2 (step in hash): return sum * 31 + byte;
                       1    <1 %  in.c:1: {
                       1    <1 %  in.c:9

        > marks what was executed most often

                 count  per call  offset
                                          in.c:1
                     1      1.00      +0  nop
                                          in.c:2 (step in hash)
        >          500    500.00      +1  nop
        >          500    500.00      +2  nop
                                          in.c:9
                     1      1.00      +3  nop
        ");
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
            files: BTreeMap::new(),
            functions: vec![function.clone()],
        };
        assert_eq!((function.total(), code.of_target(function.calls())), (u64::MAX, u64::MAX));
        let shown = render(&function, &code, "6.1.0", None, &SourceLines::default());
        assert!(shown.contains("18,446,744,073,709,551,615 instructions"), "{shown}");
    }
}
