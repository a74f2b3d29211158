//! Builds the parts that run outside of this process: the BPF programs (bpf/) and the QEMU plugin.

#[path = "build/bpf.rs"]
mod bpf;
#[path = "build/plugin.rs"]
mod plugin;

use anyhow::{Context, Result};
use std::path::PathBuf;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("OUT_DIR: run by cargo")?);
    bpf::build(&out)?;
    plugin::build(&out)
}
