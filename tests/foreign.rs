//! Text and names of others: what they cannot do to a terminal, to pages, to the meaning of other names, and to what is run.

use pipeprof::result::{Collector, Measurement, PipelineCommand, RecordingRequest, RecordingTarget, SentFile};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Escapes, colours of the background, directions, and what is not seen.
const HOSTILE: &str = "x\u{1b}[8mhidden\u{1b}]0;title\u{7}\u{9b}2J\r\n\u{202e}txt.exe\u{200b}\u{e0041}\u{2066}";

fn pipeprof(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeprof"));
    command.args(arguments).current_dir(folder).env("PIPEPROF_CACHE", folder.join("cache")).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Check that nothing of [`HOSTILE`] is left; our own styles may be there.
fn assert_shown(what: &str, text: &str) {
    let hidden = |c: &char| {
        (c.is_control() && !"\n\t\u{1b}".contains(*c)) || HOSTILE.chars().any(|odd| odd == *c && u32::from(odd) > 0x7f)
    };
    assert_eq!(text.chars().find(hidden), None, "{what}: {text:?}");
    let own = |rest: &str| ["[1m", "[0m", "[38;2;"].iter().any(|style| rest.starts_with(style));
    assert!(text.split('\u{1b}').skip(1).all(own), "{what}: {text:?}");
}

/// A result of a pipeline that was counted in a guest: of `words`, with this file.
fn recording(folder: &Path, words: &[&str], sent: &str) -> PathBuf {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/base/stages.json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(base).unwrap()).unwrap();
    let stages = vec![words.iter().map(|word| (*word).to_owned()).collect()];
    let request = RecordingRequest {
        target: RecordingTarget::Pipeline(PipelineCommand { stages, shell: false }),
        kernel: Some("6.1".to_owned()),
        collect: Some(Collector::Insn),
        files: vec![SentFile { from: sent.into(), to: sent.into() }],
        ..RecordingRequest::default()
    };
    // What is repeated is the request, whatever the document calls it.
    document["command"] = json!("pipeprof record -- true");
    document["request"] = json!(Measurement::Recording(Box::new(request)));
    document["ensemble"] = json!({ "shown": 0, "windows": [] });
    let file = folder.join("result.json");
    std::fs::write(&file, document.to_string()).unwrap();
    file
}

#[test]
fn nothing_of_a_profile_is_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let mut stacks = String::new();
    let odd = HOSTILE.replace(['\r', '\n'], "");
    for (name, weight) in [(odd.as_str(), 7), ("dd", 30)] {
        writeln!(stacks, "{name};main;entry_SYSCALL_64_after_hwframe;do_syscall_64;{odd};pipe_write {weight}").unwrap();
    }
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(format!("{name}{odd}")), &stacks).unwrap();
        let output = pipeprof(folder.path(), &["attribute", &format!("{name}{odd}"), "-o", name, "--color", "always"]);
        assert!(output.status.success(), "{}", said(&output));
        assert_shown("attribute", &said(&output));
    }
    let output = pipeprof(folder.path(), &["attribute", &format!("a{odd}"), "-o", "c", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["mode"], json!(format!("a{odd}")), "JSON keeps its texts");
    assert_shown("--json", &said(&output));
    for words in [
        &["compare", "a", "b", "-o", "compared", "--color", "always"][..],
        &["export", "a", "--to", "csv", "-o", "csv"],
        &["export", "a", "--to", "perf-script", "-o", "script"],
        &["export", "a", "--to", "speedscope", "-o", "speedscope"],
        &["flamegraph", "a", "-o", "graph.svg"],
        &["flamegraph", &format!("b{odd}"), "--diff", &format!("a{odd}"), "-o", "diff.svg"],
    ] {
        let output = pipeprof(folder.path(), words);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        assert_shown(words[0], &said(&output));
    }
    let mut waiting: Vec<PathBuf> = ["a", "compared", "csv", "script", "speedscope", "graph.svg", "diff.svg"]
        .map(|name| folder.path().join(name))
        .into();
    let mut files = 0;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            assert_shown(&path.display().to_string(), &text);
            assert!(!text.contains('\u{1b}'), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 12, "{files}");
}

#[test]
fn words_of_a_command_line_may_be_names_of_files() {
    let folder = tempfile::tempdir().unwrap();
    for words in
        [vec!["compare", HOSTILE, "y"], vec!["run", "--mode", HOSTILE], vec!["record", &format!("--{HOSTILE}")]]
    {
        let output = pipeprof(folder.path(), &words);
        assert!(!output.status.success());
        assert_shown(words[0], &said(&output));
    }
}

#[test]
fn weights_that_no_result_can_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let profile = |weight: u64| std::fs::write(folder.path().join("profile"), format!("dd;main {weight}\n")).unwrap();
    profile(1 << 53);
    let output = pipeprof(folder.path(), &["attribute", "profile", "-o", "out"]);
    let why = said(&output);
    assert!(!output.status.success() && why.lines().count() == 1, "{why}");
    assert!(
        why.contains("profile: its weights add up to 9007199254740992") && !folder.path().join("out").exists(),
        "{why}"
    );
    profile((1 << 53) - 1);
    assert!(pipeprof(folder.path(), &["attribute", "profile", "-o", "out"]).status.success());
    let output = pipeprof(folder.path(), &["flamegraph", "out", "-o", "graph.svg"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn one_process_with_few_samples_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("profile"), "dd;main 3\n").unwrap();
    let output = pipeprof(folder.path(), &["attribute", "profile", "-o", "out"]);
    let text = said(&output);
    assert!(text.contains("Time of dd on a CPU by role (3 samples)") && !text.contains(" more in"), "{text}");
}

#[test]
fn a_damaged_kernel_is_not_an_empty_cache() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("cache/kernels/6.1.2");
    std::fs::create_dir_all(&kernel).unwrap();
    std::fs::write(kernel.join("vmlinuz"), "").unwrap();
    for (about, why) in [
        ("{".to_owned(), "EOF"),
        (json!({ "release": "6.12", "version": "6.12", "origin": "" }).to_string(), "another release"),
        (json!({ "release": "6.1.2", "version": HOSTILE, "origin": "" }).to_string(), "version"),
    ] {
        std::fs::write(kernel.join("kernel.json"), about).unwrap();
        for words in [&["kernel", "list", "--color", "always"][..], &["kernel", "boot", "6.1.2"]] {
            let text = said(&pipeprof(folder.path(), words));
            assert!(!text.contains("no kernels") && text.contains("kernel.json: ") && text.contains(why), "{text}");
            assert!(text.contains("pipeprof kernel remove 6.1.2"), "{text}");
            assert_shown("kernel", &text);
        }
    }
    let output = pipeprof(folder.path(), &["kernel", "remove", "6.1.2"]);
    assert!(output.status.success() && !kernel.exists(), "{}", said(&output));
    assert!(said(&pipeprof(folder.path(), &["kernel", "list"])).contains("no kernels"));
}

#[test]
fn the_caller_s_own_recordings_are_repeated_without_a_flag() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path(), &["head", "-c", "1M", "/dev/zero"], "/etc/hostname");
    // The next problem is the kernel, which this cache does not have.
    let output = pipeprof(folder.path(), &["check", "--baseline", ".", "--kernel", "9.9"]);
    let why = said(&output);
    assert!(!why.contains("--run-stored-command") && why.contains("9.9"), "{why}");
}

#[test]
#[ignore = "gives files to another user, needs root: make test"]
fn recordings_of_other_users_are_repeated_on_request_only() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = recording(folder.path(), &["cat", "/etc/shadow", HOSTILE], "/etc/shadow");
    std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
    let check = |more: &[&str], sudo: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pipeprof"));
        command.args(["check", "--baseline", ".", "--kernel", "9.9"]).args(more).current_dir(folder.path());
        command.env_remove("SUDO_UID").envs(sudo.map(|uid| ("SUDO_UID", uid)));
        let output = command.env("PIPEPROF_CACHE", folder.path().join("cache")).output().unwrap();
        (output.status.code(), said(&output))
    };
    let (code, why) = check(&[], None);
    assert_eq!(code, Some(128), "{why}");
    assert!(
        why.contains("belongs to user 12345")
            && why.contains("--file=/etc/shadow -- cat /etc/shadow")
            && why.contains("--run-stored-command")
    );
    assert_shown("check", &why);
    assert_eq!(why.lines().count(), 1, "{why}");
    assert!(check(&[], Some("54321")).1.contains("--run-stored-command"));
    for (more, sudo) in [(&["--run-stored-command"][..], None), (&[], Some("12345"))] {
        let (_, why) = check(more, sudo);
        assert!(!why.contains("--run-stored-command") && why.contains("9.9"), "{why}");
    }
    let again = pipeprof(folder.path(), &["repeat", ".", "--kernel", "9.9"]);
    let why = said(&again);
    assert!(again.status.code() == Some(2) && why.contains("belongs to user 12345"), "{why}");
    let again = said(&pipeprof(folder.path(), &["repeat", ".", "--kernel", "9.9", "--run-stored-command"]));
    assert!(!again.contains("belongs to") && again.contains("9.9"), "{again}");
    assert_shown("repeat", &again);
}
