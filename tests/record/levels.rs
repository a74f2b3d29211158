//! `--level` and `--collect sample`: stacks of sleeps, and what the programs execute.

use super::{ALL, Recorded, limited_by_timer, record_at_level};
use crate::common::pipeprof;
use pipeprof::profile::ProcessName;
use pipeprof::result::{Document, RecordedChannel, RecordedProcess};
use pipeprof::roles::RoleId;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
#[ignore = "needs root: make test"]
fn stacks_of_sleeps_have_the_time_that_was_slept() {
    let stages: [&[&str]; 2] = [&["write", "4096", "40", "10000"], &["read", "65536", ALL]];
    let (recorded, folder) = record_at_level(&["--level", "stacks"], &stages);
    let pipe = &recorded.recording.channels[0];
    let blocked_us = pipe.readers.iter().map(|end| end.blocked_ns).sum::<u64>() / 1000;
    let folded = std::fs::read_to_string(folder.path().join("recording/off-cpu.folded")).unwrap();
    let sum = |wanted: &[&str]| -> u64 {
        let lines = folded.lines().filter(|line| wanted.iter().all(|part| line.contains(part)));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    // The reader sleeps in pipe_read until the writer writes; the writer sleeps until a timer's interrupt.
    let reads = sum(&["pipe_read;", ";--;", "pipe_write;"]);
    assert!(reads.abs_diff(blocked_us) <= blocked_us / 10 && reads > 300_000, "{reads} of {blocked_us}: {folded}");
    let timer = sum(&["nanosleep", ";--;", ";[interrupt] "]);
    assert!(timer > 300_000, "{timer}: {folded}");
    let svg = std::fs::read_to_string(folder.path().join("recording/off-cpu.svg")).unwrap();
    assert!(svg.contains("pipe_read"));
    // Drawn again, it is the same; downwards, it is not.
    let drawn = |more: &[&str]| {
        let mut command = pipeprof(&["flamegraph", "--process", "off-cpu", "-o", "-"]);
        let output = command.args(more).arg(folder.path().join("recording")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(drawn(&[]), svg);
    assert_ne!(drawn(&["--icicle"]), svg);
}

#[test]
#[ignore = "needs root: make test"]
fn without_calls_the_answer_is_the_same() {
    let stages: [&[&str]; 2] = [&["write", "4096", "200", "2000"], &["read", "65536", ALL]];
    let (recorded, folder) = record_at_level(&["--level", "sched"], &stages);
    limited_by_timer(&recorded.answer(), "test-programs write");
    let recording = &recorded.recording;
    assert_eq!(recording.recorded.iter().map(|process| process.calls).sum::<u64>(), 0);
    assert!(recording.channels[0].readers[0].sleeps > 100 && recorded.empty(0) > 0.5, "{recording:#?}");
    assert!(!folder.path().join("recording/off-cpu.svg").exists());
    let target = folder.path().join("recording");
    let output = pipeprof(&["flamegraph", "--process", "off-cpu", target.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("record it with --level stacks"), "{said}");
    assert!(!recorded.stderr().contains("Calls on pipes"), "{}", recorded.stderr());
}

#[test]
#[ignore = "takes seconds: make test"]
fn looks_into_proc_give_the_same_answer() {
    let stages: [&[&str]; 2] = [&["write", "4096", "400", "3000"], &["read", "65536", ALL]];
    for observer in ["proc", "perf"] {
        looked(observer, &record_at_level(&["--observe", observer], &stages).0);
    }
}

fn looked(observer: &str, recorded: &Recorded) {
    limited_by_timer(&recorded.answer(), "test-programs write");
    let recording = &recorded.recording;
    let looks = recording.looks.unwrap();
    assert!(looks.looks > 20 && looks.unreadable == 0, "{looks:?}");
    assert_eq!(looks.events.is_some_and(|events| events > 800), observer == "perf", "{looks:?}");
    let calls: u64 = recording.recorded.iter().map(|process| process.calls).sum();
    assert!(calls == 0 && recorded.empty(0) > 0.5, "{recording:#?}");
    // The kernel tells the times of threads exactly.
    let lived: u64 = recording.recorded.iter().map(|process| process.lived_ns).sum();
    let known = |process: &RecordedProcess| {
        process.cpu_ns + process.runnable_ns + process.waits.values().map(|wait| wait.ns).sum::<u64>()
    };
    let at_pipes: u64 = recording.channels.iter().flat_map(RecordedChannel::ends).map(|end| end.blocked_ns).sum();
    let sum: u64 = recording.recorded.iter().map(known).sum::<u64>() + at_pipes;
    assert!(sum <= lived + lived / 20 && sum >= lived / 2, "{sum} of {lived}: {recording:#?}");
    assert!(recorded.stderr().contains("looks into /proc"), "{}", recorded.stderr());
    // Nothing was refused, so there is nothing to say of rights.
    assert!(recording.warnings.is_empty(), "{:?}", recording.warnings);
}

#[test]
#[ignore = "needs perf events: make test"]
fn perf_events_show_processes_that_live_shortly() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("r");
    let line = "for i in $(seq 60); do /bin/true; done; for i in $(seq 60); do /bin/echo $i; done | cat";
    let flags = ["record", "--observe", "perf", "-o", target.to_str().unwrap(), "--", line];
    let output = pipeprof(&flags).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(target.join("result.json")).unwrap();
    let recording: Document = serde_json::from_str(&text).unwrap();
    super::path::adds_up(&recording);
    let named = |name: &str| {
        let of = recording.recorded.iter().filter(|process| process.name == name);
        of.map(|process| process.pids.len()).sum::<usize>()
    };
    assert_eq!(["true", "echo", "cat"].map(named), [60, 60, 1], "{recording:#?}");
}

#[test]
#[ignore = "takes seconds: make test"]
fn looks_leave_out_other_programs_of_a_script() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("r");
    // All of them are of one process group.
    let script = format!(
        "{} record -q --observe proc -o {} -- 'sleep 1 | cat' & for i in $(seq 12); do sh -c 'dd if=/dev/zero bs=1 count=9 | cat; sleep 0.1' \
         >/dev/null; done 2>/dev/null; wait",
        crate::common::binary().display(),
        target.display()
    );
    // Not the one of other tests, which have orphans.
    let ended = Command::new("sh").args(["-c", &script]).process_group(0).stdin(Stdio::null()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let recording: Document =
        serde_json::from_str(&std::fs::read_to_string(target.join("result.json")).unwrap()).unwrap();
    let mut names: Vec<&str> = recording.recorded.iter().map(|process| process.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cat", "sh", "sleep"], "{recording:#?}");
}

/// A copy of pipeprof that every user may execute, in a folder where all may write.
fn for_everybody() -> (tempfile::TempDir, std::path::PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("pipeprof");
    crate::common::copy_program(&crate::common::binary(), &program);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, program)
}

/// As the seccomp profiles of containers do.
fn refuse_perf_events(command: &mut Command) {
    let filter = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let filters = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_perf_event_open as u32, 0, 1),
        filter(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        filter(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let refuse = move || {
        let mut filters = filters;
        let program = libc::sock_fprog { len: filters.len() as u16, filter: filters.as_mut_ptr() };
        // SAFETY: the filters exist during the call, and concern this process alone.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
        };
        if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: calls nothing else between fork and exec.
    unsafe { command.pre_exec(refuse) };
}

#[test]
#[ignore = "needs root: make test"]
fn an_ordinary_user_gets_an_answer_and_what_is_missing() {
    const NOBODY: u32 = 65_534;
    let (folder, program) = for_everybody();
    let record = |flags: &[&str], refused: bool| {
        let _ = std::fs::remove_dir_all(folder.path().join("r"));
        let mut command = Command::new(&program);
        command.arg("record").args(flags).args(["-o", "r", "--", "sleep 1 | cat; exit 3"]);
        // Looks take orphans of their process group for the pipeline's; other tests have some, too.
        command.uid(NOBODY).gid(NOBODY).process_group(0).current_dir(folder.path()).stdin(Stdio::null());
        if refused {
            refuse_perf_events(&mut command);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = record(&["--observe", "bpf"], false);
    assert!(code == Some(1) && said.contains("run with sudo"), "{said}");
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let may = level.trim().parse::<i32>().unwrap() <= 2;
    if !may {
        let (code, said) = record(&["--observe", "perf"], false);
        assert!(code == Some(1) && said.contains("sudo sysctl kernel.perf_event_paranoid=2"), "{said}");
    }
    let asked: [&[&str]; 3] = [&["--observe", "proc"], &["--observe", "perf"], &[]];
    for (flags, events) in asked.into_iter().zip([false, true, may]).filter(|(_, events)| may || !events) {
        let (code, said) = record(flags, false);
        assert_eq!(code, Some(3), "{said}");
        let answer = said.split("Recorded:").next().unwrap();
        assert!(answer.contains("`sleep` sleeping on a timer") && answer.contains("look"), "{said}");
        assert_eq!(answer.contains("perf event"), events, "{said}");
    }
    let (_, said) = record(&[], true);
    assert!(said.contains("looks into /proc") && !said.contains("perf events of threads"), "{said}");
    let missing = said.split("Limits:").nth(1).unwrap();
    assert!(missing.contains("bytes") && missing.contains("sudo") && missing.contains("perf events are not"), "{said}");
    let text = std::fs::read_to_string(folder.path().join("r/result.json")).unwrap();
    let recording: Document = serde_json::from_str(&text).unwrap();
    super::path::adds_up(&recording);
    assert_eq!(recording.channels.len(), 1, "{recording:#?}");
}

#[test]
#[ignore = "needs root: make test"]
fn samples_show_what_each_program_spends_its_time_on() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("recording");
    let line = "head -c 300M /dev/zero | tr '\\0' x | wc -c";
    let mut command = pipeprof(&["record", "--collect", "sample", "-o", target.to_str().unwrap(), "--", line]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let read =
        |name: &str| std::fs::read_to_string(target.join(name)).unwrap_or_else(|error| panic!("{error}: {said}"));
    let recording: Document = serde_json::from_str(&read("result.json")).unwrap();
    let weight = |name: &str, role: RoleId| {
        let shares = recording.attribution.of(ProcessName::new(name));
        assert!(!shares.is_empty(), "{said}");
        shares.iter().find(|share| share.role == role).map_or(0, |share| share.weight)
    };
    // The part of what each byte costs. Switches and the recorder's own programs take more time on a busy machine.
    let share = |name: &str, role: RoleId| {
        let bytes: u64 = [RoleId::Device, RoleId::CopyIn, RoleId::CopyOut].map(|role| weight(name, role)).iter().sum();
        weight(name, role) as f64 / bytes as f64
    };
    // Only tr does something with the bytes; only head reads /dev/zero.
    assert!(weight("tr", RoleId::User) > 2 * weight("wc", RoleId::User), "{said}");
    assert!(share("head", RoleId::Device) > 0.1 && share("wc", RoleId::Device) < 0.1, "{said}");
    assert!(share("head", RoleId::CopyIn) > 0.1 && share("head", RoleId::CopyOut) < 0.1, "{said}");
    let mut sums = [0.0, 0.0];
    for process in &recording.recorded {
        let expected = process.cpu_ns as f64 * 4999e-9;
        let found = recording.attribution.weight(ProcessName::new(&process.name)) as f64;
        // A switch counts for the process that comes next.
        assert!(expected < 200.0 || (found / expected - 1.0).abs() < 0.25, "{found} of {expected} samples: {said}");
        sums = [sums[0] + expected, sums[1] + found];
    }
    assert!((sums[1] / sums[0] - 1.0).abs() < 0.05, "{sums:?} samples: {said}");
    // In the C library, in the kernel called from there, and in tr itself, which has no symbols.
    let folded = read("tr.folded");
    assert!(folded.contains("tr;[tr] ") && folded.contains("entry_SYSCALL_64"), "{folded}");
    assert!(!folded.contains("tr;[user] "), "{folded}");
    let drawn = |process: &str| {
        let arguments = ["flamegraph", target.to_str().unwrap(), "--process", process, "-o", "-"];
        let output = pipeprof(&arguments).output().unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    assert!(drawn("tr")[0].contains("<title>tr "), "{:?}", drawn("tr"));
    assert!(drawn("both")[0].contains("<title>wc "), "{:?}", drawn("both"));
    assert!(drawn("cat")[1].contains("known: ") && drawn("cat")[1].contains("head"), "{:?}", drawn("cat"));
    // The width of the critical path is the wall time, and tr's functions are in it.
    let path = read("critical-path.folded");
    let width: u64 = path.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(width, recording.processes.window_ns, "{path}");
    assert!(path.contains("tr;on a CPU;[tr] "), "{path}");
    assert_eq!(drawn("critical-path")[0], read("critical-path.svg"));
    let page = read("record.html");
    // On a busy machine, it may be another one than tr.
    let limiting = recording.sentences()[0].split('`').nth(1).unwrap();
    let first = format!("% <code>{limiting}</code> ");
    assert!(page.contains(&first) && page.contains("Critical path") && page.contains(">all<"), "{said}");
    assert!(read("all.svg").contains("Linux") && said.contains("Time of tr on a CPU by role"), "{said}");
}

/// A program with debug information of its own, one whose information is in another file and that begins within a shell,
/// and one in a mount namespace in which its path is not that of this machine's file.
#[test]
#[ignore = "needs root and gcc: make test"]
fn samples_name_the_functions_of_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let source =
        "__attribute__((noinline)) static long burn(long n) { volatile long x = 0; while (n--) x += n; return x; }
        int main(void) { return burn(200000000) == 1; }";
    std::fs::write(path("burn.c"), source).unwrap();
    std::fs::write(path("other.c"), source.replace("burn", "misnamed")).unwrap();
    std::fs::create_dir(path("root")).unwrap();
    let run = |words: &[&str]| {
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["gcc", "-g", "-O1", &path("burn.c"), "-o", &path("burn")]);
    run(&["objcopy", "--only-keep-debug", &path("burn"), &path("burn.debug")]);
    run(&[
        "objcopy",
        "--strip-all",
        &format!("--add-gnu-debuglink={}", path("burn.debug")),
        &path("burn"),
        &path("stripped"),
    ]);
    run(&["gcc", "-g", "-O1", &path("other.c"), "-o", &path("root/inside")]);
    let [root, inside] = [path("root"), path("root/inside")];
    let enter = format!("mount -t tmpfs none {root}; cp {} {inside}; exec {inside}", path("burn"));
    let line = format!(
        "{} | cat; sh -c 'exec {}' | cat; unshare --mount sh -c '{enter}' | cat",
        path("burn"),
        path("stripped")
    );
    let target = path("recording");
    let output = pipeprof(&["record", "--collect", "sample", "-o", &target, "--", &line]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    for name in ["burn", "stripped", "inside"] {
        let folded = std::fs::read_to_string(Path::new(&target).join(format!("{name}.folded"))).unwrap();
        let weight = |named: bool| -> u64 {
            // With the interrupts that it is interrupted by.
            let lines = folded.lines().filter(|line| !named || line.contains(";burn"));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
        };
        assert!(weight(true) * 10 > weight(false) * 7, "{name}: {folded}\n{said}");
        assert!(!folded.contains("misnamed"), "{folded}");
    }
}
