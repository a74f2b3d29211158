//! What a part may ask for: pairs raced against each other, a sampled profile, an exact one. Results are kept as each
//! ends, so that an interrupted part starts where it was.

use super::Settings;
use crate::document::{ExecutedOn, Outcome, PairRecord, Processes, Request, Status, Warning};
use crate::experiment::{self, JsonFolder, NoStore, OnFailure, Plan, State, Task};
use crate::util::cancel;
use crate::workload::Spec;
use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};

pub use crate::run::bench::{Bench, GuestSetup, Missing, Taken};

pub use super::race::{Contestant, LaneRuns, Raced};

/// A part's access to the bench.
pub struct Lab<'a> {
    pub settings: &'a Settings,
    bench: &'a dyn Bench,
    progress: &'a dyn Fn(&str),
    /// Where results of this part are kept.
    store: JsonFolder,
    /// Whether something failed that may work another time.
    failed: Cell<bool>,
    /// What was not as asked for, and of which contestants.
    remarks: RefCell<Vec<(Warning, Vec<String>)>>,
}

/// What results depend on, apart from what was asked: only those of an equal key are taken over by `--resume`.
#[must_use]
pub fn key(settings: &Settings, bench: &dyn Bench) -> String {
    let setting = bench.setting();
    if setting.is_empty() { settings.key() } else { format!("{}, {setting}", settings.key()) }
}

impl<'a> Lab<'a> {
    #[must_use]
    pub fn new(settings: &'a Settings, bench: &'a dyn Bench, part: &str, progress: &'a dyn Fn(&str)) -> Self {
        let folder = settings.output.join("raw").join(part);
        let store = JsonFolder { folder, key: key(settings, bench), resume: settings.resume };
        Self { settings, bench, progress, store, failed: Cell::new(false), remarks: RefCell::default() }
    }

    /// Whether something failed that may work another time: a program that was not there, a right that was missing.
    /// A resumed reproduction tries it again.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed.get()
    }

    /// Say what is being done.
    pub fn say(&self, what: &str) {
        (self.progress)(what);
    }

    #[must_use]
    pub fn executed_on(&self) -> ExecutedOn {
        self.bench.executed_on()
    }

    /// One pair, nothing attached.
    ///
    /// # Errors
    /// When it cannot run.
    pub fn pair(&self, spec: &Spec) -> Result<Processes> {
        self.bench.pair(spec)
    }

    /// Fresh pairs of every contestant, `rounds` of each, in blocks shuffled by a seed, so that drift of the machine
    /// falls on all alike. One that cannot run is left out of later blocks and says why.
    ///
    /// # Errors
    /// On interruption, or when results cannot be kept.
    pub fn race(&self, name: &str, contestants: &[Contestant], rounds: usize) -> Result<Vec<Raced>> {
        let ids: Vec<&str> = contestants.iter().map(|contestant| contestant.id.as_str()).collect();
        let lanes = self.interleaved(name, contestants.to_vec(), &ids, rounds, &|index| {
            self.bench.pair(&contestants[index].spec)
        })?;
        let executed_on = self.executed_on();
        let raced: Vec<Raced> =
            contestants.iter().zip(lanes).map(|(contestant, lane)| Raced::of(contestant, lane, executed_on)).collect();
        self.remark(&raced);
        Ok(raced)
    }

    /// Note for the part's report where what ran was not what was asked for.
    pub fn remark(&self, raced: &[Raced]) {
        for entry in raced {
            for caveat in entry.caveats() {
                let mut remarks = self.remarks.borrow_mut();
                match remarks.iter_mut().find(|(known, _)| *known == caveat) {
                    Some((_, ids)) => ids.push(entry.id.clone()),
                    None => remarks.push((caveat, vec![entry.id.clone()])),
                }
            }
        }
    }

    /// What [`Self::remark`] noted, in sentences.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let say = |(caveat, ids): &(Warning, Vec<String>)| {
            let action = if caveat.action.is_empty() { String::new() } else { format!(": {}", caveat.action) };
            format!("Not as asked for ({}): {}{action}.", ids.join(", "), caveat.message)
        };
        self.remarks.borrow().iter().map(say).collect()
    }

    /// As [`Self::race`], of whatever `measure` does for the lane of that index; `question` says what that is.
    ///
    /// # Errors
    /// On interruption, or when results cannot be kept.
    pub fn interleaved<Q>(
        &self,
        name: &str,
        question: Q,
        ids: &[&str],
        rounds: usize,
        measure: &dyn Fn(usize) -> Result<Processes>,
    ) -> Result<Vec<LaneRuns>>
    where
        Q: Serialize,
    {
        // A failed lane is run again by a resumed reproduction, and the others with it: side by side is the point.
        let whole = |lanes: &Vec<LaneRuns>| lanes.iter().all(|lane| lane.failed.is_none());
        self.kept_if(name, (question, rounds), whole, || {
            let plan = Plan { on_failure: OnFailure::GiveUp, ..Plan::new(0..ids.len(), rounds, self.settings.seed) };
            let finished = experiment::run(&plan, &|index: &usize, _: Task| measure(*index), &NoStore, &|event| {
                if event.state == State::Running {
                    self.say(&format!("{name}: pair {}: {}", event.progress.next_text(), ids[*event.cell]));
                }
            })?;
            let lanes = finished.lanes(ids.len()).into_iter();
            Ok(lanes.map(|(pairs, failed)| LaneRuns { pairs, failed }).collect())
        })
    }

    /// A run with collectors.
    ///
    /// # Errors
    /// On interruption, or when results cannot be kept.
    pub fn run(&self, name: &str, request: &Request) -> Result<Taken<Outcome>> {
        self.kept_if(name, request.clone(), whole, || {
            self.say(name);
            self.taken(self.bench.run(request), &request.command)
        })
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
        self.kept_if(name, (request.clone(), setup.clone(), kernel), whole, || {
            self.say(&format!("{name} (guest, exact)"));
            self.taken(self.bench.exact(request, setup), &command)
        })
    }

    /// Anything else whose result is worth keeping. What failed is not: a resumed reproduction tries it again.
    ///
    /// # Errors
    /// Those of `work`, or when the result cannot be kept.
    pub fn kept<Q, A>(&self, name: &str, question: Q, work: impl FnOnce() -> Result<Taken<A>>) -> Result<Taken<A>>
    where
        Q: Serialize,
        A: Serialize + DeserializeOwned,
    {
        self.kept_if(name, question, Result::is_ok, work)
    }

    fn kept_if<Q, A>(
        &self,
        name: &str,
        question: Q,
        worth: impl Fn(&A) -> bool,
        work: impl FnOnce() -> Result<A>,
    ) -> Result<A>
    where
        Q: Serialize,
        A: Serialize + DeserializeOwned,
    {
        if let Some(answer) = self.store.load(name, &question).filter(|answer| worth(answer)) {
            return Ok(answer);
        }
        cancel::check()?;
        let answer = work()?;
        if !worth(&answer) {
            // A signal that ended a program which this started is an interruption, not an answer.
            cancel::check()?;
            self.failed.set(true);
            return Ok(answer);
        }
        self.store.save(name, &question, &answer)?;
        Ok(answer)
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

/// Whether every collector that was asked for gave something.
fn whole(taken: &Taken<Outcome>) -> bool {
    let gave = |status: Status| matches!(status, Status::Ok | Status::Partial);
    taken.as_ref().is_ok_and(|outcome| outcome.document.collectors.iter().all(|collector| gave(collector.status)))
}

/// GiB/s of the pairs that a collector watched, or of those alone.
#[must_use]
pub fn speeds(runs: &[PairRecord], watched: bool) -> Vec<f64> {
    runs.iter().filter(|pair| pair.collectors.is_empty() != watched).map(|pair| pair.processes.gib_s()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProcessName;
    use anyhow::bail;

    /// Pairs fail while `broken`; its guests are as `setting` says.
    #[derive(Default)]
    struct Mock {
        pairs: Cell<u64>,
        runs: Cell<u64>,
        broken: Cell<bool>,
        setting: String,
    }

    impl Bench for Mock {
        fn pair(&self, spec: &Spec) -> Result<Processes> {
            self.pairs.set(self.pairs.get() + 1);
            if self.broken.get() && spec.poll {
                bail!("the pipe burst");
            }
            Ok(Processes { window_ns: self.pairs.get(), ..Processes::default() })
        }
        fn run(&self, _: &Request) -> Result<Outcome> {
            self.runs.set(self.runs.get() + 1);
            bail!("no rights")
        }
        fn exact(&self, _: &Request, _: &GuestSetup) -> Result<Outcome> {
            bail!("no guests here")
        }
        fn executed_on(&self) -> ExecutedOn {
            ExecutedOn::Hardware
        }
        fn setting(&self) -> String {
            self.setting.clone()
        }
        fn exact_kernel(&self) -> Taken<String> {
            Err(Missing::new("no kernel", ""))
        }
    }

    fn settings(folder: &std::path::Path) -> Settings {
        Settings { quick: true, output: folder.to_owned(), resume: true, seed: 1, in_guest: None, kernel: None }
    }

    fn contestants() -> [Contestant; 2] {
        [false, true].map(|poll| Contestant { id: poll.to_string(), spec: Spec { poll, ..Spec::default() } })
    }

    #[test]
    fn what_failed_is_tried_again_and_what_did_not_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (settings, bench) = (settings(folder.path()), Mock { broken: Cell::new(true), ..Mock::default() });
        let lab = || Lab::new(&settings, &bench, "part", &|_| {});
        let first = lab();
        let raced = first.race("race", &contestants(), 2).unwrap();
        assert!(first.failed() && raced[1].failed.is_some() && raced[0].pairs.len() == 2);
        bench.broken.set(false);
        let raced = lab().race("race", &contestants(), 2).unwrap();
        assert!(raced.iter().all(|raced| raced.failed.is_none() && raced.pairs.len() == 2));
        let pairs = bench.pairs.get();
        assert_eq!(lab().race("race", &contestants(), 2).unwrap(), raced);
        assert_eq!(bench.pairs.get(), pairs);

        let kept = |answer: Taken<u8>| lab().kept("other", 7, || Ok(answer)).unwrap();
        assert_eq!(kept(Err(Missing::new("signal: 2", ""))), Err(Missing::new("signal: 2", "")));
        assert_eq!(kept(Ok(1)), Ok(1));
        assert_eq!(kept(Ok(2)), Ok(1), "kept");
    }

    #[test]
    fn what_was_not_as_asked_for_is_said_and_missing_huge_pages_are_no_figure() {
        use crate::document::GotAsked;
        let folder = tempfile::tempdir().unwrap();
        let (settings, bench) = (settings(folder.path()), Mock::default());
        let lab = Lab::new(&settings, &bench, "part", &|_| {});
        let mut pair = Processes { window_ns: 1, ..Processes::default() };
        pair.of_mut(ProcessName::WRITER).pipe_size = 8192;
        let contestant = |id: &str| Contestant { id: id.into(), spec: Spec::default() };
        let of = |id, pair: &Processes| {
            Raced::of(&contestant(id), LaneRuns { pairs: vec![pair.clone(); 3], failed: None }, ExecutedOn::Hardware)
        };
        let small = of("a", &pair);
        assert!(small.speed().unwrap().how.ends_with("3 fresh pairs, but the pipe held 8K instead of 64K"));
        lab.remark(&[small.clone(), of("b", &pair)]);
        let remarks = lab.remarks();
        assert!(remarks.len() == 1 && remarks[0].contains("(a, b): the pipe held 8K"), "{remarks:?}");
        pair.of_mut(ProcessName::WRITER).huge_pages = Some(GotAsked { got: 0, asked: 2 << 20 });
        let missing = of("c", &pair).speed().unwrap_err();
        assert!(missing.why.contains("0 of 2M in huge pages"), "{}", missing.why);
    }

    #[test]
    fn a_run_that_failed_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (settings, bench) = (settings(folder.path()), Mock::default());
        let request = crate::run::bench::request("r", &Spec::default(), Vec::new(), 1);
        for runs in [1, 2] {
            let lab = Lab::new(&settings, &bench, "part", &|_| {});
            assert!(lab.run("profile", &request).unwrap().is_err());
            assert_eq!((lab.failed(), bench.runs.get()), (true, runs));
        }
    }

    #[test]
    fn results_of_other_settings_guests_and_builds_are_not_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let plain = settings(folder.path());
        let race = |settings: &Settings, setting: &str| {
            let bench = Mock { setting: setting.to_owned(), ..Mock::default() };
            Lab::new(settings, &bench, "part", &|_| {}).race("race", &contestants(), 1).unwrap();
            bench.pairs.get()
        };
        assert_eq!((race(&plain, ""), race(&plain, "")), (2, 0));
        let guest = Settings { in_guest: Some("6.1".into()), ..plain.clone() };
        assert_eq!((race(&guest, ""), race(&guest, "")), (2, 0));
        assert_eq!((race(&guest, "2 CPUs"), race(&Settings { seed: 2, ..plain.clone() }, "")), (2, 2));
        assert_eq!((race(&plain, ""), race(&plain, "")), (2, 0));
        let path = folder.path().join("raw/part/race.json");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen(crate::util::build::version(), "0.0.1", 1)).unwrap();
        assert_eq!(race(&plain, ""), 2);
    }
}
