//! What a part may ask for: pairs raced against each other, a sampled profile, an exact one. Results are kept as each
//! ends, so that an interrupted part starts where it was.

use super::Settings;
use super::verdict::{Missing, Reading};
use crate::document::{ExecutedOn, Outcome, PairRecord, Processes, Request};
use crate::util::{atomic_file, cancel};
use crate::workload::Spec;
use anyhow::{Context as _, Result};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A result, or why there is none here and how to get it elsewhere.
pub type Taken<T> = Result<T, Missing>;

/// How guests of exact profiles differ from the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSetup {
    pub cpus: Option<u32>,
    pub cpu: Option<String>,
    pub append: Vec<String>,
}

/// What measures. Tests put something else in its place.
pub trait Bench {
    /// One pair, nothing attached.
    ///
    /// # Errors
    /// When it cannot run.
    fn pair(&self, spec: &Spec) -> Result<Processes>;

    /// A whole run with collectors.
    ///
    /// # Errors
    /// When it cannot run.
    fn run(&self, request: &Request) -> Result<Outcome>;

    /// An exact profile in a guest.
    ///
    /// # Errors
    /// When it cannot run.
    fn exact(&self, request: &Request, setup: &GuestSetup) -> Result<Outcome>;

    /// What executes pairs and runs.
    fn executed_on(&self) -> ExecutedOn;

    /// The guest kernel of exact profiles, as it was named; `None` where there is none, with the reason.
    ///
    /// # Errors
    /// Why there is none.
    fn exact_kernel(&self) -> Taken<String>;
}

/// A part's access to the bench.
pub struct Lab<'a> {
    pub settings: &'a Settings,
    bench: &'a dyn Bench,
    progress: &'a dyn Fn(&str),
    /// Where results of this part are kept.
    folder: PathBuf,
}

/// One contestant of a race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contestant {
    pub id: String,
    pub spec: Spec,
}

/// What a contestant did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Raced {
    pub id: String,
    pub spec: Spec,
    pub pairs: Vec<Processes>,
    pub executed_on: ExecutedOn,
    /// Why it could not run.
    pub failed: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Kept<Q, A> {
    question: Q,
    answer: A,
}

impl<'a> Lab<'a> {
    #[must_use]
    pub fn new(settings: &'a Settings, bench: &'a dyn Bench, part: &str, progress: &'a dyn Fn(&str)) -> Self {
        Self { settings, bench, progress, folder: settings.output.join("raw").join(part) }
    }

    /// Say what is being done.
    pub fn say(&self, what: &str) {
        (self.progress)(what);
    }

    #[must_use]
    pub fn executed_on(&self) -> ExecutedOn {
        self.bench.executed_on()
    }

    /// Fresh pairs of every contestant, `rounds` of each, in blocks shuffled by a seed, so that drift of the machine
    /// falls on all alike. One that cannot run is left out of later blocks and says why.
    ///
    /// # Errors
    /// On interruption, or when results cannot be kept.
    pub fn race(&self, name: &str, contestants: &[Contestant], rounds: usize) -> Result<Vec<Raced>> {
        self.kept(name, (contestants.to_vec(), rounds), || {
            let mut raced: Vec<Raced> = contestants
                .iter()
                .map(|contestant| Raced {
                    id: contestant.id.clone(),
                    spec: contestant.spec.clone(),
                    pairs: Vec::new(),
                    executed_on: self.executed_on(),
                    failed: None,
                })
                .collect();
            let mut random = SmallRng::seed_from_u64(self.settings.seed);
            for round in 0..rounds {
                let mut order: Vec<usize> = (0..raced.len()).collect();
                order.shuffle(&mut random);
                for (done, index) in order.into_iter().enumerate() {
                    cancel::check()?;
                    let contestant = &mut raced[index];
                    if contestant.failed.is_some() {
                        continue;
                    }
                    let step = round * contestants.len() + done + 1;
                    self.say(&format!("{name}: pair {step} of {}: {}", rounds * contestants.len(), contestant.id));
                    match self.bench.pair(&contestant.spec) {
                        Ok(processes) => contestant.pairs.push(processes),
                        Err(error) => {
                            cancel::check()?;
                            contestant.failed = Some(format!("{error:#}"));
                        }
                    }
                }
            }
            Ok(raced)
        })
    }

    /// A run with collectors.
    ///
    /// # Errors
    /// On interruption, or when results cannot be kept.
    pub fn run(&self, name: &str, request: &Request) -> Result<Taken<Outcome>> {
        let taken = self.kept(name, request.clone(), || {
            self.say(name);
            self.taken(self.bench.run(request), &request.command)
        })?;
        Ok(self.only_success(name, taken))
    }

    /// An exact profile of `request` in a guest.
    ///
    /// # Errors
    /// On interruption, or when results cannot be kept.
    pub fn exact(&self, name: &str, request: &Request, setup: &GuestSetup) -> Result<Taken<Outcome>> {
        let kernel = match self.bench.exact_kernel() {
            Ok(kernel) => kernel,
            Err(missing) => return Ok(Err(missing)),
        };
        let mut command = format!("{} --kernel {kernel}", request.command);
        for (flag, value) in [("--cpus", setup.cpus.map(|cpus| cpus.to_string())), ("--cpu", setup.cpu.clone())] {
            command.extend(value.map(|value| format!(" {flag} {value}")));
        }
        command.extend(setup.append.iter().map(|argument| format!(" --append {argument}")));
        let taken = self.kept(name, (request.clone(), setup.clone(), kernel), || {
            self.say(&format!("{name} (guest, exact)"));
            self.taken(self.bench.exact(request, setup), &command)
        })?;
        Ok(self.only_success(name, taken))
    }

    /// Anything else whose result is worth keeping.
    ///
    /// # Errors
    /// Those of `work`, or when the result cannot be kept.
    pub fn kept<Q, A>(&self, name: &str, question: Q, work: impl FnOnce() -> Result<A>) -> Result<A>
    where
        Q: Serialize + DeserializeOwned + PartialEq,
        A: Serialize + DeserializeOwned,
    {
        let path = self.file(name);
        // A file that cannot be read is made anew: it is only there to save time.
        if self.settings.resume
            && let Ok(text) = std::fs::read(&path)
            && let Ok(kept) = serde_json::from_slice::<Kept<Q, A>>(&text)
            && kept.question == question
        {
            return Ok(kept.answer);
        }
        cancel::check()?;
        let answer = work()?;
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder {}: choose another with -o", self.folder.display()))?;
        let kept = Kept { question, answer };
        atomic_file::write(&path, serde_json::to_string(&kept)?.as_bytes())?;
        Ok(kept.answer)
    }

    fn file(&self, name: &str) -> PathBuf {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.join(format!("{name}.json"))
    }

    /// What failed is tried again by a resumed reproduction.
    fn only_success<T>(&self, name: &str, taken: Taken<T>) -> Taken<T> {
        if taken.is_err() {
            // An error means that it is not there.
            let _ = std::fs::remove_file(self.file(name));
        }
        taken
    }

    fn taken<T>(&self, result: Result<T>, command: &str) -> Result<Taken<T>> {
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(error) => {
                cancel::check()?;
                // A guest's last lines are for the terminal, not for a table.
                let text = format!("{error:#}");
                let line = text.lines().next().unwrap_or_default().trim_end_matches([':', ';']);
                let line = line.strip_suffix("; its last lines").unwrap_or(line);
                Ok(Err(Missing::new(line, command)))
            }
        }
    }
}

impl Raced {
    /// GiB/s at the reader.
    ///
    /// # Errors
    /// Why there is none here, and how to get one.
    pub fn speed(&self) -> Taken<Reading> {
        self.reading("GiB/s", "", |pair| Some(pair.gib_s()))
    }

    /// A reading of something that takes time.
    ///
    /// # Errors
    /// Why there is none here, and how to get one.
    pub fn reading(&self, unit: &str, what: &str, of: impl Fn(&Processes) -> Option<f64>) -> Taken<Reading> {
        let command = super::commands::run(&self.spec, "--runs 9 --collect none");
        if let Some(why) = &self.failed {
            return Err(Missing::new(why.clone(), command));
        }
        if self.executed_on == ExecutedOn::Tcg {
            return Err(Missing::new("emulated: its clock says nothing about speed", command));
        }
        let runs: Vec<f64> = self.pairs.iter().filter_map(of).collect();
        let comma = if what.is_empty() { "" } else { ", " };
        let how = format!("median of {} fresh pairs{comma}{what}", runs.len());
        Reading::median(runs, unit, self.executed_on, &how).ok_or_else(|| Missing::new("no pair ran", command))
    }

    /// The pair of the median speed.
    #[must_use]
    pub fn typical(&self) -> Option<&Processes> {
        let mut pairs: Vec<&Processes> = self.pairs.iter().collect();
        pairs.sort_by(|a, b| a.gib_s().total_cmp(&b.gib_s()));
        pairs.get(pairs.len().saturating_sub(1) / 2).copied()
    }
}

/// GiB/s of the pairs that a collector watched, or of those alone.
#[must_use]
pub fn speeds(runs: &[PairRecord], watched: bool) -> Vec<f64> {
    runs.iter().filter(|pair| pair.collectors.is_empty() != watched).map(|pair| pair.processes.gib_s()).collect()
}
