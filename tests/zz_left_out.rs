//! The last lines of `cargo test`: which tests it left out and why. It has no harness, so that they are printed.

use std::collections::BTreeMap;
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let all = arguments.iter().any(|argument| matches!(argument.as_str(), "--include-ignored" | "--ignored"));
    // A filter, or a list: the rest was left out by whoever asked for that.
    if all || arguments.iter().any(|argument| argument == "--list" || !argument.starts_with('-')) {
        return;
    }
    let mut reasons = BTreeMap::new();
    for folder in ["src", "tests"] {
        count(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut reasons);
    }
    println!("\nTests that were left out, and why (`make test` runs them too):");
    for (reason, tests) in reasons {
        println!("  {tests:>3}  {reason}");
    }
}

/// Count the tests in `folder` that have a reason to be ignored.
fn count(folder: &Path, reasons: &mut BTreeMap<String, u32>) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            count(&path, reasons);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            for line in text.lines().filter_map(|line| line.trim().strip_prefix("#[ignore = \"")) {
                let reason = line.trim_end_matches("\"]").trim_end_matches(": make test");
                *reasons.entry(reason.to_owned()).or_default() += 1;
            }
        }
    }
}
