//! Compiles what QEMU loads, as shared objects: the plugin (src/collect/insn/plugin), once per version of the plugin
//! interface, and src/vm/turns/turns.c. The program embeds them.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

#[allow(dead_code)]
#[path = "../src/arch/marker.rs"]
mod marker;

#[allow(dead_code)]
#[path = "../src/vm/turns/names.rs"]
mod names;

const TURNS: &str = "src/vm/turns";
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
    let compiler = cc::Build::new().try_get_compiler().context("what QEMU loads needs a C compiler")?;
    let compile = |defines: &[String], object: &str, sources: &[PathBuf]| {
        let mut command = std::process::Command::new(compiler.path());
        command
            .args(["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"])
            .args(["-fPIC", "-fvisibility=hidden", "-shared", "-Wl,--build-id=none", "-s"])
            .args(defines)
            .arg("-o")
            .arg(out.join(object))
            .args(sources);
        let status = command.status().with_context(|| format!("cannot run {}", compiler.path().display()))?;
        ensure!(status.success(), "{object} does not compile");
        Ok(())
    };
    for interface in INTERFACES {
        let defines = [format!("-DPLUGIN_API={interface}"), format!("-DMARKER_MAGIC={}u", marker::MAGIC)];
        compile(&defines, &format!("pipeprof-insn-{interface}.so"), &sources)?;
    }
    println!("cargo::rerun-if-changed={TURNS}");
    let defines = [
        // It is loaded when QEMU starts, so its own data has a fixed place in each thread.
        "-ftls-model=initial-exec".to_owned(),
        format!("-DTURNS_COUNTER=\"{}\"", names::COUNTER),
        format!("-DTURNS_LOADED={}", names::LOADED),
        format!("-DTURNS_TAKEN={}", names::TAKEN),
    ];
    compile(&defines, "pipeprof-turns.so", &[Path::new(TURNS).join("turns.c")])
}
