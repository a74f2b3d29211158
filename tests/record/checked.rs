//! `check`: a program against its baseline, counted in guests.

use crate::common::{self, pipeprof};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
#[ignore = "boots guests and needs gcc: make test"]
fn a_program_is_checked_against_its_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("gate.c");
    std::fs::write(&source, include_str!("gate.c")).unwrap();
    let build = |flags: &[&str]| {
        let mut gcc = Command::new("gcc");
        let built = gcc.args(["-O2", "-Wall", "-Werror"]).args(flags).args(["-o", "gate", "gate.c"]);
        assert!(built.current_dir(folder.path()).status().unwrap().success());
    };
    let check = |flags: &[&str]| {
        let mut command = pipeprof(&["check"]);
        let command = command.current_dir(folder.path()).args(flags).args(["--runs", "5", "--", "./gate | cat"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.code(), said.concat())
    };
    build(&[]);
    // A program that moves a file to a pipe by splice, and later does no more.
    std::fs::write(folder.path().join("pass.c"), include_str!("pass.c")).unwrap();
    let build_pass = |flags: &[&str]| {
        let mut gcc = Command::new("gcc");
        let built = gcc.args(["-O2", "-Wall", "-Werror"]).args(flags).args(["-o", "pass", "pass.c"]);
        assert!(built.current_dir(folder.path()).status().unwrap().success());
    };
    build_pass(&[]);
    std::fs::write(folder.path().join("data"), vec![7; 4 << 20]).unwrap();
    let bench = "files = ['data']
fail-above = { system-calls = 20 }
warn-above = { page-faults = 10, bytes = '1%' }
[[command]]
run = './gate | cat'
[[command]]
run = './pass < data | cat'
fail-above = { instructions = '100%', system-calls = '1000%' }
";
    std::fs::write(folder.path().join("bench.toml"), bench).unwrap();
    // Its runs differ by when the two wait for each other: three can be too few to decide within 1 %.
    let mut both = pipeprof(&["check", "--runs", "5", "--kernel", "6.12", "-o", "base", "--commands", "bench.toml"]);
    let output = both.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let base = folder.path().join("base/.-gate-|-cat-1-cpu");
    let base = base.to_str().unwrap();
    // Its functions, to the instruction: a loop of 4 instructions for each of 4,096 bytes, and one of 3 for each of 50 turns.
    let stacks = std::fs::read_to_string(Path::new(base).join("stage1-gate.folded")).unwrap();
    let weight = |end: &str| -> u64 {
        let lines = stacks.lines().filter_map(|line| line.rsplit_once(' '));
        lines.filter(|(stack, _)| stack.ends_with(end)).map(|(_, weight)| weight.parse::<u64>().unwrap()).sum()
    };
    let code = |function: &str| {
        let output =
            pipeprof(&["annotate", base, function, "--process", "stage1-gate"]).current_dir(folder.path()).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    for (function, turns) in [("sum", 4096 * 500), ("mixed", 50 * 500)] {
        let shown = code(&if function == "sum" { format!("{function}.constprop.0") } else { function.to_owned() });
        // Blocks of the loop are executed once in each turn, and some instructions once in each call.
        let in_loop = shown.lines().filter(|line| line.contains(&format!(" {} ", grouped(turns)))).count() as u64;
        assert!(in_loop >= 3, "{shown}");
        let all = if function == "sum" { weight("main;sum.constprop.0") } else { weight("main;mixed") };
        assert!((turns * in_loop..turns * in_loop + 20 * 500).contains(&all), "{all}: {shown}");
    }
    // From `main` to the last function of the kernel: all that writes to the pipe does so below it.
    let total = |contains: &dyn Fn(&str) -> bool| -> u64 {
        let lines = stacks.lines().filter_map(|line| line.rsplit_once(' '));
        lines.filter(|(stack, _)| contains(stack)).map(|(_, weight)| weight.parse::<u64>().unwrap()).sum()
    };
    let writes = total(&|stack| stack.contains(";pipe_write"));
    let by_main = total(&|stack| stack.starts_with("main;") && stack.contains(";pipe_write"));
    assert!(writes > 500 * 100 && by_main > writes / 100 * 99, "{by_main} of {writes}: {stacks}");
    // A system call more for each block is named, and is a regression if its kind of limit is given.
    build(&["-DEXTRA_CALL"]);
    build_pass(&["-DLOST"]);
    // As a job of a CI system does it.
    let path = format!("{}:{}", common::binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("build/ci/check");
    let variables = [
        ("COMMANDS", "bench.toml"),
        ("BASELINE", "base"),
        ("FAIL_ABOVE_CALLS", "5%"),
        ("REPORT", "report"),
        ("PATH", &path),
    ];
    let job = Command::new(script).current_dir(folder.path()).envs(variables).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&job.stdout).into_owned();
    assert_eq!(job.status.code(), Some(1), "{said}");
    assert!(said.contains("500 more getppid by gate (0 to 500)"), "{said}");
    assert!(said.starts_with("regression"), "{said}");
    // Each has a verdict and limits of its own: the second one only warns, because it reads and
    // writes all that it moved.
    assert!(
        said.contains("\n  regression            ./gate | cat\n  above a soft limit    ./pass < data | cat\n"),
        "{said}"
    );
    assert!(said.contains("./gate | cat: regression: system calls +") && said.contains(", limit +20)"), "{said}");
    assert!(said.contains("./pass < data | cat: warning: bytes moved by system calls +4,194,304 ("), "{said}");
    assert!(said.contains("65 more read and 64 more write instead of 64 splice;"), "{said}");
    let (code, alone) = check(&["--baseline", "base", "--fail-above-calls", "5%"]);
    assert!(code == Some(1) && alone.contains("500 more system calls"), "{alone}");
    let comment = std::fs::read_to_string(folder.path().join("report/comment.md")).unwrap();
    assert!(comment.starts_with("<!-- pipeprof check -->\n**pipeprof: regression"), "{comment}");
    assert!(comment.contains("(getppid +500) |") && comment.contains("regression: system calls +"), "{comment}");
    let table = comment.lines().position(|line| line.starts_with("<details>")).unwrap();
    assert!(table <= 15, "{comment}");
    let junit = std::fs::read_to_string(folder.path().join("report/junit.xml")).unwrap();
    assert!(
        junit.contains("tests=\"2\" failures=\"1\" errors=\"0\"") && junit.contains("name=\"./gate | cat\""),
        "{junit}"
    );
    assert!(
        junit.contains("<failure message=\"regression: ") && junit.contains("getppid of stage1-gate: 0 to 500"),
        "{junit}"
    );
    // Do loops run more often, or did the compiler make other code for the same loops?
    build(&["-DQUADRATIC", "-g"]);
    let (code, said) = check(&["--baseline", "base"]);
    // Where the loop is in the source, and not how lines are broken.
    let said = said.replace('\n', " ");
    let named = said
        .split_once("more work: a loop in main (gate.c:")
        .map(|(_, rest)| rest.trim_start_matches(|one: char| one.is_ascii_digit()));
    assert!(code == Some(1) && named.is_some_and(|rest| rest.starts_with(") runs 124,750 times")), "{said}");
    build(&["-O0"]);
    let (code, said) = check(&["--baseline", "base"]);
    assert!(code == Some(1) && said.contains("the same work, other code"), "{said}");
    // Code that has only moved is no difference.
    build(&["-DMOVED"]);
    let (code, said) = check(&["--baseline", "base", "--fail-above-calls", "0%"]);
    assert!(code == Some(0) && said.starts_with("no difference"), "{said}");
    // Stripped, functions are named by their places.
    build(&["-DMOVED", "-s"]);
    let (code, said) = check(&["--baseline", "base", "-o", "stripped", "--json"]);
    let json = said.split_once("pipeprof:").map_or(&said[..], |(json, _)| json);
    let json: serde_json::Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((code, &json["verdict"], &json["cases"][0]["name"]), (Some(0), &"same".into(), &"./gate | cat".into()));
    // What has not changed is counted once, and has all else of its baseline.
    let (code, said) = check(&["--baseline", "stripped", "-o", "unchanged"]);
    assert!(code == Some(0) && said.contains("same, exactly"), "{said}");
    let is_taken = ["stripped", "unchanged"].map(|of| {
        let document = std::fs::read_to_string(folder.path().join(of).join("result.json")).unwrap();
        document.contains("so all else is the baseline's")
    });
    assert_eq!(is_taken, [false, true]);
    build(&["-DQUADRATIC", "-s"]);
    let (code, said) = check(&["--baseline", "stripped"]);
    assert!(code == Some(1) && said.contains("more work: a loop in gate+0x"), "{said}");
}

#[test]
#[ignore = "boots guests and needs gcc: make test"]
fn what_was_built_otherwise_is_told_from_more_work() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("grain.c"), include_str!("grain.c")).unwrap();
    let check = |flags: &[&str], how: &[&str]| {
        let mut gcc = Command::new("gcc");
        let built = gcc.args(["-Wall", "-Werror"]).args(flags).args(["-o", "grain", "grain.c"]);
        assert!(built.current_dir(folder.path()).status().unwrap().success());
        let mut command = pipeprof(&["check"]);
        let command = command.current_dir(folder.path()).args(how).args(["--", "./grain | cat"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.code(), said.concat())
    };
    let (code, said) = check(&["-O3"], &["--kernel", "6.12", "-o", "base"]);
    assert_eq!(code, Some(0), "{said}");
    // Small writes, a function that is no longer inlined, and no vectors.
    let cases = [
        (&["-O3", "-DBLOCK=4096"][..], "960 more write by grain (64 to 1,024)"),
        (&["-O3", "-DAPART"], "the same work, other code"),
        (&["-O2"], "the same work, other code"),
    ];
    for (flags, text) in cases {
        let (code, said) = check(flags, &["--baseline", "base"]);
        let first = said.split("largest contributor:").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(code == Some(1) && first.starts_with("regression") && first.contains(text), "{flags:?}: {said}");
    }
}

/// `2,048,000`.
fn grouped(number: u64) -> String {
    pipeprof::util::text::grouped(number)
}
