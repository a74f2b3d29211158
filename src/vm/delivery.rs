//! How a guest learns its job: from a file of the emulator's configuration device (fw_cfg), which init reads at the
//! machine's ports or, if it is long, by DMA. The content comes from the emulator's command line, so a restored guest gets
//! the job of this run, and reading it depends on nothing but its length.
//!
//! The ports are those of QEMU's docs/specs/fw_cfg.rst and docs/specs/pvpanic.rst.

/// Name of the file with the job.
pub const FILE: &str = "opt/org.pipeprof/job";

/// Name of the file with an archive of further files, if there is one.
pub const ARCHIVE: &str = "opt/org.pipeprof/files";

/// A job is filled up to a multiple of this many bytes, so that jobs of different lengths take the same number of
/// instructions to read. Nearly all jobs have 1 to 4 KiB.
const BLOCK: usize = 16 << 10;

/// First of the two ports of fw_cfg: select an entry by writing 16 bits here, then read its bytes at the next port.
pub const FW_CFG: u16 = 0x510;

/// Entry of fw_cfg that lists its files.
pub const DIRECTORY: u16 = 0x19;

/// Port of the device pvpanic. It tells QEMU that the guest is ready: QEMU stops the guest at this instruction if a
/// snapshot is to be made, and ignores it otherwise.
pub const READY: u16 = 0x505;

/// The event that is written to [`READY`]: PVPANIC_PANICKED, the one that every QEMU can be told to stop at.
pub const STOP: u8 = 1;

/// `job`, filled up with spaces, which JSON ignores.
pub fn filled(mut job: Vec<u8>) -> Vec<u8> {
    job.resize(job.len().next_multiple_of(BLOCK), b' ');
    job
}

/// The place of a job that is not known yet.
pub fn blank() -> Vec<u8> {
    vec![b' '; BLOCK]
}

/// The selector and the length of the file `name`, from the [`DIRECTORY`]'s entries: length (4 bytes), selector (2),
/// reserved (2), name (56, ended by NUL); numbers are big-endian.
pub fn find(entries: &[u8], name: &str) -> Option<(u16, usize)> {
    entries.chunks_exact(64).find_map(|entry| {
        let (numbers, text) = entry.split_at_checked(8)?;
        let text = text.split(|byte| *byte == 0).next()?;
        let [l0, l1, l2, l3, s0, s1, ..] = *numbers else { return None };
        (text == name.as_bytes())
            .then_some((u16::from_be_bytes([s0, s1]), u32::from_be_bytes([l0, l1, l2, l3]) as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_similar_length_take_the_same_room() {
        assert_eq!(filled(b"{}".to_vec()).len(), filled(vec![b'x'; BLOCK]).len());
        assert_eq!(filled(vec![b'x'; BLOCK + 1]).len(), 2 * BLOCK);
        assert_eq!(filled(b"{}".to_vec()).len(), blank().len());
        assert_eq!(serde_json::from_slice::<Vec<u8>>(&filled(b"[7]".to_vec())).unwrap(), [7]);
    }

    #[test]
    fn a_file_is_found_by_its_whole_name() {
        let entry = |length: u32, selector: u16, name: &str| {
            let mut entry = [&length.to_be_bytes()[..], &selector.to_be_bytes(), &[0, 0], name.as_bytes()].concat();
            entry.resize(64, 0);
            entry
        };
        let list = [entry(1, 0x20, "opt/org.pipeprof/jobs"), entry(0x1_0002, 0x21, FILE)].concat();
        assert_eq!(find(&list, FILE), Some((0x21, 0x1_0002)));
        assert_eq!(find(&list, "opt"), None);
        assert_eq!(find(&list[..100], FILE), None);
    }
}
