//! Comparisons of real kernels in guests: the same kernel twice shows no difference to the instruction, another
//! kernel does, and `check` returns the exit codes that `git bisect run` expects.

use crate::common::{kernel, pipeprof};
use serde_json::Value;

/// Small, with long limits: other tests may be using the machine. Blocks of 256 KiB, because with 16 KiB writer and reader
/// of 6.12 have two schedules, in which the pipe keeps more or fewer of its pages: 547 or 598 instructions per KiB.
const FLAGS: &str = "--calls 50 --warmup 4M --boot-limit 900 --time-limit 3000";

#[test]
#[ignore = "boots guests: make test"]
fn check_boots_the_guest_of_its_baseline() {
    kernel("6.1");
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline");
    let output = pipeprof(&["run", "--kernel", "6.1", "--collect", "insn", "--cpus", "2", "--append", "psi=0"])
        .args(FLAGS.split(' '))
        .arg("-o")
        .arg(&baseline)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let again = folder.path().join("again");
    let output = pipeprof(&["check", "--kernel", "6.1", "--fail-above", "0%", "--baseline"])
        .arg(&baseline)
        .args(["--run-flags", "--boot-limit 900 --time-limit 3000", "-o"])
        .arg(&again)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("no difference"), "{said}");
    let read = |folder: &std::path::Path| -> Value {
        serde_json::from_slice(&std::fs::read(folder.join("result.json")).unwrap()).unwrap()
    };
    let (before, after) = (read(&baseline), read(&again));
    let arguments = |run: &Value| run["environment"]["emulator"]["arguments"].clone();
    assert!(arguments(&before).to_string().contains("psi=0"), "{before}");
    assert_eq!(arguments(&before), arguments(&after));
    assert_eq!((&before["mode"], &before["workload"]), (&after["mode"], &after["workload"]));
}

#[test]
#[ignore = "boots guests: make test"]
fn the_same_kernel_is_the_same_and_another_is_not() {
    for series in ["6.1", "6.12"] {
        kernel(series);
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = pipeprof(&["compare", "--kernel", "6.1", "--kernel", "6.12", "--kernel", "6.12", "--json"])
        .args(["--cpus", "1", "--run-flags", FLAGS, "-o"])
        .arg(&out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["method"], "exact");
    let steps = &json["sections"][0]["steps"];
    // 6.12 against itself: no role, no function, no call differs.
    assert_eq!(steps[1]["verdict"]["word"], "same", "{}", steps[1]["verdict"]);
    assert_eq!(steps[1]["functions"].as_array().unwrap().len(), 0, "{}", steps[1]["functions"]);
    assert!(steps[1]["roles"].as_array().unwrap().iter().all(|role| role["delta"] == 0.0));
    assert!(steps[1]["calls"].as_array().unwrap().is_empty());
    // 6.1 against 6.12: roles and functions that differ, and what another schedule moved, add up to the difference.
    assert_ne!(steps[0]["verdict"]["word"], "same", "{}", steps[0]["verdict"]);
    let total = |when: &str| steps[0]["total"][when].as_f64().unwrap();
    let moved = steps[0]["schedule"]["counted"].as_f64();
    let moved = moved.map_or(0.0, |counted| counted - steps[0]["verdict"]["after"].as_f64().unwrap());
    let delta = total("after") - total("before") - moved;
    let sum: f64 = steps[0]["roles"].as_array().unwrap().iter().map(|role| role["delta"].as_f64().unwrap()).sum();
    assert!((sum - delta).abs() < 1e-6, "{sum} {delta}");
    let functions = steps[0]["functions"].as_array().unwrap();
    let sum: f64 = functions.iter().map(|function| function["self_delta"].as_f64().unwrap()).sum();
    let left = steps[0]["left_out_delta"].as_f64().unwrap();
    assert!((sum + left - delta).abs() < 1e-6, "{sum} {left} {delta}");
    for name in ["report.html", "report.md", "report.json"] {
        assert!(out.join(name).is_file(), "{name}");
    }

    let check = |baseline: &str, limit: &str| {
        let output =
            pipeprof(&["check", "--kernel", "6.12", "--fail-above", limit, "--run-flags", FLAGS, "--baseline"])
                .arg(out.join("runs").join(baseline))
                .output()
                .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, said) = check("02-6.12--1--write-1cpu", "5%");
    assert_eq!(code, Some(0), "{said}");
    // The threshold decides. Values near zero are not tested, because this test checks exit codes, not kernels.
    let worse = steps[0]["verdict"]["ratio"].as_f64().unwrap() - 1.0;
    let (code, said) = check("01-6.1-write-1cpu", "0%");
    if worse.abs() > 0.03 {
        assert_eq!(code, Some(i32::from(worse > 0.0)), "{said}");
        assert_eq!(said.contains("regression"), worse > 0.0, "{said}");
    } else {
        assert!(matches!(code, Some(0 | 1)), "{said}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn small_buffers_are_decided_and_kernels_read_from_one_source() {
    for series in ["6.1", "7.2"] {
        kernel(series);
    }
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline");
    let flags = "--buffer-size 4K --cpus 1 --boot-limit 900 --time-limit 3000";
    let output = pipeprof(&["check", "--kernel", "6.1", "--mode", "splice", "--run-flags", flags, "-o"])
        .arg(&baseline)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&std::fs::read(baseline.join("result.json")).unwrap()).unwrap();
    let tried = run["ensemble"]["sizing"]["tried"].as_array().unwrap();
    assert!(tried.len() < 3 && tried.iter().any(|size| size["spread"].as_f64().unwrap() <= 0.005), "{tried:?}");
    // 6.1 cannot splice from /dev/zero and reads from a file in memory; so does 7.2 then.
    let output = pipeprof(&["check", "--kernel", "7.2", "--fail-below", "10%", "--baseline"])
        .arg(&baseline)
        .args(["--run-flags", "--boot-limit 900 --time-limit 3000"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // An improvement by 17.6 %, where comparing a memory file with /dev/zero gave a regression.
    assert_eq!(output.status.code(), Some(1), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("improvement") && !said.contains("not the same work"), "{said}");
    assert!(said.contains("gcc"), "the compilers differ: {said}");
}

#[test]
#[ignore = "boots guests: make test"]
fn two_cpus_are_decided_and_guests_read_a_file_of_this_machine() {
    for series in ["6.1", "7.2"] {
        kernel(series);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, vec![b'x'; 3 << 20]).unwrap();
    let flags = "--buffer-size 4K --boot-limit 900 --time-limit 3000";
    let output = pipeprof(&["compare", "--kernel", "6.1", "--kernel", "7.2", "--mode", "splice", "--cpus", "2"])
        .args(["--run-flags", flags, "--json", "--source"])
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("out"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdict = &json["sections"][0]["steps"][0]["verdict"];
    // About -11 %, where windows of a fixed number of calls gave "same within 111 %".
    assert_eq!(verdict["word"], "fewer", "{verdict}");
    let shared = json["shared"].as_array().unwrap().iter().find(|shared| shared["what"] == "workload.source").unwrap();
    assert_eq!(shared["value"].as_str().unwrap(), file.to_str().unwrap());
    assert!(json["other_options"].as_array().unwrap().len() > 100, "{}", json["other_options"]);
    let output =
        pipeprof(&["run", "--kernel", "6.1", "--mode", "splice", "--source", "/no/such/file"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("no such file to send to the guest"), "{said}");
}
