//! The readers of input from outside, for fuzzing: one function per input. Each panics if a property of its reader does
//! not hold.
//!
//! This module is part of fuzzing builds and unit tests only. fuzz/targets calls it with inputs that libFuzzer makes;
//! the unit test below calls it with all inputs in fuzz/corpus.

mod documents;
mod edits;
mod frames;
mod kernels;
mod package;
mod path;
mod profiles;
mod stacks;
mod words;

pub use documents::{result_edits, result_json};
pub use frames::guest_frames;
pub use kernels::{bzimage, kallsyms, package_index};
pub use package::deb;
pub use path::path_steps;
pub use profiles::{perf_script, pprof_message};
pub use stacks::{code_json_gz, folded, stack_places};
pub use words::{command_lines, sizes};

/// A reader and the properties that it keeps.
pub type FuzzTarget = fn(&[u8]);

/// All of them, by the name of their file in fuzz/targets and of their folder in fuzz/corpus.
pub const TARGETS: [(&str, FuzzTarget); 15] = [
    ("bzimage", bzimage),
    ("code_json_gz", code_json_gz),
    ("command_lines", command_lines),
    ("deb", deb),
    ("folded", folded),
    ("guest_frames", guest_frames),
    ("kallsyms", kallsyms),
    ("package_index", package_index),
    ("path_steps", path_steps),
    ("perf_script", perf_script),
    ("pprof_message", pprof_message),
    ("result_edits", result_edits),
    ("result_json", result_json),
    ("sizes", sizes),
    ("stack_places", stack_places),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
    }

    /// Names of files and folders in `folder`, without extension.
    fn names(folder: &Path) -> Vec<String> {
        let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| stem(entry.unwrap().path())).collect();
        names.sort();
        names
    }

    fn replay(name: &str, target: FuzzTarget) {
        for entry in std::fs::read_dir(folder("corpus").join(name)).unwrap() {
            let path = entry.unwrap().path();
            // Printed if the test fails: the panic does not name the file.
            #[expect(clippy::print_stdout, reason = "captured by the test")]
            let () = println!("{}", path.display());
            target(&std::fs::read(path).unwrap());
        }
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let all: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names(&folder("targets")), all);
        assert_eq!(names(&folder("corpus")), all);
        let manifest = std::fs::read_to_string(folder("Cargo.toml")).unwrap();
        for name in all {
            assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"targets/{name}.rs\"")), "{name}");
            let program = std::fs::read_to_string(folder("targets").join(format!("{name}.rs"))).unwrap();
            assert!(program.contains(&format!("pipeprof::fuzz::{name}(bytes)")), "{name}");
        }
    }

    #[test]
    fn the_corpus_keeps_all_properties() {
        for (name, target) in TARGETS.into_iter().filter(|(name, _)| *name != "deb") {
            replay(name, target);
        }
    }

    proptest::proptest! {
        #[test]
        fn noise_keeps_all_properties(noise: Vec<u8>, text: String) {
            for (_, target) in TARGETS.into_iter().filter(|(name, _)| *name != "deb") {
                target(&noise);
                target(text.as_bytes());
            }
        }
    }

    #[test]
    #[ignore = "needs dpkg-deb: make test"]
    fn the_corpus_of_packages_keeps_all_properties() {
        replay("deb", deb);
    }
}
