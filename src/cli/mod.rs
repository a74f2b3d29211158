//! The command line: one file per subcommand, each a clap struct and its `run`.

mod annotate;
mod attribute;
mod axes_args;
mod axis_args;
mod bisect;
mod check;
mod check_commands;
mod check_comment;
mod check_document;
mod check_history;
mod check_rules;
mod choice_arg;
mod compare;
mod completions;
mod count_args;
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
mod kernel_build;
mod kernel_options;
mod man;
mod man_page;
mod matrix;
mod matrix_cell;
mod memory;
mod pages;
mod pipeline_args;
mod record;
mod repeat;
mod reproduce;
mod roles;
mod run;
mod schema;
mod short_help;
mod sizing_args;
mod stop_args;
mod sweep;
pub(crate) mod workload_args;

use crate::util::text::now;
use crate::util::usage::UsageError;
use crate::util::{cancel, limits, progress};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use global::{USAGE, command_line};
use std::ffi::OsString;
use std::process::ExitCode;

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

/// Subcommands. A new one is a file in this folder, a variant here and a line in [`Command::run`].
#[derive(Debug, Subcommand)]
enum Command {
    // registration: one line per subcommand
    Run(run::RunArgs),
    Record(record::RecordArgs),
    Repeat(repeat::RepeatArgs),
    Compare(compare::CompareArgs),
    Check(check::CheckArgs),
    Bisect(Box<bisect::BisectArgs>),
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
    #[command(hide = true, name = crate::vm::job::INSIDE)]
    Inside(record::InsideArgs),
}

impl Command {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Annotate(args) => args.run(),
            Self::Attribute(args) => args.run(),
            Self::Check(args) => args.run(),
            Self::Bisect(args) => args.run(),
            Self::Compare(args) => args.run(),
            Self::Doctor(args) => args.run(),
            Self::Export(args) => args.run(),
            Self::Flamegraph(args) => args.run(),
            Self::Run(args) if args.has_several_modes() => run::run_modes::run(&args),
            Self::Run(args) => args.run(),
            Self::Record(args) => args.run(),
            Self::Repeat(args) => args.run(),
            Self::Kernel(args) => args.run(),
            Self::Reproduce(args) => args.run(),
            Self::Roles(args) => args.run(),
            Self::Schema(args) => args.run(),
            Self::Completions(args) => args.run(&Cli::command()),
            Self::Man(args) => args.run(&Cli::command()),
            Self::Matrix(args) => args.run(),
            Self::History(args) => args.run(),
            Self::Memory(args) => args.run(),
            Self::Sweep(args) => args.run(),
            Self::Engine(args) => args.run(),
            Self::Worker(args) => args.run(),
            Self::Inside(args) => args.run(),
        }
    }
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
