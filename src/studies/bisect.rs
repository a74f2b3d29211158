//! Which commits of a kernel tree change the instructions of a pipe.

use super::counted::CountedKernels;
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
use std::path::PathBuf;
use std::rc::Rc;

/// The commits that are searched, and how.
#[derive(Debug)]
pub struct Bisection {
    /// Kernel tree, with git.
    pub tree: PathBuf,
    pub good: String,
    pub bad: String,
    /// Only its instructions are looked at.
    pub role: Option<RoleId>,
    /// Commits that touch these files or folders come first.
    pub paths: Vec<String>,
    /// The smallest change to find, as a part of the whole.
    pub smallest: f64,
    /// So many commits at equal distances are counted first.
    pub probes: usize,
    /// The build of a commit, whichever.
    pub request: BuildRequest,
}

/// Functions that are named of each commit.
const FUNCTIONS: usize = 6;

impl Bisection {
    /// Find the commits that change the instructions.
    pub fn find(&self, cache: &KernelCache, counted_kernels: CountedKernels) -> Result<CommitsReport> {
        let commits = Commits::between(&self.tree, &self.good, &self.bad, &self.paths)?;
        let mut request = self.request.clone();
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
            asked: self,
            cache,
            counted: counted_kernels,
            threshold: Threshold::new(self.smallest, self.role),
            untestable: Vec::new(),
            compiler: request.compiler.to_string(),
            request,
        };
        let length = commits.list.len();
        let (found, searched) = search.find(&commits, None, self.probes)?;
        let point = |position: usize| searched.points.get(&position).and_then(Option::as_ref).context("an end");
        Ok(CommitsReport {
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
            total: Effect::of(&search.counted.compared(point(0)?, point(length)?, self.smallest)?),
            found,
        })
    }
}

struct CommitSearch<'a> {
    asked: &'a Bisection,
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
                && let Some(inside) = commits.brought_by(commit, &self.asked.paths)?
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
        let comparison =
            self.counted.compared(point(culprit.before)?, point(culprit.after)?, self.threshold.smallest)?;
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
        Ok(threshold.is_reached(&self.search.counted.compared(before, after, threshold.smallest)?))
    }
}
