//! What reads the emulator's configuration device.

/// The emulator's configuration device.
pub(super) trait FwCfg {
    /// So many of the first bytes of this entry.
    fn read(&self, entry: u16, length: usize) -> Vec<u8>;
}
