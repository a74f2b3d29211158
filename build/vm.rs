//! Builds the library by which QEMU's threads take turns.

#[allow(dead_code, unreachable_pub)]
#[path = "../src/vm/turns/names.rs"]
mod names;
mod shared_object;

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The project's folder, in which the sources are named.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

const TURNS: &str = "src/vm/turns";

fn main() -> Result<()> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("OUT_DIR: run by cargo")?);
    std::env::set_current_dir(root())?;
    for watched in ["build", TURNS] {
        println!("cargo::rerun-if-changed={}/{watched}", root().display());
    }
    let defines = [
        // It is loaded when QEMU starts, so its own data has a fixed place in each thread.
        "-ftls-model=initial-exec".to_owned(),
        format!("-DTURNS_COUNTER=\"{}\"", names::COUNTER),
        format!("-DTURNS_LOADED={}", names::LOADED),
        format!("-DTURNS_TAKEN={}", names::TAKEN),
    ];
    shared_object::compile(&defines, &out.join("pipeprof-turns.so"), &[Path::new(TURNS).join("turns.c")])
}
