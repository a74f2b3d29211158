//! `pipeprof bisect`: which commits of a kernel tree change the instructions of a pipe.

use super::check_rules::role;
use super::counted_kernels::{CountArgs, CountedKernels, compared};
use super::global;
use super::kernel_build::BuildOfArgs;
use super::stop_args::parse_percent;
use crate::compare::Input;
use crate::compare::render::tables::function_name;
use crate::report::number;
use crate::roles::{self, RoleId, SCHEDULING};
use crate::search::commits::{CommitsReport, FoundCommits, SCHEMA};
use crate::search::effect::{Effect, Threshold, Untestable};
use crate::search::halving::{self, Culprit, Search, SearchLine};
use crate::util::text::counted;
use crate::util::{cancel, progress};
use crate::vm::compile::{BaseName, BuildRequest, Commit, Commits, SourceName};
use crate::vm::store::KernelCache;
use crate::vm::version;
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

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

/// Functions that are named of each commit.
const FUNCTIONS: usize = 6;

impl BisectArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        cancel::install()?;
        let cache = KernelCache::open()?;
        let counted_kernels = self.count.prepare()?;
        let commits = Commits::between(&self.tree, &self.good, &self.bad, &self.paths)?;
        let source = SourceName::Commit { tree: self.tree.clone(), commit: String::new() };
        let mut request = self.of.request(source);
        if request.base == BaseName::OfSeries {
            // One for all commits, whatever version they state.
            request.base = BaseName::Named(version::series_of(&commits.version()?));
        }
        let likely = commits.list.iter().filter(|commit| commit.is_likely).count();
        let all = counted(commits.list.len() as u64, "commit");
        progress::note(&match self.paths.is_empty() {
            true => format!("{all} between the two"),
            false => format!("{all} between the two, {likely} of them touch the given paths"),
        });
        let mut search = CommitSearch {
            args: &self,
            cache: &cache,
            counted: counted_kernels,
            threshold: Threshold::new(self.smallest, self.role),
            untestable: Vec::new(),
            compiler: request.compiler.to_string(),
            request,
        };
        let length = commits.list.len();
        let (found, searched) = search.find(&commits, None, self.probes)?;
        let point = |position: usize| searched.points.get(&position).and_then(Option::as_ref).context("an end");
        let report = CommitsReport {
            schema: SCHEMA,
            good: self.good.clone(),
            bad: self.bad.clone(),
            configuration: search.request.base.to_string(),
            compiler: search.compiler.clone(),
            role: self.role.map(|role| roles::by_id(role).title.to_owned()),
            commits: length,
            counted: search.counted.count,
            untestable: search.untestable.clone(),
            smallest: search.threshold.smallest,
            total: Effect::of(&compared(point(0)?, point(length)?, self.smallest)?),
            found,
        };
        global::print(self.json, &report, || report.text())?;
        Ok(ExitCode::SUCCESS)
    }
}

struct CommitSearch<'a> {
    args: &'a BisectArgs,
    cache: &'a KernelCache,
    /// Of all commits, without the commit.
    request: BuildRequest,
    counted: CountedKernels,
    threshold: Threshold,
    untestable: Vec<Untestable>,
    /// As it states its version, once a commit is built.
    compiler: String,
}

impl CommitSearch<'_> {
    /// Search a line of history, and the merges in it that change something.
    fn find(
        &mut self,
        commits: &Commits,
        merge: Option<&Commit>,
        probes: usize,
    ) -> Result<(Vec<FoundCommits>, Search<Rc<Input>>)> {
        let searched = halving::search(&mut CommitLine { search: self, commits }, probes)?;
        let mut all = Vec::new();
        for culprit in &searched.culprits {
            if let (true, Some(commit)) = (culprit.after - culprit.before == 1, commits.at(culprit.after))
                && commit.is_merge
                && let Some(inside) = commits.brought_by(commit, &self.args.paths)?
            {
                progress::note(&format!("inside the merge {}", commit.cited()));
                // The commit that it leaves from may be one that cannot be built.
                match self.find(&inside, Some(commit), 0) {
                    Ok((found, _)) if !found.is_empty() => {
                        all.extend(found);
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) if cancel::exit_code().is_some() => return Err(error),
                    Err(error) => progress::note(&format!("{}: {error:#}", commit.short())),
                }
            }
            all.push(self.described(commits, *culprit, &searched, merge)?);
        }
        Ok((all, searched))
    }

    fn described(
        &self,
        commits: &Commits,
        culprit: Culprit,
        searched: &Search<Rc<Input>>,
        merge: Option<&Commit>,
    ) -> Result<FoundCommits> {
        let point = |position: usize| searched.points.get(&position).and_then(Option::as_ref).context("an end");
        let comparison = compared(point(culprit.before)?, point(culprit.after)?, self.threshold.smallest)?;
        let list: Vec<&Commit> = (culprit.before + 1..=culprit.after).filter_map(|at| commits.at(at)).collect();
        let mut touched = Vec::new();
        let mut files = 0;
        for commit in &list {
            let (names, of_commit) = commits.touched(commit)?;
            touched.extend(names);
            files += of_commit;
        }
        let step = comparison.sections.first().and_then(|section| section.steps.first());
        let rows = step.map(|step| &step.functions[..]).unwrap_or_default();
        let wanted = |role: RoleId| self.threshold.role.is_none_or(|only| only == role) && !SCHEDULING.contains(&role);
        let rows = rows.iter().filter(|row| wanted(row.role) && row.self_delta != 0.0).take(FUNCTIONS);
        let names: Vec<(String, f64)> = rows.map(|row| (function_name(row), row.self_delta)).collect();
        let is_in = |name: &&String| names.iter().any(|(shown, _)| shown.split(' ').any(|word| word == name.as_str()));
        Ok(FoundCommits {
            ids: list.iter().map(|commit| commit.id.clone()).collect(),
            cited: list.iter().map(|commit| commit.cited()).collect(),
            authors: list.iter().map(|commit| format!("{}, {}", commit.author, commit.date)).collect(),
            merge: merge.map(Commit::cited),
            effects: Effect::of(&comparison),
            changed: touched.iter().filter(is_in).cloned().collect(),
            functions: names.iter().map(|(name, delta)| format!("{name} {}", number::signed(*delta))).collect(),
            diff: (touched.len(), files),
        })
    }

    /// Build and count a commit; `None` if it cannot be.
    fn count(&mut self, commits: &Commits, commit: &Commit) -> Result<Option<Rc<Input>>> {
        let say = |step: &str| progress::detail(|| step.to_owned());
        progress::note(&commit.cited());
        let source = SourceName::Commit { tree: commits.tree().to_owned(), commit: commit.id.clone() };
        let request = BuildRequest { source, ..self.request.clone() };
        let counted = self.counted.built(self.cache, &request, commit.cited(), &say, &mut self.untestable)?;
        Ok(counted.map(|counted| {
            if let Some(record) = &counted.kernel.build {
                self.compiler.clone_from(&record.compiler);
            }
            counted.input
        }))
    }
}

/// A line of history.
struct CommitLine<'a, 'b> {
    search: &'a mut CommitSearch<'b>,
    commits: &'a Commits,
}

impl SearchLine for CommitLine<'_, '_> {
    type Point = Rc<Input>;

    fn items(&self) -> usize {
        self.commits.list.len()
    }

    fn weight(&self, item: usize) -> usize {
        // All others together are not worth more than one that is likely.
        let is_likely = self.commits.list.get(item).is_some_and(|commit| commit.is_likely);
        if is_likely { self.items() } else { 1 }
    }

    fn measure(&mut self, position: usize) -> Result<Option<Rc<Input>>> {
        let commit = self.commits.at(position).context("no such position")?;
        self.search.count(self.commits, commit)
    }

    fn differ(&mut self, before: &Rc<Input>, after: &Rc<Input>) -> Result<bool> {
        let threshold = self.search.threshold;
        Ok(threshold.is_reached(&compared(before, after, threshold.smallest)?))
    }
}
