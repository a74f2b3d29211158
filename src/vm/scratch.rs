//! Temporary folders for the files of a running guest. They are removed on drop; those of a killed run are removed at
//! the next start.

use crate::util::claimed_folder::{self, ClaimedFolder};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

const PREFIX: &str = "pipeprof-guest-";

/// A temporary folder.
#[derive(Debug)]
pub struct Scratch {
    folder: ClaimedFolder,
}

impl Scratch {
    /// Create a folder in the system's temporary folder.
    pub fn new() -> Result<Self> {
        Self::new_in(&std::env::temp_dir())
    }

    fn new_in(root: &Path) -> Result<Self> {
        // QEMU's options are texts.
        ensure!(root.to_str().is_some(), "the temporary folder {} is not UTF-8: set TMPDIR to another", root.display());
        let folder = ClaimedFolder::new_in(root, PREFIX, 0o700).with_context(|| no_room(root))?;
        Ok(Self { folder })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(crate) fn no_room(path: &Path) -> String {
    format!("cannot write {}: free some space, or set TMPDIR to another folder", path.display())
}

/// Remove the folders of killed runs and return their number.
pub fn clean_up() -> usize {
    claimed_folder::clean_up(&std::env::temp_dir(), PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_utf_8_is_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join(std::ffi::OsStr::from_bytes(b"t\xff"));
        std::fs::create_dir(&folder).unwrap();
        assert!(Scratch::new_in(&folder).unwrap_err().to_string().contains("TMPDIR"));
        assert!(Scratch::new_in(parent.path()).is_ok());
    }

    #[test]
    fn a_folder_goes_away_with_its_value() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path("x");
        std::fs::write(&path, "x").unwrap();
        drop(scratch);
        assert!(!path.parent().unwrap().exists());
    }
}
