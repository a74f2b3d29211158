//! Where the source of a kernel comes from: a tree, a commit of a git tree, a tarball, or Debian's package.

use super::folders::BuildFolders;
use super::stamps::FileStamps;
use super::tree;
use crate::util::git::{self, git, own_repository};
use crate::util::running_program::RunningProgram;
use crate::util::{sha256, size};
use crate::vm::store::KernelCache;
use crate::vm::{fetch, unpack};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// A source as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceName {
    /// A kernel tree, built as it is. Nothing is written into it.
    Tree(PathBuf),
    /// A commit of a git tree, of which a copy is built.
    Commit {
        tree: PathBuf,
        commit: String,
    },
    Tarball(PathBuf),
    /// The newest package linux-source of this series or version.
    Debian(String),
}

impl SourceName {
    /// How Debian's sources are named.
    pub(super) const DEBIAN: &str = "debian:";
}

impl FromStr for SourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(version) = text.strip_prefix(Self::DEBIAN) {
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-+~".contains(c);
            if !version.starts_with(|c: char| c.is_ascii_digit()) || !version.chars().all(plain) {
                return Err("give a series or version after 'debian:', such as debian:6.12".to_owned());
            }
            return Ok(Self::Debian(version.to_owned()));
        }
        let path = PathBuf::from(text);
        if path.is_dir() {
            return Ok(Self::Tree(path));
        }
        if path.is_file() {
            return Ok(Self::Tarball(path));
        }
        if let Some((tree, commit)) = text.rsplit_once('@')
            && Path::new(tree).is_dir()
        {
            if commit.is_empty() || commit.starts_with('-') {
                return Err(format!("give a commit, branch or tag after '{tree}@'"));
            }
            return Ok(Self::Commit { tree: PathBuf::from(tree), commit: commit.to_owned() });
        }
        Err("neither a kernel tree, TREE@COMMIT, a tarball, nor debian:SERIES such as debian:6.12".to_owned())
    }
}

/// As the user can name it again, from any folder.
impl std::fmt::Display for SourceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tree(path) | Self::Tarball(path) => write!(f, "{}", absolute(path).display()),
            Self::Commit { tree, commit } => write!(f, "{}@{commit}", absolute(tree).display()),
            Self::Debian(version) => write!(f, "debian:{version}"),
        }
    }
}

/// A source whose content is known, but which may not be unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelSource {
    /// What it is, for people: `linux-source-6.12 6.12.117-1`.
    pub shown: String,
    /// Equal for equal content.
    pub digest: String,
    /// The name that means the same content later, when a branch or a series has moved on.
    pub name: SourceName,
    /// Of [`SourceName::Tree`], which is built where it is, while others may edit it.
    pub files: Option<FileStamps>,
    /// Debian's, of [`SourceName::Debian`].
    package: Option<fetch::SourcePackage>,
}

impl KernelSource {
    /// Find what `name` means now. Nothing is downloaded but the mirror's index.
    pub(crate) fn find(cache: &KernelCache, name: &SourceName, say: &dyn Fn(&str)) -> Result<Self> {
        let mut files = None;
        let (shown, digest, name, package) = match name {
            SourceName::Tree(tree) => {
                tree::ensure_tree(tree)?;
                let shown = absolute(tree).display().to_string();
                let (digest, stamps) = tree::digest(tree)?;
                files = Some(stamps);
                (shown, digest, SourceName::Tree(absolute(tree)), None)
            }
            SourceName::Commit { tree, commit } => {
                let id = git(tree, &["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")])
                    .with_context(|| format!("{} has no commit '{commit}': see `git -C {0} log`", tree.display()))?;
                let content = git(tree, &["rev-parse", &format!("{id}^{{tree}}")])?;
                let shown = format!("{} at {}", absolute(tree).display(), id.get(..12).unwrap_or(&id));
                let digest = sha256::of_parts(["commit", &content]);
                (shown, digest, SourceName::Commit { tree: tree.clone(), commit: id }, None)
            }
            SourceName::Tarball(path) => {
                let shown = absolute(path).display().to_string();
                (shown, digest_of_tarball(path)?, name.clone(), None)
            }
            SourceName::Debian(wish) => {
                let upstream = upstream(wish);
                // What was built before needs no mirror, which may no longer have it.
                let built = if upstream == wish { None } else { package_of_build(cache, wish)? };
                let find = |wish: &str| fetch::source_package(cache, wish, say);
                // Another Debian revision has the same source, if the mirror no longer has this one.
                let package = match built {
                    Some(package) => package,
                    None => find(wish).or_else(|error| if upstream == wish { Err(error) } else { find(upstream) })?,
                };
                let shown = format!("{} {}", package.name, package.version);
                let digest = sha256::of_parts(["debian", &package.name, &package.version]);
                (shown, digest, SourceName::Debian(package.version.clone()), Some(package))
            }
        };
        Ok(Self { shown, digest, name, files, package })
    }

    /// What is built one after the other with the objects of the build before: the commits of one tree, a tree that is
    /// edited, or different configurations of the same content. make sees what it must compile again by the files' times,
    /// so no other content may come in the place of this one, but for that of `files`.
    pub(super) fn lineage(&self) -> String {
        match &self.name {
            SourceName::Commit { tree, .. } => absolute(tree).display().to_string(),
            SourceName::Tree(tree) => format!("files of {}", absolute(tree).display()),
            SourceName::Tarball(_) | SourceName::Debian(_) => self.digest.clone(),
        }
    }

    /// The folder of the source; it is unpacked if it must be. All commits of a tree have one folder, so that only the
    /// files that differ between two of them are written.
    pub(crate) fn folder(&self, cache: &KernelCache, folders: &BuildFolders, say: &dyn Fn(&str)) -> Result<PathBuf> {
        match &self.name {
            SourceName::Tree(tree) => return Ok(tree.clone()),
            SourceName::Commit { tree, commit } => {
                let name = sha256::of_parts(["commits of", &absolute(tree).display().to_string()]);
                let folder = folders.source(&name, |into| {
                    say(&format!("making a clone of {}", absolute(tree).display()));
                    let script = r#"git clone --quiet --shared --no-checkout -- "$1" "$2""#;
                    run(shell(script, &[absolute(tree).as_os_str(), into.as_os_str()]))
                })?;
                // The clone reads the objects of the tree, also those that came later.
                // A build that was killed leaves the lock.
                let script = r#"rm -f "$1/.git/index.lock"; git -C "$1" checkout --quiet --force --detach "$2""#;
                run(shell(script, &[folder.as_os_str(), commit.as_ref()]))
                    .with_context(|| format!("cannot check out {commit}"))?;
                tree::ensure_tree(&folder).with_context(|| self.shown.clone())?;
                tree::ensure_closed(&folder).with_context(|| self.shown.clone())?;
                return Ok(folder);
            }
            SourceName::Tarball(_) | SourceName::Debian(_) => {}
        }
        folders.source(&self.digest, |into| {
            let unpacking = || say(&format!("unpacking {}", self.shown));
            match (&self.name, &self.package) {
                (SourceName::Tarball(path), _) => {
                    unpacking();
                    unpack::tarball(path, into)
                }
                (_, Some(package)) => {
                    let deb = fetch::download_source(cache, package, say)?;
                    unpacking();
                    let script = r#"dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout --wildcards \
                        './usr/src/linux-source-*.tar.xz' | xz -dc -T0"#;
                    let done = unpack::printed(shell(script, &[deb.as_os_str()]), into, unpack::without_first);
                    // If it cannot be removed, it only takes up space.
                    let _ = fs::remove_file(deb);
                    done
                }
                (_, None) => Ok(()),
            }
            .and_then(|()| tree::ensure_closed(into))
            .with_context(|| format!("cannot unpack {}", self.shown))?;
            tree::ensure_tree(into).with_context(|| self.shown.clone())?;
            if let SourceName::Tarball(path) = &self.name {
                let is_same = digest_of_tarball(path)? == self.digest;
                ensure!(is_same, "{} changed while it was unpacked: build it again", self.shown);
            }
            Ok(())
        })
    }
}

fn digest_of_tarball(path: &Path) -> Result<String> {
    let (shown, most) = (path.display(), unpack::MOST_BYTES);
    let length = fs::metadata(path).with_context(|| shown.to_string())?.len();
    ensure!(length <= most, "{shown}: the tarball is longer than {}", size::format(most));
    Ok(sha256::of_parts(["tarball", &sha256::of_file(path)?]))
}

/// Debian's package of exactly this version, of which a kernel in the cache was built.
fn package_of_build(cache: &KernelCache, version: &str) -> Result<Option<fetch::SourcePackage>> {
    let name = format!("debian:{version}");
    let build = cache.list()?.into_iter().filter_map(|kernel| kernel.build).find(|build| build.source_name == name);
    let package = build.and_then(|build| Some(build.source.split_once(' ')?.0.to_owned()));
    // Who made a bundle chooses this text.
    let package = package.filter(|name| is_source_package(name));
    Ok(package.map(|name| fetch::SourcePackage { name, version: version.to_owned() }))
}

/// Whether apt means one of Debian's sources of Linux by this name, and nothing else, such as an option.
fn is_source_package(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let series = name.strip_prefix("linux-source-").and_then(|series| series.split_once('.'));
    series.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A pipeline of which each part must succeed.
fn shell(script: &str, arguments: &[&std::ffi::OsStr]) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("set -o pipefail; {script}"), "bash"]).args(arguments);
    own_repository(command)
}

fn run(command: Command) -> Result<()> {
    let (status, _, said) = RunningProgram::output(command, git::MOST_PRINTED)?;
    ensure!(status.success(), "{}", unpack::first_line(&said).unwrap_or("a program failed without a message"));
    Ok(())
}

/// The version of the source in a Debian version: `6.12.117` of `6.12.117-1~deb12u1`.
pub(super) fn upstream(version: &str) -> &str {
    version.rsplit_once('-').map_or(version, |(upstream, _)| upstream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::store::BuildRecord;

    #[test]
    fn sources_are_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().display().to_string();
        assert_eq!(tree.parse(), Ok(SourceName::Tree(folder.path().to_owned())));
        assert_eq!(
            format!("{tree}@v6.12").parse(),
            Ok(SourceName::Commit { tree: folder.path().to_owned(), commit: "v6.12".to_owned() })
        );
        assert_eq!("debian:6.12".parse(), Ok(SourceName::Debian("6.12".to_owned())));
        for wrong in ["debian:", "debian:six", "debian:6.1/x", "/nonexistent", &format!("{tree}@"), "x@y"] {
            assert!(wrong.parse::<SourceName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bundle_gives_apt_no_options() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path());
        let kernel = folder.path().join("kernels/6.12.9-build-1");
        fs::create_dir_all(&kernel).unwrap();
        fs::write(kernel.join("vmlinuz"), "").unwrap();
        for (package, accepted) in [
            ("linux-source-6.12", true),
            ("-oAcquire::http::Proxy-Auto-Detect=/tmp/x", false),
            ("linux-source-6.12/../x", false),
            ("linux-source-6.12=1", false),
            ("linux-source-", false),
            ("bash", false),
        ] {
            let build = BuildRecord {
                source: format!("{package} 6.12.9-1"),
                source_name: "debian:6.12.9-1".to_owned(),
                from_bundle: true,
                ..BuildRecord::default()
            };
            let about = serde_json::json!({
                "release": "6.12.9-build-1", "version": "6.12.9", "origin": "x", "build": build
            });
            fs::write(kernel.join("kernel.json"), about.to_string()).unwrap();
            let found = package_of_build(&cache, "6.12.9-1").unwrap();
            assert_eq!(found.map(|found| found.name), accepted.then(|| package.to_owned()), "{package}");
        }
    }

    #[test]
    fn a_source_is_named_by_its_version() {
        assert_eq!(upstream("6.12.117-1~deb12u1"), "6.12.117");
        assert_eq!(upstream("7.2"), "7.2");
    }
}
