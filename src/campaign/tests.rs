use super::cell::{CELL_SCHEMA, CellKernel, CellPipeline, FinishedCell};
use super::chunk::Chunk;
use super::script::CampaignEngine;
use super::store::{CellLog, FailedCell, LOG_SCHEMA};
use super::*;
use crate::profile::{ProcessName, Profile, Unit};
use crate::result::{Measurement, Outcome, PipelineCommand, RecordingRequest, RecordingTarget, RunOptions, SentFile};
use crate::roles::Skid;
use crate::util::stored_json::HIGHEST;
use crate::util::{regular, sha256};
use crate::workload::WorkloadRequest;
use crate::workload::spec::Amount;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;

fn cell(number: usize, seconds: f64) -> CampaignCell {
    let workload = WorkloadRequest { amount: Some(Amount::Calls(number as u64)), ..WorkloadRequest::default() };
    let request = Measurement::Pair(Box::new(RunOptions { workload, ..RunOptions::default() }));
    let (build, qemu, sha256) = ("0.1.0 (build 1)".to_owned(), "QEMU 1".to_owned(), "ab".repeat(32));
    CampaignCell {
        schema: CELL_SCHEMA.to_owned(),
        column: format!("6.{number}"),
        kernel: CellKernel { label: format!("6.{number}"), release: "6.1".to_owned(), sha256, image: "x".into() },
        mode: "write".to_owned(),
        cpus: 1,
        id: String::new(),
        setting: String::new(),
        request,
        seconds,
        build,
        qemu,
        canary: number.is_multiple_of(3),
        pipeline: None,
        host: None,
    }
    .identified()
}

fn list(count: usize) -> CellList {
    CellList { cells: (0..count).map(|number| cell(number, 1.0 + (number % 4) as f64)).collect() }
}

#[test]
fn an_id_depends_on_each_part() {
    let with = |build: &str, qemu: &str, sha256: &str, runs: u32| {
        let mut cell = cell(1, 1.0);
        (cell.build, cell.qemu, cell.kernel.sha256) = (build.to_owned(), qemu.to_owned(), sha256.to_owned());
        cell.request = Measurement::Pair(Box::new(RunOptions { runs: Some(runs), ..RunOptions::default() }));
        cell
    };
    let plain = || with("b", "q", "k", 1);
    let pipeline = |folder: &str, path: &str, contents: &str| CampaignCell {
        pipeline: Some(CellPipeline {
            command: PipelineCommand::default(),
            folder: folder.into(),
            path: path.to_owned(),
            contents: contents.to_owned(),
        }),
        ..plain()
    };
    let cells = [
        plain(),
        with("B", "q", "k", 1),
        with("b", "Q", "k", 1),
        with("b", "q", "K", 1),
        with("b", "q", "k", 2),
        with("b", "qk", "", 1),
        pipeline("f", "p", "c"),
        pipeline("F", "p", "c"),
        pipeline("f", "P", "c"),
        pipeline("f", "p", "C"),
        {
            let mut other = pipeline("f", "p", "c");
            let command = PipelineCommand { stages: vec![vec!["wc".to_owned()]], shell: false };
            other.pipeline = other.pipeline.map(|pipeline| CellPipeline { command, ..pipeline });
            other
        },
        CampaignCell { host: Some("h".to_owned()), ..plain() },
    ];
    let count = cells.len();
    let ids: BTreeSet<String> = cells.into_iter().map(|cell| cell.identified().id).collect();
    assert_eq!(ids.len(), count);
    assert!(ids.iter().all(|id| id.len() == 20));
    // The label and the estimate do not decide the result.
    let relabelled = CampaignCell { column: "x".to_owned(), seconds: 9.0, canary: true, ..plain() };
    assert_eq!(relabelled.identified().id, plain().identified().id);
}

#[test]
fn chunks_contain_every_cell_once_and_canaries_twice() {
    for (cells, chunks) in [(1, 1), (10, 3), (10, 10), (10, 25), (100, 7)] {
        let list = list(cells);
        let (mut once, mut twice) = (Vec::new(), BTreeSet::new());
        for number in 1..=chunks {
            let own = Chunk { number, of: chunks }.cells(&list);
            let seconds: f64 = own.iter().filter(|cell| !cell.second).map(|cell| cell.cell.seconds).sum();
            assert!(seconds <= list.seconds() / chunks as f64 + 4.0, "{cells} in {chunks}");
            for wanted in own {
                if wanted.second {
                    assert!(twice.insert(wanted.cell.id.clone()));
                } else {
                    once.push(wanted.cell.id.clone());
                }
            }
        }
        let all: Vec<String> = list.cells.iter().map(|cell| cell.id.clone()).collect();
        assert_eq!(once, all, "{cells} in {chunks}");
        let canaries = list.cells.iter().filter(|cell| cell.canary).count();
        assert_eq!(twice.len(), if chunks == 1 { 0 } else { canaries }, "{cells} in {chunks}");
    }
}

#[test]
fn a_list_is_read_back_and_an_edited_line_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cells.jsonl");
    let text = list(3).to_text().unwrap();
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        CellList::load(regular::read, &path).map_err(|error| format!("{error:#}"))
    };
    assert_eq!(load(&text).unwrap(), list(3));
    let edited = load(&text.replace(r#""calls":1"#, r#""calls":9"#)).unwrap_err();
    assert!(edited.contains("line 2") && edited.contains("plan again"), "{edited}");
    assert!(load(&format!("{text}{text}")).unwrap_err().contains("listed twice"));
    assert!(load("").unwrap_err().contains("no cells"));
    assert!(load("{}\n").unwrap_err().contains("line 1"));
}

#[test]
fn chunks_are_read() {
    assert_eq!("3/16".parse::<Chunk>().unwrap(), Chunk { number: 3, of: 16 });
    for wrong in ["", "3", "0/4", "5/4", "a/b", "1/0", "1/99999999"] {
        assert!(wrong.parse::<Chunk>().is_err(), "{wrong}");
    }
}

#[test]
fn scripts_name_every_chunk() {
    for engine in <CampaignEngine as strum::VariantArray>::VARIANTS {
        let script = engine.script(&list(100), "it's cells.jsonl", "store", Some(10.0));
        assert!(script.contains("25 chunks") && script.contains("/25 --store store"), "{script}");
        assert!(script.lines().count() <= 11, "{script}");
    }
    let slurm = CampaignEngine::Slurm.script(&list(100), "cells.jsonl", "store", None);
    assert!(slurm.contains("--array=1-1 "), "at least ten minutes each: {slurm}");
    let slurm = CampaignEngine::Slurm.script(&list(2000), "cells.jsonl", "store", Some(1.0));
    assert!(slurm.contains("--array=1-1000 "), "as many as Slurm takes: {slurm}");
}

#[test]
fn scripts_escape_paths() {
    let script = |engine: CampaignEngine| engine.script(&list(10), "a {$b}.jsonl", "store", None);
    assert!(script(CampaignEngine::Slurm).contains("run 'a {$b}.jsonl' "));
    assert!(script(CampaignEngine::Snakemake).contains("run 'a {{$b}}.jsonl' "));
    assert!(script(CampaignEngine::Make).contains("run 'a {$$b}.jsonl' "));
}

#[test]
fn marks_of_finished_chunks_are_of_one_list() {
    for engine in [CampaignEngine::Parallel, CampaignEngine::Snakemake] {
        let mark = |cells, seconds| {
            let script = engine.script(&list(cells), "cells.jsonl", "store", Some(seconds));
            let begin = script.find("matrix-").unwrap();
            script[begin..].chars().take_while(|c| !"./".contains(*c)).collect::<String>()
        };
        let marks: BTreeSet<String> = [(10, 5.0), (10, 10.0), (11, 5.0)].map(|(cells, s)| mark(cells, s)).into();
        assert_eq!(marks.len(), 3, "{marks:?}");
        assert_eq!(mark(10, 5.0), mark(10, 5.0));
    }
}

/// A finished cell, as a file with this text.
fn finish(store: &CellStore, cell: &CampaignCell, second: bool, text: &str) {
    let release = &cell.kernel.release;
    let document = serde_json::json!({"request": cell.request, "kernel": {"release": release}, "text": text});
    put(&store.path(&cell.id, second), cell, &[("result.json", &document.to_string())]);
}

/// The folder of a cell with these files, and their digests.
fn put(folder: &Path, cell: &CampaignCell, files: &[(&str, &str)]) {
    std::fs::create_dir_all(folder).unwrap();
    let digest = |(name, text): &(&str, &str)| ((*name).to_owned(), sha256::of_bytes(text.as_bytes()));
    let finished = FinishedCell { cell: cell.clone(), files: files.iter().map(digest).collect() };
    std::fs::write(folder.join("cell.json"), serde_json::to_string(&finished).unwrap()).unwrap();
    files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
}

#[test]
fn only_the_files_of_the_own_result_are_those_of_a_cell() {
    let top = tempfile::tempdir().unwrap();
    let store = CellStore::create(&top.path().join("store")).unwrap();
    let (own, other) = (cell(0, 1.0), CampaignCell { request: cell(2, 1.0).request, ..cell(1, 1.0) }.identified());
    let folder = store.path(&own.id, false);
    // What is wrong once `change` was made to the folder, for every reader.
    let wrong = |change: &dyn Fn()| {
        finish(&store, &own, false, "a");
        assert!(store.cell(&own.id, false).is_ok());
        change();
        let error = format!("{:#}", store.cell(&own.id, false).unwrap_err());
        let merged = merge::merge(std::slice::from_ref(&store.folder), &top.path().join("all"), false);
        assert_eq!(format!("{:#}", merged.unwrap_err()), error);
        assert!(!top.path().join("all").exists(), "nothing is copied");
        std::fs::remove_dir_all(&folder).or_else(|_| std::fs::remove_file(&folder)).unwrap();
        let told = format!("{}: remove this folder and run the cell again: ", folder.display());
        error.strip_prefix(&told).unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    let file = |name: &str| folder.join(name);
    let document = |of: &CampaignCell, release: &str| {
        serde_json::json!({"request": of.request, "kernel": {"release": release}}).to_string()
    };
    assert_eq!(wrong(&|| std::fs::write(file("result.json"), "b").unwrap()), "result.json was changed");
    assert_eq!(wrong(&|| put(&folder, &other, &[])), "it contains another cell");
    // The content of another cell, with digests that fit.
    let put_run = |text: &str| put(&folder, &own, &[("result.json", text)]);
    let says = wrong(&|| put_run(&document(&own, "6.12")));
    assert!(says.starts_with("result.json is the result of another cell: `pipeprof run --calls=0` on 6.12"), "{says}");
    let says = wrong(&|| put_run(&document(&other, "6.1")));
    assert!(says.starts_with("result.json is the result of another cell: `pipeprof run --calls=2` on 6.1"), "{says}");
    // Files that nobody listed, links, and names that no result has.
    std::fs::write(top.path().join("secret"), "secret").unwrap();
    let secret = top.path().join("secret");
    let link = || symlink(&secret, file("both.svg")).unwrap();
    assert_eq!(wrong(&link), "both.svg is not a file of this cell");
    let listed = || {
        put(&folder, &own, &[("result.json", &document(&own, "6.1")), ("both.svg", "secret")]);
        std::fs::remove_file(file("both.svg")).unwrap();
        link();
    };
    assert_eq!(wrong(&listed), "both.svg: this is a symbolic link; give a regular file");
    let odd = || put(&folder, &own, &[("result.json", &document(&own, "6.1")), (".bashrc", "x")]);
    assert_eq!(wrong(&odd), "\".bashrc\" is not the name of a result's file");
    let without = || {
        std::fs::remove_file(file("result.json")).unwrap();
        put(&folder, &own, &[("both.svg", "x")]);
    };
    assert_eq!(wrong(&without), "result.json is missing");
    // A folder that is a link.
    let moved = || {
        std::fs::rename(&folder, top.path().join("elsewhere")).unwrap();
        symlink(top.path().join("elsewhere"), &folder).unwrap();
    };
    assert_eq!(wrong(&moved), "it is not a folder");
    // Never opened for writing or waited for.
    for name in ["result.json", "cell.json"] {
        let fifo = || {
            std::fs::remove_file(file(name)).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, file(name), rustix::fs::Mode::RUSR).unwrap();
        };
        assert!(wrong(&fifo).contains("this is a FIFO"), "{name}");
    }
}

#[test]
fn a_failure_cannot_name_a_file_elsewhere() {
    let top = tempfile::tempdir().unwrap();
    let store = CellStore::create(&top.path().join("store")).unwrap();
    let id = "../../escaped".to_owned();
    store.keep_failure(&cell(0, 1.0), false, "x").unwrap();
    let file = std::fs::read_dir(store.folder.join("failed")).unwrap().next().unwrap().unwrap().path();
    let mut failed: FailedCell = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    failed.cell.id = id;
    std::fs::write(&file, serde_json::to_string(&failed).unwrap()).unwrap();
    let error = merge::merge(std::slice::from_ref(&store.folder), &top.path().join("all"), false).unwrap_err();
    assert!(error.to_string().contains("was edited: remove its file"), "{error:#}");
    assert!(!top.path().join("escaped.json").exists());
}

#[test]
fn merged_stores_agree_or_are_named() {
    let top = tempfile::tempdir().unwrap();
    let path = |name: &str| top.path().join(name);
    let list = list(6);
    let [one, two] = ["one", "two"].map(|name| CellStore::create(&path(name)).unwrap());
    for store in [&one, &two] {
        store.keep_plan(&list).unwrap();
    }
    for cell in &list.cells[..3] {
        finish(&one, cell, false, "a");
    }
    finish(&two, &list.cells[3], false, "a");
    // Planned on another machine, in a list without canaries.
    let mut elsewhere = list.cells[0].clone();
    (elsewhere.kernel.image, elsewhere.canary) = ("y".into(), false);
    finish(&two, &elsewhere, true, "a");
    finish(&two, &list.cells[1], false, "b");
    two.keep_failure(&list.cells[4], false, "no such kernel").unwrap();
    // Failed on one machine, finished on the other.
    two.keep_failure(&list.cells[2], false, "no room").unwrap();
    let stores = [path("one"), path("two")];
    let merged = merge::merge(&stores, &path("all"), false).unwrap();
    let ids = |cells: &[CampaignCell]| cells.iter().map(|cell| cell.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&merged.done), ids(&list.cells[..4]));
    assert_eq!(ids(&merged.missing), ids(&list.cells[5..]));
    assert_eq!(merged.failed.iter().map(|failed| failed.reason.as_str()).collect::<Vec<_>>(), ["no such kernel"]);
    assert_eq!(merged.compared, 2);
    let [different] = &merged.different[..] else { panic!("{:?}", merged.different) };
    assert_eq!(different.files, ["result.json"]);
    assert_eq!(different.folders, [one.path(&list.cells[1].id, false), two.path(&list.cells[1].id, false)]);
    // A merged store is a store: merging it alone gives the same, and merging again continues.
    let again = merge::merge(&[path("all")], &path("again"), false).unwrap();
    assert_eq!((ids(&again.done), again.missing.len(), again.failed.len()), (ids(&merged.done), 1, 1));
    assert_eq!(ids(&merge::merge(&stores, &path("all"), false).unwrap().done), ids(&merged.done));
    let foreign = path("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("mine"), "").unwrap();
    assert!(merge::merge(&stores, &foreign, false).is_err());
}

#[test]
fn processes_create_a_store_together() {
    let top = tempfile::tempdir().unwrap();
    for number in 0..50 {
        let folder = top.path().join(number.to_string());
        let begin = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let create = || {
                begin.wait();
                CellStore::create(&folder)
            };
            for thread in [0; 4].map(|_| scope.spawn(create)) {
                thread.join().unwrap().unwrap();
            }
        });
    }
}

#[test]
fn stores_of_several_builds_are_not_merged_unasked() {
    let top = tempfile::tempdir().unwrap();
    let store = CellStore::create(&top.path().join("store")).unwrap();
    let (old, mut new) = (cell(0, 1.0), cell(1, 1.0));
    new.build = "0.2.0 (build 2)".to_owned();
    let new = new.identified();
    finish(&store, &old, false, "a");
    finish(&store, &new, false, "a");
    let stores = [store.folder.clone()];
    let error = merge::merge(&stores, &top.path().join("all"), false).unwrap_err().to_string();
    assert!(error.contains("build 1") && error.contains("build 2") && error.contains("--allow-mixed"), "{error}");
    assert_eq!(merge::merge(&stores, &top.path().join("all"), true).unwrap().done.len(), 2);
}

#[test]
fn timed_cells_run_alone_on_their_machine_only() {
    let top = tempfile::tempdir().unwrap();
    let store = CellStore::create(&top.path().join("store")).unwrap();
    let error = |host: &str, jobs| {
        let cell = CampaignCell { host: Some(host.to_owned()), ..cell(1, 1.0) }.identified();
        let wanted = [chunk::ChunkCell { cell: &cell, second: false }];
        cells_run::run(&wanted, &store, jobs, &|_, _| anyhow::bail!("reached"), &String::new, &|_| {})
            .unwrap_err()
            .to_string()
    };
    let refused = error("elsewhere", 1);
    assert!(refused.contains("the machine elsewhere") && refused.contains(&cells_run::this_host()), "{refused}");
    assert!(error(&cells_run::this_host(), 2).contains("--jobs 2"));
    // Then the build decides.
    assert!(error(&cells_run::this_host(), 1).contains("(build 1)"));
}

#[test]
fn failed_second_runs_are_named_and_times_are_not_compared() {
    let top = tempfile::tempdir().unwrap();
    let store = CellStore::create(&top.path().join("store")).unwrap();
    let canary = cell(0, 1.0);
    let timed = CampaignCell { host: Some("h".to_owned()), ..cell(1, 1.0) }.identified();
    store.keep_plan(&CellList { cells: vec![canary.clone(), timed.clone()] }).unwrap();
    finish(&store, &canary, false, "a");
    store.keep_failure(&canary, true, "no memory").unwrap();
    finish(&store, &timed, false, "1.0 s");
    finish(&store, &timed, true, "1.1 s");
    let merged = merge::merge(std::slice::from_ref(&store.folder), &top.path().join("all"), false).unwrap();
    assert_eq!((merged.done.len(), merged.failed.len(), merged.compared), (2, 0, 0));
    let [failed] = &merged.failed_canaries[..] else { panic!("{merged:?}") };
    assert_eq!((failed.cell.id.as_str(), failed.reason.as_str()), (canary.id.as_str(), "no memory"));
    // Its result from another machine is enough.
    finish(&store, &canary, true, "a");
    let merged = merge::merge(std::slice::from_ref(&store.folder), &top.path().join("again"), false).unwrap();
    assert_eq!((merged.failed_canaries.len(), merged.compared), (0, 1));
}

#[test]
fn kernels_with_one_label_are_named_by_their_releases() {
    let kernel = |label: &str, release: &str| CellKernel {
        label: label.to_owned(),
        release: release.to_owned(),
        sha256: release.repeat(2),
        image: "x".into(),
    };
    let kernels = [kernel("6.1", "6.1-amd64"), kernel("6.1", "6.1-rt-amd64"), kernel("6.12", "6.12-amd64")];
    let names = cell::kernel_names(kernels.iter().chain(&kernels));
    let named: Vec<&str> = kernels.iter().map(|kernel| names[&kernel.sha256].as_str()).collect();
    assert_eq!(named, ["6.1-amd64", "6.1-rt-amd64", "6.12"]);
}

/// Texts that others can choose, hostile ones among them.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just("\u{1b}[31m\u{202e}\n".to_owned()), Just("../x y".to_owned()), ".*"]
}

proptest! {
    #[test]
    fn what_is_written_of_a_cell_is_read(
        texts in proptest::collection::vec(text(), 9), cpus: u32, seconds in any::<f64>(), second: bool,
        count in prop_oneof![0..3_u64, HIGHEST - 1..HIGHEST + 1], samples in 1..9_u64,
    ) {
        let text = |at: usize| texts[at].clone();
        let command = PipelineCommand { stages: vec![texts.clone()], shell: true };
        let cell = CampaignCell {
            column: text(0),
            kernel: CellKernel { label: text(1), release: text(2), sha256: text(3), image: text(4).into() },
            mode: text(5),
            cpus,
            request: Measurement::Recording(Box::new(RecordingRequest {
                target: RecordingTarget::Pipeline(command.clone()),
                kernel: Some(text(8)),
                files: vec![SentFile { from: text(7).into(), to: text(6).into() }],
                ..RecordingRequest::default()
            })),
            pipeline: Some(CellPipeline {
                command,
                folder: text(6).into(),
                path: text(7),
                contents: text(8),
            }),
            ..cell(0, seconds)
        }
        .identified();
        let list = CellList { cells: vec![cell.clone()] };
        let top = tempfile::tempdir().unwrap();
        let store = CellStore::create(&top.path().join("store")).unwrap();
        prop_assert_eq!(list.to_text().is_ok(), seconds.is_finite());
        if !seconds.is_finite() {
            prop_assert!(store.keep_failure(&cell, second, "x").is_err());
            return Ok(());
        }
        store.keep_plan(&list).unwrap();
        prop_assert_eq!(CellList::load(regular::read_stored, &store.plans().unwrap()[0]).unwrap(), list);
        store.keep_failure(&cell, second, &text(0)).unwrap();
        let [failed] = &store.failures().unwrap()[..] else { panic!("{:?}", store.failures()) };
        prop_assert_eq!((&failed.cell, failed.second, &failed.reason), (&cell, second, &texts[0]));
        let (schema, host, started) = (LOG_SCHEMA.to_owned(), text(1), text(2));
        let log = CellLog { schema, host, started, seconds, estimated: seconds };
        store.keep_log(&cell.id, &log).unwrap();
        prop_assert_eq!(store.logs().unwrap(), [(cell.id.clone(), log)]);

        let mut outcome = Outcome::default();
        outcome.document.schema = crate::result::SCHEMA.to_owned();
        outcome.document.request = Some(cell.request.clone());
        outcome.document.kernel.release.clone_from(&cell.kernel.release);
        for name in [ProcessName::new("writer"), ProcessName::new(&texts[3])] {
            let totals = outcome.document.processes.of_mut(name);
            (totals.bytes, totals.notes) = (count, texts.clone());
            let stacks = crate::profile::Folded::parse(&format!("{name};a;b {samples}\n")).unwrap();
            outcome.profiles.push(Profile { process: name, collector: "insn".to_owned(), unit: Unit::Instructions, skid: Skid::None, stacks });
        }
        let kept = store.keep(store.prepare(&cell, second).unwrap(), &cell, second, outcome.clone());
        let folder = store.path(&cell.id, second);
        // What cannot be read is not written, and the failure stays.
        prop_assert_eq!(kept.is_ok(), count < HIGHEST, "{:?}", kept);
        prop_assert_eq!((folder.exists(), store.failures().unwrap().len()), (kept.is_ok(), usize::from(kept.is_err())));
        if kept.is_ok() {
            prop_assert_eq!(store.cell(&cell.id, second).unwrap().cell, cell);
            let read = crate::result::open(&folder).unwrap();
            outcome.document.files.clone_from(&read.document.files);
            prop_assert_eq!(read.document, outcome.document);
        }
    }
}
