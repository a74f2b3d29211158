//! The loops, in assembly, so that no compiler changes what is measured. Each gets a `len` that is a multiple of 256.

pub(crate) use super::own_loops::LOOPS;

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
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "loops of x86-64"))]
pub(crate) enum CpuFeature {
    Nothing,
    Avx2,
    Avx512,
}

impl CpuFeature {
    pub(crate) fn check(self) -> Result<(), String> {
        let there = match self {
            Self::Nothing => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        };
        let name = if self == Self::Avx2 { "AVX2" } else { "AVX-512" };
        if there { Ok(()) } else { Err(format!("not available: this CPU does not support {name}")) }
    }
}

/// The instruction that moves the bytes, which the disassembly must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "loops of x86-64"))]
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

/// The C library's memcpy, called through a pointer so that the compiler can neither inline nor recognise it.
pub(crate) unsafe extern "C" fn library(to: *mut u8, from: *const u8, len: usize, rounds: u64) {
    let copy: unsafe extern "C" fn(*mut libc::c_void, *const libc::c_void, usize) -> *mut libc::c_void =
        std::hint::black_box(libc::memcpy);
    for _ in 0..rounds {
        // SAFETY: the caller passes two ranges of `len` bytes that do not overlap.
        unsafe { copy(to.cast(), from.cast(), len) };
    }
}

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
