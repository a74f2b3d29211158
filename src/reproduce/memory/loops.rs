//! The loops, in assembly, so that no compiler changes what is measured. Each is `extern "C" fn(to: rdi, from: rsi,
//! len: rdx, rounds: rcx)`; `len` is a multiple of 256.

use std::arch::naked_asm;

/// A loop's entry.
pub(crate) type LoopFn = unsafe extern "C" fn(to: *mut u8, from: *const u8, len: usize, rounds: u64);

/// What one round does with the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoopKind {
    /// Read `len` bytes and write them elsewhere.
    Copy,
    /// Write `len` bytes.
    Store,
    /// Read `len` bytes.
    Read,
}

/// CPU features that a loop needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuFeature {
    Nothing,
    Avx2,
    Avx512,
}

impl CpuFeature {
    pub(crate) fn check(self) -> Result<(), String> {
        let there = match self {
            Self::Nothing => true,
            Self::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            Self::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
        };
        let name = if self == Self::Avx2 { "AVX2" } else { "AVX-512" };
        if there { Ok(()) } else { Err(format!("not available: this CPU does not support {name}")) }
    }
}

/// The instruction that moves the bytes, which the disassembly must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// One string instruction per round.
    Rep(iced_x86::Mnemonic),
    /// An unrolled loop of moves of this many bytes, with `loads` loads and `stores` stores.
    Moves { mnemonic: iced_x86::Mnemonic, width: u64, loads: usize, stores: usize },
    /// The C library's function, as it chose for this CPU.
    Library,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Loop {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: LoopKind,
    pub needs: CpuFeature,
    pub body: Body,
    pub entry: LoopFn,
}

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

/// The C library's memcpy, called through a pointer so that the compiler can neither inline nor recognise it.
unsafe extern "C" fn library(to: *mut u8, from: *const u8, len: usize, rounds: u64) {
    let copy: unsafe extern "C" fn(*mut libc::c_void, *const libc::c_void, usize) -> *mut libc::c_void =
        std::hint::black_box(libc::memcpy);
    for _ in 0..rounds {
        // SAFETY: the caller passes two ranges of `len` bytes that do not overlap.
        unsafe { copy(to.cast(), from.cast(), len) };
    }
}

const fn moves(mnemonic: iced_x86::Mnemonic, width: u64, loads: usize, stores: usize) -> Body {
    Body::Moves { mnemonic, width, loads, stores }
}

use CpuFeature::{Avx2, Avx512, Nothing};
use LoopKind::{Copy as Copies, Read as Reads, Store as Stores};
use iced_x86::Mnemonic::{Mov, Movdqa, Movsb, Stosb, Vmovdqa, Vmovdqa64};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Aligned([u8; 1024]);

    #[test]
    fn loops_do_what_they_say() {
        for a_loop in LOOPS {
            if a_loop.needs.check().is_err() {
                continue;
            }
            let from = Aligned(std::array::from_fn(|index| index as u8));
            let mut to = Aligned([7; 1024]);
            // SAFETY: both buffers are aligned and larger than the 512 bytes that the loop may access.
            unsafe { (a_loop.entry)(to.0.as_mut_ptr(), from.0.as_ptr(), 512, 3) };
            match a_loop.kind {
                LoopKind::Copy => assert_eq!(to.0[..512], from.0[..512], "{}", a_loop.name),
                // The register's old value, the same everywhere.
                LoopKind::Store => assert!(to.0[..512].chunks(64).all(|part| part == &to.0[..64]), "{}", a_loop.name),
                LoopKind::Read => assert!(to.0.iter().all(|&byte| byte == 7), "{}", a_loop.name),
            }
            assert!(to.0[512..].iter().all(|&byte| byte == 7), "{} wrote too far", a_loop.name);
        }
    }
}
