//! The class of each executed instruction of AArch64. Encodings: Arm Architecture Reference Manual for A-profile, "A64
//! instruction set encoding".

use crate::profile::cycles::InstructionClass;

pub(super) fn of_instruction(code: &[u8]) -> InstructionClass {
    let Ok(word) = code.try_into().map(u32::from_le_bytes) else { return InstructionClass::Other };
    match word {
        // svc, eret
        _ if word & 0xffe0_001f == 0xd400_0001 => InstructionClass::Syscall,
        0xd69f_03e0 => InstructionClass::Iret,
        // Loads and stores that are exclusive, or compare and swap.
        _ if word & 0x3f80_0000 == 0x0800_0000 || word & 0x3fa0_7c00 == 0x08a0_7c00 => InstructionClass::Locked,
        // Atomic operations on memory: ldadd, ldset, swp and others.
        _ if word & 0x3f20_0c00 == 0x3820_0000 => InstructionClass::Locked,
        // udiv, sdiv
        _ if word & 0x7fe0_f800 == 0x1ac0_0800 => InstructionClass::Div,
        // msr daifset, msr daifclr
        _ if word & 0xffff_f0df == 0xd503_40df => InstructionClass::InterruptFlag,
        _ => InstructionClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_code() {
        for (text, word, class) in [
            ("svc #0", 0xd400_0001_u32, InstructionClass::Syscall),
            ("eret", 0xd69f_03e0, InstructionClass::Iret),
            ("ldxr w0, [x1]", 0x885f_7c20, InstructionClass::Locked),
            ("stlxr w2, w0, [x1]", 0x8802_fc20, InstructionClass::Locked),
            ("casal w0, w1, [x2]", 0x88e0_fc41, InstructionClass::Locked),
            ("ldadd w0, w1, [x2]", 0xb820_0041, InstructionClass::Locked),
            ("swpal x0, x1, [x2]", 0xf8e0_8041, InstructionClass::Locked),
            ("sdiv x0, x1, x2", 0x9ac2_0c20, InstructionClass::Div),
            ("udiv w0, w1, w2", 0x1ac2_0820, InstructionClass::Div),
            ("msr daifset, #3", 0xd503_43df, InstructionClass::InterruptFlag),
            ("msr daifclr, #3", 0xd503_43ff, InstructionClass::InterruptFlag),
            ("ldr x0, [x1, x2]", 0xf862_6820, InstructionClass::Other),
            ("ldar w0, [x1]", 0x88df_fc20, InstructionClass::Other),
            ("stlr w0, [x1]", 0x889f_fc20, InstructionClass::Other),
            ("add x0, x0, #1", 0x9100_0400, InstructionClass::Other),
            ("nop", 0xd503_201f, InstructionClass::Other),
        ] {
            assert_eq!(of_instruction(&word.to_le_bytes()), class, "{text}");
        }
    }
}
