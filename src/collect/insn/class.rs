//! The class of each executed instruction, from its code.

use super::class_aarch64;
use super::raw::Block;
use crate::arch::Processor;
use crate::profile::ClassCounts;
use crate::profile::cycles::InstructionClass;
use crate::result::code::{ExecutedCode, ExecutedFunction};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// The prefix by which Linux replaces `lock` if there is only one CPU (arch/x86/kernel/alternative.c,
/// `alternatives_smp_unlock`). It has no effect on the instruction.
const DS: u8 = 0x3e;
const LOCK: u8 = 0xf0;

/// The classes of a block's instructions.
pub(super) fn of_block(processor: Processor, block: &Block) -> Vec<InstructionClass> {
    block.instructions().map(|(_, code)| of_processor(processor, code)).collect()
}

/// What the target's processes executed in `function`, whose executed code was stored, by class.
pub fn of_function(code: &ExecutedCode, function: &ExecutedFunction) -> ClassCounts {
    let mut counts = ClassCounts::default();
    for instruction in &function.instructions {
        let bytes = instruction.bytes();
        counts.add(of_processor(code.processor, &bytes), code.of_target(&instruction.counts));
        if !instruction.iterations.is_empty() {
            let element = decode(&bytes).memory_size().size() as u64;
            counts.rep_bytes += code.of_target(&instruction.iterations).saturating_mul(element);
        }
    }
    counts
}

fn of_processor(processor: Processor, code: &[u8]) -> InstructionClass {
    match processor {
        Processor::X86_64 => of_instruction(code),
        Processor::Aarch64 => class_aarch64::of_instruction(code),
    }
}

fn of_instruction(code: &[u8]) -> InstructionClass {
    let instruction = decode(code);
    let string = instruction.is_string_instruction();
    match instruction.mnemonic() {
        _ if string && (instruction.has_rep_prefix() || instruction.has_repne_prefix()) => InstructionClass::Rep,
        _ if is_locked(&instruction, code) => InstructionClass::Locked,
        Mnemonic::Syscall | Mnemonic::Sysenter => InstructionClass::Syscall,
        Mnemonic::Sysret | Mnemonic::Sysretq | Mnemonic::Sysexit | Mnemonic::Sysexitq => InstructionClass::Sysret,
        Mnemonic::Swapgs => InstructionClass::Swapgs,
        Mnemonic::Wrmsr => InstructionClass::Wrmsr,
        Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => InstructionClass::Iret,
        Mnemonic::Mov if instruction.op0_register() == Register::CR3 => InstructionClass::Cr3,
        Mnemonic::Div | Mnemonic::Idiv => InstructionClass::Div,
        Mnemonic::Cli | Mnemonic::Sti | Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq => {
            InstructionClass::InterruptFlag
        }
        _ => InstructionClass::Other,
    }
}

/// Bytes that one iteration of a block's `rep` instruction, its last one, moves.
pub(super) fn rep_element(block: &Block) -> u64 {
    block.instructions().last().map_or(0, |(_, code)| decode(code).memory_size().size() as u64)
}

fn decode(code: &[u8]) -> Instruction {
    Decoder::new(64, code, DecoderOptions::NONE).decode()
}

/// Whether this is an atomic operation on memory: with a lock prefix, or `xchg`, which needs none. An instruction with
/// the prefix that replaces `lock` counts if it accepts a lock prefix.
fn is_locked(instruction: &Instruction, code: &[u8]) -> bool {
    if instruction.has_lock_prefix() {
        return true;
    }
    let memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    if !memory {
        return false;
    }
    let patched = || {
        // Prefixes before the opcode; a later 3e belongs to the address.
        let prefixes =
            code.iter().take_while(|byte| matches!(**byte, DS | 0x26 | 0x2e | 0x36 | 0x64..=0x67 | 0xf2 | 0xf3));
        let at = prefixes.enumerate().find(|(_, byte)| **byte == DS).map(|(at, _)| at);
        at.is_some_and(|at| {
            let mut locked = code.to_vec();
            locked[at] = LOCK;
            // The decoder refuses a lock prefix on instructions that accept none.
            !decode(&locked).is_invalid()
        })
    };
    instruction.mnemonic() == Mnemonic::Xchg || patched()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_code() {
        let cases: &[(&str, &[u8], InstructionClass)] = &[
            ("nop", &[0x90], InstructionClass::Other),
            ("lock incl (%rax)", &[0xf0, 0xff, 0x00], InstructionClass::Locked),
            ("ds incl (%rax), patched on one CPU", &[0x3e, 0xff, 0x00], InstructionClass::Locked),
            ("ds lock cmpxchg %rdx,(%rdi), patched", &[0x3e, 0x48, 0x0f, 0xb1, 0x17], InstructionClass::Locked),
            ("data16 ds xadd", &[0x66, 0x3e, 0x0f, 0xc1, 0x07], InstructionClass::Locked),
            ("ds btsq $1,(%rdi), patched", &[0x3e, 0x48, 0x0f, 0xba, 0x2f, 0x01], InstructionClass::Locked),
            ("incl (%rax): no lock", &[0xff, 0x00], InstructionClass::Other),
            ("incl %gs:(%rax): this CPU's", &[0x65, 0xff, 0x00], InstructionClass::Other),
            ("cmpxchg %rdx,%gs:(%rdi): this CPU's", &[0x65, 0x48, 0x0f, 0xb1, 0x17], InstructionClass::Other),
            ("ds mov %eax,(%rax): cannot be locked", &[0x3e, 0x89, 0x00], InstructionClass::Other),
            ("ds cmp %eax,(%rax): reads only", &[0x3e, 0x39, 0x00], InstructionClass::Other),
            ("ds btq $1,(%rdi): reads only", &[0x3e, 0x48, 0x0f, 0xba, 0x27, 0x01], InstructionClass::Other),
            ("notrack jmp *%rax", &[0x3e, 0xff, 0xe0], InstructionClass::Other),
            ("notrack jmp *(%rax)", &[0x3e, 0xff, 0x20], InstructionClass::Other),
            ("mov $0x3e,%al", &[0xb0, 0x3e], InstructionClass::Other),
            ("incl 0x3e(%rax)", &[0xff, 0x40, 0x3e], InstructionClass::Other),
            ("xchg %rax,(%rdi)", &[0x48, 0x87, 0x07], InstructionClass::Locked),
            ("xchg %rax,%rdx", &[0x48, 0x92], InstructionClass::Other),
            ("xchg %rcx,%rdx", &[0x48, 0x87, 0xca], InstructionClass::Other),
            ("syscall", &[0x0f, 0x05], InstructionClass::Syscall),
            ("sysretq", &[0x48, 0x0f, 0x07], InstructionClass::Sysret),
            ("swapgs", &[0x0f, 0x01, 0xf8], InstructionClass::Swapgs),
            ("wrmsr", &[0x0f, 0x30], InstructionClass::Wrmsr),
            ("rdmsr", &[0x0f, 0x32], InstructionClass::Other),
            ("iretq", &[0x48, 0xcf], InstructionClass::Iret),
            ("mov %rdi,%cr3", &[0x0f, 0x22, 0xdf], InstructionClass::Cr3),
            ("mov %cr3,%rdi: reads", &[0x0f, 0x20, 0xdf], InstructionClass::Other),
            ("mov %rdi,%cr2", &[0x0f, 0x22, 0xd7], InstructionClass::Other),
            ("div %rcx", &[0x48, 0xf7, 0xf1], InstructionClass::Div),
            ("idivl (%rcx)", &[0xf7, 0x39], InstructionClass::Div),
            ("mul %rcx", &[0x48, 0xf7, 0xe1], InstructionClass::Other),
            ("cli", &[0xfa], InstructionClass::InterruptFlag),
            ("sti", &[0xfb], InstructionClass::InterruptFlag),
            ("popfq", &[0x9d], InstructionClass::InterruptFlag),
            ("pushfq", &[0x9c], InstructionClass::Other),
            ("rep movsb", &[0xf3, 0xa4], InstructionClass::Rep),
            ("rep stosq", &[0xf3, 0x48, 0xab], InstructionClass::Rep),
            ("repne scasb", &[0xf2, 0xae], InstructionClass::Rep),
            ("movsb, once", &[0xa4], InstructionClass::Other),
            ("pause", &[0xf3, 0x90], InstructionClass::Other),
            ("rep ret", &[0xf3, 0xc3], InstructionClass::Other),
            ("movsd (%rax),%xmm0", &[0xf2, 0x0f, 0x10, 0x00], InstructionClass::Other),
        ];
        for (text, code, class) in cases {
            assert_eq!(of_instruction(code), *class, "{text}");
        }
        let all = cases.iter().flat_map(|(_, code, _)| code.iter().copied()).collect();
        let lengths = cases.iter().map(|(_, code, _)| code.len() as u8).collect();
        let block = Block { address: 0, code: all, lengths };
        assert_eq!(of_block(Processor::X86_64, &block), cases.iter().map(|(_, _, class)| *class).collect::<Vec<_>>());
    }

    #[test]
    fn elements_of_rep_instructions() {
        let cases: [(&[u8], u64); 6] = [
            (&[0xf3, 0xa4], 1),
            (&[0xf3, 0x66, 0xa5], 2),
            (&[0xf3, 0xa5], 4),
            (&[0xf3, 0x48, 0xa5], 8),
            (&[0xf3, 0x48, 0xab], 8),
            (&[0xf3, 0xaa], 1),
        ];
        for (code, size) in cases {
            let block = Block { address: 0, code: [&[0x90], code].concat(), lengths: vec![1, code.len() as u8] };
            assert_eq!(rep_element(&block), size, "{code:x?}");
        }
    }
}
