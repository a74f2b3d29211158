//! `pipeprof kernel options`: which options of two configurations change the instructions of a pipe.

use super::count_args::CountArgs;
use super::global;
use super::stop_args::parse_percent;
use crate::report::terminal::Style;
use crate::studies::options::OptionsSearch;
use crate::vm::compile::{CompilerName, SourceName};
use crate::vm::store::KernelCache;
use anyhow::Result;
use clap::Args;

/// Find the options of two configurations that change the instructions of a pipe, by building and counting
///
/// One source is built with configurations between the two. Each range of options that changes the counts is halved, until
/// single options are left; each of these is then built alone. Each option that is found takes about three builds.
#[derive(Debug, Args)]
pub(crate) struct OptionsArgs {
    /// Configuration: a file, or a kernel of `pipeprof kernel list`
    #[arg(value_name = "FILE|KERNEL")]
    before: String,
    /// The other configuration
    #[arg(value_name = "FILE|KERNEL")]
    after: String,
    /// Source to build, as of `pipeprof kernel build` [default: that of the second kernel]
    #[arg(long, value_name = "SOURCE")]
    source: Option<SourceName>,
    /// Compiler, as of `pipeprof kernel build` [default: that of the first kernel, or gcc]
    #[arg(long, value_name = "COMPILER")]
    cc: Option<CompilerName>,
    /// Smallest change to find, at least 0.17 %, in percent of all instructions without scheduling; also for a single role
    #[arg(long, value_name = "PERCENT", default_value = "0.3%", value_parser = parse_percent)]
    smallest: f64,
    #[command(flatten)]
    count: CountArgs,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The default of `--smallest`, as a part of the whole.
const SMALLEST: f64 = 0.003;

impl OptionsArgs {
    /// The options between two kernels that are compared.
    pub(super) fn between([before, after]: [String; 2], count: CountArgs) -> Self {
        Self { before, after, source: None, cc: None, smallest: SMALLEST, count, json: false }
    }

    pub(super) fn run(self, cache: &KernelCache) -> Result<()> {
        let counted = self.count.prepare()?;
        let Self { before, after, source, cc, smallest, .. } = self;
        let report = OptionsSearch { before, after, source, cc, smallest }.find(cache, counted)?;
        global::print(self.json, &report, || report.text(Style::of_stdout()))
    }
}
