//! Debian packages: extract the kernel image and its configuration.

use super::unpack;
use crate::util::find_program::find_program;
use crate::util::regular;
use anyhow::{Context, Result, bail};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// What a package contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    pub image: Option<PathBuf>,
    pub config: Option<PathBuf>,
}

/// Whether a file of a package is an image or a configuration: in /boot up to 6.12, next to the modules from 6.19.
fn is_wanted(name: &Path) -> bool {
    let parts: Vec<_> = name.iter().map(OsStr::to_string_lossy).collect();
    match parts.iter().map(Cow::as_ref).collect::<Vec<&str>>()[..] {
        ["boot", name] => name.starts_with("vmlinuz-") || name.starts_with("config-"),
        ["usr", "lib", "modules", _, name] => name.starts_with("vmlinuz") || name == "config",
        _ => false,
    }
}

/// Unpack the image and the configuration from the package at `path` into the folder `into`.
pub fn unpack(path: &Path, into: &Path) -> Result<Contents> {
    let shown = path.display();
    let package = regular::open(path).with_context(|| shown.to_string())?;
    // From standard input, which has no name that could be an option.
    let script = if find_program("dpkg-deb").is_some() {
        "dpkg-deb --fsys-tarfile /dev/stdin"
    } else if find_program("ar").is_some() && find_program("xz").is_some() {
        // Debian compresses kernel packages with xz. Other compressors need dpkg.
        "ar p /dev/stdin data.tar.xz | xz -dc"
    } else {
        bail!("cannot unpack {shown}: install dpkg-deb (package dpkg), or ar and xz");
    };
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(package);
    // Never a link, which could lead to any file of this machine.
    let place = |name: &Path, kind: tar::EntryType| {
        let name: PathBuf = name.components().filter(|part| *part != Component::CurDir).collect();
        (kind.is_file() && is_wanted(&name)).then_some(name)
    };
    unpack::printed(command, into, place).with_context(|| format!("{shown}: not a complete Debian package"))?;
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
