//! The flags that make the columns of comparisons.

use super::run::{given_flags, parse_flags};
use super::workload_args::check_distinct;
use crate::compare::plan::{Axes, Variant};
use crate::run::exact;
use crate::workload::WorkloadRequest;
use crate::workload::axis::{Axis, Value};
use anyhow::{Result, bail, ensure};

/// The axes that make columns.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(super) struct AxesArgs {
    /// Kernel to boot: a bzImage, a .deb, or a series or release of `pipeprof kernel list`; 6.12:arm64 for arm64; may be repeated
    #[arg(long, value_name = "PATH|NAME,...", value_delimiter = ',')]
    pub(super) kernel: Vec<String>,
    /// Mode of `pipeprof run`; several are sections of reports and rows of sweeps [default: write]
    #[arg(long, value_name = "MODE,...", value_delimiter = ',')]
    mode: Vec<String>,
    /// Kernel command-line arguments; may be repeated; --append '' adds none
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// Number of CPUs of the guests; several are sections of reports and rows of sweeps [default: 1; in reports of counts,
    /// 1 and 2]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) cpus: Vec<u32>,
    /// QEMU's CPU model, such as max; may be repeated
    #[arg(long, value_name = "MODEL")]
    cpu: Vec<String>,
    /// Charge the guest's memory to a cgroup; may be given twice [default: on]
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    memcg: Vec<bool>,
    /// Other flags of `pipeprof run` as a column; may be repeated: --variant '' --variant '--cpus 2'
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    variant: Vec<String>,
    /// Flags of `pipeprof run` for all columns
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, default_value = "", hide_default_value = true)]
    pub(super) run_flags: String,
}

impl AxesArgs {
    /// The axes as typed values, with those of the `workload`; this is the only place that parses flags in strings.
    pub(super) fn typed(&self, workload: Vec<(&'static Axis, Vec<Value>)>) -> Result<Axes> {
        // First alone, so that an error names the right flag.
        parse_flags("--run-flags", &self.run_flags)?;
        let empty = [String::new()];
        let texts = if self.variant.is_empty() { &empty[..] } else { &self.variant[..] };
        let variants = texts
            .iter()
            .map(|text| {
                let flag = if text.is_empty() { "--run-flags" } else { "--variant" };
                let options = parse_flags(flag, &format!("{text} {}", self.run_flags))?;
                ensure!(options.workload.mode.is_none(), "{flag} contains --mode; give --mode outside of it");
                Ok(Variant { name: text.trim().to_owned(), options })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Axes {
            modes: Vec::new(),
            guest_cpus: Vec::new(),
            kernels: self.kernel.clone(),
            appends: self.append.clone(),
            cpus: self.cpu.clone(),
            memcg: self.memcg.clone(),
            workload,
            variants,
        })
    }

    /// The modes, each given once.
    pub(super) fn modes(&self) -> Result<Vec<String>> {
        check_distinct(&self.mode)?;
        Ok(if self.mode.is_empty() { vec![WorkloadRequest::DEFAULT_MODE.to_owned()] } else { self.mode.clone() })
    }

    /// Whether a mode is given.
    pub(super) fn has_modes(&self) -> bool {
        !self.mode.is_empty()
    }

    /// Whether none is given.
    pub(super) fn is_empty(&self) -> bool {
        let lists = [&self.kernel, &self.mode, &self.append, &self.cpu, &self.variant];
        lists.iter().all(|list| list.is_empty()) && self.cpus.is_empty() && self.memcg.is_empty()
    }

    /// Whether columns have settings that are not in `--run-flags`.
    pub(super) fn has_settings(&self) -> bool {
        let lists = [&self.append, &self.cpu, &self.variant];
        lists.iter().any(|list| !list.is_empty()) || !self.memcg.is_empty()
    }

    /// The numbers of CPUs to measure; empty for those of the columns' options. The verdict on a kernel must not depend
    /// on the number, so counts take both one, on which processes alternate, and two, on which they run at once.
    pub(super) fn cpus(&self, exact: bool) -> Result<Vec<u32>> {
        let mut texts = std::iter::once(("--run-flags", &self.run_flags))
            .chain(self.variant.iter().map(|variant| ("--variant", variant)));
        let in_flags = texts.find_map(|(flag, text)| match given_flags(flag, text) {
            Ok(given) if given.machine.cpus => Some(flag),
            _ => None,
        });
        match (self.cpus.as_slice(), in_flags) {
            ([], Some(_)) => Ok(Vec::new()),
            ([], None) => Ok(if exact { exact::CPUS.to_vec() } else { Vec::new() }),
            (_, Some(flag)) => bail!("--cpus is given twice; remove it from {flag}"),
            ([_, _, ..], None) if !exact => {
                bail!("--cpus can be repeated only if instructions are counted: give it once")
            }
            (cpus, None) => {
                let mut cpus = cpus.to_vec();
                cpus.sort_unstable();
                cpus.dedup();
                Ok(cpus)
            }
        }
    }
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{text}' is not on or off")),
    }
}
