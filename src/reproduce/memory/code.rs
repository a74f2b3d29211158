//! Disassembles a loop in memory and checks that it does what its name says.

use super::loops::{Body, LoopFn};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic, OpKind, Register};

/// Maximum number of code bytes of a loop.
const LONGEST: usize = 512;

/// The instructions of a function, from its entry to its `ret`.
pub(crate) fn read(entry: LoopFn) -> Result<Vec<Instruction>, String> {
    let start = entry as *const u8;
    // SAFETY: this is the program's own code, mapped readable; more code than this follows the functions.
    let bytes = unsafe { std::slice::from_raw_parts(start, LONGEST) };
    decode(bytes)
}

/// Addresses are relative to the first byte.
fn decode(bytes: &[u8]) -> Result<Vec<Instruction>, String> {
    let mut found = Vec::new();
    for instruction in Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE) {
        found.push(instruction);
        match instruction.mnemonic() {
            Mnemonic::Ret => return Ok(found),
            Mnemonic::Ud2 | Mnemonic::Int3 | Mnemonic::INVALID => break,
            _ => {}
        }
    }
    Err("the code does not end in a return".into())
}

/// Check that `code` matches `body`.
pub(crate) fn check(code: &[Instruction], body: Body) -> Result<(), String> {
    match body {
        Body::Library => Ok(()),
        Body::Rep(mnemonic) => {
            let matching = code.iter().filter(|i| i.mnemonic() == mnemonic && i.has_rep_prefix()).count();
            let others = code.iter().filter(|i| touches_memory(i)).count();
            if (matching, others) == (1, 0) {
                Ok(())
            } else {
                Err(format!("{matching} string instructions and {others} others that touch memory instead of one"))
            }
        }
        Body::Moves { mnemonic, width, loads, stores } => {
            let inner = innermost(code)?;
            let of = |store: bool| -> Vec<u64> {
                let (memory, register) = if store { (0, 1) } else { (1, 0) };
                let matching = inner.iter().filter(|i| {
                    i.mnemonic() == mnemonic
                        && i.op_kind(memory) == OpKind::Memory
                        && bytes(i.op_register(register)) == width
                });
                matching.map(Instruction::memory_displacement64).collect()
            };
            for (what, found, wanted) in [("loads", of(false), loads), ("stores", of(true), stores)] {
                let expected: Vec<u64> = (0..wanted as u64).map(|index| index * width).collect();
                if found != expected {
                    return Err(format!("{what} of {width} bytes at {found:?} instead of {expected:?}"));
                }
            }
            let touching = code.iter().filter(|i| touches_memory(i)).count();
            if touching != loads + stores {
                return Err(format!("{touching} instructions touch memory instead of {}", loads + stores));
            }
            let step = loads.max(stores) as u64 * width;
            if inner.iter().any(|i| i.mnemonic() == Mnemonic::Add && i.immediate(1) == step) {
                Ok(())
            } else {
                Err(format!("the loop does not advance by {step} bytes"))
            }
        }
    }
}

/// Size of a register of the types that the loops use.
fn bytes(register: Register) -> u64 {
    let within = |first: Register, last: Register| (first as usize..=last as usize).contains(&(register as usize));
    match () {
        () if within(Register::RAX, Register::R15) => 8,
        () if within(Register::XMM0, Register::XMM31) => 16,
        () if within(Register::YMM0, Register::YMM31) => 32,
        () if within(Register::ZMM0, Register::ZMM31) => 64,
        () => 0,
    }
}

fn touches_memory(instruction: &Instruction) -> bool {
    // Padding nops have a memory operand but access nothing.
    instruction.mnemonic() != Mnemonic::Nop
        && (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory)
}

/// From the target of the first backward branch to the branch.
fn innermost(code: &[Instruction]) -> Result<&[Instruction], String> {
    let branch = code
        .iter()
        .position(|i| matches!(i.mnemonic(), Mnemonic::Jb | Mnemonic::Jne) && i.near_branch_target() <= i.ip());
    let end = branch.ok_or("no loop found")?;
    let start = code
        .iter()
        .position(|i| i.ip() == code[end].near_branch_target())
        .ok_or("the start of the loop was not found")?;
    code.get(start..=end).ok_or_else(|| "the loop ends before it begins".into())
}

/// As text with addresses, in AT&T syntax like the kernel's sources.
pub(crate) fn text(code: &[Instruction]) -> Vec<String> {
    lines(code).map(|(ip, line)| format!("{ip:>4x}  {line}")).collect()
}

/// The innermost loop of `code` without addresses; empty if there is none.
pub(crate) fn inner_text(code: &[Instruction]) -> Vec<String> {
    lines(innermost(code).unwrap_or_default()).map(|(_, line)| line).collect()
}

fn lines(code: &[Instruction]) -> impl Iterator<Item = (u64, String)> {
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_small_hex_numbers_in_decimal(true);
    code.iter().map(move |instruction| {
        let mut line = String::new();
        formatter.format(instruction, &mut line);
        (instruction.ip(), line)
    })
}

#[cfg(test)]
mod tests {
    use super::super::loops::LOOPS;
    use super::*;

    #[test]
    fn every_loop_is_what_it_is_called() {
        for a_loop in LOOPS {
            if a_loop.body != Body::Library {
                let code = read(a_loop.entry).unwrap();
                assert_eq!(check(&code, a_loop.body), Ok(()), "{}: {:#?}", a_loop.name, text(&code));
            }
        }
    }

    /// Check each loop under each other's name: only loops with the same body pass.
    #[test]
    fn no_loop_passes_for_another() {
        for a_loop in LOOPS.iter().filter(|l| l.body != Body::Library) {
            let code = read(a_loop.entry).unwrap();
            for other in LOOPS.iter().filter(|l| l.body != Body::Library && l.body != a_loop.body) {
                assert!(check(&code, other.body).is_err(), "{} passes for {}", a_loop.name, other.name);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_loop_are_refused() {
        assert!(decode(&[0x90; 64]).is_err());
        assert!(decode(&[0x0f, 0x0b, 0xc3]).is_err());
        let nothing = decode(&[0xc3]).unwrap();
        assert!(LOOPS.iter().filter(|l| l.body != Body::Library).all(|l| check(&nothing, l.body).is_err()));
    }

    proptest::proptest! {
        #[test]
        fn no_code_panics(bytes: Vec<u8>) {
            if let Ok(code) = decode(&bytes) {
                for a_loop in LOOPS {
                    let _ = check(&code, a_loop.body);
                }
                let _ = text(&code);
            }
        }
    }
}
