//! `pipeprof man`: manual pages of the program and of its subcommands.

use super::pages::page_name;
use super::{global, man_page};
use crate::util::atomic_file;
use crate::util::usage::UsageError;
use anyhow::{Context as _, Result};
use clap::Command;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the manual page of pipeprof or of a subcommand, or write all pages into a folder
///
/// Debian's package of pipeprof installs all pages. Without it:
///
///   pipeprof man run | man -l -
///   pipeprof man -o ~/.local/share/man/man1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManArgs {
    /// Subcommand, such as run or kernel fetch [default: the program]
    #[arg(value_name = "SUBCOMMAND", conflicts_with = "output")]
    subcommand: Vec<String>,
    /// Folder to write all pages into: pipeprof.1, pipeprof-run.1 and so on
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
}

impl ManArgs {
    /// Print a page, or write all; `all`: the command line.
    pub(super) fn run(&self, all: &Command) -> Result<ExitCode> {
        let program = program(all);
        let Some(folder) = &self.output else {
            util::out!("{}", page_of(&program, &self.subcommand)?);
            return Ok(ExitCode::SUCCESS);
        };
        std::fs::create_dir_all(folder).with_context(|| format!("-o {}: cannot create it", folder.display()))?;
        for (name, page) in pages(&program)? {
            atomic_file::write(&folder.join(name), page.as_bytes())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The command line `all` as pages describe it, with the names by which subcommands are called.
fn program(all: &Command) -> Command {
    let mut program = global::visible(all).disable_help_subcommand(true);
    program.build();
    program
}

fn page_of(program: &Command, path: &[String]) -> Result<String> {
    let mut command = program;
    for name in path {
        command = command.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            UsageError::new(format!("no page for '{name}'; known: {known}"))
        })?;
    }
    man_page::render(command, program.get_version().unwrap_or_default())
}

/// The pages of `program`, its subcommands and theirs, with their file names.
fn pages(program: &Command) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    let mut left = vec![program];
    while let Some(command) = left.pop() {
        let page = man_page::render(command, program.get_version().unwrap_or_default())?;
        all.push((format!("{}.1", page_name(command)), page));
        left.extend(command.get_subcommands());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn known() -> Command {
        program(&crate::cli::Cli::command())
    }

    #[test]
    fn every_visible_subcommand_has_a_page() {
        let pages = pages(&known()).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for page in ["pipeprof.1", "pipeprof-run.1", "pipeprof-kernel.1", "pipeprof-kernel-fetch.1", "pipeprof-man.1"] {
            assert!(names.contains(&page), "{names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("__")), "{names:?}");
        for (name, page) in &pages {
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
                let heading = if section.contains(' ') { format!("\"{section}\"") } else { section.to_owned() };
                assert!(page.contains(&format!("\n.SH {heading}\n")), "{name}: {section}\n{page}");
            }
            assert!(!page.contains("\\-\\-unsafe\\-pipe"), "{name} shows a hidden flag");
        }
    }

    #[test]
    fn the_page_of_kernel_has_its_subcommands() {
        let page = page_of(&known(), &["kernel".to_owned()]).unwrap();
        assert!(page.contains("pipeprof\\-kernel\\-fetch(1)"), "{page}");
        let page = page_of(&known(), &["kernel".to_owned(), "remove".to_owned()]).unwrap();
        assert!(page.contains("pipeprof kernel remove") && page.contains("\\-\\-snapshots"), "{page}");
    }

    #[test]
    fn an_unknown_page_is_a_usage_error() {
        let error = page_of(&known(), &["__engine".to_owned()]).unwrap_err();
        assert!(error.is::<UsageError>());
        assert!(error.to_string().starts_with("no page for '__engine'; known: run, record"), "{error}");
    }
}
