//! Where a build script finds the project's sources, and where it writes.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The project's folder, in which the sources are named.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Enter the project's folder, and build again if one of `sources` changes or a build script does. The folder for what is
/// built.
pub(crate) fn enter(sources: &[&str]) -> Result<PathBuf> {
    std::env::set_current_dir(root())?;
    for watched in ["build"].iter().chain(sources) {
        println!("cargo::rerun-if-changed={}/{watched}", root().display());
    }
    std::env::var_os("OUT_DIR").map(PathBuf::from).context("OUT_DIR: run by cargo")
}
