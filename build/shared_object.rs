//! Compiles what QEMU loads, as shared objects, which the program embeds.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Compile `sources` to `object`.
pub(crate) fn compile(defines: &[String], object: &Path, sources: &[PathBuf]) -> Result<()> {
    let compiler = cc::Build::new().try_get_compiler().context("what QEMU loads needs a C compiler")?;
    let mut command = std::process::Command::new(compiler.path());
    command
        .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-flto", "-Wall", "-Wextra", "-Werror"])
        .args(["-fPIC", "-fvisibility=hidden", "-shared", "-Wl,--build-id=none", "-s"])
        .args(defines)
        .arg("-o")
        .arg(object)
        .args(sources);
    let status = command.status().with_context(|| format!("cannot run {}", compiler.path().display()))?;
    ensure!(status.success(), "{} does not compile", object.display());
    Ok(())
}
