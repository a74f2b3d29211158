//! Translates what the BPF programs of recordings share with this process.

mod header;

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The project's folder, in which the sources are named.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn main() -> Result<()> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("OUT_DIR: run by cargo")?);
    std::env::set_current_dir(root())?;
    println!("cargo::rerun-if-changed={}/build", root().display());
    header::translate("bpf/record.h", &out.join("record.rs"))
}
