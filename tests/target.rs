//! A target with three processes and two pipes, from its start to the reports, with a collector that invents its
//! stacks. It needs no kernel features and no root.

use anyhow::Result;
use pipeprof::collect::{Collect, Collected, Context};
use pipeprof::process::{
    Phase, PipeEnd, PipeTotals, ProcessTotals, Processes, Running, Target, Watched, WatchedProcess,
};
use pipeprof::profile::{ProcessName, Unit};
use pipeprof::report::files::Folder;
use pipeprof::report::terminal::{self, Style};
use pipeprof::result;
use pipeprof::result::{Collector, Environment, ExecutedOn, Loader, Probe, Request, Selection, Status};
use pipeprof::roles::{RoleId, Skid};
use pipeprof::run::{Setting, assemble, measure};
use pipeprof::workload::Spec;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What was done to the target and its collector, in order.
type Log = Rc<RefCell<Vec<&'static str>>>;

fn names() -> [ProcessName; 3] {
    // Not in the order of the alphabet.
    ["b", "c", "a"].map(ProcessName::new)
}

struct Three(Log);

impl Target for Three {
    fn start(&self, _: Phase) -> Result<Box<dyn Running>> {
        self.0.borrow_mut().push("start");
        Ok(Box::new(Started(Rc::clone(&self.0))))
    }
}

struct Started(Log);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.borrow_mut().push("drop");
    }
}

impl Running for Started {
    fn watched(&self) -> Watched {
        let process = |(name, pid)| WatchedProcess { name, pids: vec![pid, pid + 1] };
        Watched { processes: names().into_iter().zip([10, 20, 30]).map(process).collect(), programs: false }
    }

    fn release(&mut self) -> Result<()> {
        self.0.borrow_mut().push("release");
        Ok(())
    }

    fn wait_for_end(&mut self) -> Result<()> {
        self.0.borrow_mut().push("end");
        Ok(())
    }

    fn wait(&mut self) -> Result<Processes> {
        self.0.borrow_mut().push("wait");
        let totals = |calls| ProcessTotals { bytes: 1 << 20, calls, user_ns: 1_000_000, ..ProcessTotals::default() };
        let end = |process| PipeEnd { process, totals: vec![totals(16)] };
        let pipe = |ends: &[ProcessName]| PipeTotals { window_ns: 1, from: end(ends[0]), to: end(ends[1]) };
        Ok(Processes {
            totals: names().into_iter().zip([16, 32, 48]).map(|(name, calls)| (name, totals(calls))).collect(),
            window_ns: 2_000_000,
            pipes: names().windows(2).map(pipe).collect(),
        })
    }
}

struct Inventing(Log, Watched);

impl Collect for Inventing {
    fn arm(&mut self, watched: &Watched) -> Result<()> {
        self.0.borrow_mut().push("arm");
        self.1 = watched.clone();
        Ok(())
    }

    fn finish(&mut self) -> Result<Collected> {
        self.0.borrow_mut().push("finish");
        let mut stacks = self.1.by_process::<pipeprof::profile::Folded>();
        for (pid, name) in self.1.all() {
            let folded = stacks.get_or_default(name);
            folded.add(format!("{name};entry_SYSCALL_64;pipe_write;copy_page_from_iter"), u64::from(pid));
            folded.add(format!("{name};entry_SYSCALL_64;pipe_write"), 30);
        }
        Ok(Collected {
            status: Status::Ok,
            reason: None,
            unit: Unit::Samples,
            skid: Skid::None,
            samples: stacks.values().map(pipeprof::profile::Folded::total).sum(),
            stacks,
            functions: Vec::new(),
            lost: 0,
            unresolved: 0,
            notes: Vec::new(),
            warnings: Vec::new(),
        })
    }
}

#[test]
fn three_processes_come_out_by_their_names() {
    let log = Log::default();
    let request = Request {
        mode: "three".to_owned(),
        workload: Spec::default(),
        collect: Selection::List(vec![Collector::Sample]),
        loader: Loader::Libbpf,
        probe: Probe::default(),
        runs: 1,
        stop: pipeprof::experiment::StopRule::default(),
        seed: 1,
        memcg: false,
        command: "three".to_owned(),
    };
    let setting = Setting { executed_on: ExecutedOn::Hardware, settle: false, progress: &|_, _| {} };
    let collector: Box<dyn Collect> = Box::new(Inventing(Rc::clone(&log), Watched::default()));
    let made = BTreeMap::from([(Collector::Sample, collector)]);
    let measured = measure::with(&Three(Rc::clone(&log)), made, BTreeMap::new(), &request, &setting).expect("measured");
    let profiled = ["start", "arm", "release", "end", "finish", "wait", "drop"];
    assert!(log.borrow().windows(profiled.len()).any(|part| part == profiled), "{:?}", log.borrow());

    let context = Context::new(Loader::Libbpf, Probe::default());
    let mut outcome =
        assemble::outcome(&request, &setting, &context, Environment::default(), measured).expect("a document");
    let document = &outcome.document;
    assert_eq!(document.processes.totals.names().collect::<Vec<_>>(), names(), "the order of the target");
    assert_eq!(document.attribution.processes.names().collect::<Vec<_>>(), names());
    let copied =
        document.attribution.of(names()[2]).iter().find(|share| share.role == RoleId::CopyIn).expect("its share");
    assert_eq!(copied.weight, 30 + 31);

    let text = terminal::render(document, None, Style::PLAIN);
    let places: Vec<usize> =
        names().iter().map(|name| text.find(&format!("of the {name} by role")).expect("its table")).collect();
    assert!(places.is_sorted(), "{text}");

    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().join("run");
    let prepared = Folder::prepare(Some(&target), "2026-01-01T00:00:00Z", "three").expect("a folder");
    let written = prepared.write(&mut outcome).expect("files");
    for name in ["a.folded", "b.svg", "c.folded", "all.svg", "result.json"] {
        assert!(written.files.iter().any(|file| file == name), "{name} of {:?}", written.files);
    }
    let svg = std::fs::read_to_string(target.join("all.svg")).expect("a picture");
    assert!(names().iter().all(|name| svg.contains(&format!("\"{name}\"")) || svg.contains(&format!(">{name}"))));
    assert!(svg.contains("b, c and a"), "whose it is");
    let read = result::open(&target).expect("the run");
    assert_eq!(read.document.attribution, outcome.document.attribution);
    assert_eq!(read.profiles, outcome.profiles);
}
