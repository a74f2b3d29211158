//! The output of a run: flame graphs, files, terminal tables, schema.

mod files;
mod flamegraph;
mod sample;
mod schema;
mod terminal;

use std::path::{Path, PathBuf};

/// Path of a file below tests/data.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Compare `actual` with the golden file `path`, or write it if PIPEPROF_BLESS=1.
fn golden(path: &Path, actual: &str) {
    if std::env::var_os("PIPEPROF_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected != actual {
        let line = expected.lines().zip(actual.lines()).position(|(a, b)| a != b);
        let at = line.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
        panic!(
            "{} differs from line {} on:\n  recorded: {:?}\n  now:      {:?}\nlook at it and set PIPEPROF_BLESS=1 to record it",
            path.display(),
            at + 1,
            expected.lines().nth(at),
            actual.lines().nth(at)
        );
    }
}
