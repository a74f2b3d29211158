//! The guest's only file system: a cpio archive ("newc") made in memory. It contains this binary as `/init`, the job,
//! the kernel's configuration if known, and the device node of the console.

/// File types of `st_mode`.
const DIRECTORY: u32 = 0o040_000;
const CHARACTER: u32 = 0o020_000;
const REGULAR: u32 = 0o100_000;

/// Path of the job in the guest.
pub const JOB: &str = "/job.json";

/// Path of the archive of further files, if there is one.
pub const FILES: &str = "/files.tar";

/// Path, mode, device (major and minor) and content.
type ArchiveEntry<'a> = (&'a str, u32, [u32; 2], &'a [u8]);

/// Build the archive that starts `init` with `job`. `config` is the kernel's release and configuration; it goes where
/// Debian keeps it. `files`: an archive for init to unpack.
pub fn build(init: &[u8], job: &[u8], config: Option<(&str, &[u8])>, files: Option<&[u8]>) -> Vec<u8> {
    let empty: &[u8] = &[];
    let config_path = config.map(|(release, _)| format!("boot/config-{release}")).unwrap_or_default();
    let mut entries = vec![
        ("dev", DIRECTORY | 0o755, [0, 0], empty),
        // The kernel opens it for init before anything is mounted.
        ("dev/console", CHARACTER | 0o600, [5, 1], empty),
        ("init", REGULAR | 0o755, [0, 0], init),
        (JOB.trim_start_matches('/'), REGULAR | 0o600, [0, 0], job),
    ];
    if let Some((_, config)) = config {
        entries.push(("boot", DIRECTORY | 0o755, [0, 0], empty));
        entries.push((config_path.as_str(), REGULAR | 0o644, [0, 0], config));
    }
    if let Some(files) = files {
        entries.push((FILES.trim_start_matches('/'), REGULAR | 0o600, [0, 0], files));
    }
    let length: usize = entries.iter().map(|(.., content)| content.len()).sum();
    let mut archive = Vec::with_capacity(length + 4096);
    for (inode, entry) in (1..).zip(entries) {
        add(&mut archive, inode, entry);
    }
    add(&mut archive, 1, ("TRAILER!!!", 0, [0, 0], empty));
    archive
}

/// Append one entry, in the format of the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
fn add(archive: &mut Vec<u8>, inode: u32, (path, mode, [major, minor], content): ArchiveEntry<'_>) {
    let (size, name_size) = (content.len() as u32, path.len() as u32 + 1);
    archive.extend(b"070701");
    // One link, and the modification time 0, to keep the host's clock out.
    for field in [inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0] {
        archive.extend(format!("{field:08x}").as_bytes());
    }
    archive.extend(path.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::NewcReader;
    use std::io::Read as _;

    #[test]
    fn the_archive_has_all_entries() {
        let bytes = build(b"#!/bin/true\n", b"{}", Some(("6.1.0-test", b"CONFIG_PREEMPT=y\n")), Some(b"tar"));
        let mut found = Vec::new();
        let mut rest = &bytes[..];
        loop {
            let mut reader = NewcReader::new(rest).unwrap();
            let entry = reader.entry();
            if entry.is_trailer() {
                break;
            }
            let (name, mode) = (entry.name().to_owned(), entry.mode());
            let device = [entry.rdev_major(), entry.rdev_minor()];
            let mut content = String::new();
            reader.read_to_string(&mut content).unwrap();
            found.push((name, mode, device, content));
            rest = reader.finish().unwrap();
        }
        let expected = [
            ("dev", 0o040_755, [0, 0], ""),
            ("dev/console", 0o020_600, [5, 1], ""),
            ("init", 0o100_755, [0, 0], "#!/bin/true\n"),
            ("job.json", 0o100_600, [0, 0], "{}"),
            ("boot", 0o040_755, [0, 0], ""),
            ("boot/config-6.1.0-test", 0o100_644, [0, 0], "CONFIG_PREEMPT=y\n"),
            ("files.tar", 0o100_600, [0, 0], "tar"),
        ];
        let expected = expected.map(|(name, mode, device, content)| (name.into(), mode, device, content.into()));
        assert_eq!(found, expected);
    }
}
