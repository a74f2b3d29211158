//! The machine's devices, which init uses before the job begins: it tells the emulator that the guest is ready, and reads
//! the job.

mod dma;
mod fw_cfg;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod machine;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod machine;

use crate::vm::delivery;
use anyhow::Result;
use fw_cfg::FwCfg as _;

/// Tell the emulator that the guest is ready for a job. If a snapshot is being made, the guest stops here, and each
/// restored guest continues here.
pub(super) fn ready() -> Result<()> {
    machine::stop()
}

/// The content of a file of the emulator's configuration device; `None` if the emulator's command line does not name
/// it, or if the kernel gives no access.
pub(super) fn file(name: &str) -> Option<Vec<u8>> {
    let device = machine::fw_cfg()?;
    let count = u32::from_be_bytes(device.read(delivery::DIRECTORY, 4).try_into().ok()?);
    // There are a few dozen; without the device, each byte is 0xff.
    let count = usize::try_from(count).ok().filter(|count| *count < 4096)?;
    let directory = device.read(delivery::DIRECTORY, 4 + count * 64);
    let (selector, length) = delivery::find(&directory[4..], name)?;
    Some(device.read(selector, length))
}
