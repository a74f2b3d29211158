//! Instructions of all processors: where they lead, and as text.

use crate::instruction::{AddressNames, Disassembler, Instruction};
use crate::{Processor, aarch64, marker, x86_64};

/// The instruction with this code.
pub fn decoded(processor: Processor, code: &[u8], address: u64) -> Instruction {
    match processor {
        Processor::X86_64 => x86_64::decoded(code, address),
        Processor::Aarch64 => aarch64::decoded(code, address),
    }
}

/// The text of instructions: each its code, at its address.
pub fn disassembler(processor: Processor, names: Box<AddressNames>) -> Box<Disassembler> {
    match processor {
        Processor::X86_64 => x86_64::disassembler(names),
        Processor::Aarch64 => aarch64::disassembler(names),
    }
}

/// Whether an instruction calls the kernel, or reads the processor's clock.
pub fn calls_kernel_or_reads_clock(processor: Processor, code: &[u8]) -> bool {
    match processor {
        // syscall, rdtsc, rdtscp
        Processor::X86_64 => matches!(code, [0x0f, 0x05 | 0x31] | [0x0f, 0x01, 0xf9]),
        Processor::Aarch64 => {
            let word = code.try_into().map_or(0, u32::from_le_bytes);
            // svc #0; mrs of cntvct_el0 and cntvctss_el0
            word == 0xd400_0001 || word & !0x1f == 0xd53b_e040 || word & !0x1f == 0xd53b_e0c0
        }
    }
}

/// Where markers are in the code of a processor: bytes from its start.
pub fn marker_places(processor: Processor, code: &[u8]) -> Vec<usize> {
    let [.., first, second] = marker::MAGIC.to_le_bytes();
    let is_marker = |at: &usize| match processor {
        Processor::X86_64 => {
            let marker = code.get(*at..at + 8).unwrap_or_default();
            marker.starts_with(&[0x0f, 0x1f, 0x84, 0x00]) && marker.ends_with(&[first, second])
        }
        Processor::Aarch64 => {
            let word = code.get(*at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
            word & 0xffe0_001f == 0xd2e0_001f && word >> 13 & 0xff == marker::MAGIC >> 24
        }
    };
    let step = if processor == Processor::X86_64 { 1 } else { 4 };
    (0..code.len()).step_by(step).filter(is_marker).collect()
}
