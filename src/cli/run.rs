//! `pipeprof run`: launch a pipe workload, say where its kernel time goes, draw it; here, or inside another kernel.

use super::guest_args::GuestArgs;
use super::workload_args::WorkloadArgs;
use crate::document::{Collector, ExecutedOn, Loader, Outcome, Request, Selection};
use crate::report::terminal::Style;
use crate::util::{cancel, progress};
use crate::workload::spec::Amount;
use crate::{report, run};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// A short window, and many of them: pairs differ more from each other than a window does within itself.
const AMOUNT: Amount = Amount::DurationNs(300_000_000);
/// What a guest moves where nothing is asked: emulated time is some twenty times slower than the clock on the wall.
const GUEST_AMOUNT: Amount = Amount::DurationNs(200_000_000);
/// Calls of the writer in an exact profile: the cost per call settles long before.
const EXACT_AMOUNT: Amount = Amount::Calls(400);

/// Run a pipe workload and say where its kernel time goes.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    guest: GuestArgs,
    /// What watches the pair: `auto` (all that this kernel allows), `none`, or some of sample,kprobe,fgraph,insn
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto", value_parser = selection)]
    collect: Selection,
    /// The library that loads the BPF programs
    #[arg(long, value_enum, default_value_t = Loader::Libbpf)]
    loader: Loader,
    /// Fresh pairs alone, and as many under each collector [default: 20 of 300 ms; 6 where --bytes, --duration or --calls
    /// is given, and in KVM guests; in emulated guests 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Seed of the order in which pairs alone and watched alternate
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Leave a guest's pair in the root cgroup, where memory is not charged to anyone
    #[arg(long)]
    no_memcg: bool,
    /// Symbols for --collect insn, of a kernel that was built without its own list: its uncompressed image
    #[arg(long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// The folder to make for the results [default: one named after time and mode]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print run.json on stdout, all else on stderr
    #[arg(long)]
    json: bool,
}

fn selection(text: &str) -> Result<Selection, String> {
    match text {
        "auto" => Ok(Selection::Auto),
        "none" => Ok(Selection::List(Vec::new())),
        _ => {
            let mut list = Vec::new();
            for name in text.split(',') {
                let collector = <Collector as clap::ValueEnum>::from_str(name, false).map_err(|_| {
                    format!("'{name}' is no collector: use auto, none, or some of sample,kprobe,fgraph,insn")
                })?;
                if !list.contains(&collector) {
                    list.push(collector);
                }
            }
            Ok(Selection::List(list))
        }
    }
}

/// `pipeprof run` by its flags alone, for commands that run it many times.
#[derive(Debug, clap::Parser)]
#[command(name = "run", no_binary_name = true)]
pub(super) struct Flags {
    #[command(flatten)]
    run: RunArgs,
}

impl Flags {
    /// Understand `flags` as `pipeprof run` would.
    ///
    /// # Errors
    /// The first line of what is wrong with them.
    pub(super) fn parse(flags: &[String]) -> Result<Self> {
        <Self as clap::Parser>::try_parse_from(flags).map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or("cannot be read").trim_start_matches("error: ").to_owned();
            anyhow::anyhow!("{line} (flags of pipeprof run: {})", flags.join(" "))
        })
    }

    /// The outcome; nothing is printed or written.
    ///
    /// # Errors
    /// As [`RunArgs::run`].
    pub(super) fn outcome(&self) -> Result<Outcome> {
        let started = super::now();
        let mut outcome = self.run.measure(&self.run.request()?)?;
        outcome.document.started = started;
        Ok(outcome)
    }

    /// Whether instructions are counted, in a guest.
    pub(super) fn counts(&self) -> bool {
        self.run.exact()
    }

    /// The guest's memory in bytes; none on the host.
    pub(super) fn guest_memory(&self) -> Option<u64> {
        self.run.guest.kernel.as_ref().map(|_| self.run.guest.machine.memory)
    }
}

impl RunArgs {
    /// # Errors
    /// One line that names the flag or file and the way out.
    pub fn run(self) -> Result<ExitCode> {
        cancel::install().context("cannot install signal handlers")?;
        let started = super::now();
        let request = self.request()?;
        // Before anything is measured: a run whose results cannot be kept is not worth making.
        let folder = report::files::Folder::prepare(self.output.as_deref(), &started, &request.mode)?;
        let outcome = self.measure(&request);
        progress::clear();
        let mut outcome = outcome?;
        outcome.document.started = started;
        let written = folder.write(&mut outcome)?;
        let document = &outcome.document;
        if self.json {
            crate::out!("{}", report::files::to_json(document)?);
            eprint!("{}", report::terminal::render(document, Some(&written), Style::PLAIN));
        } else {
            crate::out!("{}", report::terminal::render(document, Some(&written), Style::of_stdout()));
        }
        let broken = document.runs.iter().filter(|pair| !pair.processes.reader.verify_errors.is_empty()).count();
        if broken > 0 {
            bail!(
                "--verify: the reader got other bytes than the writer sent, in {broken} of {} pairs",
                document.runs.len()
            );
        }
        Ok(ExitCode::SUCCESS)
    }

    fn exact(&self) -> bool {
        matches!(&self.collect, Selection::List(list) if list.contains(&Collector::Insn))
    }

    fn request(&self) -> Result<Request> {
        let guest = self.guest.kernel.is_some();
        if self.no_memcg && !guest {
            bail!("--no-memcg is for guests: add --kernel, such as --kernel 6.12");
        }
        if self.vmlinux.is_some() && !self.exact() {
            bail!("--vmlinux gives names to --collect insn, which this is not: leave it out");
        }
        if self.runs.is_some_and(|runs| runs > 1) && self.exact() {
            bail!("--runs: --collect insn counts one pair, as every other one gives the same; leave it out");
        }
        let (mode, mut workload) = self.workload.request.spec()?;
        if let (true, Some(source)) = (guest, &workload.source)
            && !source.starts_with("/dev")
        {
            bail!(
                "--source {}: a guest has no files of this machine; use /dev/zero, or run without --kernel",
                source.display()
            );
        }
        let chosen = self.workload.request.amount.is_some();
        if !chosen {
            workload.amount = match (guest, self.exact()) {
                (true, true) => EXACT_AMOUNT,
                (true, false) => GUEST_AMOUNT,
                (false, _) => AMOUNT,
            };
        }
        let runs = match (guest, chosen) {
            // It is known there whether it is emulated.
            (true, _) => 0,
            (false, true) => run::schedule::LEAST,
            (false, false) => 20,
        };
        Ok(Request {
            mode,
            workload,
            collect: self.collect.clone(),
            loader: self.loader,
            runs: self.runs.unwrap_or(runs),
            seed: self.seed,
            memcg: !self.no_memcg,
            command: super::command_line(),
        })
    }

    fn measure(&self, request: &Request) -> Result<Outcome> {
        match self.guest.options()? {
            Some(options) if self.exact() => run::exact::execute(request, &options, self.vmlinux.as_deref()),
            Some(options) => run::in_guest(request, &options),
            None if self.exact() => {
                bail!("--collect insn runs in a guest: name a kernel with --kernel, such as --kernel 6.12")
            }
            None => {
                let setting = run::Setting {
                    executed_on: ExecutedOn::Hardware,
                    settle: false,
                    progress: &|number, of, what| progress::step(&format!("measuring {number}/{of} ({what})")),
                };
                run::execute(request, &setting)
            }
        }
    }
}
