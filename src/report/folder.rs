//! The folder of results: prepared before anything is measured, and moved to its place when all files are in it.

use crate::util::atomic_file::or_free;
use crate::util::claimed_folder::{self, ClaimedFolder};
use crate::util::progress;
use crate::util::text::counted;
use anyhow::{Result, anyhow, bail};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The parent of default folders.
const RUNS: &str = "runs";

/// The names of folders in preparation begin with this.
const ASIDE: &str = ".pipeprof-";

/// The names of folders for results that could not be written to their place begin with this.
const RESCUED: &str = "pipeprof-results-";

/// An output folder in preparation. It is created under a temporary name before anything is measured, so that an
/// unwritable place is known early. Once all files are in it, it is renamed in one step. Dropped earlier, it is removed.
#[derive(Debug)]
pub struct Folder {
    aside: ClaimedFolder,
    /// Declared after `aside`, so that it is dropped later.
    _parents: Parents,
    target: PathBuf,
    /// Whether another name may be used if `target` exists by then.
    fresh: bool,
    /// `target` is where a file system is mounted: it cannot be replaced, so the files are moved into it.
    mounted: bool,
}

/// The files written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub folder: PathBuf,
    /// File names in the folder.
    pub files: Vec<String>,
}

/// Results that were written, if need be elsewhere.
#[derive(Debug)]
pub struct KeptResults {
    /// `None` if nothing could be written anywhere.
    pub written: Option<Written>,
    /// Why they are not where they should be, and where they are.
    pub problem: Option<anyhow::Error>,
}

/// Parent folders created for a target, nearest first. Those that stay empty are removed again, also if several targets
/// have the same parents: by the last one.
#[derive(Debug)]
struct Parents(Vec<PathBuf>);

/// Those that this process has created and not removed.
static CREATED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

impl Parents {
    fn of(parent: &Path) -> Self {
        let mut created = CREATED.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = |folder: &&Path| !folder.as_os_str().is_empty() && (!folder.exists() || created.contains(*folder));
        let parents: Vec<PathBuf> = parent.ancestors().take_while(ours).map(Path::to_owned).collect();
        created.extend(parents.iter().cloned());
        Self(parents)
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        let mut created = CREATED.lock().unwrap_or_else(PoisonError::into_inner);
        for folder in &self.0 {
            // Fails if the folder is in use, as intended.
            if std::fs::remove_dir(folder).is_ok() {
                created.remove(folder);
            }
        }
    }
}

impl Folder {
    /// Prepare the folder `requested` with `-o`, or else a fresh one below `runs` named after the time `started` (RFC
    /// 3339) and the mode.
    ///
    /// # Errors
    /// When the folder exists and is not empty, or cannot be created.
    pub fn prepare(requested: Option<&Path>, started: &str, mode: &str) -> Result<Self> {
        let target = match requested {
            Some(folder) => without_link(folder)?,
            None => unused(&Path::new(RUNS).join(default_name(started, mode))),
        };
        let above = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let mounted = is_mounted(&target, &above);
        let parent = if mounted { target.clone() } else { above };
        let parents = Parents::of(&parent);
        let removed = claimed_folder::clean_up(&parent, ASIDE);
        if removed > 0 {
            progress::note(&format!("removed {} of killed runs", counted(removed as u64, "temporary folder")));
        }
        refuse_used(&target)?;
        let attempt = || std::fs::create_dir_all(&parent).and_then(|()| ClaimedFolder::new_in(&parent, ASIDE, 0o777));
        let aside = attempt().map_err(|error| cannot_create(&target, &error))?;
        Ok(Self { aside, _parents: parents, target, fresh: requested.is_none(), mounted })
    }

    /// Add a file; `name` can be a path into a folder inside.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_below(self.aside.path(), name, bytes).map_err(|error| {
            let file = self.target.join(name);
            anyhow!("cannot write {}: {error}; choose another folder with -o{}", file.display(), or_free(&error))
        })
    }

    /// Move the folder to its target, and return that.
    ///
    /// # Errors
    /// When the target has come to exist, or cannot be created.
    pub fn settle(self) -> Result<PathBuf> {
        let mut target = self.target.clone();
        if self.mounted {
            self.move_files().map_err(|error| cannot_create(&target, &error))?;
            return Ok(target);
        }
        loop {
            // Replaces an empty folder only.
            match std::fs::rename(self.aside.path(), &target) {
                Ok(()) => return Ok(target),
                Err(_) if self.fresh && target.exists() => target = unused(&target),
                Err(error) => {
                    refuse_used(&target)?;
                    return Err(cannot_create(&target, &error));
                }
            }
        }
    }

    /// Move what was prepared into the target.
    fn move_files(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(self.aside.path())? {
            let entry = entry?;
            let to = self.target.join(entry.file_name());
            if to.exists() {
                return Err(std::io::Error::other(format!("{} has come to exist", to.display())));
            }
            std::fs::rename(entry.path(), to)?;
        }
        Ok(())
    }

    /// Write `files` and move the folder to its target.
    ///
    /// # Errors
    /// A full disk and the like; then nothing is left at the target.
    pub fn write_all(self, files: &[(String, Vec<u8>)]) -> Result<Written> {
        files.iter().try_for_each(|(name, bytes)| self.put(name, bytes))?;
        Ok(Written { folder: self.settle()?, files: names(files) })
    }

    /// As [`Self::write_all`]. If that fails, what was measured is not lost: the files are written to a folder for
    /// temporary files, which stays.
    pub fn keep(self, files: &[(String, Vec<u8>)]) -> KeptResults {
        let error = match self.write_all(files) {
            Ok(written) => return KeptResults { written: Some(written), problem: None },
            Err(error) => error,
        };
        let elsewhere = tempfile::Builder::new().prefix(RESCUED).tempdir().and_then(|folder| {
            files.iter().try_for_each(|(name, bytes)| write_below(folder.path(), name, bytes))?;
            Ok(folder.keep())
        });
        match elsewhere {
            Ok(folder) => KeptResults {
                problem: Some(error.context(format!("the results were written to {} instead", folder.display()))),
                written: Some(Written { folder, files: names(files) }),
            },
            Err(second) => KeptResults {
                written: None,
                problem: Some(error.context(format!(
                    "the results are only printed: they cannot be written to a temporary folder either ({second}); set \
                     TMPDIR to a folder with room"
                ))),
            },
        }
    }
}

fn write_below(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    if let Some((inner, _)) = name.rsplit_once('/') {
        std::fs::create_dir_all(folder.join(inner))?;
    }
    std::fs::write(folder.join(name), bytes)
}

fn names(files: &[(String, Vec<u8>)]) -> Vec<String> {
    files.iter().map(|(name, _)| name.clone()).collect()
}

/// `folder`, or what it is a link to: a folder cannot replace a link.
fn without_link(folder: &Path) -> Result<PathBuf> {
    match std::fs::symlink_metadata(folder) {
        Ok(metadata) if metadata.is_symlink() => std::fs::canonicalize(folder).map_err(|_| {
            anyhow!("the output folder {} is a link to nothing: choose another with -o", folder.display())
        }),
        _ => Ok(folder.to_owned()),
    }
}

/// Whether another file system begins at `folder`, which is in `above`.
fn is_mounted(folder: &Path, above: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.dev());
    matches!((device(folder), device(above)), (Some(own), Some(parent)) if own != parent)
}

fn cannot_create(folder: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow!("cannot create the output folder {}: {error}; choose another with -o", folder.display())
}

fn refuse_used(folder: &Path) -> Result<()> {
    let advice = "choose another with -o, or remove it";
    match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            Some(_) => bail!("the output folder {} exists and is not empty: {advice}", folder.display()),
            None => Ok(()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(_) if folder.exists() && !folder.is_dir() => {
            bail!("the output folder {} is a file: {advice}", folder.display())
        }
        Err(error) => Err(anyhow!("cannot read the output folder {}: {error}; {advice}", folder.display())),
    }
}

/// `2026-11-20T10-15-00-write`: sorts by time, and is valid on all file systems.
fn default_name(started: &str, mode: &str) -> String {
    let time = started.split(['Z', '.', '+']).next().unwrap_or(started);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    format!("{time}-{mode}").chars().map(plain).collect()
}

/// `folder`, with a number appended if it exists.
fn unused(folder: &Path) -> PathBuf {
    let mut candidate = folder.to_owned();
    let mut number = 2;
    while candidate.exists() {
        let mut name = folder.as_os_str().to_owned();
        name.push(format!("-{number}"));
        candidate = PathBuf::from(name);
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_that_stay_empty_are_removed_by_the_last_of_several() {
        let top = tempfile::tempdir().unwrap();
        let parent = top.path().join("new/out");
        let [first, second] =
            ["one", "two"].map(|name| Folder::prepare(Some(&parent.join(name)), "", "write").unwrap());
        assert!(parent.exists());
        drop(first);
        drop(second);
        assert!(!top.path().join("new").exists());
        let [first, second] =
            ["one", "two"].map(|name| Folder::prepare(Some(&parent.join(name)), "", "write").unwrap());
        first.write_all(&[("file".to_owned(), Vec::new())]).unwrap();
        drop(second);
        assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 1);
    }
}
