//! What a part may ask for: races, sampled profiles, exact counts. Each result is stored as it ends, so that an
//! interrupted part continues where it was.

use super::settings::Settings;
use crate::experiment::{self, JsonFolder, OnFailure, Plan, State, Task};
use crate::result::{ExecutedOn, Outcome, PairRecord, Processes, Request, Status, Warning};
use crate::util::cancel;
use crate::vm::NoAnswer;
use crate::workload::Spec;
use anyhow::{Context as _, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};

pub(crate) use super::race::{Contestant, Race, Raced};
pub(crate) use crate::run::bench::{Bench, GuestSetup, Missing, Taken};

/// A part's access to the bench.
pub struct Lab<'a> {
    pub settings: &'a Settings,
    bench: &'a dyn Bench,
    progress: &'a dyn Fn(&str),
    /// Where results of this part are stored.
    store: JsonFolder,
    /// Whether something failed that may work another time.
    failed: Cell<bool>,
    /// Differences from what was requested, and the contestants that had them.
    remarks: RefCell<Vec<(Warning, Vec<String>)>>,
}

/// The runs of one lane of an experiment, and why it failed if it did.
pub(crate) type LaneRuns = (Vec<Processes>, Option<String>);

/// What results depend on apart from the question: `--resume` keeps only those with an equal key.
pub(crate) fn key(settings: &Settings, bench: &dyn Bench) -> String {
    let setting = bench.setting();
    if setting.is_empty() { settings.key() } else { format!("{}, {setting}", settings.key()) }
}

impl<'a> Lab<'a> {
    pub fn new(settings: &'a Settings, bench: &'a dyn Bench, part: &str, progress: &'a dyn Fn(&str)) -> Self {
        let folder = settings.output.join("raw").join(part);
        let store = JsonFolder { folder, key: key(settings, bench), resume: settings.resume };
        Self { settings, bench, progress, store, failed: Cell::new(false), remarks: RefCell::default() }
    }

    /// Whether something failed that may work another time: a missing program or privilege. `--resume` tries it again.
    pub fn failed(&self) -> bool {
        self.failed.get()
    }

    /// Report progress.
    pub fn say(&self, what: &str) {
        (self.progress)(what);
    }

    pub fn executed_on(&self) -> ExecutedOn {
        self.bench.executed_on()
    }

    /// One unprofiled run.
    pub fn pair(&self, spec: &Spec) -> Result<Processes> {
        self.bench.pair(spec)
    }

    /// `rounds` unprofiled runs of every contestant, alternating, so that drift of the machine affects all alike. One that
    /// cannot run is left out of later rounds and says why.
    pub(crate) fn race(&self, name: &str, contestants: &[Contestant], rounds: usize) -> Result<Race> {
        let measure = |contestant: &Contestant| self.pair(&contestant.spec);
        let lanes = self.alternate(name, contestants.to_vec(), |contestant| contestant.id.clone(), rounds, measure)?;
        Ok(self.raced(contestants, lanes))
    }

    /// The results of `contestants` by lane; differences from what was requested are noted for [`Self::remarks`].
    pub(crate) fn raced(&self, contestants: &[Contestant], lanes: Vec<LaneRuns>) -> Race {
        let raced = contestants.iter().zip(lanes).map(|(contestant, (pairs, failed))| {
            let Contestant { id, spec } = contestant.clone();
            Raced { id, spec, pairs, executed_on: self.executed_on(), failed }
        });
        let race = Race(raced.collect());
        let mut remarks = self.remarks.borrow_mut();
        for entry in &race.0 {
            for caveat in entry.caveats() {
                match remarks.iter_mut().find(|(known, _)| *known == caveat) {
                    Some((_, ids)) => ids.push(entry.id.clone()),
                    None => remarks.push((caveat, vec![entry.id.clone()])),
                }
            }
        }
        race
    }

    /// Differences from what was requested, in sentences.
    pub fn remarks(&self) -> Vec<String> {
        let say = |(caveat, ids): &(Warning, Vec<String>)| {
            let action = if caveat.action.is_empty() { String::new() } else { format!(": {}", caveat.action) };
            format!("Not as requested ({}): {}{action}.", ids.join(", "), caveat.message)
        };
        self.remarks.borrow().iter().map(say).collect()
    }

    /// `rounds` results of every cell, alternating. Each is stored as it ends; results by lane, in the order of `cells`.
    pub(crate) fn alternate<C: Serialize>(
        &self,
        name: &str,
        cells: Vec<C>,
        label: impl Fn(&C) -> String,
        rounds: usize,
        measure: impl Fn(&C) -> Result<Processes>,
    ) -> Result<Vec<LaneRuns>> {
        let count = cells.len();
        let plan = Plan { on_failure: OnFailure::GiveUp, ..Plan::new(cells, rounds, self.settings.seed) };
        let folder = self.store.folder.join(name);
        let store = JsonFolder { folder: folder.clone(), ..self.store.clone() };
        let lanes = experiment::run(&plan, &|cell: &C, _: Task| measure(cell), &store, &|event| {
            if event.state == State::Running {
                self.say(&format!("{name}: run {}: {}", event.progress.next_text(), label(event.cell)));
            }
        })?
        .lanes(count);
        if lanes.iter().any(|(_, failed)| failed.is_some()) {
            // A resumed reproduction tries the failed lane again, and the others too: they have to alternate with it.
            self.failed.set(true);
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
                }
                _ => {}
            }
        }
        Ok(lanes)
    }

    /// A run with collectors.
    pub fn run(&self, name: &str, request: &Request) -> Result<Taken<Outcome>> {
        self.kept_if(name, request.clone(), whole, || {
            self.say(name);
            taken(self.bench.run(request), &request.command)
        })
    }

    /// An exact profile of `request` in a guest.
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
            self.say(&format!("{name} (exact count in a guest)"));
            taken(self.bench.exact(request, setup), &command)
        })
    }

    /// Any other result that is worth storing. Failures are not stored: a resumed reproduction tries again.
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
        worth: impl Fn(&Taken<A>) -> bool,
        work: impl FnOnce() -> Result<Taken<A>>,
    ) -> Result<Taken<A>>
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
            // A signal that ended a program started here is an interruption, not an answer.
            cancel::check()?;
            self.failed.set(true);
            return Ok(answer);
        }
        self.store.save(name, &question, &answer)?;
        Ok(answer)
    }
}

fn taken<T>(result: Result<T>, command: &str) -> Result<Taken<T>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => {
            cancel::check()?;
            // A guest's last lines belong on the terminal, not in a table.
            let text = error.downcast_ref().map_or_else(|| format!("{error:#}"), |died: &NoAnswer| died.why.clone());
            let line = text.lines().next().unwrap_or_default().trim_end_matches([':', ';']);
            Ok(Err(Missing::new(line, command)))
        }
    }
}

/// Whether every requested collector returned something.
fn whole(taken: &Taken<Outcome>) -> bool {
    let gave = |status: Status| matches!(status, Status::Ok | Status::Partial);
    taken.as_ref().is_ok_and(|outcome| outcome.document.collectors.iter().all(|collector| gave(collector.status)))
}

/// GiB/s of the profiled runs, or of the unprofiled ones.
pub(crate) fn speeds(runs: &[PairRecord], profiled: bool) -> Vec<f64> {
    runs.iter().filter(|run| run.collectors.is_empty() != profiled).map(|run| run.processes.gib_s()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProcessName;
    use crate::run::bench::MockBench;
    use anyhow::bail;

    /// Pairs of polling workloads fail while `broken`; the window of each is its number.
    fn mock(broken: &Cell<bool>) -> MockBench<impl Fn(usize, &Spec) -> Result<Processes>> {
        MockBench::new(|number, spec: &Spec| {
            if broken.get() && spec.poll {
                bail!("the pipe burst");
            }
            Ok(Processes { window_ns: number as u64 + 1, ..Processes::default() })
        })
    }

    fn contestants() -> [Contestant; 2] {
        [false, true].map(|poll| Contestant { id: poll.to_string(), spec: Spec { poll, ..Spec::default() } })
    }

    #[test]
    fn what_failed_is_tried_again_and_what_did_not_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let broken = Cell::new(true);
        let (settings, bench) = (Settings::of_test(folder.path(), true), mock(&broken));
        let lab = || Lab::new(&settings, &bench, "part", &|_| {});
        let first = lab();
        let Race(raced) = first.race("race", &contestants(), 2).unwrap();
        assert!(first.failed() && raced[1].failed.is_some() && raced[0].pairs.len() == 2);
        broken.set(false);
        let before = bench.pairs.get();
        let race = lab().race("race", &contestants(), 2).unwrap();
        assert!(race.0.iter().all(|raced| raced.failed.is_none() && raced.pairs.len() == 2));
        assert_eq!(bench.pairs.get(), before + 4, "all alternate again");
        assert_eq!(lab().race("race", &contestants(), 2).unwrap(), race);
        assert_eq!(bench.pairs.get(), before + 4);

        let kept = |answer: Taken<u8>| lab().kept("other", 7, || Ok(answer)).unwrap();
        assert_eq!(kept(Err(Missing::new("signal: 2", ""))), Err(Missing::new("signal: 2", "")));
        assert_eq!(kept(Ok(1)), Ok(1));
        assert_eq!(kept(Ok(2)), Ok(1), "kept");
    }

    #[test]
    fn what_was_not_as_asked_for_is_said_and_missing_huge_pages_are_no_figure() {
        use crate::result::GotAsked;
        let folder = tempfile::tempdir().unwrap();
        let broken = Cell::new(false);
        let (settings, bench) = (Settings::of_test(folder.path(), true), mock(&broken));
        let lab = Lab::new(&settings, &bench, "part", &|_| {});
        let mut pair = Processes { window_ns: 1, ..Processes::default() };
        pair.of_mut(ProcessName::WRITER).pipe_size = 8192;
        let contestant = |id: &str| Contestant { id: id.into(), spec: Spec::default() };
        let lane = |pair: &Processes| (vec![pair.clone(); 3], None);
        let race = lab.raced(&[contestant("a"), contestant("b")], vec![lane(&pair), lane(&pair)]);
        let how = race.speed("a").unwrap().how;
        assert!(how.ends_with("3 runs, but the pipe held 8K instead of 64K"), "{how}");
        let remarks = lab.remarks();
        assert!(remarks.len() == 1 && remarks[0].contains("(a, b): the pipe held 8K"), "{remarks:?}");
        pair.of_mut(ProcessName::WRITER).huge_pages = Some(GotAsked { got: 0, asked: 2 << 20 });
        let missing = lab.raced(&[contestant("c")], vec![lane(&pair)]).speed("c").unwrap_err();
        assert!(missing.why.contains("0 of 2M in huge pages"), "{}", missing.why);
    }

    #[test]
    fn a_run_that_failed_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let broken = Cell::new(false);
        let (settings, bench) = (Settings::of_test(folder.path(), true), mock(&broken));
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
        let plain = Settings::of_test(folder.path(), true);
        let race = |settings: &Settings, setting: &str| {
            let broken = Cell::new(false);
            let bench = MockBench { setting: setting.to_owned(), ..mock(&broken) };
            Lab::new(settings, &bench, "part", &|_| {}).race("race", &contestants(), 1).unwrap();
            bench.pairs.get()
        };
        assert_eq!((race(&plain, ""), race(&plain, "")), (2, 0));
        let guest = Settings { in_guest: Some("6.1".into()), ..plain.clone() };
        assert_eq!((race(&guest, ""), race(&guest, "")), (2, 0));
        assert_eq!((race(&guest, "2 CPUs"), race(&Settings { seed: 2, ..plain.clone() }, "")), (2, 2));
        assert_eq!((race(&plain, ""), race(&plain, "")), (2, 0));
        let path = folder.path().join("raw/part/race/0001-1.json");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen(crate::util::build::version(), "0.0.1", 1)).unwrap();
        assert_eq!(race(&plain, ""), 1, "only the run of another build");
    }
}
