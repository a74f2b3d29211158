//! Instructions: where they lead.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

/// The instruction with this code.
pub fn decoded(code: &[u8], address: u64) -> Instruction {
    Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode()
}

/// Where an instruction leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Next,
    /// A direct or indirect call.
    Call,
    /// To its target.
    Jump,
    /// To its target or to the next instruction.
    Branch,
    Return,
    /// Anywhere.
    Indirect,
}

/// Where `instruction` leads.
pub fn flow(instruction: &Instruction) -> Flow {
    let direct = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    match instruction.mnemonic() {
        Mnemonic::Call => Flow::Call,
        Mnemonic::Jmp if direct => Flow::Jump,
        Mnemonic::Jmp => Flow::Indirect,
        Mnemonic::Ret => Flow::Return,
        _ if direct => Flow::Branch,
        _ => Flow::Next,
    }
}
