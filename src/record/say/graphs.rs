//! Which files of a folder to look at first.

use crate::result::code::CODE;
use crate::result::ensemble::WINDOWS;
pub use crate::result::stack_files::CRITICAL_PATH;
use crate::result::stack_files::{FOLDED, OFF_CPU, PLACES};

/// The name of the picture of what happened over time.
pub(crate) const TIMELINE_FILE: &str = "timeline.svg";

/// The `files` to look at first, exports among them: without stacks and executed code, and without the graphs of
/// single processes where one of all exists. The page, which shows all pictures, is the first, and data comes last.
pub(crate) fn most_telling(files: &[String]) -> Vec<&str> {
    let names = || files.iter().map(String::as_str);
    let graph = |file: &str| file.ends_with(".svg") && file != TIMELINE_FILE;
    let of_all = names().any(|file| graph(file) && !is_of_one(file, names()));
    let telling = |file: &&str| match graph(file) {
        true => !of_all || !is_of_one(file, names()) || is_of_recording(file),
        false => ![CODE, WINDOWS].contains(file) && !file.ends_with(FOLDED) && !file.ends_with(PLACES),
    };
    let mut named: Vec<&str> = names().filter(telling).collect();
    named.sort_by_key(|file| match file.rsplit('.').next() {
        Some("html") => 0,
        Some("svg") => 1,
        _ => 2,
    });
    named
}

/// Whether the graph in `file` shows the whole recording in its own way.
fn is_of_recording(file: &str) -> bool {
    [OFF_CPU, CRITICAL_PATH].map(Some).contains(&file.strip_suffix(".svg"))
}

/// Whether the graph in `file` shows one profile, which is stored next to it, not several together.
pub(crate) fn is_of_one<'a>(file: &str, mut files: impl Iterator<Item = &'a str>) -> bool {
    let stem = file.strip_suffix(".svg");
    files.any(|other| stem.is_some() && other.strip_suffix(FOLDED) == stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_comes_first_and_stacks_are_not_named() {
        let files = [
            "result.json",
            "critical-path.svg",
            "critical-path.folded",
            "timeline.svg",
            "record.html",
            "dd.svg",
            "dd.folded",
            "dd.places.json.gz",
            "both.svg",
            "off-cpu.svg",
            "off-cpu.folded",
            "profile.pb.gz",
        ];
        let files = files.map(str::to_owned);
        assert_eq!(
            most_telling(&files),
            [
                "record.html",
                "critical-path.svg",
                "timeline.svg",
                "both.svg",
                "off-cpu.svg",
                "result.json",
                "profile.pb.gz"
            ]
        );
    }
}
