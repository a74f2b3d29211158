//! Instructions of AArch64. Encodings: Arm Architecture Reference Manual for A-profile, "A64 instruction set encoding".

use crate::instruction::{AddressNames, Disassembler, Flow, Instruction};
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::InstDecoder;

/// Bytes of an instruction.
const LENGTH: u64 = 4;

fn word_of(code: &[u8]) -> Option<u32> {
    code.try_into().map(u32::from_le_bytes).ok()
}

/// The signed number in `bits` bits of `word` from `at` on, times 4.
fn distance(word: u32, at: u32, bits: u32) -> u64 {
    let value = (word << (32 - at - bits)).cast_signed() >> (32 - bits);
    (i64::from(value) * 4).cast_unsigned()
}

fn of_word(word: u32) -> (Flow, Option<u64>) {
    match word {
        _ if word >> 26 == 0x05 => (Flow::Jump, Some(distance(word, 0, 26))),
        _ if word >> 26 == 0x25 => (Flow::Call, Some(distance(word, 0, 26))),
        // b.cond, cbz and cbnz, tbz and tbnz
        _ if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 => {
            (Flow::Branch, Some(distance(word, 5, 19)))
        }
        _ if word & 0x7e00_0000 == 0x3600_0000 => (Flow::Branch, Some(distance(word, 5, 14))),
        // To a register: br, blr, ret, eret, and those with pointer authentication.
        _ if word & 0xfe00_0000 == 0xd600_0000 => match word >> 21 & 15 {
            1 | 9 => (Flow::Call, None),
            2 => (Flow::Return, None),
            _ => (Flow::Indirect, None),
        },
        _ => (Flow::Next, None),
    }
}

/// The instruction with this code.
pub(crate) fn decoded(code: &[u8], address: u64) -> Instruction {
    let (flow, distance) = word_of(code).map_or((Flow::Next, None), of_word);
    let target = distance.map_or(0, |distance| address.wrapping_add(distance));
    Instruction { flow, target, next: address.wrapping_add(LENGTH) }
}

pub(crate) fn disassembler(names: Box<AddressNames>) -> Box<Disassembler> {
    let decoder = InstDecoder::default();
    Box::new(move |code, address| {
        let Ok(instruction) = decoder.decode(&mut U8Reader::new(code)) else { return "(bad)".to_owned() };
        let text = instruction.to_string();
        let target = word_of(code).and_then(|word| of_word(word).1).map(|distance| address.wrapping_add(distance));
        // The decoder shows targets as distances.
        match (target, text.rsplit_once([' ', ','])) {
            (Some(target), Some((before, _))) => {
                let name = names(target).unwrap_or_else(|| format!("{target:#x}"));
                let mark = if before.contains(' ') { ", " } else { " " };
                format!("{}{mark}{name}", before.trim_end_matches(','))
            }
            _ => text,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_lead_to_their_targets() {
        let at = 0xffff_8000_8001_0000;
        let flow = |word: u32| {
            let found = decoded(&word.to_le_bytes(), at);
            (found.flow, found.target.wrapping_sub(at).cast_signed())
        };
        let none = at.wrapping_neg().cast_signed();
        for (text, word, expected) in [
            ("bl +0x1000", 0x9400_0400, (Flow::Call, 0x1000)),
            ("b -4", 0x17ff_ffff, (Flow::Jump, -4)),
            ("b.ne +8", 0x5400_0041, (Flow::Branch, 8)),
            ("cbnz w0, -8", 0x35ff_ffc0, (Flow::Branch, -8)),
            ("tbz x1, #3, +16", 0x3618_0081, (Flow::Branch, 16)),
            ("blr x8", 0xd63f_0100, (Flow::Call, none)),
            ("br x16", 0xd61f_0200, (Flow::Indirect, none)),
            ("ret", 0xd65f_03c0, (Flow::Return, none)),
            ("retaa", 0xd65f_0bff, (Flow::Return, none)),
            ("eret", 0xd69f_03e0, (Flow::Indirect, none)),
            ("nop", 0xd503_201f, (Flow::Next, none)),
            ("add x0, x0, #1", 0x9100_0400, (Flow::Next, none)),
        ] {
            assert_eq!(flow(word), expected, "{text}");
        }
    }

    #[test]
    fn text_names_targets() {
        let mut text = disassembler(Box::new(|address| (address == 0x2000).then(|| "copy_page".to_owned())));
        assert_eq!(text(&0x9400_0400_u32.to_le_bytes(), 0x1000), "bl copy_page");
        assert_eq!(text(&0x35ff_ffc0_u32.to_le_bytes(), 0x2008), "cbnz w0, copy_page");
        assert_eq!(text(&0xd65f_03c0_u32.to_le_bytes(), 0), "ret");
        assert_eq!(text(&0_u32.to_le_bytes(), 0), "udf #0x0");
    }
}
