//! Store results as soon as they are finished, and read them to resume.

use super::plan::Task;
use crate::util::folder_lock::FolderLock;
use crate::util::{atomic_file, build, regular, stored_json};
use anyhow::{Context as _, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The longest plan or result that is read, bytes.
const LONGEST: u64 = 1 << 28;

/// Stores results. Failures are not stored: a resumed experiment repeats them.
pub trait Store<C, R> {
    /// The result of an earlier call with the same cell, plan and build; `None` if it must be measured.
    fn kept(&self, cell: &C, task: Task) -> Option<R>;

    /// Store `result` atomically. Returns it as a later call would read it.
    fn keep(&self, cell: &C, task: Task, result: R) -> Result<R>;
}

/// Stores nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStore;

impl<C, R> Store<C, R> for NoStore {
    fn kept(&self, _: &C, _: Task) -> Option<R> {
        None
    }

    fn keep(&self, _: &C, _: Task, result: R) -> Result<R> {
        Ok(result)
    }
}

/// The plan that an experiment keeps in its folder, so that a resumed call can be compared with it.
#[derive(Debug, Clone, Copy)]
pub struct PlanFile {
    /// Its name.
    pub name: &'static str,
    /// Its `schema`.
    pub schema: &'static str,
    /// The folder of results inside the experiment's.
    pub results: &'static str,
    /// Name of the experiment: `comparison`.
    pub what: &'static str,
}

impl PlanFile {
    /// Create the folder for `plan`, or resume one with the same plan. No other process writes into it until the lock is
    /// dropped.
    ///
    /// # Errors
    /// When the folder exists without `resume`, contains another plan, or is in use.
    pub fn open(self, folder: &Path, plan: &impl Serialize, resume: bool) -> Result<FolderLock> {
        let file = folder.join(self.name);
        let shown = file.display();
        let plan = stored_json::json_text(plan)?;
        let now: Value = stored_json::parse(plan.as_bytes()).context("the plan cannot be stored")?;
        if resume {
            let text = regular::read_stored(&file, LONGEST).with_context(|| {
                format!("--resume: cannot read {shown}: is -o the folder of an interrupted {}?", self.what)
            })?;
            let stored: Value = stored_json::parse(&text).with_context(|| {
                format!("--resume: {shown} is not a plan of this pipeprof: start again without --resume")
            })?;
            let schema = stored["schema"].as_str().unwrap_or("unknown");
            ensure!(
                schema == self.schema,
                "--resume: {shown} has schema {schema}, this pipeprof writes {}: start again without --resume",
                self.schema
            );
            if let Some(what) = difference(&stored, &now) {
                let folder = folder.display();
                bail!("--resume: the plan in {folder} differs ({what}); give the same flags, or another -o");
            }
            return FolderLock::take(folder);
        }
        if !is_unused(folder) {
            let hint = if file.exists() { "continue with --resume, " } else { "" };
            bail!(
                "the report folder {} exists and is not empty: {hint}choose another with -o, or remove it",
                folder.display()
            );
        }
        make(folder)?;
        let lock = FolderLock::take(folder)?;
        // First: a folder without a plan cannot be resumed, and is not refused as long as it is empty.
        atomic_file::write(&file, plan.as_bytes())?;
        make(&folder.join(self.results))?;
        Ok(lock)
    }
}

/// The first place in which two plans differ: `columns 2, image`.
fn difference(stored: &Value, now: &Value) -> Option<String> {
    let inside = |name: String, (stored, now): (Option<&Value>, Option<&Value>)| {
        let null = Value::Null;
        let inner = difference(stored.unwrap_or(&null), now.unwrap_or(&null))?;
        Some(if inner.is_empty() { name } else { format!("{name}, {inner}") })
    };
    match (stored, now) {
        (Value::Object(stored), Value::Object(now)) => {
            let names: BTreeSet<&String> = stored.keys().chain(now.keys()).collect();
            names.into_iter().find_map(|name| inside(name.replace('_', " "), (stored.get(name), now.get(name))))
        }
        (Value::Array(stored), Value::Array(now)) => {
            let all = 0..stored.len().max(now.len());
            all.into_iter().find_map(|at| inside((at + 1).to_string(), (stored.get(at), now.get(at))))
        }
        _ => (stored != now).then(String::new),
    }
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}: choose another with -o", folder.display()))
}

/// Whether nothing is in `folder`, or only files that were not complete when their writer was killed.
fn is_unused(folder: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(folder) else { return true };
    entries.all(|entry| {
        entry.is_ok_and(|entry| entry.file_name().as_encoded_bytes().starts_with(atomic_file::PREFIX.as_bytes()))
    })
}

/// One JSON file per result, each with its question.
#[derive(Debug, Clone)]
pub struct JsonFolder {
    pub folder: PathBuf,
    /// Everything else that results depend on. Only results with an equal key are reused.
    pub key: String,
    /// Whether results of earlier calls are reused.
    pub resume: bool,
}

#[derive(Serialize, Deserialize)]
struct Kept<A> {
    /// pipeprof's build; another build may give other results.
    version: String,
    key: String,
    question: Value,
    answer: A,
}

impl JsonFolder {
    /// The answer to `question` stored as `name` by an earlier call of this build.
    pub fn load<A: DeserializeOwned>(&self, name: &str, question: &impl Serialize) -> Option<A> {
        if !self.resume {
            return None;
        }
        // An unreadable file is replaced.
        let text = regular::read_stored(&self.file(name), LONGEST).ok()?;
        let kept: Kept<A> = stored_json::parse(&text).ok()?;
        let same = kept.version == build::version() && kept.key == self.key;
        (same && kept.question == serde_json::to_value(question).ok()?).then_some(kept.answer)
    }

    /// Store the `answer` to `question` as `name`.
    ///
    /// # Errors
    /// Names the folder or file.
    pub fn save<A>(&self, name: &str, question: &impl Serialize, answer: &A) -> Result<()>
    where
        A: Serialize + DeserializeOwned,
    {
        make(&self.folder)?;
        let question = serde_json::to_value(question)?;
        let kept = Kept { version: build::version().to_owned(), key: self.key.clone(), question, answer };
        // What cannot be read would be measured again by each resumed call.
        let text = stored_json::stored_text_as::<Kept<A>>(&kept);
        let text = text.with_context(|| format!("the result {name} cannot be stored"))?;
        atomic_file::write(&self.file(name), text.as_bytes())
    }

    fn file(&self, name: &str) -> PathBuf {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.join(format!("{name}.json"))
    }
}

/// As the store of an experiment: `LANE-BLOCK.json`, counted from 1.
impl<C, R> Store<C, R> for JsonFolder
where
    C: Serialize,
    R: Serialize + DeserializeOwned,
{
    fn kept(&self, cell: &C, task: Task) -> Option<R> {
        self.load(&task.name(), cell)
    }

    fn keep(&self, cell: &C, task: Task, result: R) -> Result<R> {
        self.save(&task.name(), cell, &result)?;
        Ok(result)
    }
}
