//! Compiles the QEMU plugin (src/collect/insn/plugin) once per version of the plugin interface, as shared objects.
//! The program embeds them and writes them out for QEMU.

use anyhow::{Context, Result, ensure};
use std::path::Path;

#[allow(dead_code)]
#[path = "../src/arch/marker.rs"]
mod marker;

const SOURCES: &str = "src/collect/insn/plugin";

/// The interface versions whose declarations differ; see qemu_api.h. A QEMU that is newer than the last one can use
/// the last one while QEMU accepts it.
const INTERFACES: [u32; 5] = [1, 2, 3, 6, 7];

pub(crate) fn build(out: &Path) -> Result<()> {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-changed=src/arch/marker.rs");
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(SOURCES)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    sources.sort();
    let compiler = cc::Build::new().try_get_compiler().context("the QEMU plugin needs a C compiler")?;
    for interface in INTERFACES {
        let mut command = std::process::Command::new(compiler.path());
        command
            .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"])
            .args(["-fPIC", "-fvisibility=hidden", "-shared", "-Wl,--build-id=none", "-s"])
            .arg(format!("-DPLUGIN_API={interface}"))
            .arg(format!("-DMARKER_MAGIC={}u", marker::MAGIC))
            .arg("-o")
            .arg(out.join(format!("pipeprof-insn-{interface}.so")))
            .args(&sources);
        let status = command.status().with_context(|| format!("cannot run {}", compiler.path().display()))?;
        ensure!(status.success(), "the QEMU plugin does not compile (plugin interface {interface})");
    }
    Ok(())
}
