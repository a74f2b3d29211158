//! `pipeprof run`: run a pipe workload on this kernel or in a guest, and show where its kernel time goes.

pub(super) mod run_modes;

use super::choice_arg::{choice, export_format};
use super::guest_args::{GuestArgs, set};
use super::sizing_args::SizingArgs;
use super::stop_args::StopArgs;
use super::workload_args::WorkloadArgs;
use crate::export::{self, ExportFormat, Exported};
use crate::record::contents;
use crate::report;
use crate::report::terminal::Style;
use crate::result::{Collector, CollectorReport, Document, Loader, Outcome, Probe, Selection};
use crate::run::MeasurePair as _;
use crate::run::RunOptions;
use crate::studies::again::outcome;
use crate::studies::given::GivenFlags;
use crate::util::choice::Choice as _;
use crate::util::stored_json::HIGHEST;
use crate::util::streams::write_styled;
use crate::util::text::clean;
use crate::util::usage::{OrUsage as _, UsageError};
use crate::util::{cancel, progress};
use crate::workload::axis::Value;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a pipe workload and show where its kernel time goes
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Collectors to enable: `auto` (all that the kernel allows, without insn), `none`, or a list of
    /// sample,kprobe,fgraph,insn [default: auto]
    #[arg(long, help_heading = "Collectors", value_name = "auto|none|LIST", value_parser = selection)]
    collect: Option<Selection>,
    /// Library that loads the BPF programs [default: libbpf]
    #[arg(long, help_heading = "Collectors", value_parser = choice::<Loader>())]
    loader: Option<Loader>,
    /// Functions that kprobe probes: `roles` (the targets, and one function per role), `targets` (pipe_write,
    /// __alloc_pages, __mutex_lock, iov_iter_get_pages2), `all` (all functions of all roles), or a list of functions
    /// and roles [default: roles]
    #[arg(long, help_heading = "Collectors", value_name = "roles|targets|all|LIST")]
    probe: Option<Probe>,
    /// Number of unprofiled runs, and of profiled runs per collector; with --until, the minimum; with --collect insn,
    /// number of counted windows [default: 20; 6 with --bytes, --duration, --calls, --until or KVM; 3 if emulated; 5 with
    /// --collect insn]
    #[arg(long, help_heading = "Collectors", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    #[command(flatten, next_help_heading = "Collectors")]
    stop: StopArgs,
    #[command(flatten, next_help_heading = "Collectors")]
    sizing: SizingArgs,
    /// Seed of the order of unprofiled and profiled runs [default: 1]
    #[arg(long, help_heading = "Collectors", value_name = "N", value_parser = clap::value_parser!(u64).range(..HIGHEST))]
    seed: Option<u64>,
    /// Uncompressed kernel image (ELF) with symbols for --collect insn, if the kernel has no kallsyms
    #[arg(long, help_heading = "Collectors", value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    /// Weights of the estimated cycles of --collect insn; see docs/cycles.md [default: the model published-1]
    #[arg(long, help_heading = "Collectors", value_name = "FILE")]
    cycle_model: Option<PathBuf>,
    #[command(flatten)]
    guest: GuestArgs,
    /// Run the guest's workload in the root cgroup, where memory is not charged
    #[arg(long, help_heading = "Guest")]
    no_memcg: bool,
    /// Output folder [default: runs/TIME-MODE]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Also write a format of `pipeprof export` into the output folder; repeatable
    #[arg(long, value_name = "FORMAT", value_parser = export_format(), help_heading = "Output")]
    export: Vec<ExportFormat>,
    /// Print result.json on stdout, everything else on stderr
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The axis that is measured with and without.
const WITHOUT_SPLICE: &str = "without-splice";

fn selection(text: &str) -> Result<Selection, String> {
    match text {
        "auto" => Ok(Selection::Auto),
        "none" => Ok(Selection::List(Vec::new())),
        _ => {
            let mut list = Vec::new();
            for name in text.split(',') {
                let collector = Collector::named(name).ok_or_else(|| {
                    let all: Vec<&str> = Collector::those(|_| true).map(Collector::name).collect();
                    format!("unknown collector '{name}'; known: auto, none, or a list of {}", all.join(","))
                })?;
                if !list.contains(&collector) {
                    list.push(collector);
                }
            }
            Ok(Selection::List(list))
        }
    }
}

/// A line for each exported file of `folder`.
fn exports_in(folder: &Path, names: &[String]) -> String {
    names.iter().map(|name| format!("  export {}\n", clean(&folder.join(name).display().to_string()))).collect()
}

/// The options in `text`, the value of `flag`: flags of `pipeprof run`, quoted as in a shell.
pub(super) fn parse_flags(flag: &str, text: &str) -> Result<RunOptions> {
    Ok(given_flags(flag, text)?.options)
}

/// As [`parse_flags`], with what was given.
pub(super) fn given_flags(flag: &str, text: &str) -> Result<GivenFlags> {
    let name = format!("{flag} '{}'", text.trim());
    let words = split(text).with_context(|| name.clone()).or_usage()?;
    given_words(&name, &words)
}

/// The options of these flags of `pipeprof run`, already split; `name` begins errors.
#[cfg(any(test, fuzzing))]
pub(super) fn parse_words(name: &str, words: &[String]) -> Result<RunOptions> {
    Ok(given_words(name, words)?.options)
}

/// The arguments in `words`; `name` begins errors, which are one line.
pub(super) fn parsed<A: Args>(name: &str, words: &[String]) -> Result<A> {
    let command = A::augment_args(clap::Command::new("arguments").no_binary_name(true));
    let matches = command.try_get_matches_from(words);
    let parsed = matches.and_then(|matches| A::from_arg_matches(&matches));
    Ok(parsed.map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or("cannot be parsed").trim_start_matches("error: ");
        UsageError::new(format!("{name}: {line}"))
    })?)
}

fn given_words(name: &str, words: &[String]) -> Result<GivenFlags> {
    let args = parsed::<RunArgs>(name, words)
        .map_err(|error| UsageError::new(format!("{error} (see `pipeprof run --help`)")))?;
    if !args.workload.further_modes.is_empty() {
        bail!(UsageError::new(format!("{name}: --mode is given twice")));
    }
    Ok(GivenFlags { options: args.options(), machine: args.guest.machine.given() })
}

/// Split flags as a shell does, without expansion.
pub(super) fn split(text: &str) -> Result<Vec<String>> {
    shlex::split(text).context("a quote is not closed, or a backslash ends it")
}

impl RunArgs {
    /// Whether standard output is for result.json.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether several modes are to be measured, or with and without splice, which [`run_modes`] does.
    pub(super) fn has_several_modes(&self) -> bool {
        !self.workload.further_modes.is_empty() || self.is_without_splice()
    }

    fn is_without_splice(&self) -> bool {
        self.workload.request.overrides.get(WITHOUT_SPLICE) == Some(&Value::Switch(true))
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        self.measured(&self.options()).map(|(code, _)| code)
    }

    /// Measure `options`, show and store the result as these flags say.
    pub(super) fn measured(&self, options: &RunOptions) -> Result<(ExitCode, Outcome)> {
        cancel::install().context("cannot install signal handlers")?;
        let started = super::now();
        let request = options.request(super::command_line())?;
        // Before measuring: a run is of no use if its results cannot be stored.
        let folder = report::files::Folder::prepare(self.output.as_deref(), &started, &request.mode)?;
        let outcome = outcome(options, &request);
        progress::clear();
        let mut outcome = outcome?;
        let (exports, failed) = export::all(&self.export, &Exported::Result(&outcome));
        let names: Vec<String> = exports.iter().map(|(name, _)| name.clone()).collect();
        let kept = folder.keep(&contents::files(&mut outcome, exports)?);
        let written = kept.written.as_ref();
        let document = &outcome.document;
        let exported = written.map_or_else(String::new, |written| exports_in(&written.folder, &names));
        let render = |style| {
            let mut text = report::terminal::render(document, written, style);
            text.push_str(&exported);
            text
        };
        if self.json {
            util::out!("{}", report::files::to_json(document)?);
            if !progress::is_quiet() {
                util::err!("{}", render(Style::PLAIN));
            }
        } else {
            write_styled(&render(Style::of_stdout()));
        }
        if let Some(problem) = kept.problem {
            return Err(problem);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.check(document)?;
        Ok((ExitCode::SUCCESS, outcome))
    }

    /// Refuse a run that is not what was asked for: wrong bytes, or no profile.
    fn check(&self, document: &Document) -> Result<()> {
        let broken = document.runs.iter().filter(|pair| !pair.processes.reader().verify_errors.is_empty()).count();
        if broken > 0 {
            bail!(
                "--verify: the reader got other bytes than the writer sent, in {broken} of {} runs",
                document.runs.len()
            );
        }
        if let Some(missing) = self.missing(document) {
            bail!("{missing}");
        }
        Ok(())
    }

    /// If collectors were asked for by name, and none of them collected anything: why.
    fn missing(&self, document: &Document) -> Option<String> {
        let Some(Selection::List(wanted)) = &self.collect else { return None };
        let reports: Vec<_> = document.collectors.iter().filter(|report| wanted.contains(&report.name)).collect();
        let nothing = !reports.is_empty() && reports.iter().all(|report| report.samples == 0);
        nothing.then(|| {
            let reason = |report: &&CollectorReport| {
                let reason = report.reason.as_deref().unwrap_or("it collected nothing");
                format!("{}: {reason}", report.name.name())
            };
            format!("--collect {}", reports.iter().map(reason).collect::<Vec<_>>().join("; "))
        })
    }

    pub(super) fn options(&self) -> RunOptions {
        let mut options = RunOptions::default();
        self.apply(&mut options);
        options
    }

    /// Set what was given.
    pub(super) fn apply(&self, options: &mut RunOptions) {
        self.workload.apply(&mut options.workload);
        self.guest.machine.apply(&mut options.machine);
        self.stop.apply(&mut options.stop);
        self.sizing.apply(options);
        set(&mut options.loader, self.loader);
        set(&mut options.seed, self.seed);
        let given = self.guest.kernel.as_ref();
        options.kernel = given.or(options.kernel.as_ref()).cloned();
        options.collect = self.collect.clone().or(options.collect.take());
        options.probe = self.probe.clone().or(options.probe.take());
        options.runs = self.runs.or(options.runs);
        options.vmlinux = self.vmlinux.clone().or(options.vmlinux.take());
        options.cycle_model = self.cycle_model.clone().or(options.cycle_model.take());
        options.memcg &= !self.no_memcg;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::text::quoted;

    #[test]
    fn flags_in_a_text_are_split_as_a_shell_does() {
        let options =
            parse_flags("--variant", "--extra-call-every 100 --append 'psi=0 quiet' --calls 500 --no-memcg").unwrap();
        assert_eq!(options.machine.append, ["psi=0 quiet"]);
        assert_eq!(options.workload.amount, Some(crate::workload::spec::Amount::Calls(500)));
        assert_eq!(options.workload.spec().unwrap().1.extra_call_every, Some(100));
        assert!(!options.memcg && options.collect.is_none() && options.runs.is_none());
        assert_eq!(parse_flags("--variant", "").unwrap(), RunOptions::default(), "no flags, the defaults");
        assert!(split("--append 'x").is_err());
        // As a stored command has them.
        for word in ["head | tr '\\0' x", "it's", "", "a\\b"] {
            assert_eq!(split(&quoted(word)).unwrap(), [word]);
        }
        for (text, says) in
            [("--bufer-size 4K", "--bufer-size"), ("--poll=maybe", "--poll"), ("--pipe-size x", "--pipe-size")]
        {
            let error = parse_flags("--variant", text).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(text) && !error.contains('\n'), "{error}");
        }
    }
}
