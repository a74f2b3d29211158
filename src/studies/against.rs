//! Another revision of the current tree, in a worktree of its own: the baseline of what commands take in the current one.

use crate::util::git::{MOST_PRINTED, git, own_repository};
use crate::util::progress;
use crate::util::running_program::RunningProgram;
use crate::util::text::clean;
use crate::util::usage::{OrUsage as _, UsageError};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// `--against git:REVISION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision(String);

impl Revision {
    /// # Errors
    /// When it is not of this form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix("git:").filter(|name| !name.is_empty() && !name.starts_with('-'));
        let name = name.ok_or_else(|| format!("'{text}' is no revision: use a form such as git:origin/main"))?;
        Ok(Self(name.to_owned()))
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

/// A worktree of git with another revision, removed at the end. What a killed process leaves, `git worktree prune` forgets.
#[derive(Debug)]
pub struct OtherTree {
    /// The folder from which it was made.
    here: PathBuf,
    folder: TempDir,
    /// Where `here` is in it.
    below: PathBuf,
}

impl OtherTree {
    /// Check out `revision` of the tree that the current folder is in.
    ///
    /// # Errors
    /// A usage error when it is in none, or has no such revision.
    pub fn new(revision: &Revision) -> Result<Self> {
        let here = std::env::current_dir().context("cannot find the current folder")?;
        let how = format!("--against git:{}", revision.name());
        let below = git(&here, &["rev-parse", "--show-prefix"]).context(how.clone()).or_usage()?;
        let id = git(&here, &["rev-parse", "--verify", "--quiet", &format!("{}^{{commit}}", revision.name())])
            .map_err(|_| UsageError::new(format!("{how}: this tree has no such commit; fetch it first")))?;
        let folder = tempfile::Builder::new().prefix("pipeprof-against-").tempdir()?;
        let path = folder.path().join("tree");
        progress::note(&format!("checking out {}", clean(revision.name())));
        git(&here, &["worktree", "add", "--quiet", "--detach", &path.to_string_lossy(), &id]).context(how)?;
        Ok(Self { here, folder, below: below.into() })
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    /// Run `command` in both trees, there first, as a shell does.
    ///
    /// # Errors
    /// When it fails in one of them, with the last lines of what it said.
    pub fn build_both(&self, command: &str) -> Result<()> {
        for (folder, which) in [(self.tree().join(&self.below), "the other tree"), (self.here.clone(), "this tree")] {
            progress::note(&format!("building {which}: {}", clean(command)));
            build(command, &folder).with_context(|| format!("--build in {which}"))?;
        }
        Ok(())
    }

    /// What `measure` returns, called with the other tree's folder as the current one.
    ///
    /// # Errors
    /// Those of `measure`, and when the other revision does not have the folder.
    pub fn within<T>(&self, measure: impl FnOnce() -> Result<T>) -> Result<T> {
        let there = self.tree().join(&self.below);
        std::env::set_current_dir(&there)
            .with_context(|| format!("the other revision has no {}", self.below.display()))?;
        let measured = measure();
        std::env::set_current_dir(&self.here).with_context(|| self.here.display().to_string())?;
        measured
    }
}

impl Drop for OtherTree {
    fn drop(&mut self) {
        // The folder goes in any case.
        let _ = git(&self.here, &["worktree", "remove", "--force", &self.tree().to_string_lossy()]);
    }
}

/// Lines of a failed build that are shown.
const LINES: usize = 5;

fn build(command: &str, folder: &Path) -> Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder);
    let (status, printed, said) = RunningProgram::output(own_repository(shell), MOST_PRINTED)?;
    if status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&printed);
    let lines: Vec<&str> = printed.lines().chain(said.lines()).filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    bail!("it failed ({status}): {}", clean(&last.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_have_the_form_of_the_help() {
        assert_eq!(Revision::parse("git:origin/main").map(|revision| revision.0), Ok("origin/main".to_owned()));
        for wrong in ["origin/main", "git:", "git:--upload-pack=x", ""] {
            assert!(Revision::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_failed_build_says_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        assert!(build("touch made", folder.path()).is_ok() && folder.path().join("made").exists());
        let error = build("seq 9; echo broken >&2; exit 3", folder.path()).unwrap_err().to_string();
        assert_eq!(error, "it failed (exit status: 3): 6; 7; 8; 9; broken");
    }
}
