//! The GitHub action's steps as plain shell: the verdict, the summary, the report, and the exit code.

use crate::common::{binary, kernel, pipeprof};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

const FLAGS: &str = "--boot-limit 900 --time-limit 3000";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The shell text of each step of action.yml with a `run`, by its name.
fn steps() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root().join("action.yml")).unwrap();
    let mut steps = BTreeMap::new();
    let (mut name, mut inside) = (String::new(), false);
    for line in text.lines() {
        if let Some(new) = line.strip_prefix("    - name: ") {
            (name, inside) = (new.to_owned(), false);
        } else if line == "      run: |" {
            inside = true;
        } else if let (true, Some(command)) = (inside, line.strip_prefix("        ")) {
            let step: &mut String = steps.entry(name.clone()).or_default();
            step.push_str(command);
            step.push('\n');
        }
    }
    steps
}

/// Run a step as the runner does, with this build in PATH.
fn step(name: &str, folder: &Path, variables: &[(&str, &str)]) -> Output {
    let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &steps()[name]])
        .current_dir(folder)
        .env("PATH", path)
        .env("GITHUB_ACTION_PATH", root())
        .env("GITHUB_STEP_SUMMARY", folder.join("summary.md"))
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn every_step_is_a_script_that_bash_reads() {
    let steps = steps();
    assert_eq!(steps.keys().collect::<Vec<_>>(), ["Check", "Fetch the kernel", "Install"]);
    for (name, text) in steps {
        let output = Command::new("bash").args(["-n", "-c", &text]).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        // Values of inputs come by variables: in the text they could be commands.
        assert!(!text.contains("${{"), "{name}: {text}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn a_job_passes_fails_or_says_why_it_cannot_tell() {
    for series in ["6.1", "6.12"] {
        kernel(series);
    }
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    let baseline = pipeprof(&["check", "--kernel", "6.1", "-o", "baseline", "--run-flags"])
        .arg(format!("--cpus 1 --calls 20 --runs 3 --warmup 1M {FLAGS}"))
        .current_dir(top)
        .output()
        .unwrap();
    assert!(baseline.status.success(), "{}", String::from_utf8_lossy(&baseline.stderr));
    let check = |kernel: &str, report: &str| {
        let variables = [
            ("KERNEL", kernel),
            ("BASELINE", "baseline"),
            ("HISTORY", ""),
            ("FAIL_ABOVE", "1%"),
            ("RUN_FLAGS", FLAGS),
            ("REPORT", report),
        ];
        let output = step("Check", top, &variables);
        let summary = std::fs::read_to_string(top.join("summary.md")).unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), summary)
    };
    // A kernel in the cache is not fetched again.
    assert!(step("Fetch the kernel", top, &[("KERNEL", "baseline/result.json")]).status.success());
    let (code, said, summary) = check("6.1", "same");
    assert!(code == Some(0) && said.starts_with("no difference"), "{said}");
    assert!(summary.starts_with("### pipeprof: 6.1: no difference (threshold +1 %)"), "{summary}");
    let (code, said, summary) = check("6.12", "worse");
    assert!(code == Some(1) && said.starts_with("regression"), "{said}");
    assert!(summary.contains("### pipeprof: 6.12: **regression (threshold +1 %)**"), "{summary}");
    assert!(summary.contains("largest contributor: page allocation"), "{summary}");
    assert!(std::fs::read_to_string(top.join("worse/comparison/report.html")).unwrap().contains("page allocation"));
    // An image that does not boot.
    std::fs::write(top.join("bzImage"), "no kernel").unwrap();
    let (code, _, summary) = check("./bzImage", "broken");
    assert!(code == Some(125) && summary.contains("**could not be tested**: "), "{summary}");
}
