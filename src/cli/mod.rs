//! The command line: one file per subcommand, each a clap struct and its `run`.

mod annotate;
mod attribute;
mod axes_args;
mod axis_args;
mod baseline;
mod check;
mod check_history;
mod check_rules;
mod compare;
mod completions;
mod doctor;
#[cfg(any(test, fuzzing))]
pub(crate) mod dry;
mod engine;
mod export;
mod flamegraph;
mod global;
pub(crate) mod guest_args;
mod history;
mod kernel;
mod man;
mod man_page;
mod matrix;
mod matrix_cell;
mod matrix_progress;
mod memory;
mod pages;
mod record;
mod repeat;
mod reproduce;
mod roles;
mod run;
mod schema;
mod short_help;
mod sizing_args;
mod stop_args;
mod stored_runs;
mod sweep;
pub(crate) mod workload_args;

use crate::util::text::{now, quoted};
use crate::util::usage::UsageError;
use crate::util::{cancel, limits, progress};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// The exit code of usage errors. `check` has another: [`global::WRONG_CHECK`].
const USAGE: u8 = 2;

/// Profile the kernel's work in pipe system calls, and compare kernels.
#[derive(Debug, Parser)]
#[command(name = "pipeprof", version, about, long_about = None, propagate_version = true)]
#[command(disable_version_flag = true, disable_help_flag = true)]
struct Cli {
    #[command(flatten)]
    global: global::Global,
    #[command(subcommand)]
    command: Command,
}

macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($args:ty),)+) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($(#[$attribute])* $name($args),)+
        }

        impl Command {
            fn run(self) -> anyhow::Result<ExitCode> {
                match self {
                    $(Self::$name(args) => args.run(),)+
                }
            }
        }
    };
}

// Subcommands. A new one is a file in this folder, and a line here.
commands! {
    Run(run::RunArgs),
    Record(record::RecordArgs),
    Compare(compare::CompareArgs),
    Check(check::CheckArgs),
    Reproduce(reproduce::ReproduceArgs),
    Sweep(sweep::SweepArgs),
    Matrix(matrix::MatrixCommand),
    History(history::HistoryArgs),
    Annotate(annotate::AnnotateArgs),
    Attribute(attribute::AttributeArgs),
    Flamegraph(flamegraph::FlamegraphArgs),
    Export(export::ExportArgs),
    Memory(memory::MemoryArgs),
    Roles(roles::RolesArgs),
    Kernel(kernel::KernelCommand),
    Doctor(doctor::DoctorArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    #[command(hide = true, name = "__engine")]
    Engine(engine::EngineArgs),
    #[command(hide = true, name = crate::workload::worker::SUBCOMMAND)]
    Worker(engine::WorkerArgs),
    #[command(hide = true, name = crate::record::inside::INSIDE)]
    Inside(record::InsideArgs),
}

/// Parse the command line, run, print the error.
pub fn main() -> ExitCode {
    if crate::guest::init::is_init() {
        crate::guest::init::main();
    }
    // Reading the command line already needs more than a small stack has.
    if let Err(error) = limits::check_stack() {
        progress::problem(&error.to_string());
        return ExitCode::FAILURE;
    }
    run()
}

/// Never part of [`main`], whose own stack must be small.
#[inline(never)]
fn run() -> ExitCode {
    limits::ignore_file_size();
    let words: Vec<OsString> = std::env::args_os().collect();
    let arguments: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let cli = match parse(words, &arguments) {
        Ok(cli) => cli,
        Err(error) => return global::refuse(&error, &arguments),
    };
    cli.global.apply();
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => {
            let advice = limits::advice(&error).map(|advice| format!("; {advice}"));
            progress::problem(&format!("{error:#}{}", advice.unwrap_or_default()));
            match cancel::exit_code() {
                Some(code) => ExitCode::from(code),
                None if error.is::<UsageError>() => ExitCode::from(USAGE),
                None => ExitCode::FAILURE,
            }
        }
    }
}

/// Parse the command line `words`; `arguments` are the same as text, without the program's name.
fn parse(words: Vec<OsString>, arguments: &[String]) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    if arguments
        .iter()
        .any(|argument| argument.starts_with('-') && !argument.starts_with("--") && argument.contains('h'))
    {
        command = short_help::shorten(command);
    }
    let command = global::prepared(command, arguments);
    Cli::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// `all`, the command line, without hidden subcommands, which serve this program only.
fn visible(all: &clap::Command) -> clap::Command {
    clap::Command::new("pipeprof")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommand_required(true)
        .about(all.get_about().cloned().unwrap_or_default())
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}

/// The command line as typed, for titles, with this program's plain name.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("pipeprof".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
