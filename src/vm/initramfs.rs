//! The guest's only file system: a cpio archive ("newc") made in memory. It contains this binary as `/init`, the job,
//! the kernel's configuration if known, and the device node of the console.

/// An archive being built.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

/// File types of `st_mode`.
const DIRECTORY: u32 = 0o040_000;
const CHARACTER: u32 = 0o020_000;
const REGULAR: u32 = 0o100_000;

impl Archive {
    /// Add a directory.
    pub(crate) fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY | 0o755, (0, 0), &[]);
    }

    /// Add a character device.
    pub(crate) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, CHARACTER | 0o600, (major, minor), &[]);
    }

    /// Add a file with these permissions.
    pub(crate) fn file(&mut self, path: &str, permissions: u32, content: &[u8]) {
        self.entry(path, REGULAR | permissions, (0, 0), content);
    }

    /// One entry, in the format of the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.inode += 1;
        let fields = [
            self.inode,
            mode,
            0, // uid
            0, // gid
            1, // links
            0, // modification time: zero, to keep the host's clock out
            content.len() as u32,
            0, // device of the file system
            0,
            device.0,
            device.1,
            path.len() as u32 + 1,
            0, // checksum: not used by this format
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Finish the archive and return its bytes.
    #[must_use]
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}

/// Path of the job in the guest.
pub(crate) const JOB: &str = "/job.json";

/// Path of the archive of further files, if there is one.
pub(crate) const FILES: &str = "/files.tar";

/// Build the archive that starts `init` with `job`. `config` is the kernel's release and configuration; it goes where
/// Debian keeps it. `files`: an archive for init to unpack.
pub(crate) fn build(init: &[u8], job: &[u8], config: Option<(&str, &[u8])>, files: Option<&[u8]>) -> Vec<u8> {
    let lengths = [init.len(), job.len(), config.map_or(0, |(_, config)| config.len()), files.map_or(0, <[u8]>::len)];
    let room = lengths.iter().sum::<usize>() + 4096;
    let mut archive = Archive { bytes: Vec::with_capacity(room), inode: 0 };
    archive.directory("dev");
    // The kernel opens it for init before anything is mounted.
    archive.device("dev/console", 5, 1);
    archive.file("init", 0o755, init);
    archive.file(JOB.trim_start_matches('/'), 0o600, job);
    if let Some((release, config)) = config {
        archive.directory("boot");
        archive.file(&format!("boot/config-{release}"), 0o644, config);
    }
    if let Some(files) = files {
        archive.file(FILES.trim_start_matches('/'), 0o600, files);
    }
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn cpio_reads_the_archive() {
        let bytes = build(b"#!/bin/true\n", b"{}", Some(("6.1.0-test", b"CONFIG_PREEMPT=y\n")), Some(b"tar"));
        assert_eq!(bytes.len() % 4, 0);
        let Ok(mut child) =
            Command::new("cpio").arg("-tv").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        else {
            // cpio may not be installed. The guest tests read the archive anyway.
            assert!(bytes.starts_with(b"070701"));
            return;
        };
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        let listing = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(listing.contains("crw-------") && listing.contains("dev/console"), "{listing}");
        assert!(listing.contains("-rwxr-xr-x") && listing.contains("init"), "{listing}");
        assert!(listing.contains("job.json") && listing.contains("boot/config-6.1.0-test"), "{listing}");
        assert!(listing.contains("files.tar"), "{listing}");
    }
}
