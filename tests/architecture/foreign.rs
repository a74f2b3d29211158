//! docs/security.md lists what takes foreign text and foreign names, each through one function; the source agrees.

use super::{program, read, root};
use std::collections::BTreeMap;

/// The rows of the table below a heading of docs/security.md.
pub(super) fn rows(heading: &str) -> Vec<Vec<String>> {
    let text = read(&root().join("docs/security.md"));
    let section = text.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    section.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

/// The files of the program by name, each with its text without comments.
fn sources() -> BTreeMap<String, String> {
    let code = |text: String| -> String {
        text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
    };
    let name = |file: std::path::PathBuf| file.strip_prefix(root()).unwrap().display().to_string();
    program().into_iter().map(|(file, text)| (name(file), code(text))).collect()
}

/// The lines with one of `words`, of files other than `known`.
fn elsewhere(words: &[&str], known: &[&str]) -> Vec<String> {
    let has = |line: &&str| words.iter().any(|word| line.contains(word));
    // What fuzzes is part of no build for users.
    let is_other = |file: &str| !known.contains(&file) && !file.starts_with("src/fuzz/");
    let files = sources().into_iter().filter(|(file, _)| is_other(file));
    files
        .flat_map(|(file, text)| {
            text.lines().filter(has).map(|line| format!("{file}: {}", line.trim())).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_functions_that_take_foreign_text_and_names_exist() {
    let sources = sources();
    for heading in ["Foreign text", "Foreign names"] {
        let rows = rows(heading);
        assert!(rows.len() > 5, "{heading}");
        for row in rows {
            let [.., function, file] = &row[..] else { panic!("{row:?}") };
            let text = sources.get(file).unwrap_or_else(|| panic!("{file} does not exist: {row:?}"));
            assert!(text.contains(&format!("fn {function}(")) || text.contains(&format!("fn {function}<")), "{row:?}");
        }
    }
}

#[test]
fn nothing_else_writes_to_the_terminal() {
    // Only its kind and size are asked for.
    let asks = ["is_terminal()", "tcgetwinsize(", "ttyname(", "_stdout()", "_stderr()"];
    let known = [
        "src/util/streams.rs",
        // Shows text with styles, which was cleaned.
        "src/record/live/screen.rs",
        // The answer of a guest, for the host.
        "src/record/inside.rs",
    ];
    let mut wrong = elsewhere(&["stdout()", "stderr()", "print!(", "println!("], &known);
    wrong.retain(|line| !asks.iter().any(|call| line.contains(call)));
    assert!(wrong.is_empty(), "use out!, errln! and write_styled of util::streams:\n{}", wrong.join("\n"));
    let styles = elsewhere(&["\\u{1b}", "\\x1b", "\\e["], &["src/util/styled_text.rs"]);
    assert!(styles.is_empty(), "styles are made by util::styled_text:\n{}", styles.join("\n"));
}

#[test]
fn nothing_else_decides_what_is_hidden() {
    let wrong = elsewhere(&["is_control", "\\u{202", "\\u{200"], &["src/util/text.rs"]);
    assert!(wrong.is_empty(), "use is_hidden of util::text:\n{}", wrong.join("\n"));
}

#[test]
fn pages_and_pictures_are_written_by_files_that_escape() {
    let markup = ["\"<svg", "<text", "<td", "<p>", "<title>"];
    for (file, text) in sources() {
        if markup.iter().any(|tag| text.contains(tag)) {
            let escapes = ["escape(", "escaped(", "inline(", "label("].iter().any(|call| text.contains(call));
            assert!(escapes, "{file} writes markup, and escapes nothing");
        }
    }
}

#[test]
fn the_description_of_a_kernel_is_read_in_one_place() {
    let of_kernels = ["src/vm/store.rs", "src/vm/kernel_bundle.rs"];
    let wrong = elsewhere(&["kernel.json"], &of_kernels);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let sources = sources();
    let reads =
        |file: &str| sources[file].matches("_json::from_").count() + sources[file].matches("json::parse(").count();
    assert_eq!(of_kernels.map(reads), [2, 0], "CachedKernel::parse and parse_bundled read it");
    // The rule is one, too.
    let plain = elsewhere(&["\"+-_.~\""], &["src/vm/kernel_name.rs"]);
    assert!(plain.is_empty(), "{}", plain.join("\n"));
}
