//! Instructions of x86-64, by iced.

use crate::instruction::{AddressNames, Disassembler, Flow, Instruction};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Mnemonic, OpKind, SymbolResolver, SymbolResult};

/// The instruction with this code.
pub(crate) fn decoded(code: &[u8], address: u64) -> Instruction {
    let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    let direct = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    let flow = match instruction.mnemonic() {
        Mnemonic::Call => Flow::Call,
        Mnemonic::Jmp if direct => Flow::Jump,
        Mnemonic::Jmp => Flow::Indirect,
        Mnemonic::Ret => Flow::Return,
        _ if direct => Flow::Branch,
        _ => Flow::Next,
    };
    Instruction { flow, target: instruction.near_branch_target(), next: instruction.next_ip() }
}

struct TargetNames(Box<AddressNames>);

impl SymbolResolver for TargetNames {
    fn symbol(
        &mut self,
        _: &iced_x86::Instruction,
        _: u32,
        _: Option<u32>,
        address: u64,
        _: u32,
    ) -> Option<SymbolResult<'_>> {
        (self.0)(address).map(|name| SymbolResult::with_string(address, name))
    }
}

pub(crate) fn disassembler(names: Box<AddressNames>) -> Box<Disassembler> {
    let mut formatter = GasFormatter::with_options(Some(Box::new(TargetNames(names))), None);
    formatter.options_mut().set_rip_relative_addresses(false);
    Box::new(move |code, address| {
        let mut text = String::new();
        formatter.format(&Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode(), &mut text);
        text
    })
}
