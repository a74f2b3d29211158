//! `pipeprof completions`: the script by which a shell completes pipeprof's command line.

use super::{global, short_help};
use anyhow::Result;
use clap::{Command, ValueEnum};
use clap_complete::aot::{Bash, Fish, Zsh, generate};
use std::process::ExitCode;

/// Print the script that completes pipeprof's flags and values in a shell
///
/// Debian's package of pipeprof installs all three. To install one for a user:
///
///   pipeprof completions bash > ~/.local/share/bash-completion/completions/pipeprof
///   pipeprof completions zsh > ~/.zfunc/_pipeprof
///   pipeprof completions fish > ~/.config/fish/completions/pipeprof.fish
///
/// The folder must exist. For zsh, it must be in fpath before compinit runs (in ~/.zshrc: fpath+=~/.zfunc).
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: CompletionShell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

impl CompletionsArgs {
    /// Print it; `all`: the command line.
    pub(super) fn run(&self, all: &Command) -> Result<ExitCode> {
        util::out!("{}", self.shell.script(all));
        Ok(ExitCode::SUCCESS)
    }
}

impl CompletionShell {
    fn script(self, all: &Command) -> String {
        let mut command = global::visible(&short_help::shorten(all.clone()));
        let mut script = Vec::new();
        match self {
            Self::Bash => generate(Bash, &mut command, "pipeprof", &mut script),
            Self::Zsh => generate(Zsh, &mut command, "pipeprof", &mut script),
            Self::Fish => generate(Fish, &mut command, "pipeprof", &mut script),
        }
        let script = String::from_utf8_lossy(&script).into_owned();
        // For bash, the crate also lists the flags that the help hides.
        hidden(&command).iter().fold(script, |script, flag| script.replace(&format!(" --{flag} "), " "))
    }
}

/// The hidden flags of all subcommands.
fn hidden(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter(|arg| arg.is_hide_set()).filter_map(|arg| arg.get_long());
    own.map(str::to_owned).chain(command.get_subcommands().flat_map(hidden)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn scripts_know_modes_and_no_internal_subcommand() {
        for shell in CompletionShell::value_variants() {
            let script = shell.script(&crate::cli::Cli::command());
            for word in ["vmsplice-huge-busy", "doctor", "--buffer-size", "fetch"] {
                let word = if matches!(shell, CompletionShell::Fish) { word.trim_start_matches('-') } else { word };
                assert!(script.contains(word), "{shell:?}: {word}");
            }
            for word in ["__engine", "__worker", " --unsafe-pipe "] {
                assert!(!script.contains(word), "{shell:?}: {word}");
            }
        }
    }
}
