//! What reads the emulator's configuration device. QEMU: docs/specs/fw_cfg.rst.

use super::dma::DmaBuffer;

/// What the register of the address for DMA says if the device can do it.
const DMA_SIGNATURE: [u8; 8] = *b"QEMU CFG";

/// Fewer bytes are read from the device's register.
const DMA_FROM: usize = 128 << 10;

/// The emulator's configuration device.
pub(super) trait FwCfg {
    /// Begin to read this entry.
    fn select(&self, entry: u16);

    /// Read the next bytes of the selected entry from the device's register.
    fn read_register(&self, bytes: &mut [u8]);

    /// What the register of the address for DMA says.
    fn dma_signature(&self) -> [u8; 8];

    /// Start the command at this physical address. The device writes where the command says before this returns.
    fn start_dma(&self, address: u64);

    /// So many of the first bytes of this entry.
    fn read(&self, entry: u16, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.select(entry);
        if length >= DMA_FROM && self.dma_signature() == DMA_SIGNATURE {
            let buffer = DmaBuffer::new();
            if buffer.is_some_and(|buffer| buffer.read(&mut bytes, |address| self.start_dma(address))) {
                return bytes;
            }
            self.select(entry);
        }
        self.read_register(&mut bytes);
        bytes
    }
}
