//! The documents: every link leads to a file and a heading, docs/SUMMARY.md lists every page, and what documents and comments
//! name of this project exists.

use std::path::{Path, PathBuf};

/// Folders of this project whose files are named by their path.
const FOLDERS: [&str; 8] = ["benches", "bpf", "build", "docs", "flamegraphs", "fuzz", "src", "tests"];

/// Documents whose names are not checked: what has changed names what there was.
const UNCHECKED: [&str; 1] = ["CHANGELOG.md"];

/// What comments cite of QEMU, and folders that programs make.
const ELSEWHERE: [&str; 5] =
    ["docs/interop/", "docs/specs/", "flamegraphs/index.html", "fuzz/artifacts", "fuzz/target/"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

/// Files with comments, in `folder`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ["rs", "c", "h"].iter().any(|known| ending == *known)) {
            found.push(path);
        }
    }
}

/// The words of `text` that may be paths.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"/._-~$:<{*".contains(c));
    words.map(|word| word.split(':').next().unwrap_or_default())
}

fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].iter().map(|name| root().join(name)).collect();
    pages(&root().join("docs"), &mut found);
    pages(&root().join("flamegraphs"), &mut found);
    found
}

/// Those whose names are checked.
fn checked() -> Vec<PathBuf> {
    let mut checked = documents();
    checked.retain(|document| !UNCHECKED.iter().any(|name| document.ends_with(name)));
    checked
}

/// The lines of `text` that are not in a code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The targets of the links and pictures in `text`.
fn links(text: &str) -> Vec<String> {
    // A link can be broken between two lines.
    let text = prose(text).collect::<Vec<_>>().join(" ");
    text.split("](").skip(1).filter_map(|rest| Some(rest.split(')').next()?.to_owned())).collect()
}

/// The anchors of the headings of `text`, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let anchor = |heading: &str| {
        let kept = heading.trim().to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect::<String>()
    };
    prose(text).filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#'))).collect()
}

#[test]
fn links_lead_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let file = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            let found = if heading.is_empty() {
                file.exists()
            } else {
                std::fs::read_to_string(&file).is_ok_and(|text| anchors(&text).iter().any(|anchor| anchor == heading))
            };
            if !found {
                broken.push(format!("{}: {link}", document.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_summary_lists_every_page() {
    let folder = root().join("docs");
    let listed: Vec<PathBuf> = links(&std::fs::read_to_string(folder.join("SUMMARY.md")).unwrap())
        .iter()
        .map(|link| folder.join(link).canonicalize().unwrap())
        .collect();
    for document in documents() {
        let document = document.canonicalize().unwrap();
        assert!(document.ends_with("SUMMARY.md") || listed.contains(&document), "{}", document.display());
    }
}

/// `NAME` stands for any name.
#[test]
fn files_that_are_named_exist() {
    let mut missing = Vec::new();
    let mut look = |file: &Path, text: &str| {
        for path in paths(text).map(|path| path.trim_end_matches(['.', '-', '/'])) {
            let ours = path.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder));
            let stands_for_any = path.split(['/', '.', '-']).any(|part| part.len() > 1 && part == part.to_uppercase())
                && !path.chars().any(|c| c.is_ascii_digit());
            let elsewhere = ELSEWHERE.iter().any(|place| path.starts_with(place));
            if ours
                && !stands_for_any
                && !elsewhere
                && !path.contains(['{', '<', '*', '$'])
                && !root().join(path).exists()
            {
                missing.push(format!("{}: {path}", file.strip_prefix(root()).unwrap().display()));
            }
        }
    };
    for document in checked() {
        let text = std::fs::read_to_string(&document).unwrap();
        prose(&text).for_each(|line| look(&document, line));
    }
    let mut files = Vec::new();
    ["benches", "bpf", "build", "src", "tests"].iter().for_each(|folder| sources(&root().join(folder), &mut files));
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let comments =
            text.lines().filter(|line| ["//", "*", "/*"].iter().any(|mark| line.trim_start().starts_with(mark)));
        comments.for_each(|line| look(&file, line));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// `record::observe::path` and `FolderLock::take` in the documents, in ticks: a module, or an item of one.
#[test]
fn items_that_are_named_exist() {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let text_of = |file: &PathBuf| {
        (file.strip_prefix(root().join("src")).unwrap().to_owned(), std::fs::read_to_string(file).unwrap())
    };
    let files: Vec<(PathBuf, String)> = files.iter().map(text_of).collect();
    let modules: Vec<String> = std::fs::read_dir(root().join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let mut missing = Vec::new();
    for document in checked() {
        let text = std::fs::read_to_string(&document).unwrap();
        for word in prose(&text).flat_map(|line| line.split('`').skip(1).step_by(2)) {
            let parts: Vec<&str> = word.trim_end_matches("()").trim_end_matches('s').split("::").collect();
            let plain = parts.iter().all(|part| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
            let [module, .., last] = parts[..] else { continue };
            if !plain || !modules.iter().any(|known| known == module) {
                continue;
            }
            let own = files.iter().filter(|(file, _)| file.starts_with(module));
            let defines = |text: &str| {
                text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect::<Vec<_>>().windows(2).any(
                    |words| {
                        ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"].contains(&words[0])
                            && words[1].trim_end_matches('s') == last
                    },
                )
            };
            if !own.into_iter().any(|(_, text)| defines(text)) {
                missing.push(format!("{}: {word}", document.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(anchors("# Files & `x_y` (1)\n```\n# no\n```\n## A B\n"), ["files--x_y-1", "a-b"]);
}
