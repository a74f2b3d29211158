//! docs/security.md lists the files that are read again, each with its test; nothing else in the source reads JSON or TOML.

use super::by_path;
use super::foreign::rows;
use super::{read, root};
use std::collections::BTreeSet;

/// What else reads or makes JSON or TOML, and why none of it is a file that pipeprof reads again.
const OTHERS: [(&str, &[&str]); 7] = [
    (
        "messages between processes of one pipeprof",
        &["guest/", "record/inside.rs", "vm/guest.rs", "workload/launch.rs", "workload/wire.rs"],
    ),
    ("QEMU's messages", &["vm/monitor.rs"]),
    (
        "a part of the program",
        &[
            "cli/pages.rs",
            "kernel/config.rs",
            "reproduce/facts.rs",
            "reproduce/parts/data.rs",
            "roles/",
            "workload/axis.rs",
        ],
    ),
    ("container engines write it", &["record/start/container.rs"]),
    ("users write it", &["cli/matrix.rs", "profile/cycles.rs", "studies/command_list.rs"]),
    ("checks a command line that is not executed", &["cli/dry.rs"]),
    ("only written: for other programs, and digests", &["campaign/cell.rs", "cli/engine.rs", "export/"]),
];

/// What reads and writes the forms of files.
const FORMS: [&str; 2] = ["util/gzip_json.rs", "util/stored_json.rs"];

fn files_of(text: &str) -> BTreeSet<String> {
    text.split(", ").map(|file| file.trim_start_matches("src/").to_owned()).collect()
}

#[test]
fn all_that_is_read_again_has_a_test_of_properties() {
    let rows = rows("Files that are read again");
    assert!(rows.len() > 15, "{rows:?}");
    let sources = by_path();
    let calls = |file: &str, words: &[&str]| words.iter().any(|word| sources[file].contains(word));
    let mut listed = BTreeSet::new();
    for row in &rows {
        let [_, writers, readers, test] = &row[..] else { panic!("{row:?}") };
        let (name, file) = test.split_once(" in ").unwrap_or_else(|| panic!("{row:?}"));
        let text = read(&root().join(file));
        let is_property = text.split("proptest! {").skip(1).any(|test| test.contains(&format!("fn {name}(")));
        assert!(is_property, "{file} has no property {name}");
        for file in files_of(writers).iter().chain(&files_of(readers)) {
            assert!(sources.contains_key(file), "{file} does not exist: {row:?}");
            listed.insert(file.clone());
        }
    }
    let of_others = |file: &str| OTHERS.iter().flat_map(|(_, files)| *files).any(|known| file.starts_with(known));
    let reads =
        ["serde_json::from_", "toml::from_", "stored_json::parse", "stored_json::load", "gzip_json::from_bytes"];
    let makes = ["serde_json::to_string", "serde_json::to_vec", "serde_json::to_writer"];
    let mut wrong = Vec::new();
    for file in sources.keys().filter(|file| !FORMS.contains(&&***file) && !of_others(file)) {
        if calls(file, &[&reads[..], &makes].concat()) && !listed.contains(file) {
            wrong.push(file.clone());
        }
    }
    assert!(wrong.is_empty(), "list what they read in docs/security.md, with its test: {wrong:?}");
    let unused: Vec<&&str> = OTHERS
        .iter()
        .flat_map(|(_, files)| *files)
        .filter(|known| {
            !sources.keys().any(|file| file.starts_with(**known) && calls(file, &[&reads[..], &makes].concat()))
        })
        .collect();
    assert!(unused.is_empty(), "they read and make none: {unused:?}");
}

/// JSON that is read again is written by what reads it first.
#[test]
fn json_that_is_read_again_was_read_before_it_was_written() {
    let sources = by_path();
    // One line for each cell, and a line in a list of symbols: both have no form of their own.
    let lines = ["campaign/list.rs", "kernel/resolve.rs"];
    for row in rows("Files that are read again") {
        for file in files_of(&row[1]) {
            let makes = ["serde_json::to_string", "serde_json::to_vec", "serde_json::to_writer"];
            let plain = makes.iter().any(|call| sources[&file].contains(call));
            assert!(!plain || lines.contains(&&*file), "{file}: use stored_text or gzip_json::to_bytes");
        }
    }
}
