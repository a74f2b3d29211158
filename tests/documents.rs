//! The documents: every link leads to a file and a heading, and docs/SUMMARY.md lists every page.

use std::path::{Path, PathBuf};

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

fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].iter().map(|name| root().join(name)).collect();
    pages(&root().join("docs"), &mut found);
    pages(&root().join("flamegraphs"), &mut found);
    found
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

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(anchors("# Files & `x_y` (1)\n```\n# no\n```\n## A B\n"), ["files--x_y-1", "a-b"]);
}
