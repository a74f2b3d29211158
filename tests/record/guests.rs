//! Recordings in guests: `--kernel`.

use super::path::adds_up;
use super::{ALL, Recorded, bytes, check_followed, exact, limited_by_timer, moved};
use crate::common::{self, SERIES, guest_with_programs, job, pipeprof, wait_until};
use pipeprof::profile::ProcessName;
use pipeprof::result::{Document, RecordedChannel, WaitReason};
use pipeprof::roles::RoleId;
use pipeprof::vm::run_job;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Record `words` in a guest, with `input` as standard input.
pub(super) fn record_in_guest(series: &str, flags: &[&str], words: &[&str], input: Stdio) -> (Recorded, String) {
    let folder = tempfile::tempdir().unwrap();
    record_into(&folder.path().join("recording"), series, &[], flags, words, input)
}

fn record_into(
    target: &Path,
    series: &str,
    variables: &[(&str, &str)],
    flags: &[&str],
    words: &[&str],
    input: Stdio,
) -> (Recorded, String) {
    let mut command = pipeprof(&["record", "--kernel", series, "-o", target.to_str().unwrap()]);
    let output =
        command.envs(variables.iter().copied()).args(flags).arg("--").args(words).stdin(input).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(target.join("result.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let same = text.lines().filter(|line| !line.contains("\"started\": ") && !line.contains("\"command\": "));
    let same = same.collect::<Vec<_>>().join("\n");
    let recording = serde_json::from_str(&text).unwrap();
    adds_up(&recording);
    (Recorded { recording, output }, same)
}

/// Two documents are the same, but for their times and command lines.
fn assert_equal(series: &str, one: &str, other: &str) {
    let differ: Vec<_> = one.lines().zip(other.lines()).filter(|(one, other)| one != other).take(20).collect();
    assert!(one == other, "{series}: {differ:#?}");
}

#[test]
#[ignore = "boots guests: make test"]
fn all_kernels_record_the_same_calls() {
    let all = format!("4096 {ALL}");
    let stages = ["write 4096 200", &format!("fork {all}"), &format!("thread {all}"), &format!("exec {all}")];
    let last = format!("read {all} 1000");
    let running = [&format!("write 4096 {ALL}"), &*format!("read 4096 {ALL} 2000")];
    let words = [&["stage", "record", "--started"], &stages[..], &[&last, "--running"], &running].concat();
    for series in SERIES {
        // The oldest kernel has one tracer and no cookies for probes; the newest one preempts programs.
        let collect: &[&str] = match series {
            "5.10" => &["--collect", "kprobe"],
            "7.2" => &["--collect", "kprobe", "fgraph"],
            _ => &[],
        };
        let reply = run_job(&guest_with_programs(series), &job(&[&words, collect].concat())).expect("a guest");
        let documents: Vec<Document> = reply.parse().expect("recordings");
        let [recording, attached, machine, collected @ ..] = &documents[..] else {
            panic!("{series}: {}", documents.len())
        };
        eprintln!("{series}: {} events skipped", recording.skipped);
        check_followed(recording, 200 * 4096);
        let answer = recording.sentences().join(" ");
        limited_by_timer(&answer, "exe read");

        limited_by_timer(&attached.sentences().join(" "), "exe read");
        let pipe = attached.channels.iter().find(|pipe| pipe.bytes() > 0).expect("a pipe");
        let [written, read] = [bytes(&pipe.writers), bytes(&pipe.readers)];
        assert!(read > 100 * 4096 && written.abs_diff(read) <= 17 * 4096, "{series}: {written}, {read}");
        let machine = machine.machine.as_ref().expect("all processes");
        let first = &machine.channels[0];
        assert!(first.lost_ns > 0, "{series}: {first:#?}");
        assert!(first.bytes.is_some_and(|bytes| bytes > 100 * 4096) && first.full_ns > 0, "{series}: {first:#?}");
        assert_eq!(first.slots.map(|[_, slots]| slots), Some(16), "{series}: {first:#?}");

        let [sampler] = &attached.collectors[..] else { panic!("{series}: {:?}", attached.collectors) };
        assert!(sampler.samples > 0 && sampler.lost == 0, "{series}: {sampler:?}");

        for (collector, recording) in collect.iter().skip(1).zip(collected) {
            check_collected(series, recording, collector);
        }
        if let Some(running) = collected.get(1..).and_then(<[Document]>::last) {
            // Detaching takes up to 0.13 s (7.2), in which only the recording counts. Lost calls were a third.
            for [calls, counted] in counted_calls(series, running).iter().flat_map(BTreeMap::values) {
                let near = calls.abs_diff(*counted) < calls / 5;
                assert!(*calls > 100 && near, "{series}: {calls} calls, {counted} counted");
            }
        }
        assert_eq!(collected.len(), collect.len(), "{series}");
    }
}

/// `collector` counted the same calls as the recording of the same processes.
fn check_collected(series: &str, recording: &Document, collector: &str) {
    moved(recording, &recording.channels[0], 200 * 4096);
    let all = counted_calls(series, recording);
    assert_eq!(all.each_ref().map(BTreeMap::len), [4, 4], "{series}: stages that write, and that read");
    for (stage, [calls, counted]) in all.iter().flatten() {
        match (collector, stage) {
            // The kernel can stop tracing a thread that executes a program (docs/collectors.md), and skip the
            // recording's programs, but not those of function_graph.
            ("fgraph", 3) => {
                let most = calls + recording.skipped;
                assert!(*counted <= most, "{series}: {counted} of {calls}, {} events skipped", recording.skipped);
            }
            _ => exact(recording, *calls, *counted),
        }
    }
    let report = &recording.collectors[0];
    assert_eq!(report.name.name(), collector);
    assert!(report.reason.as_ref().is_none_or(|reason| !reason.contains("lost")), "{series}: {report:#?}");
    let drawn = recording.files.iter().any(|file| file == "stage1-exe.svg");
    assert_eq!(drawn, collector == "fgraph", "{series}: {:?}", recording.files);
}

/// By stage, the calls of `write` and of `read` on pipes that were recorded, and those that a collector counted.
fn counted_calls(series: &str, recording: &Document) -> [BTreeMap<u32, [u64; 2]>; 2] {
    let window = recording.processes.window_ns;
    for row in &recording.functions {
        let threads = 2 * recording.recorded.len() as u64;
        assert!(row.total_ns.is_none_or(|ns| ns <= threads * window), "{series}, {window} ns: {row:#?}");
        assert!(row.missed == 0 || row.how == "function-graph", "{series}: {row:#?}");
    }
    [("write", RoleId::PipeWrite), ("read", RoleId::PipeRead)].map(|(call, role)| {
        let mut stages: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        for end in recording.channels.iter().flat_map(RecordedChannel::ends).filter(|end| end.calls.contains_key(call))
        {
            stages.entry(recording.recorded[end.process].stage).or_default()[0] += end.calls[call];
        }
        for row in recording.functions.iter().filter(|row| row.role == role) {
            let name = row.process.as_str();
            // `stage2-exe`; of processes that were attached to, `stage2-exe` or the program's name.
            let stage = name.strip_prefix("stage").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
            let stage = stage.unwrap_or_else(|| panic!("{series}: {name}"));
            stages.entry(stage - 1).or_default()[1] += row.calls;
        }
        stages
    })
}

#[test]
#[ignore = "boots guests: make test"]
fn programs_of_this_machine_run_in_guests() {
    let folder = tempfile::tempdir().unwrap();
    let [data, input, moved_input] = ["data", "input", "at/another/input"].map(|name| folder.path().join(name));
    std::fs::write(&data, "3\n1\n2\n").unwrap();
    std::fs::create_dir_all(moved_input.parent().unwrap()).unwrap();
    for place in [&input, &moved_input] {
        std::fs::write(place, "first\nsecond\n").unwrap();
    }
    let line = "read -r word; dd if=/dev/zero bs=4k count=1000 2>/dev/null | tr '\\0' x | wc -c; sort /data/n | head -n 1; \
                echo $word; echo problem >&2; exit 3";
    let file = format!("{}:/data/n", data.display());
    for series in SERIES {
        let run = |input, path: &str| {
            let (target, input) = (tempfile::tempdir().unwrap(), std::fs::File::open(input).unwrap());
            let flags = ["--file", &file];
            record_into(&target.path().join("recording"), series, &[("PATH", path)], &flags, &[line], input.into())
        };
        let path = std::env::var("PATH").unwrap();
        let (recorded, document) = run(&input, &path);
        assert_eq!(recorded.stdout(), "4096000\n1\nfirst", "{series}: {}", recorded.stderr());
        assert_eq!(recorded.output.status.code(), Some(3));
        let said = recorded.stderr();
        assert!(said.contains("problem") && said.contains(&format!("Linux {series}.")), "{said}");
        assert!(!said.contains("MiB/s") && !said.contains("MB/s"), "an emulator has no speed: {said}");
        let recording = &recorded.recording;
        let dd = recording.recorded.iter().position(|process| process.name == "dd").unwrap();
        let pipe = recording.channels.iter().find(|pipe| pipe.writers.iter().any(|end| end.process == dd)).unwrap();
        exact(recording, pipe.writers[0].calls["write"], 1000);
        moved(recording, pipe, 4_096_000);
        assert_eq!(recording.sentences()[0].split('`').nth(1), Some("tr"), "{said}");
        // The same document each time, byte for byte, wherever the file of standard input is, and whatever else may be
        // searched for programs: the length of the environment changes what is executed.
        if ["6.1", "7.2"].contains(&series) {
            assert_equal(series, &document, &run(&moved_input, &format!("/not/here:{path}")).1);
        }
    }
}

/// Until 6.14, a reader wakes the writer of a full pipe with every read, even if that read frees no page ("pipe_read:
/// don't wake up the writer if the pipe is still full", commit aaec5a95d596).
#[test]
#[ignore = "boots guests: make test"]
fn wake_ups_after_which_nothing_moves_are_needless() {
    let words = ["dd", "if=/dev/zero", "bs=4k", "count=200", "|", "dd", "bs=512", "of=/dev/null"];
    for series in SERIES {
        let (recorded, _) = record_in_guest(series, &[], &words, Stdio::null());
        let pipe = &recorded.recording.channels[0];
        let writer = &pipe.writers[0];
        // All calls, although the stages share one CPU: 7.2 can preempt programs of sys_exit.
        assert_eq!((recorded.recording.skipped, writer.calls["write"]), (0, 200), "{series}: {}", recorded.stderr());
        assert_eq!(pipe.readers[0].calls["read"], 1601, "{series}");
        let (needless, sleeps) = (writer.needless, writer.sleeps);
        match series {
            "7.2" => assert_eq!(needless, 0, "of {sleeps} sleeps"),
            _ => assert!(needless > sleeps / 2 && needless < sleeps, "{series}: {needless} of {sleeps} sleeps"),
        }
    }
}

#[test]
#[ignore = "boots guests and needs gcc: make test"]
fn waits_for_locks_have_a_caller() {
    let folder = tempfile::tempdir().unwrap();
    let [source, program] = ["hold_lock.c", "hold_lock"].map(|name| folder.path().join(name));
    std::fs::write(&source, include_str!("hold_lock.c")).unwrap();
    let built = Command::new("gcc").args(["-Wall", "-Werror", "-pthread", "-o"]).args([&program, &source]).status();
    assert!(built.unwrap().success());
    let words = [program.to_str().unwrap(), "|", "cat"];
    for (series, caller) in [("5.10", None), ("6.12", Some("pipe_write")), ("7.2", Some("anon_pipe_write"))] {
        // On kernels that preempt BPF programs, the two calls can be missing; the recording then says so.
        let whole = |recorded: &Recorded| recorded.recording.skipped == 0;
        let record = || record_in_guest(series, &["--level", "stacks"], &words, Stdio::null()).0;
        let recorded = (0..3).map(|_| record()).find(whole).expect("nothing skipped in one of three recordings");
        let said = recorded.stderr();
        // One thread holds the lock and waits for its page; the other one waits for the lock. The pipe has room.
        let pipe = &recorded.recording.channels[0];
        let [writer] = &pipe.writers[..] else { panic!("{series}: {pipe:#?}") };
        let page = &recorded.recording.recorded[writer.process].waits[&WaitReason::Memory];
        for (ns, count) in [(page.ns, page.count), (writer.lock_ns, writer.lock_sleeps)] {
            assert!(
                (1..5).contains(&count) && (18_000_000..30_000_000).contains(&ns),
                "{series}: {count}, {ns}: {said}"
            );
        }
        assert_eq!((pipe.writers[0].sleeps, pipe.bytes()), (0, 8192), "{series}: {said}");
        let Some(caller) = caller else {
            assert!(recorded.recording.lock_waits.is_none() && said.contains("since 5.19"), "{said}");
            continue;
        };
        let waits = recorded.recording.lock_waits.as_ref().expect("this kernel reports them");
        let of_writer = waits.iter().find(|wait| wait.process == writer.process && wait.caller == caller);
        let of_writer = of_writer.unwrap_or_else(|| panic!("{said}"));
        assert!(of_writer.ns >= writer.lock_ns && of_writer.ns < 2 * writer.lock_ns, "{series}: {of_writer:?}");
        assert!(said.contains("Waits for locks of the kernel"), "{said}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn an_hour_is_recorded() {
    let words = ["sh", "-c", "while :; do echo line; sleep 10; done", "|", "cat"];
    let (recorded, document) = record_in_guest("6.12", &["--duration", "3600s"], &words, Stdio::null());
    let recording = &recorded.recording;
    assert_eq!(recording.processes.window_ns / 1_000_000_000, 3600);
    let lines = recording.channels[0].writers[0].calls["write"];
    // A line each 10 s, the first at once. The window ends some milliseconds after the 3600 s.
    let most = recording.processes.window_ns.div_ceil(10_000_000_000);
    assert!((358..=most).contains(&lines), "{lines} lines in {} ns", recording.processes.window_ns);
    assert_eq!(recorded.stdout().lines().count() as u64, lines);
    // Processes that start and end all the time are one row each, and the timeline is as long as for a second.
    assert!(document.len() < 200_000, "{} bytes", document.len());
    let sleeper = recording.recorded.iter().find(|process| process.name == "sleep").unwrap();
    assert!(sleeper.threads >= 358, "{sleeper:#?}");
}

#[test]
#[ignore = "boots guests: make test"]
fn every_instruction_of_a_stage_is_counted_with_its_threads_and_children() {
    let compress = |threads: &'static str| ["|", "xz", "-0", threads, "--block-size=16384"];
    let words: Vec<&str> = ["seq", "8000"]
        .into_iter()
        .chain(compress("-T1"))
        .chain(["|", "xz", "-dc", "|", "sh", "-c", "cat; true"])
        .chain(compress("-T2"))
        .chain(["|", "wc", "-c"])
        .collect();
    let folder = tempfile::tempdir().unwrap();
    for series in SERIES {
        let count = |name: &str| {
            let target = folder.path().join(name);
            // Several runs are what the comparison needs, and three the check.
            let runs = if series == "7.2" { "3" } else { "2" };
            let flags = ["--collect", "insn", "--runs", runs];
            let (recorded, document) = record_into(&target, series, &[], &flags, &words, Stdio::null());
            let mut files: Vec<_> = std::fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            // Those of the recording are drawn of the document, which is compared.
            let counted = |name: &str| !name.starts_with("critical-path.") && name != "timeline.svg";
            let profiles = files.into_iter().filter_map(|file| {
                let name = file.file_name()?.to_string_lossy().into_owned();
                let is_profile = (name.ends_with(".folded") || name.ends_with(".svg")) && counted(&name);
                is_profile.then(|| (name, std::fs::read(&file).unwrap()))
            });
            let profiles: Vec<(String, Vec<u8>)> = profiles.collect();
            (recorded, document, profiles)
        };
        let (recorded, document, profiles) = count(series);
        // Folded stacks and a graph of each stage, and one graph of all.
        assert_eq!(profiles.len(), 13, "{series}");
        let said = recorded.stderr();
        let counted = &recorded.recording.attribution;
        let weight = |stage: ProcessName, role| {
            counted.of(stage).iter().find(|share| share.role == role).map_or(0, |share| share.weight)
        };
        let stages: Vec<ProcessName> = counted.processes.names().collect();
        let [_, one, decompress, shell, two, _] = stages[..] else { panic!("{said}") };
        assert_eq!((one.as_str(), shell.as_str()), ("stage2-xz", "stage4-sh"), "{said}");
        // Two threads compress the same blocks as one.
        let [one, two] = [one, two].map(|stage| weight(stage, RoleId::User));
        assert!(one > 1_000_000 && one.abs_diff(two) < one / 20, "{series}: {one} and {two} instructions: {said}");
        // User code is that of its files, which are known by their content.
        let library: u64 =
            String::from_utf8_lossy(&profiles.iter().find(|(name, _)| name == "stage2-xz.folded").unwrap().1)
                .lines()
                .filter_map(|line| line.rsplit_once(' '))
                .filter(|(stack, _)| {
                    let function = stack.rsplit(';').next().unwrap();
                    function.starts_with("liblzma.so.") || function.starts_with("lzma_")
                })
                .map(|(_, weight)| weight.parse::<u64>().unwrap())
                .sum();
        assert!(library > one / 10 * 9 && library <= one, "{series}: {library} of {one}: {said}");
        // The shell's child writes what the stage before it writes.
        let [before, child] = [decompress, shell].map(|stage| weight(stage, RoleId::CopyIn));
        assert!(before > 1000 && before.abs_diff(child) < before / 2, "{series}: {before} and {child}: {said}");
        // The same counts each time, byte for byte: tables, stacks and graphs.
        if series == "7.2" {
            let again = count("again");
            let differ: Vec<&String> =
                again.2.iter().zip(&profiles).filter(|(one, other)| one != other).map(|((name, _), _)| name).collect();
            assert!(differ.is_empty() && again.2.len() == profiles.len(), "{series}: {differ:?} differ");
            // The recording, too.
            assert_equal(series, &document, &again.1);
        }
    }
    let compared = |names: [&str; 2], flags: &[&str]| {
        let folders = names.map(|name| folder.path().join(name));
        let output = pipeprof(&["compare"]).args(flags).args(folders).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = compared(["6.12", "7.2"], &[]);
    assert!(text.contains("6.12.") && text.contains("-> 7.2.") && text.contains("stage5-xz"), "{text}");
    assert!(text.contains("Pipes, before and after:"), "{text}");
    let text = compared(["7.2", "again"], &[]);
    assert!(text.contains("same, exactly ") && text.contains(" before and after"), "{text}");
    // All of them at once, as a report.
    let report = folder.path().join("report");
    let folders = ["6.1", "6.12", "7.2"].map(|name| folder.path().join(name));
    let output = pipeprof(&["compare", "--json", "-o"]).arg(&report).args(&folders).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let section = &json["sections"][0];
    assert_eq!((json["columns"].as_array().unwrap().len(), section["steps"].as_array().unwrap().len()), (3, 3));
    assert_eq!(section["cells"][0]["processes"].as_object().unwrap().len(), 6, "{}", section["cells"][0]);
    assert!(report.join("report.html").exists() && report.join("report.md").exists());
    // The same kernel again is no regression.
    let check = |kernel: &str| {
        let baseline = folder.path().join("7.2");
        let output = pipeprof(&["check", "--kernel", kernel, "--baseline"]).arg(baseline).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = check("7.2");
    assert!(code == Some(0) && said.starts_with("no difference"), "{said}");
    // The stored code is that of the stages: seq writes its 38,893 bytes in so many calls.
    let target = folder.path().join("7.2");
    let annotate = |flags: &[&str]| {
        let output = pipeprof(&["annotate", target.to_str().unwrap(), "pipe_write"]).args(flags).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let text = std::fs::read_to_string(target.join("result.json")).unwrap();
    let recording: Document = serde_json::from_str(&text).unwrap();
    let [text, _] = annotate(&["--process", "stage1-seq"]);
    let writes = recording.channels[0].writers[0].calls["write"];
    assert!(text.contains(&format!(" instructions in {writes} calls, stage1-seq;")), "{writes} writes: {text}");
    let [_, error] = annotate(&["--process", "writer"]);
    assert!(error.contains("known: pipeprof, stage1-seq, stage2-xz"), "{error}");
}

#[test]
#[ignore = "boots guests: make test"]
fn a_pipeline_without_end_is_ended_in_a_guest_and_here() {
    let endless = ["yes", "|", "cat", "|", "wc", "-c"];
    let (recorded, _) = record_in_guest("6.1", &["--duration", "100ms"], &endless, Stdio::null());
    assert_eq!(recorded.output.status.code(), Some(0), "{}", recorded.stderr());
    assert!(recorded.recording.was_limited() && recorded.recording.processes.window_ns < 3_000_000_000);
    assert!(bytes(&recorded.recording.channels[0].writers) > 1 << 20);

    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let pid = folder.path().join("pid");
    let line = format!("sleep 1000 | (cat; true) & echo $! >{}; wait", pid.display());
    let mut command = pipeprof(&["record", "--duration", "300ms", "-o", target.to_str().unwrap(), "--", &line]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pid = std::fs::read_to_string(pid).unwrap();
    let ended = || !std::path::Path::new("/proc").join(pid.trim()).exists();
    assert!(wait_until(Duration::from_secs(10), ended), "the shell's children go on");
}

/// A file with a hole in it, and some bytes before and after it.
fn large_file(path: &Path, bytes: u64) {
    use std::io::{Seek as _, SeekFrom, Write as _};
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(b"first line\n").unwrap();
    file.seek(SeekFrom::Start(bytes - 10)).unwrap();
    file.write_all(b"\nlast line").unwrap();
}

#[test]
#[ignore = "boots guests: make test"]
fn files_that_are_too_large_for_memory_are_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    // QEMU separates options by commas.
    let temporary = folder.path().join("a,b");
    std::fs::create_dir(&temporary).unwrap();
    let large = folder.path().join("large");
    let bytes = 600 << 20;
    large_file(&large, bytes);
    let small = folder.path().join("small");
    std::fs::write(&small, "small\n").unwrap();
    let [large_at, small_at] =
        [(&large, "/new/folder/large"), (&small, "/small")].map(|(path, at)| format!("{}:{at}", path.display()));
    let line = "cat /new/folder/large | wc -c; tail -n 1 /new/folder/large; head -n 1; echo; cat /small";
    for series in ["5.10", "7.2"] {
        let target = folder.path().join(series);
        let mut command = pipeprof(&["record", "--kernel", series, "-o", target.to_str().unwrap()]);
        command.args(["--file", &large_at, "--file", &small_at, "--", line]).env("TMPDIR", &temporary);
        let output = command.stdin(std::fs::File::open(&large).unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, format!("{bytes}\nlast linefirst line\n\nsmall\n"), "{series}: {said}");
        assert!(said.contains("large (600 MiB)") && said.contains("Not exact: "), "{series}: {said}");
        assert!(said.contains("boots, because") && !said.contains("was booted"), "{series}: {said}");
        let text = std::fs::read_to_string(target.join("result.json")).unwrap();
        let recording: Document = serde_json::from_str(&text).unwrap();
        assert_eq!(recording.on_disk.len(), 2, "{:?}", recording.on_disk);
        assert!(!text.contains("a,b"), "no paths of the run");
        assert_eq!(common::listing(&temporary), [""; 0], "the image is removed");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn a_folder_is_on_a_disk_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir_all(data.join("sub folder")).unwrap();
    std::fs::write(data.join("sub folder/x y"), "content\n").unwrap();
    let flag = format!("{}:relative/place", data.display());
    let words = ["cat", "relative/place/sub folder/x y", "|", "cat"];
    let (recorded, _) = record_in_guest("6.12", &["--disk", &flag], &words, Stdio::null());
    assert_eq!(recorded.stdout(), "content", "{}", recorded.stderr());
    let place = std::env::current_dir().unwrap().join("relative/place");
    assert_eq!(recorded.recording.on_disk, [place.display().to_string()]);
    // The root of another system: what the guest already has stays.
    std::fs::create_dir(data.join("tmp")).unwrap();
    std::os::unix::fs::symlink("sub folder", data.join("link")).unwrap();
    let root = format!("{}:/", data.display());
    let line = "cat '/link/x y' | tee /tmp/copy | wc -c; test -c /dev/null && cat /tmp/copy";
    let (recorded, _) = record_in_guest("6.12", &["--disk", &root], &[line], Stdio::null());
    assert_eq!(recorded.stdout(), "8\ncontent", "{}", recorded.stderr());
    assert_eq!(recorded.recording.on_disk, ["/"]);
    // A kernel without this driver.
    let mut command = pipeprof(&["record", "--kernel", "6.12", "--append", "initcall_blacklist=nvme_init"]);
    let output = command.args(["--disk", &flag, "--"]).args(words).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("CONFIG_BLK_DEV_NVME=y"), "{said}");
}
