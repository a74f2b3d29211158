//! Flags of all subcommands, and their effects.

use super::choice_arg::choice;
use crate::report::terminal::colour;
use crate::util::stored_json::json_text;
use crate::util::streams::write_styled;
use crate::util::styled_text::StyledText;
use crate::util::text::{is_hidden, quoted};
use crate::util::{build, progress};
use anyhow::{Context as _, Result};
use clap::{ArgAction, Args, ColorChoice, Command};
use serde::Serialize;
use std::process::ExitCode;

/// The exit code of usage errors. `check` has another: [`WRONG_CHECK`].
pub(super) const USAGE: u8 = 2;

/// `git bisect run` skips the revision: it cannot be tested.
pub(super) const UNTESTABLE: u8 = 125;

/// `git bisect run` stops: the command line of `check` is wrong, for this revision and every other.
pub(super) const WRONG_CHECK: u8 = 128;

/// Flags of all subcommands.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Global {
    /// Print only the result and errors: no progress, no notes
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 900)]
    quiet: bool,
    /// Print more: commands, files, and which collectors were chosen and why
    #[arg(short, long, global = true, hide_short_help = true, display_order = 901)]
    verbose: bool,
    /// Colour the output: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always or never [default: auto]
    #[arg(long, global = true, value_parser = choice::<colour::When>(), value_name = "WHEN", default_value = "auto", display_order = 902)]
    #[arg(hide_short_help = true, hide_default_value = true, hide_possible_values = true)]
    color: colour::When,
    /// Print help: -h the common flags, --help all
    #[arg(short, long, global = true, action = ArgAction::Help, display_order = 998)]
    help: Option<bool>,
    /// Print version and build
    #[arg(short = 'V', long, global = true, action = ArgAction::Version, hide_short_help = true, display_order = 999)]
    version: Option<bool>,
}

impl Global {
    pub(super) fn apply(&self) {
        progress::set_level(match (self.quiet, self.verbose) {
            (true, _) => progress::Level::Quiet,
            (_, true) => progress::Level::Verbose,
            _ => progress::Level::Normal,
        });
        colour::choose(self.color);
    }
}

/// `command`, prepared to print help, version and errors as the arguments ask.
pub(super) fn prepared(command: Command, arguments: &[String]) -> Command {
    // Reading the build takes time that the processes of a workload should not spend.
    let asked = |argument: &String| argument == "--version" || argument.starts_with("-V");
    let command = if arguments.iter().any(asked) { command.version(build::version()) } else { command };
    let choice =
        arguments.iter().zip(arguments.iter().skip(1).map(String::as_str).chain([""])).find_map(|(one, next)| {
            let value = if one == "--color" { Some(next) } else { one.strip_prefix("--color=") };
            match value? {
                "always" => Some(ColorChoice::Always),
                "never" => Some(ColorChoice::Never),
                _ => None,
            }
        });
    command.color(choice.unwrap_or(ColorChoice::Auto))
}

/// Print the error in the command line, or the requested help or version.
pub(super) fn refuse(error: &clap::Error, arguments: &[String]) -> ExitCode {
    let text = error.to_string();
    if text.chars().any(|c| is_hidden(c) && c != '\n') {
        // A word of the command line can be a file's name, as in `pipeprof compare *`.
        util::err!("{text}");
    } else {
        let _ = error.print();
    }
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        // To `git bisect run`, 1 to 124 mean a regression, which a wrong flag is not.
        _ if subcommand(arguments) == Some("check") => ExitCode::from(WRONG_CHECK),
        code => ExitCode::from(u8::try_from(code).unwrap_or(USAGE)),
    }
}

/// The first word that is neither a flag nor the value of one.
fn subcommand(arguments: &[String]) -> Option<&str> {
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--color" => drop(words.next()),
            _ if word.starts_with('-') => {}
            _ => return Some(word),
        }
    }
    None
}

/// `all`, the command line, without hidden subcommands, which serve this program only.
pub(super) fn visible(all: &Command) -> Command {
    Command::new("pipeprof")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommand_required(true)
        .about(all.get_about().cloned().unwrap_or_default())
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}

/// Print `value` as JSON, or else as `text`.
pub(super) fn print<T>(json: bool, value: &impl Serialize, text: impl FnOnce() -> T) -> Result<()>
where
    T: Into<StyledText>,
{
    if json {
        util::outln!("{}", json_text(value).context("cannot write the result as JSON")?);
    } else {
        write_styled(&text().into());
    }
    Ok(())
}

/// The command line as typed, for titles, with this program's plain name.
pub(super) fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("pipeprof".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
