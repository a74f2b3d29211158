//! Git, at work on somebody's tree.

use super::running_program::RunningProgram;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// More is not read of what git prints, bytes: the changes of a large merge have some 10 MiB.
pub const MOST_PRINTED: u64 = 256 << 20;

/// Without what git sets in its hooks: it would act on their repository, not on that of its folder. Standard input is empty.
pub fn own_repository(mut command: Command) -> Command {
    for name in
        ["DIR", "WORK_TREE", "INDEX_FILE", "COMMON_DIR", "OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES", "PREFIX"]
    {
        command.env_remove(format!("GIT_{name}"));
    }
    command.stdin(Stdio::null());
    command
}

/// What git prints in `tree`, given these words, without the white space around it.
///
/// # Errors
/// When git is missing or fails, with the first line of what it says.
pub fn git(tree: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(tree).args(words);
    let (status, printed, said) = RunningProgram::output(own_repository(command), MOST_PRINTED)?;
    let why = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed");
    ensure!(status.success(), "git {}: {why}", words.join(" "));
    Ok(String::from_utf8_lossy(&printed).trim().to_owned())
}
