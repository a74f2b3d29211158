//! `pipeprof bisect`: which commits of a kernel tree change the instructions of a pipe.

use super::check_rules::role;
use super::count_args::CountArgs;
use super::global;
use super::kernel_build::BuildOfArgs;
use super::stop_args::parse_percent;
use crate::roles::RoleId;
use crate::studies::bisect::Bisection;
use crate::util::cancel;
use crate::vm::compile::SourceName;
use crate::vm::store::KernelCache;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Find the commits of a kernel tree that change the instructions of a pipe
///
/// Commits are built with one configuration and one compiler, booted in a guest, and their instructions are counted. Each
/// range of commits that changes the counts is halved, until single commits are left, so one search finds several. If a merge
/// changes them, its own commits are searched. The tree that you work in is not touched. Built kernels stay in the cache, so
/// the same search builds nothing.
#[derive(Debug, Args)]
pub(crate) struct BisectArgs {
    /// Kernel tree, with git
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// Commit or tag before the change
    #[arg(long, value_name = "COMMIT")]
    good: String,
    /// Commit or tag after it
    #[arg(long, value_name = "COMMIT")]
    bad: String,
    /// Look at the instructions of this role alone, such as page-alloc
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<RoleId>,
    /// Search first among the commits that touch this file or folder of the tree; repeatable
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<String>,
    #[command(flatten)]
    of: BuildOfArgs,
    /// Smallest change to find, at least 0.17 %, in percent of all instructions without scheduling; with --role, of that
    /// role
    #[arg(long, value_name = "PERCENT", default_value = "0.3%", value_parser = parse_percent)]
    smallest: f64,
    /// Count this number of commits at equal distances first: finds commits that others undo
    #[arg(long, value_name = "N", default_value_t = 0)]
    probes: usize,
    #[command(flatten)]
    count: CountArgs,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl BisectArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install()?;
        let cache = KernelCache::open()?;
        let counted = self.count.prepare()?;
        let source = SourceName::Commit { tree: self.tree.clone(), commit: String::new() };
        let bisection = Bisection {
            request: self.of.request(source),
            tree: self.tree,
            good: self.good,
            bad: self.bad,
            role: self.role,
            paths: self.paths,
            smallest: self.smallest,
            probes: self.probes,
        };
        let report = bisection.find(&cache, counted)?;
        global::print(self.json, &report, || report.text())?;
        Ok(ExitCode::SUCCESS)
    }
}
