//! The devices of QEMU's machine `virt`, in memory.

use super::fw_cfg::FwCfg;
use crate::vm::delivery;
use anyhow::{Context as _, Result, ensure};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Bytes of the configuration device's registers, and more.
const LENGTH: usize = 4096;

/// Where the configuration device is (QEMU: hw/arm/virt.c, `VIRT_FW_CFG`), and its registers: data, selector, and the address
/// for DMA. The latter two are big-endian (docs/specs/fw_cfg.rst).
const FW_CFG: u64 = 0x0902_0000;
const SELECTOR: usize = 8;
const DMA_ADDRESS: usize = 16;

/// The vendor and device of pvpanic on the bus (docs/specs/pci-ids.rst).
const PVPANIC: [&str; 2] = ["0x1b36", "0x0011"];

/// A device's registers. The kernel takes them back on drop.
struct Registers {
    at: *mut u8,
    length: usize,
}

impl Registers {
    /// Those at `offset` of a file, in whole pages.
    fn map(path: &Path, offset: u64, length: usize) -> Result<Self> {
        let length = length.next_multiple_of(rustix::param::page_size());
        let file = File::options().read(true).write(true).open(path).with_context(|| path.display().to_string())?;
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, which nothing else uses.
        let at = unsafe { mmap(std::ptr::null_mut(), length, flags, MapFlags::SHARED, &file, offset) };
        Ok(Self { at: at.with_context(|| format!("cannot map {}", path.display()))?.cast(), length })
    }

    fn write<T>(&self, offset: usize, value: T) {
        debug_assert!(offset + size_of::<T>() <= self.length);
        // SAFETY: the device's registers are mapped. A device that accesses this process's memory is given its addresses by
        // `dma`, which expects that.
        unsafe { self.at.add(offset).cast::<T>().write_volatile(value) };
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: they were mapped by `map`, and nothing refers to them. If it fails, they stay mapped.
        let _ = unsafe { munmap(self.at.cast(), self.length) };
    }
}

impl FwCfg for Registers {
    fn select(&self, entry: u16) {
        self.write(SELECTOR, entry.to_be());
    }

    fn read_register(&self, bytes: &mut [u8]) {
        let (wide, rest) = bytes.as_chunks_mut::<8>();
        for bytes in wide {
            // SAFETY: the register is mapped. A read of 8 bytes takes the next 8, in their order.
            *bytes = unsafe { self.at.cast::<u64>().read_volatile() }.to_ne_bytes();
        }
        for byte in rest {
            // SAFETY: likewise, of one byte.
            *byte = unsafe { self.at.read_volatile() };
        }
    }

    fn dma_signature(&self) -> [u8; 8] {
        // SAFETY: the register is mapped and aligned, and reading it changes nothing.
        unsafe { self.at.add(DMA_ADDRESS).cast::<u64>().read_volatile() }.to_ne_bytes()
    }

    fn start_dma(&self, address: u64) {
        self.write(DMA_ADDRESS, address.to_be());
    }
}

/// The folder of the device at which init says that it is ready.
fn ready_device() -> Result<PathBuf> {
    let entries = fs::read_dir("/sys/bus/pci/devices").context("/sys/bus/pci/devices")?;
    let is_it = |folder: &PathBuf| {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        [read("vendor").trim(), read("device").trim()] == PVPANIC
    };
    entries.flatten().map(|entry| entry.path()).find(is_it).context("this kernel shows no pvpanic device on its bus")
}

/// The address of a device's first registers.
fn registers_of(folder: &Path) -> Result<usize> {
    let ranges = fs::read_to_string(folder.join("resource")).context("resource")?;
    let first = ranges.split_whitespace().next().and_then(|word| word.strip_prefix("0x"));
    first.and_then(|digits| usize::from_str_radix(digits, 16).ok()).context("the pvpanic device has no address")
}

/// Write the event to the device at which init says that it is ready.
pub(super) fn stop() -> Result<()> {
    let folder = ready_device()?;
    let length = fs::metadata(folder.join("resource0")).context("resource0")?.len() as usize;
    ensure!(length > 0, "the pvpanic device has no registers");
    fs::write(folder.join("enable"), "1").context("cannot enable the pvpanic device")?;
    let place = registers_of(&folder)?;
    // The kernel maps whole pages, of which the registers may be a part.
    Registers::map(&folder.join("resource0"), 0, length)?.write(place % rustix::param::page_size(), delivery::STOP);
    fs::write(folder.join("enable"), "0").context("cannot disable the pvpanic device")
}

/// The configuration device.
pub(super) fn fw_cfg() -> Option<impl FwCfg> {
    Registers::map(Path::new("/dev/mem"), FW_CFG, LENGTH).ok()
}
