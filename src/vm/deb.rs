//! Debian packages: extract the kernel image and its configuration.

use super::closure::find_program;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a package contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub image: Option<PathBuf>,
    pub config: Option<PathBuf>,
}

/// Where packages keep images and configurations: in /boot up to 6.12, next to the modules from 6.19.
const WANTED: [&str; 4] =
    ["./boot/vmlinuz-*", "./boot/config-*", "./usr/lib/modules/*/vmlinuz*", "./usr/lib/modules/*/config"];

/// Unpack the image and the configuration from the package at `path` into the folder `into`.
pub(crate) fn unpack(path: &Path, into: &Path) -> Result<Contents> {
    if !path.is_file() {
        bail!("{}: file does not exist", path.display());
    }
    let script = if find_program("dpkg-deb").is_some() {
        r#"dpkg-deb --fsys-tarfile "$1""#
    } else if find_program("ar").is_some() && find_program("xz").is_some() {
        // Debian compresses kernel packages with xz. Other compressors need dpkg.
        r#"ar p "$1" data.tar.xz | xz -dc"#
    } else {
        bail!("cannot unpack {}: install dpkg-deb (package dpkg), or ar and xz", path.display());
    };
    let mut opener = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start sh")?;
    let tar = Command::new("tar")
        .args(["--extract", "--file=-", "--no-same-owner", "--no-same-permissions", "--wildcards", "--directory"])
        .arg(into)
        .args(WANTED)
        .stdin(opener.stdout.take().map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::null())
        // tar complains about patterns without a match, and each package matches only half of them.
        .stderr(Stdio::null())
        .status()
        .context("cannot start tar (package tar)");
    let opened = opener.wait().context("sh")?;
    tar?;
    if !opened.success() {
        bail!("{}: not a complete Debian package", path.display());
    }
    Ok(Contents { image: find(into, "vmlinuz"), config: find(into, "config") })
}

/// The first file below `folder` named `stem`, `stem-*` or `stem.unsigned`, in alphabetical order. A symbolic link is not
/// followed: that of a package may name any file of the caller.
fn find(folder: &Path, stem: &str) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().find_map(|path| {
        let kind = std::fs::symlink_metadata(path).ok()?.file_type();
        if kind.is_dir() {
            return find(path, stem);
        }
        let name = path.file_name()?.to_str()?;
        let rest = name.strip_prefix(stem)?;
        (kind.is_file() && (rest.is_empty() || rest.starts_with('-') || rest == ".unsigned")).then(|| path.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_package_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "").unwrap();
        let boot = folder.path().join("package/boot");
        std::fs::create_dir_all(&boot).unwrap();
        std::os::unix::fs::symlink(&secret, boot.join("config-1")).unwrap();
        let package = folder.path().join("package");
        std::os::unix::fs::symlink(folder.path(), package.join("all")).unwrap();
        assert_eq!(find(&package, "config"), None);
        assert_eq!(find(&package, "secret"), None);
        std::fs::write(boot.join("config-2"), "").unwrap();
        assert_eq!(find(&package, "config"), Some(boot.join("config-2")));
    }
}
