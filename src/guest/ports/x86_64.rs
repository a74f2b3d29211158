//! The ports of a PC.

use super::fw_cfg::FwCfg;
use crate::vm::delivery;
use anyhow::{Context as _, Result};
use std::arch::asm;

/// The ports of the address for DMA: its upper half, then its lower one, which starts it; both are big-endian.
const DMA_PORT: u16 = delivery::FW_CFG + 4;

/// Access to a range of ports. The kernel takes it back on drop: a process with access to ports costs more at each
/// task switch.
struct Ports {
    first: u16,
    count: u16,
}

impl Ports {
    fn open(first: u16, count: u16) -> std::io::Result<Self> {
        // SAFETY: ioperm(2) accesses no memory of this process.
        match unsafe { libc::ioperm(first.into(), count.into(), 1) } {
            0 => Ok(Self { first, count }),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    fn write(&self, port: u16, value: u8) {
        debug_assert!((self.first..self.first + self.count).contains(&port));
        // SAFETY: this process has access to the port, whose device does not access memory.
        unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) }
    }

    fn write_wide(&self, port: u16, value: u16) {
        debug_assert!((self.first..self.first + self.count - 1).contains(&port));
        // SAFETY: as above.
        unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags)) }
    }

    fn read_port(&self, port: u16, bytes: &mut [u8]) {
        debug_assert!((self.first..self.first + self.count).contains(&port));
        // SAFETY: this process has access to the port. The instruction writes `len` bytes from the pointer on, which
        // is exactly the slice; the ABI requires the direction flag to be clear.
        unsafe {
            asm!("rep insb", in("dx") port, inout("rcx") bytes.len() => _, inout("rdi") bytes.as_mut_ptr() => _,
                options(nostack, preserves_flags));
        }
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        // SAFETY: as in `open`. Access is given up, which cannot fail.
        unsafe { libc::ioperm(self.first.into(), self.count.into(), 0) };
    }
}

/// Write the event to the device at which init says that it is ready.
pub(super) fn stop() -> Result<()> {
    Ports::open(delivery::READY, 1).context("ioperm")?.write(delivery::READY, delivery::STOP);
    Ok(())
}

/// The configuration device.
pub(super) fn fw_cfg() -> Option<impl FwCfg> {
    Ports::open(delivery::FW_CFG, DMA_PORT + 8 - delivery::FW_CFG).ok()
}

impl FwCfg for Ports {
    fn select(&self, entry: u16) {
        self.write_wide(delivery::FW_CFG, entry);
    }

    fn read_register(&self, bytes: &mut [u8]) {
        self.read_port(delivery::FW_CFG + 1, bytes);
    }

    fn dma_signature(&self) -> [u8; 8] {
        let mut signature = [0; 8];
        for (port, half) in [DMA_PORT, DMA_PORT + 4].into_iter().zip(signature.as_chunks_mut::<4>().0) {
            let value: u32;
            // SAFETY: this process has access to the port, and reading it changes nothing.
            unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags)) }
            *half = value.to_ne_bytes();
        }
        signature
    }

    fn start_dma(&self, address: u64) {
        let halves = [(address >> 32) as u32, address as u32];
        for (port, half) in [DMA_PORT, DMA_PORT + 4].into_iter().zip(halves) {
            debug_assert!((self.first..self.first + self.count - 3).contains(&port));
            // SAFETY: this process has access to the port. The device writes where the command says, and the compiler knows
            // that memory changes.
            unsafe { asm!("out dx, eax", in("dx") port, in("eax") half.to_be(), options(nostack, preserves_flags)) }
        }
    }
}
