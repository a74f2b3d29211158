//! What one part of the program alone knows: the parser of the command line, the line of progress, and what a printed
//! text says.

use super::{by_path, read, root};
use std::collections::BTreeMap;

/// The lines of code with one of `words`, of files that do not begin with one of `known`.
fn elsewhere(words: &[&str], known: &[&str]) -> Vec<String> {
    let files = by_path().into_iter().filter(|(file, _)| !known.iter().any(|begin| file.starts_with(begin)));
    let lines = |(file, text): (String, String)| -> Vec<String> {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let found = code.filter(|line| words.iter().any(|word| line.contains(word)));
        found.map(|line| format!("{file}: {}", line.trim())).collect()
    };
    files.flat_map(lines).collect()
}

#[test]
fn only_cli_knows_the_parser_of_the_command_line() {
    let wrong = elsewhere(&["clap", "PossibleValue"], &["cli/"]);
    assert!(wrong.is_empty(), "use util::choice, and a parser in cli:\n{}", wrong.join("\n"));
    let crates = std::fs::read_dir(root().join("src")).unwrap().map(|entry| entry.unwrap().path().join("Cargo.toml"));
    for manifest in crates.filter(|manifest| manifest.is_file()) {
        assert!(!read(&manifest).contains("\nclap"), "{}", manifest.display());
    }
}

/// All crates say steps and notes to `util::progress`. What becomes of them is for the program to say: cli says how much is
/// shown, and where to, as a guest does.
#[test]
fn steps_and_notes_are_shown_in_one_place() {
    for (words, only) in [
        (&["indicatif", "ProgressBar"][..], &["util/progress.rs"][..]),
        (&["progress::set_level", "is_quiet()"], &["cli/", "util/progress.rs"]),
        (&["progress::redirect"], &["cli/", "guest/"]),
    ] {
        let wrong = elsewhere(words, only);
        assert!(wrong.is_empty(), "only {only:?} may:\n{}", wrong.join("\n"));
        assert!(!elsewhere(words, &[]).is_empty(), "{words:?} is not used");
    }
}

/// Names of values that people read.
const SAID: [&str; 20] = [
    "action",
    "answer",
    "command",
    "command_line()",
    "finding",
    "heading",
    "how",
    "label",
    "message",
    "mode",
    "note",
    "reason",
    "remark",
    "sentence",
    "text()",
    "title",
    "title()",
    "verdict",
    "warning",
    "why",
];

/// What compares or takes apart a text.
const TAKES_APART: [&str; 11] = [
    ".contains(",
    ".ends_with(",
    ".find(",
    ".rsplit",
    ".split",
    ".starts_with(",
    ".strip_",
    ".trim_end_matches(",
    ".trim_start_matches(",
    " == \"",
    " != \"",
];

/// How often a file takes such a text apart all the same, and why it may.
const READ_AGAIN: &[(&str, usize, &str)] = &[
    ("campaign/plan.rs", 1, "a column's label is its kernel's, then its setting's"),
    ("report/flamegraph/dress.rs", 1, "inferno wrote it"),
    ("reproduce/page/view.rs", 2, "how a value was measured is stored as a text"),
];

/// How often `code` takes apart a text with one of the names.
fn taken_apart(code: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let of = |name: &str| {
        let named = code.match_indices(name).filter(|(at, _)| !code[..*at].ends_with(is_word));
        let after = named.map(|(at, _)| code[at + name.len()..].trim_start_matches([')', '?']));
        let plain = after.map(|rest| {
            [".as_str()", ".as_deref()", ".as_ref()", ".to_string()"]
                .iter()
                .fold(rest, |rest, call| rest.strip_prefix(call).unwrap_or(rest))
        });
        plain.filter(|rest| TAKES_APART.iter().any(|call| rest.starts_with(call))).count()
    };
    SAID.iter().map(|name| of(name)).sum()
}

#[test]
fn what_is_said_is_not_read_again() {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for (file, text) in by_path() {
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).map(str::trim).collect();
        // A call may be on a line of its own.
        let count = taken_apart(&code.join("\n").replace("\n.", "."));
        if count > 0 {
            found.insert(file, count);
        }
    }
    let known: BTreeMap<String, usize> =
        READ_AGAIN.iter().map(|(file, count, _)| ((*file).to_owned(), *count)).collect();
    assert_eq!(found, known, "keep what a text says as a value, and decide by that");
    assert_eq!(
        taken_apart("let a = document.mode.split(\" (\").next();\nif why == \"x\" {}\n b.title().contains(c)"),
        3
    );
    assert_eq!(taken_apart("let a = commode.split(x); mode.len(); titles.contains(y)"), 0);
    // Remarks in parentheses are cut by nothing but what reads the files of other programs.
    let cut = elsewhere(&["split(\" (\")", "split_once(\" (\")"], &["import/"]);
    assert!(cut.is_empty(), "{}", cut.join("\n"));
}
