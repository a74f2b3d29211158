//! `pipeprof man`: manual pages of the program and of its subcommands.

use super::man_page;
use crate::util::atomic_file;
use crate::util::usage::UsageError;
use anyhow::{Context as _, Result};
use clap::{Command, CommandFactory as _};
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
    /// Subcommand, such as run [default: the program]
    #[arg(value_name = "SUBCOMMAND", conflicts_with = "output")]
    subcommand: Option<String>,
    /// Folder to write all pages into: pipeprof.1, pipeprof-run.1 and so on
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
}

impl ManArgs {
    /// Print a page, or write all.
    ///
    /// # Errors
    /// When the subcommand does not exist, or a file cannot be written.
    pub(super) fn run(&self) -> Result<ExitCode> {
        let program = program();
        let Some(folder) = &self.output else {
            crate::out!("{}", page_of(&program, self.subcommand.as_deref())?);
            return Ok(ExitCode::SUCCESS);
        };
        std::fs::create_dir_all(folder).with_context(|| format!("-o {}: cannot create it", folder.display()))?;
        for (name, page) in pages(&program) {
            atomic_file::write(&folder.join(name), page.as_bytes())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The command line as pages describe it, with the names by which subcommands are called.
fn program() -> Command {
    let mut program = super::visible(&super::Cli::command()).disable_help_subcommand(true);
    program.build();
    program
}

fn page_of(program: &Command, subcommand: Option<&str>) -> Result<String> {
    let command = match subcommand {
        None => program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
            UsageError::new(format!("no page for '{name}'; known: {}", known.join(", ")))
        })?,
    };
    Ok(man_page::render(program, command))
}

/// All pages with their file names.
fn pages(program: &Command) -> Vec<(String, String)> {
    std::iter::once(program)
        .chain(program.get_subcommands())
        .map(|command| (format!("{}.1", man_page::name(command)), man_page::render(program, command)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_subcommand_has_a_page() {
        let pages = pages(&program());
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.starts_with(&["pipeprof.1", "pipeprof-run.1", "pipeprof-record.1"]), "{names:?}");
        assert!(names.contains(&"pipeprof-kernel.1") && names.contains(&"pipeprof-man.1"), "{names:?}");
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
        let page = page_of(&program(), Some("kernel")).unwrap();
        assert!(page.contains("pipeprof kernel fetch") && page.contains("\\-\\-snapshots"), "{page}");
    }

    #[test]
    fn an_unknown_page_is_a_usage_error() {
        let error = page_of(&program(), Some("__engine")).unwrap_err();
        assert!(error.is::<UsageError>());
        assert!(error.to_string().starts_with("no page for '__engine'; known: run, record"), "{error}");
    }
}
