//! `pipeprof reproduce`: repeat the articles' experiments and compare the results.

use super::guest_args::MachineArgs;
use crate::report::terminal::Style;
use crate::reproduce::facts::PROGRAMS;
use crate::reproduce::parts::{ArticlePart, PARTS};
use crate::reproduce::verdict::Missing;
use crate::reproduce::{self, GivenProgram, Settings, page};
use crate::result::ExecutedOn;
use crate::run::bench::Machine;
use crate::util::streams::write_styled;
use crate::util::usage::UsageError;
use crate::util::{cancel, progress};
use crate::vm::Accel;
use crate::vm::GuestOf as _;
use anyhow::{Context as _, Result, bail};
use clap::builder::PossibleValue;
use std::path::PathBuf;
use std::process::ExitCode;

/// The default kernel of exact profiles: that of article B.
const KERNEL: &str = "6.1";

/// Repeat the experiments of three articles on Linux pipes and compare the results
///
/// Article A is "How fast are Linux pipes anyway?" (mazzo.li), B is "Linux Pipes are Slow" (qsantos.fr), C describes five
/// ways to write cat.
#[derive(Debug, clap::Args)]
pub(crate) struct ReproduceArgs {
    /// Experiments to run [default: all]
    #[arg(value_name = "PART", value_parser = part_values())]
    parts: Vec<String>,
    /// Make fewer and shorter runs (about a minute)
    #[arg(long)]
    quick: bool,
    /// Folder for report and results
    #[arg(short, long, value_name = "DIR", default_value = "reproduce")]
    output: PathBuf,
    /// Continue the interrupted reproduction in -o DIR
    #[arg(long)]
    resume: bool,
    /// Kernel for exact instruction counts in a guest: an image, a .deb, or a name of `pipeprof kernel list`;
    /// `none` skips guests
    #[arg(long, value_name = "PATH|NAME|none", default_value = KERNEL)]
    kernel: String,
    /// Also measure a program of the articles that pipeprof does not contain: fizzbuzz=PATH, into pv; repeatable
    #[arg(long = "program", value_name = "NAME=PATH", value_parser = program)]
    programs: Vec<(String, GivenProgram)>,
    /// Run all parts in the guest of --kernel, including timed ones (no throughput in emulated guests)
    #[arg(long)]
    in_guest: bool,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    machine: MachineArgs,
}

/// `fizzbuzz=./fizzbuzz`.
fn program(text: &str) -> Result<(String, GivenProgram), String> {
    let known = PROGRAMS.join(", ");
    let (name, path) = text.split_once('=').ok_or_else(|| format!("not of the form NAME=PATH; names: {known}"))?;
    if !PROGRAMS.contains(&name) {
        return Err(format!("unknown program '{name}'; known: {known}"));
    }
    // A path, not a name that is looked up in PATH.
    let path = std::path::absolute(path).map_err(|error| format!("'{path}': {error}"))?;
    let program = GivenProgram::open(path).map_err(|error| format!("{error:#}"))?;
    Ok((name.to_owned(), program))
}

fn part_values() -> Vec<PossibleValue> {
    PARTS.iter().map(|part| PossibleValue::new(part.id).help(part.about)).collect()
}

impl ReproduceArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        if self.in_guest && self.kernel == "none" {
            bail!(UsageError::new("--in-guest conflicts with --kernel none: give a kernel, such as --kernel 6.12"));
        }
        let named = |part: &&ArticlePart| self.parts.is_empty() || self.parts.iter().any(|id| id == part.id);
        let wanted: Vec<&'static ArticlePart> = PARTS.iter().filter(named).collect();
        let bench = self.bench()?;
        let kernel = bench.kernel.as_ref().ok().map(|(name, _)| name.clone());
        if self.in_guest && kernel.is_none() {
            let why = bench.kernel.as_ref().err().map_or("", |missing| missing.why.as_str());
            bail!("--in-guest requires a kernel: {why}");
        }
        let settings = Settings {
            quick: self.quick,
            output: self.output.clone(),
            resume: self.resume,
            seed: self.seed,
            programs: self.programs.iter().cloned().collect(),
            in_guest: kernel.clone().filter(|_| self.in_guest),
            kernel,
        };
        let command = super::command_line();
        let reproduction = reproduce::run(&settings, &bench, &wanted, &command, &|what| progress::step(what))?;
        progress::step("writing the report");
        let written = page::write(&reproduction, &settings.output)?;
        progress::clear();
        write_styled(&page::terminal::render(&reproduction, Style::of_stdout()));
        util::outln!("\nReport: {}", written.display());
        Ok(ExitCode::SUCCESS)
    }

    fn bench(&self) -> Result<Machine> {
        let kernel = if self.kernel == "none" {
            Err(Missing::new("--kernel none: guests are disabled", format!("pipeprof reproduce --kernel {KERNEL}")))
        } else {
            match self.machine.machine().options(&self.kernel) {
                Ok(options) => Ok((self.kernel.clone(), options)),
                // If only the default kernel is missing, run the parts that need no guest.
                Err(error) if self.kernel == KERNEL && !self.in_guest => {
                    Err(Missing::new(format!("{error:#}"), format!("pipeprof kernel fetch {KERNEL}")))
                }
                Err(error) => return Err(error),
            }
        };
        let guest = kernel.as_ref().ok().map(|(_, options)| options.clone()).filter(|_| self.in_guest);
        let guest_executed_on = match self.machine.machine().accel {
            Accel::Kvm => ExecutedOn::Kvm,
            Accel::Auto | Accel::Tcg => ExecutedOn::Tcg,
        };
        Ok(Machine { guest, guest_executed_on, kernel })
    }
}
