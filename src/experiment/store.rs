//! Where results are kept as they end, and what a resumed experiment takes over.

use super::plan::Task;
use crate::util::{atomic_file, build};
use anyhow::{Context as _, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Keeps results. What failed is not kept: a resumed experiment tries it again.
pub trait Store<C, R> {
    /// The result of an earlier call for the same cell, plan and build; `None` where it has to be measured.
    fn kept(&self, cell: &C, task: Task) -> Option<R>;

    /// Keep `result`, whole or not at all, and hand it back as a later call would get it.
    ///
    /// # Errors
    /// When it cannot be written.
    fn keep(&self, cell: &C, task: Task, result: R) -> Result<R>;
}

/// Keeps nothing.
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

/// A plan that stands in a file of the experiment's folder, so that a resumed call can be seen to ask for the same.
pub trait StoredPlan: Serialize + DeserializeOwned {
    /// The file's name.
    const FILE: &'static str;
    /// The folder of results inside the experiment's.
    const RESULTS: &'static str;
    /// The `schema` of the file.
    const SCHEMA: &'static str;
    /// What the command makes: `comparison`.
    const WHAT: &'static str;

    /// How `now` differs from this plan, in words; `None` where it does not.
    fn difference(&self, now: &Self) -> Option<&'static str>;
}

/// What every plan has, of whatever form.
#[derive(Deserialize)]
struct SchemaOnly {
    schema: String,
}

/// Make the folder for `plan`, or go on with one that holds the same plan.
///
/// # Errors
/// A folder that exists and is not to be resumed, or that holds another plan.
pub fn open<P: StoredPlan>(folder: &Path, plan: &P, resume: bool) -> Result<()> {
    let file = folder.join(P::FILE);
    if resume {
        let text = std::fs::read(&file).with_context(|| {
            format!("--resume: cannot read {}: is -o the folder of an interrupted {}?", file.display(), P::WHAT)
        })?;
        // First, since a plan of another form cannot be read any further.
        let schema = serde_json::from_slice(&text).map_or_else(|_| String::new(), |stored: SchemaOnly| stored.schema);
        ensure!(
            schema.is_empty() || schema == P::SCHEMA,
            "--resume: {} has schema {schema}, this pipeprof writes {}: start again without --resume",
            file.display(),
            P::SCHEMA
        );
        let stored: P = serde_json::from_slice(&text).with_context(|| {
            format!("--resume: {} is not a plan of this pipeprof: start again without --resume", file.display())
        })?;
        if let Some(what) = stored.difference(plan) {
            bail!("--resume: {} has another plan ({what}): give the same flags, or another -o", folder.display());
        }
    } else {
        if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            let hint = if file.exists() { "go on with it by --resume, " } else { "" };
            bail!(
                "the report folder {} exists and is not empty: {hint}choose another with -o, or remove it",
                folder.display()
            );
        }
        std::fs::create_dir_all(folder.join(P::RESULTS))
            .with_context(|| format!("cannot make the folder {}: choose another with -o", folder.display()))?;
        atomic_file::write(&file, &serde_json::to_vec_pretty(plan)?)?;
    }
    Ok(())
}

/// One JSON file per result, each with the question that it answers.
#[derive(Debug, Clone)]
pub struct JsonFolder {
    pub folder: PathBuf,
    /// What results depend on apart from the question: only those with an equal key are taken over.
    pub key: String,
    /// Whether results of earlier calls are taken over.
    pub resume: bool,
}

#[derive(Serialize, Deserialize)]
struct Kept<A> {
    /// pipeprof's: another build may measure otherwise.
    version: String,
    key: String,
    question: serde_json::Value,
    answer: A,
}

impl JsonFolder {
    /// The answer to `question` that an earlier call of this build kept under `name`.
    pub fn load<A: DeserializeOwned>(&self, name: &str, question: &impl Serialize) -> Option<A> {
        if !self.resume {
            return None;
        }
        // A file that cannot be read is made anew: it is only there to save time.
        let text = std::fs::read(self.file(name)).ok()?;
        let kept: Kept<A> = serde_json::from_slice(&text).ok()?;
        let same = kept.version == build::version() && kept.key == self.key;
        (same && kept.question == serde_json::to_value(question).ok()?).then_some(kept.answer)
    }

    /// Keep the `answer` to `question` under `name`.
    ///
    /// # Errors
    /// Names the folder or file.
    pub fn save(&self, name: &str, question: &impl Serialize, answer: &impl Serialize) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder {}: choose another with -o", self.folder.display()))?;
        let question = serde_json::to_value(question)?;
        let kept = Kept { version: build::version().to_owned(), key: self.key.clone(), question, answer };
        atomic_file::write(&self.file(name), serde_json::to_string(&kept)?.as_bytes())
    }

    fn file(&self, name: &str) -> PathBuf {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.join(format!("{name}.json"))
    }
}

/// The store of an experiment as a [`JsonFolder`]: `LANE-BLOCK.json`, counted from 1.
#[derive(Debug, Clone)]
pub struct Json(pub JsonFolder);

impl Json {
    fn name(task: Task) -> String {
        format!("{:04}-{}", task.lane + 1, task.block + 1)
    }
}

impl<C, R> Store<C, R> for Json
where
    C: Serialize,
    R: Serialize + DeserializeOwned,
{
    fn kept(&self, cell: &C, task: Task) -> Option<R> {
        self.0.load(&Self::name(task), cell)
    }

    fn keep(&self, cell: &C, task: Task, result: R) -> Result<R> {
        self.0.save(&Self::name(task), cell, &result)?;
        Ok(result)
    }
}
