use super::sample;
use pipeprof::profile::{Folded, Profile, Unit};
use pipeprof::report::files::Folder;
use pipeprof::result::stack_files::load_folded;
use pipeprof::result::{open, open_document, parse};
use pipeprof::roles::Skid;
use proptest::prelude::*;
use std::path::Path;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_is_written_and_read_back() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("out");
    let mut outcome = sample::sampled_run();
    let folder = Folder::prepare(Some(&target), &outcome.document.started, "write").unwrap();
    assert!(!target.exists(), "nothing half there");
    let written = folder.write(&mut outcome).unwrap();
    assert_eq!(written.folder, target);
    assert_eq!(
        names(&target),
        ["both.svg", "reader.folded", "reader.svg", "result.json", "writer.folded", "writer.svg"]
    );
    assert_eq!(names(place.path()), ["out"], "nothing else");
    for path in [target.clone(), target.join("result.json")] {
        let mut read = open(&path).unwrap();
        assert_eq!(read.owner.take(), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(read, outcome);
    }
    let svg = std::fs::read_to_string(target.join("writer.svg")).unwrap();
    assert!(svg.contains(">pipeprof run --mode write</text>"), "the title is the command");
    assert!(svg.contains("writer · mode write · Linux 6.1.0-50-cloud-amd64 ·"));
}

#[test]
fn what_sampled_a_run_is_remembered() {
    let place = tempfile::tempdir().unwrap();
    let drawn = |skid: Skid, name: &str| {
        let mut outcome = sample::sampled_run();
        outcome.document.collectors[0].skid = Some(skid);
        for profile in &mut outcome.profiles {
            profile.stacks =
                Folded::parse("writer;entry_SYSCALL_64;pipe_write;__wake_up;_raw_spin_unlock_irqrestore 9\n").unwrap();
            profile.skid = skid;
        }
        let target = place.path().join(name);
        Folder::prepare(Some(&target), "", "").unwrap().write(&mut outcome).unwrap();
        (open(&target).unwrap().profiles[0].skid, std::fs::read_to_string(target.join("writer.svg")).unwrap())
    };
    let (skid, picture) = drawn(Skid::CpuClock, "cpu-clock");
    let note = "Interrupts off (part of the share, attributed to the caller): wake-up 100.0%";
    assert!(skid == Skid::CpuClock && picture.contains("wake-up 100.0%") && picture.contains(note));
    let (skid, picture) = drawn(Skid::None, "cycles");
    assert!(
        skid == Skid::None && picture.contains("wake-up 100.0%") && !picture.to_lowercase().contains("interrupts off")
    );
}

#[test]
fn equal_runs_give_equal_files() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let target = place.path().join(name);
        let mut outcome = sample::counted_run();
        Folder::prepare(Some(&target), "", "").unwrap().write(&mut outcome).unwrap();
        target
    };
    let (one, two) = (write("one"), write("two"));
    for name in names(&one) {
        assert_eq!(std::fs::read(one.join(&name)).unwrap(), std::fs::read(two.join(&name)).unwrap(), "{name}");
    }
}

#[test]
fn a_used_folder_is_refused_and_an_empty_one_taken() {
    let place = tempfile::tempdir().unwrap();
    let used = place.path().join("used");
    std::fs::create_dir(&used).unwrap();
    std::fs::write(used.join("mine"), "precious").unwrap();
    let error = Folder::prepare(Some(&used), "", "").unwrap_err().to_string();
    assert!(error.contains("used exists and is not empty: choose another with -o"), "{error}");
    let file = used.join("mine");
    let error = Folder::prepare(Some(&file), "", "").unwrap_err().to_string();
    assert!(error.contains("is a file"), "{error}");
    let error = Folder::prepare(Some(&file.join("below")), "", "").unwrap_err().to_string();
    assert!(error.contains("below"), "{error}");

    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    Folder::prepare(Some(&empty), "", "").unwrap().write(&mut sample::sampled_run()).unwrap();
    assert!(empty.join("result.json").exists());

    // A file that appears in the meantime is not overwritten.
    let taken = place.path().join("taken");
    let folder = Folder::prepare(Some(&taken), "", "").unwrap();
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("mine"), "precious").unwrap();
    assert!(folder.write(&mut sample::sampled_run()).is_err());
    assert_eq!(names(&taken), ["mine"]);
}

#[test]
fn a_folder_that_is_given_up_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    drop(Folder::prepare(Some(&place.path().join("out")), "", "").unwrap());
    assert!(names(place.path()).is_empty());
}

fn error_of(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut document = serde_json::to_value(sample::sampled_run().document).unwrap();
    change(&mut document);
    parse(document.to_string().as_bytes()).unwrap_err().to_string()
}

#[test]
fn documents_of_other_schemas_say_what_to_do() {
    let error = error_of(|document| document["schema"] = "pipeprof.result/99".into());
    assert!(error.contains("newer than this pipeprof") && error.contains("update pipeprof"), "{error}");
    let error = error_of(|document| document["schema"] = "pipeprof.result/0".into());
    assert!(error.contains("older than") && error.contains("run again"), "{error}");
    let error = error_of(|document| document["schema"] = "something".into());
    assert!(error.contains("not a pipeprof result.json"), "{error}");
    let error = error_of(|document| document["executed_on"] = "paper".into());
    assert!(error.contains("not a pipeprof result.json") && error.contains("paper"), "{error}");
}

#[test]
fn truncated_documents_are_recognised_wherever_they_end() {
    let text = serde_json::to_string_pretty(&sample::sampled_run().document).unwrap();
    for length in (0..text.len() - 1).step_by(97) {
        let Some(part) = text.get(..length) else { continue };
        let error = parse(part.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("truncated"), "{length}: {error}");
    }
}

#[test]
fn missing_and_hostile_files_are_named() {
    let place = tempfile::tempdir().unwrap();
    let error = open(place.path()).unwrap_err().to_string();
    assert!(error.contains("result.json") && error.contains("a folder written by `pipeprof run`"), "{error}");

    let target = place.path().join("out");
    Folder::prepare(Some(&target), "", "").unwrap().write(&mut sample::sampled_run()).unwrap();
    std::fs::remove_file(target.join("reader.folded")).unwrap();
    assert!(open_document(&target).is_ok());
    let error = open(&target).unwrap_err().to_string();
    assert!(error.contains("reader.folded"), "{error}");
    std::fs::write(target.join("reader.folded"), "a;b").unwrap();
    let error = open(&target).unwrap_err().to_string();
    assert!(error.contains("reader.folded, line 1: no weight"), "{error}");

    let mut document = open_document(&target).unwrap();
    document.files = vec!["../../etc/writer.folded".to_owned()];
    std::fs::write(target.join("result.json"), serde_json::to_string(&document).unwrap()).unwrap();
    let error = open(&target).unwrap_err().to_string();
    assert!(error.contains("not a profile's name"), "{error}");
}

#[test]
fn bytes_that_are_not_text_are_an_error_with_a_line() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("x.folded");
    std::fs::write(&path, b"a 1\n\xff\xfe\x00").unwrap();
    let error = load_folded(&path).unwrap_err().to_string();
    assert!(error.contains("x.folded, line 2"), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = parse(&bytes);
    }

    #[test]
    fn no_damage_panics(at in 0usize..4000, byte: u8) {
        let mut bytes = serde_json::to_vec(&sample::sampled_run().document).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(document) = parse(&bytes) {
            let _ = pipeprof::report::terminal::render(&document, None, pipeprof::report::terminal::Style::PLAIN);
        }
    }
}

#[test]
fn estimated_cycles_name_their_model_and_are_read_back() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("run");
    let mut outcome = sample::counted_run();
    let cycles =
        |profile: &Profile| Profile { collector: "cycles".to_owned(), unit: Unit::EstimatedCycles, ..profile.clone() };
    let priced: Vec<Profile> = outcome.profiles.iter().map(cycles).collect();
    outcome.profiles.extend(priced);
    Folder::prepare(Some(&target), "", "").unwrap().write(&mut outcome).unwrap();
    let read = open(&target).unwrap();
    assert!(read.profiles.iter().any(|profile| *profile == cycles(&outcome.profiles[0])));
    assert_eq!(read.document, outcome.document);
    let picture = std::fs::read_to_string(target.join("cycles-writer.svg")).unwrap();
    assert!(picture.contains("estimated cycles (model published-1)"));
    let picture = std::fs::read_to_string(target.join("writer.svg")).unwrap();
    assert!(!picture.contains("published-1"));
}
