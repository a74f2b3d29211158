//! Unpack archives of others. Only folders, files and links are made, without special rights, and all inside of one folder.

use crate::util::running_program::RunningProgram;
use crate::util::{regular, size};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use tar::EntryType;

/// Most files of an archive; a kernel has 90,000.
const MOST_FILES: usize = 1_000_000;

/// Most bytes of an archive, and of all files in it.
pub(super) const MOST_BYTES: u64 = 16 << 30;

/// The programs that unpack a file which begins with these bytes.
const PROGRAMS: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\x5d\0\0", "xz"),
    (b"LZIP", "lzip"),
];

/// Unpack the tarball at `path`, whose files are in one folder, into the folder `into`.
pub(super) fn tarball(path: &Path, into: &Path) -> Result<()> {
    let file = regular::open(path).with_context(|| path.display().to_string())?;
    let mut begin = [0; 8];
    let length = file.read_at(&mut begin, 0)?;
    let begin = begin.get(..length).unwrap_or_default();
    let program = PROGRAMS.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, program)| *program);
    let mut command = Command::new(program.unwrap_or("cat"));
    if program.is_some() {
        command.arg("-dc");
    }
    command.stdin(Stdio::from(file));
    printed(command, into, without_first)
}

/// Unpack the archive that `command` prints. `place` gives each file its name in `into`, and leaves out others.
pub(super) fn printed(
    command: Command,
    into: &Path,
    place: impl Fn(&Path, EntryType) -> Option<PathBuf>,
) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut program =
        RunningProgram::start(command, false).with_context(|| format!("cannot start {name}: install it"))?;
    archive(BufReader::with_capacity(1 << 16, &mut program), into, place)?;
    let (status, said) = program.end()?;
    ensure!(status.success(), "{}", first_line(&said).unwrap_or("a program failed without a message"));
    Ok(())
}

/// The first line of an error that says something: bzip2 begins with an empty one.
pub(super) fn first_line(said: &str) -> Option<&str> {
    said.lines().map(str::trim).find(|line| !line.is_empty())
}

/// The name without its first folder.
pub(super) fn without_first(name: &Path, _: EntryType) -> Option<PathBuf> {
    let parts = name.components().filter(|part| !matches!(part, Component::CurDir | Component::RootDir));
    Some(parts.skip(1).collect::<PathBuf>()).filter(|name| !name.as_os_str().is_empty())
}

fn archive(from: impl Read, into: &Path, place: impl Fn(&Path, EntryType) -> Option<PathBuf>) -> Result<()> {
    let mut links = Vec::new();
    let mut room = MOST_BYTES;
    for (number, entry) in tar::Archive::new(from).entries()?.enumerate() {
        ensure!(number < MOST_FILES, "it contains more than {MOST_FILES} files");
        // What the archive has instead of a header is no part of the message.
        let mut entry = entry.map_err(|error| match error.kind() {
            ErrorKind::Other => anyhow!("not a complete tar archive"),
            _ => anyhow::Error::from(error).context("not a complete tar archive"),
        })?;
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            continue;
        }
        let name = entry.path()?.into_owned();
        let Some(inside) = place(&name, kind) else { continue };
        let unpack = || format!("cannot unpack {}", name.display());
        let to = into.join(plain(&inside).with_context(unpack)?);
        let target = entry.link_name()?.map(|target| target.into_owned()).unwrap_or_default();
        match kind {
            EntryType::Directory => fs::create_dir_all(&to).with_context(unpack)?,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                ensure!(
                    entry.size() <= room,
                    "{}: all files are longer than {}",
                    name.display(),
                    size::format(MOST_BYTES)
                );
                let header = entry.header();
                let (mode, changed) = (header.mode()?, Duration::from_secs(header.mtime()?));
                let mut file = create(&to, if mode & 0o111 == 0 { 0o644 } else { 0o755 }).with_context(unpack)?;
                room -= regular::copy_all(&mut entry, &mut file, room).with_context(unpack)?;
                if let Some(changed) = SystemTime::UNIX_EPOCH.checked_add(changed) {
                    let _ = file.set_modified(changed);
                }
            }
            EntryType::Symlink => {
                fs::create_dir_all(to.parent().unwrap_or(into)).with_context(unpack)?;
                links.push((to, target));
            }
            EntryType::Link => {
                fs::create_dir_all(to.parent().unwrap_or(into)).with_context(unpack)?;
                let target = place(&target, EntryType::Regular).with_context(unpack)?;
                fs::hard_link(into.join(plain(&target).with_context(unpack)?), &to).with_context(unpack)?;
            }
            EntryType::Fifo => bail!("{} is a FIFO, and a source has only files, folders and links", name.display()),
            _ => bail!("{} is a device, and a source has only files, folders and links", name.display()),
        }
    }
    // Until here no name leads through a link.
    for (at, target) in links {
        std::os::unix::fs::symlink(target, &at).with_context(|| format!("cannot unpack {}", at.display()))?;
    }
    Ok(())
}

/// `name`, unless it leads out of its folder.
fn plain(name: &Path) -> Result<&Path> {
    let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    ensure!(is_plain, "its name leads out of the archive's folder");
    Ok(name)
}

fn create(path: &Path, mode: u32) -> std::io::Result<File> {
    let attempt = || OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    match (attempt(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(parent)?;
            attempt()
        }
        (done, _) => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    /// An archive of entries: kind, name, target of a link; each file has its own name as content.
    fn packed(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (kind, name, target) in entries {
            let mut header = tar::Header::new_gnu();
            let content = if *kind == EntryType::Regular { name.as_bytes() } else { &[] };
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(if name.ends_with(".sh") { 0o6777 } else { 0o666 });
            header.set_mtime(1_000_000_000);
            // tar's own functions refuse hostile names.
            let old = header.as_old_mut();
            old.name[..name.len()].copy_from_slice(name.as_bytes());
            old.linkname[..target.len()].copy_from_slice(target.as_bytes());
            header.set_cksum();
            archive.append(&header, content).unwrap();
        }
        archive.into_inner().unwrap()
    }

    const FILE: EntryType = EntryType::Regular;

    fn unpacked(entries: &[(EntryType, &str, &str)], into: &Path) -> Result<(), String> {
        archive(&packed(entries)[..], into, without_first).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn files_folders_and_links_are_made_without_special_rights() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        unpacked(
            &[
                (EntryType::Symlink, "./linux/link", "fs/pipe.c"),
                (EntryType::Directory, "./linux/", ""),
                (FILE, "./linux/fs/pipe.c", ""),
                (FILE, "./linux/scripts/run.sh", ""),
                (EntryType::Link, "./linux/same", "./linux/fs/pipe.c"),
            ],
            folder.path(),
        )
        .unwrap();
        let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & 0o7777;
        assert_eq!([mode("scripts/run.sh") & 0o7700, mode("fs/pipe.c") & 0o7700], [0o700, 0o600]);
        assert_eq!(fs::read(at("link")).unwrap(), b"./linux/fs/pipe.c");
        assert_eq!(fs::metadata(at("same")).unwrap().ino(), fs::metadata(at("fs/pipe.c")).unwrap().ino());
        assert_eq!(fs::metadata(at("same")).unwrap().mtime(), 1_000_000_000);
    }

    #[test]
    fn nothing_special_is_made_and_nothing_outside() {
        for (kind, why) in [
            (EntryType::Fifo, "a/b is a FIFO, and a source has only files"),
            (EntryType::Char, "a/b is a device"),
            (EntryType::Block, "a/b is a device"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let error = unpacked(&[(kind, "a/b", "")], folder.path()).unwrap_err();
            assert!(error.starts_with(why), "{error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        let secret = b"a file of the user";
        for entries in [
            &[(FILE, "a/../../secret", "")][..],
            &[(EntryType::Symlink, "a/b", ".."), (FILE, "a/b/secret", "")],
            &[(EntryType::Symlink, "a/b", ".."), (EntryType::Symlink, "a/b/secret", "x")],
            &[(EntryType::Link, "a/b", "a/../../secret")],
            &[(EntryType::Symlink, "a/b", "../secret"), (EntryType::Link, "a/c", "a/b")],
            &[(FILE, "a/b", ""), (FILE, "a/b", "")],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (inside, outside) = (folder.path().join("in"), folder.path().join("secret"));
            fs::create_dir(&inside).unwrap();
            fs::write(&outside, secret).unwrap();
            assert!(unpacked(entries, &inside).is_err(), "{entries:?}");
            assert_eq!(fs::read(outside).unwrap(), secret);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn a_compressed_tarball_is_unpacked_whatever_its_name_is() {
        let folder = tempfile::tempdir().unwrap();
        // To tar, a file of the host `host`.
        let path = folder.path().join("host:x.tar");
        for (number, program) in ["cat", "gzip", "xz", "bzip2"].into_iter().enumerate() {
            let mut child = Command::new(program)
                .stdin(Stdio::piped())
                .stdout(File::create(&path).unwrap())
                .spawn()
                .unwrap_or_else(|error| panic!("{program}: {error}"));
            let bytes = packed(&[(FILE, "a/b", "")]);
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
            assert!(child.wait().unwrap().success());
            let into = folder.path().join(number.to_string());
            tarball(&path, &into).unwrap();
            assert_eq!(fs::read(into.join("b")).unwrap(), b"a/b", "{program}");
        }
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let why = |into: &str| format!("{:#}", tarball(&path, &folder.path().join(into)).unwrap_err());
        let cut = why("cut");
        assert!(cut.contains("bzip2: "), "{cut}");
        fs::write(&path, [0x55; 4096]).unwrap();
        assert_eq!(why("noise"), "not a complete tar archive");
    }
}
