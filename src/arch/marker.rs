//! Marker instructions, with which a worker signals the begin and the end of its window to the instruction collector.
//!
//! A marker is an instruction without effect that no compiler makes, followed by a jump to the next instruction. On x86-64 it
//! is the 8-byte form of the long nop (`0f 1f 84 00` and an unused 32-bit displacement); on AArch64, `movz xzr` of a 16-bit
//! number shifted by 48. The plugin of `collect`'s instruction collector finds the number in the code bytes. The jump ends
//! the emulator's translation block, which makes the window's ends exact: the first instruction counted is the one after the
//! begin marker's jump, and the last is the end marker's jump.

use std::arch::asm;

/// The upper half of every marker's displacement: `PP`. The lower half is the number of the marker ([`begin`], [`end`]).
/// build.rs passes the same value to the plugin (`src/collect/insn/plugin/`). A marker of AArch64 has its first byte, and the
/// number.
pub const MAGIC: u32 = 0x5050_0000;

/// The processes of the built-in pair, by number.
pub const WRITER: u32 = 0;
pub const READER: u32 = 1;

/// The number of the marker by which the window of process number `process` begins.
pub const fn begin(process: u32) -> u32 {
    2 * process + 1
}

/// The number of the marker by which it ends.
pub const fn end(process: u32) -> u32 {
    2 * process + 2
}

/// Execute the marker of this number: two instructions.
#[inline(always)]
pub fn emit<const MARKER: u32>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a long nop and a jump to the next instruction change no register, flag or memory.
    unsafe {
        asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00",
            ".long {marker}",
            "jmp 2f",
            "2:",
            marker = const (MAGIC | MARKER),
            options(preserves_flags, nostack)
        )
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a write to the zero register and a jump to the next instruction change no register, flag or memory.
    unsafe {
        asm!(
            "movz xzr, {marker}, lsl #48",
            "b 2f",
            "2:",
            marker = const (MAGIC >> 24 << 8 | MARKER),
            options(preserves_flags, nostack)
        )
    }
}

/// The markers of process number `process`, which is known only when the program runs: `begin` or end.
macro_rules! emit_by_number {
    ($process:expr, $begin:expr, $($number:literal)*) => {
        match ($process, $begin) {
            $(($number, true) => emit::<{ begin($number) }>(),
            ($number, false) => emit::<{ end($number) }>(),)*
            _ => {}
        }
    };
}

/// Processes whose markers [`emit_begin`] and [`emit_end`] know. The plugin follows as many.
pub const MOST: u32 = 64;

fn emit_numbered(process: u32, is_begin: bool) {
    emit_by_number!(process, is_begin,
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
}

/// From here on, this task's instructions are those of process number `process`.
#[inline(never)]
pub fn emit_begin(process: u32) {
    emit_numbered(process, true);
}

/// The window of process number `process` ends.
#[inline(never)]
pub fn emit_end(process: u32) {
    emit_numbered(process, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn writer_begins() {
        emit::<{ begin(WRITER) }>();
    }

    #[test]
    fn a_marker_is_found_in_the_code_of_whoever_emits_it() {
        writer_begins();
        let start = writer_begins as fn() as usize as *const u8;
        // SAFETY: the function's code is mapped, and the test program extends beyond these bytes.
        let code = unsafe { std::slice::from_raw_parts(start, 128) };
        assert_eq!(crate::marker_places(crate::Processor::HERE, code).len(), 1, "{code:02x?}");
    }
}
