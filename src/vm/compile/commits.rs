//! The commits of a kernel tree between two of them, and what they say and touch.

use super::tree::version_in;
use crate::util::git::git;
use crate::util::usage::UsageError;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The full id.
    pub id: String,
    /// `Name <address>`.
    pub author: String,
    /// The author's date, as `2024-11-17`.
    pub date: String,
    pub subject: String,
    pub is_merge: bool,
    /// The id of its first parent.
    parent: String,
    /// Whether it touches one of the paths that were asked for; true without paths.
    pub is_likely: bool,
}

impl Commit {
    /// As commits are cited: `0123456789ab ("subject")`.
    pub fn cited(&self) -> String {
        format!("{} (\"{}\")", self.short(), self.subject)
    }

    /// Twelve digits of its id.
    pub fn short(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

/// The commits of one line of history.
#[derive(Debug, Clone)]
pub struct Commits {
    tree: PathBuf,
    /// The commit before the first.
    pub before: Commit,
    /// Oldest first.
    pub list: Vec<Commit>,
}

/// What git prints of a commit, a line each.
const FORMAT: &str = "--format=%H%n%P%n%an <%ae>%n%as%n%s";
const LINES: usize = 5;

impl Commits {
    /// The commits after `good` up to `bad`, along first parents, so that each is the one before it with one change: a
    /// commit, or a merge with all that it brings. Those that touch `paths` are likely.
    ///
    /// # Errors
    /// A usage error if the tree is not one of git, one of the two is no commit of it, or `good` is not before `bad`.
    pub fn between(tree: &Path, good: &str, bad: &str, paths: &[String]) -> Result<Self> {
        git(tree, &["rev-parse", "--git-dir"])
            .map_err(|error| UsageError::new(format!("--tree {}: not a tree of git: {error}", tree.display())))?;
        let find = |flag: &str, name: &str| {
            git(tree, &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]).map_err(|_| {
                UsageError::new(format!("{flag} {name}: {} has no such commit: see `git log`", tree.display()))
            })
        };
        let (first, last) = (find("--good", good)?, find("--bad", bad)?);
        let is_ancestor = |first: &str, last: &str| git(tree, &["merge-base", "--is-ancestor", first, last]).is_ok();
        if !is_ancestor(&first, &last) {
            let way_out = if is_ancestor(&last, &first) { "exchange them" } else { "they are of different branches" };
            bail!(UsageError::new(format!("--good {good} is no ancestor of --bad {bad}: {way_out}")));
        }
        let found = Self::list(tree, &first, &last, paths)?;
        if let Some(parent) = found.list.first().map(|commit| &commit.parent)
            && *parent != first
        {
            bail!(UsageError::new(format!(
                "--good {good} is before --bad {bad}, but a merge brought it: give a commit of the line of first parents \
                 (`git log --first-parent {bad}`), such as {parent:.12}"
            )));
        }
        Ok(found)
    }

    fn list(tree: &Path, first: &str, last: &str, paths: &[String]) -> Result<Self> {
        let range = format!("{first}..{last}");
        let log = ["log", "--reverse", "--first-parent"];
        let mut list = read(&git(tree, &[&log[..], &[FORMAT, &range]].concat())?)?;
        if !paths.is_empty() {
            let mut words = [&log[..], &["--format=%H", &range, "--"]].concat();
            words.extend(paths.iter().map(String::as_str));
            let touching = git(tree, &words)?;
            let touching: BTreeSet<&str> = touching.lines().collect();
            list.iter_mut().for_each(|commit| commit.is_likely = touching.contains(commit.id.as_str()));
        }
        Ok(Self { tree: tree.to_owned(), before: one(tree, first)?, list })
    }

    /// The version that the commit before the first states in its Makefile.
    pub fn version(&self) -> Result<String> {
        let text = git(&self.tree, &["show", &format!("{}:Makefile", self.before.id)])?;
        version_in(&text).with_context(|| format!("{}: not a kernel tree", self.tree.display()))
    }

    /// The tree.
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// The commit at a position: 0 is the one before the first.
    pub fn at(&self, position: usize) -> Option<&Commit> {
        position.checked_sub(1).map_or(Some(&self.before), |index| self.list.get(index))
    }

    /// The commits that the merge `commit` brings, from where they left the line; `None` if it is no merge of two.
    pub fn brought_by(&self, commit: &Commit, paths: &[String]) -> Result<Option<Self>> {
        let parents = git(&self.tree, &["log", "-1", "--format=%P", &commit.id])?;
        let [first, second] = parents.split_whitespace().collect::<Vec<_>>()[..] else { return Ok(None) };
        let fork = git(&self.tree, &["merge-base", first, second])?;
        let mut found = Self::list(&self.tree, &fork, second, paths)?;
        let Some(parent) = found.list.first().map(|commit| commit.parent.clone()) else { return Ok(None) };
        // Something was merged into the branch since.
        if parent != fork {
            found.before = one(&self.tree, &parent)?;
        }
        Ok(Some(found))
    }

    /// The functions in whose body or after which `commit` changes lines, as git names them, and the number of files.
    pub fn touched(&self, commit: &Commit) -> Result<(Vec<String>, usize)> {
        let text = git(&self.tree, &["show", "-m", "--first-parent", "--format=", "-U0", "--no-color", &commit.id])?;
        Ok(touched_in(&text))
    }
}

fn one(tree: &Path, commit: &str) -> Result<Commit> {
    read(&git(tree, &["log", "-1", FORMAT, commit])?)?.pop().context("a commit without text")
}

fn read(text: &str) -> Result<Vec<Commit>> {
    let lines: Vec<&str> = text.lines().collect();
    // Each subject is followed by the next commit's id.
    lines
        .chunks(LINES)
        .filter(|chunk| !chunk.iter().all(|line| line.is_empty()))
        .map(|chunk| {
            let [id, parents, author, date, subject] = chunk else { bail!("git log: {text:.80}") };
            Ok(Commit {
                id: (*id).to_owned(),
                author: (*author).to_owned(),
                date: (*date).to_owned(),
                subject: (*subject).to_owned(),
                is_merge: parents.contains(' '),
                parent: parents.split(' ').next().unwrap_or_default().to_owned(),
                is_likely: true,
            })
        })
        .collect()
}

/// The names before the parenthesis in `@@ -1,2 +3,4 @@ static int pipe_write(struct kiocb *iocb, ...`, and those of
/// functions that are added or removed; and the number of files.
fn touched_in(diff: &str) -> (Vec<String>, usize) {
    let mut names: Vec<String> = Vec::new();
    let mut files = 0;
    for line in diff.lines() {
        files += usize::from(line.starts_with("diff --git "));
        let place = match line.strip_prefix("@@ ") {
            Some(rest) => rest.split_once(" @@").map(|(_, place)| place),
            // Definitions begin in the first column, and do not end with a semicolon as declarations do.
            None => line.get(1..).filter(|code| {
                line.starts_with(['+', '-'])
                    && code.starts_with(|c: char| c.is_ascii_alphabetic())
                    && !code.ends_with(';')
            }),
        };
        let Some((before, _)) = place.and_then(|place| place.split_once('(')) else { continue };
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = before.trim_end().rsplit(|c| !is_part(c)).next().unwrap_or_default();
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    (names, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn run(tree: &Path, script: &str) {
        let script = format!("set -e; export GIT_CONFIG_GLOBAL=/dev/null; {script}");
        let done = Command::new("sh").args(["-c", &script]).current_dir(tree).status().unwrap();
        assert!(done.success(), "{script}");
    }

    #[test]
    fn commits_are_listed_along_first_parents_and_inside_merges() {
        let tree = tempfile::tempdir().unwrap();
        run(
            tree.path(),
            "git init -q -b main .; git config user.name A; git config user.email a@b
             c() { echo \"$1\" >>\"${2:-f}\"; git add .; git commit -q -m \"$1\"; }
             c one; c two; git checkout -q -b side; c three g; c four g; git checkout -q main; c five
             git merge -q --no-ff -m 'join' side; c six",
        );
        let commits = |good: &str, bad: &str, paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            Commits::between(tree.path(), good, bad, &paths)
        };
        let subjects = |commits: &Commits| commits.list.iter().map(|c| c.subject.clone()).collect::<Vec<_>>();
        let all = commits("main~3", "main", &[]).unwrap();
        assert_eq!(
            (subjects(&all), all.before.subject.as_str()),
            (vec!["five".into(), "join".into(), "six".into()], "two")
        );
        assert_eq!((all.list[0].is_merge, all.list[1].is_merge), (false, true));
        let inside = all.brought_by(&all.list[1], &[]).unwrap().unwrap();
        assert_eq!((subjects(&inside), inside.before.subject.as_str()), (vec!["three".into(), "four".into()], "two"));
        assert!(all.brought_by(&all.list[0], &[]).unwrap().is_none());
        let of_file = commits("main~3", "main", &["f"]).unwrap();
        let likely: Vec<bool> = of_file.list.iter().map(|commit| commit.is_likely).collect();
        assert_eq!((subjects(&of_file), likely), (subjects(&all), vec![true, false, true]));
        assert_eq!(all.at(0).unwrap().subject, "two");
        assert_eq!(all.list[0].author, "A <a@b>");
        let nowhere = Commits::between(Path::new("/nonexistent"), "a", "b", &[]).unwrap_err().to_string();
        assert!(nowhere.starts_with("--tree /nonexistent: not a tree of git: "), "{nowhere}");
        let why = |good: &str, bad: &str| commits(good, bad, &[]).unwrap_err().to_string();
        assert!(why("main", "main~1").contains("exchange them") && why("x", "main").starts_with("--good x"));
        // `four` is before main, but not on its line.
        assert!(why("side", "main").contains("a merge brought it"), "{}", why("side", "main"));
    }

    #[test]
    fn functions_are_read_from_hunks() {
        let diff = "diff --git a/fs/pipe.c b/fs/pipe.c\n@@ -1 +2,3 @@ static ssize_t\n@@ -9 +9 @@ pipe_write(struct kiocb *iocb)\n\
                    @@ -5 +5 @@ static int pipe_read (int a)\n@@ -7 +7 @@ pipe_write(struct kiocb *iocb)\n+x\n\
                    +static noinline void pipe_fold(struct pipe_buffer *buf)\n+int declared(void);\n+\tcalled(x)\n";
        let (names, files) = touched_in(diff);
        assert_eq!((names.join(" "), files), ("pipe_write pipe_read pipe_fold".to_owned(), 1));
    }
}
