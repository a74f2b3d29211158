//! The BPF part: compiles bpf/pipeprof.bpf.c, bpf/record.bpf.c, bpf/all.bpf.c and bpf/results.bpf.c to one object each.

use super::place::root;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// What is compiled, each with the headers of the same folder that it includes.
const PROGRAMS: [&str; 4] = ["pipeprof", "record", "all", "results"];

/// Write `pipeprof.bpf.o`, `record.bpf.o`, `all.bpf.o` and `results.bpf.o` into `out`.
pub(crate) fn build(out: &Path) -> Result<()> {
    println!("cargo::rerun-if-changed={}/bpf", root().display());
    println!("cargo::rerun-if-env-changed=CLANG");
    PROGRAMS.iter().try_for_each(|name| compile(&format!("bpf/{name}.bpf.c"), &out.join(format!("{name}.bpf.o"))))
}

fn compile(source: &str, object: &Path) -> Result<()> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let target = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let output = Command::new(&clang)
        // -g produces BTF; v2 is the newest instruction set supported by all kernels since 5.3 and by aya's
        // relocator.
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v2", "-Wall", "-Wextra", "-Werror", "-fno-stack-protector"])
        .arg(if target == "aarch64" { "-D__TARGET_ARCH_arm64" } else { "-D__TARGET_ARCH_x86" })
        // .rodata contains the settings and nothing else.
        .arg("-fno-jump-tables")
        // Keep the path of the build machine out of the object.
        .args(["-fdebug-compilation-dir=.", "-Ibpf", "-c", source, "-o"])
        .arg(object)
        .output()
        .with_context(|| format!("cannot start {clang}: install the Debian packages clang and libbpf-dev"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let hint = if text.contains("bpf_helpers.h") { ": install the Debian package libbpf-dev" } else { "" };
        bail!("{clang} could not compile {source}{hint}\n{text}");
    }
    Ok(())
}
