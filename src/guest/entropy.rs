//! The random numbers of a guest, which has no device that provides them.

use anyhow::{Context, Result, ensure};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;

/// Init creates it if the kernel does not.
const DEVICE: &str = "/dev/urandom";

/// `RNDADDENTROPY` (include/uapi/linux/random.h).
const ADD_ENTROPY: libc::Ioctl = 0x4008_5203;

/// `struct rand_pool_info`.
#[repr(C)]
struct PoolSeed {
    /// Of them, bits that count as random.
    bits: libc::c_int,
    bytes: libc::c_int,
    content: [u32; 8],
}

/// Make the kernel's random numbers ready, with a fixed seed. Otherwise the first program that calls `getrandom` busy
/// waits for about a second (`try_to_generate_entropy` in drivers/char/random.c), and the kernel then changes its own
/// code. Secrecy has no meaning in a guest, and a random seed would make recordings differ.
pub fn credit() -> Result<()> {
    let seed = PoolSeed { bits: 256, bytes: 32, content: [0x7069_7065; 8] };
    let device = OpenOptions::new().write(true).open(DEVICE).context(DEVICE)?;
    // SAFETY: the descriptor is open, and the kernel reads the structure that it expects.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), ADD_ENTROPY, &raw const seed) };
    ensure!(result == 0, "cannot seed {DEVICE}: {}", std::io::Error::last_os_error());
    Ok(())
}
