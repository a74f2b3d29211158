//! The loops of x86-64: `extern "C" fn(to: rdi, from: rsi, len: rdx, rounds: rcx)`.

use super::loops::CpuFeature::{Avx2, Avx512, Nothing};
use super::loops::LoopKind::{Copy as Copies, Read as Reads, Store as Stores};
use super::loops::{Body, Loop, library};
use iced_x86::Mnemonic::{Mov, Movdqa, Movsb, Stosb, Vmovdqa, Vmovdqa64};
use std::arch::naked_asm;

macro_rules! rep {
    ($name:ident, $instruction:literal) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(to: *mut u8, from: *const u8, len: usize, rounds: u64) {
            naked_asm!(
                "mov r8, rdi",
                "mov r9, rsi",
                "mov r10, rcx",
                "mov eax, 90",
                "2:",
                "mov rdi, r8",
                "mov rsi, r9",
                "mov rcx, rdx",
                $instruction,
                "dec r10",
                "jnz 2b",
                "ret",
            )
        }
    };
}

/// An inner loop over the buffer with offset rax, and an outer loop over the rounds: `$mov` loads registers from these
/// offsets, and stores them to these.
macro_rules! moves {
    ($name:ident, $mov:literal, $last:literal, $step:literal,
     [$($load:ident $from:literal),*], [$($store:ident $to:literal),*]) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(to: *mut u8, from: *const u8, len: usize, rounds: u64) {
            naked_asm!(
                "2:",
                "xor eax, eax",
                ".p2align 5",
                "3:",
                $(concat!($mov, " ", stringify!($load), ", [rsi + rax + ", $from, "]"),)*
                $(concat!($mov, " [rdi + rax + ", $to, "], ", stringify!($store)),)*
                concat!("add rax, ", $step),
                "cmp rax, rdx",
                "jb 3b",
                "dec rcx",
                "jnz 2b",
                $last,
                "ret",
            )
        }
    };
}

rep!(rep_movsb, "rep movsb");
rep!(rep_stosb, "rep stosb");
moves!(sse2_copy, "movdqa", "nop", 64,
    [xmm0 0, xmm1 16, xmm2 32, xmm3 48], [xmm0 0, xmm1 16, xmm2 32, xmm3 48]);
moves!(avx2_copy, "vmovdqa", "vzeroupper", 128,
    [ymm0 0, ymm1 32, ymm2 64, ymm3 96], [ymm0 0, ymm1 32, ymm2 64, ymm3 96]);
moves!(avx512_copy, "vmovdqa64", "vzeroupper", 256,
    [zmm0 0, zmm1 64, zmm2 128, zmm3 192], [zmm0 0, zmm1 64, zmm2 128, zmm3 192]);
moves!(sse2_store, "movdqa", "nop", 64, [], [xmm0 0, xmm0 16, xmm0 32, xmm0 48]);
moves!(avx2_store, "vmovdqa", "vzeroupper", 128, [], [ymm0 0, ymm0 32, ymm0 64, ymm0 96]);
moves!(avx512_store, "vmovdqa64", "vzeroupper", 256, [], [zmm0 0, zmm0 64, zmm0 128, zmm0 192]);
moves!(word_read, "mov", "nop", 64, [r8 0, r9 8, r10 16, r11 24, r8 32, r9 40, r10 48, r11 56], []);
moves!(sse2_read, "movdqa", "nop", 64, [xmm0 0, xmm1 16, xmm2 32, xmm3 48], []);
moves!(avx2_read, "vmovdqa", "vzeroupper", 128, [ymm0 0, ymm1 32, ymm2 64, ymm3 96], []);
moves!(avx512_read, "vmovdqa64", "vzeroupper", 256, [zmm0 0, zmm1 64, zmm2 128, zmm3 192], []);

const fn moves(mnemonic: iced_x86::Mnemonic, width: u64, loads: usize, stores: usize) -> Body {
    Body::Moves { mnemonic, width, loads, stores }
}

#[rustfmt::skip]
pub(crate) const LOOPS: [Loop; 13] = [
    Loop { name: "memcpy", about: "the C library's choice", kind: Copies, needs: Nothing, body: Body::Library, entry: library },
    Loop { name: "rep-movsb", about: "rep movsb", kind: Copies, needs: Nothing, body: Body::Rep(Movsb), entry: rep_movsb },
    Loop { name: "sse2-copy", about: "16-byte loads and stores", kind: Copies, needs: Nothing, body: moves(Movdqa, 16, 4, 4), entry: sse2_copy },
    Loop { name: "avx2-copy", about: "32-byte loads and stores", kind: Copies, needs: Avx2, body: moves(Vmovdqa, 32, 4, 4), entry: avx2_copy },
    Loop { name: "avx512-copy", about: "64-byte loads and stores", kind: Copies, needs: Avx512, body: moves(Vmovdqa64, 64, 4, 4), entry: avx512_copy },
    Loop { name: "rep-stosb", about: "rep stosb", kind: Stores, needs: Nothing, body: Body::Rep(Stosb), entry: rep_stosb },
    Loop { name: "sse2-store", about: "16-byte stores", kind: Stores, needs: Nothing, body: moves(Movdqa, 16, 0, 4), entry: sse2_store },
    Loop { name: "avx2-store", about: "32-byte stores", kind: Stores, needs: Avx2, body: moves(Vmovdqa, 32, 0, 4), entry: avx2_store },
    Loop { name: "avx512-store", about: "64-byte stores", kind: Stores, needs: Avx512, body: moves(Vmovdqa64, 64, 0, 4), entry: avx512_store },
    Loop { name: "word-read", about: "8-byte loads", kind: Reads, needs: Nothing, body: moves(Mov, 8, 8, 0), entry: word_read },
    Loop { name: "sse2-read", about: "16-byte loads", kind: Reads, needs: Nothing, body: moves(Movdqa, 16, 4, 0), entry: sse2_read },
    Loop { name: "avx2-read", about: "32-byte loads", kind: Reads, needs: Avx2, body: moves(Vmovdqa, 32, 4, 0), entry: avx2_read },
    Loop { name: "avx512-read", about: "64-byte loads", kind: Reads, needs: Avx512, body: moves(Vmovdqa64, 64, 4, 0), entry: avx512_read },
];
