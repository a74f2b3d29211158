//! What reads the emulator's configuration device.

/// The emulator's configuration device.
pub(super) trait FwCfg {
    /// Let [`Self::read`] begin with the first byte of this entry.
    fn select(&self, entry: u16);

    /// Read the next bytes.
    fn read(&self, bytes: &mut [u8]);
}
