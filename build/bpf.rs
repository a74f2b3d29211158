//! The BPF part: compiles bpf/pipeprof.bpf.c, bpf/record.bpf.c, bpf/all.bpf.c and bpf/results.bpf.c to one object each.

use super::place::root;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const SOURCES: [&str; 10] = [
    "bpf/pipeprof.bpf.c",
    "bpf/pipeprof.h",
    "bpf/arch_x86_64.h",
    "bpf/arch_x86_64_compat.h",
    "bpf/arch_aarch64.h",
    "bpf/common.bpf.h",
    "bpf/follow.bpf.h",
    "bpf/calls.bpf.h",
    "bpf/stacks.bpf.h",
    "bpf/sample.bpf.h",
];

/// The programs of `pipeprof record`, which share bpf/common.bpf.h, bpf/pipeprof.h and bpf/stacks.bpf.h with the others.
const RECORD_SOURCES: [&str; 22] = [
    "bpf/record.bpf.c",
    "bpf/record.h",
    "bpf/record_kernel.bpf.h",
    "bpf/record_maps.bpf.h",
    "bpf/record_path.bpf.h",
    "bpf/record_compat.bpf.h",
    "bpf/record_files.bpf.h",
    "bpf/record_pipes.bpf.h",
    "bpf/record_sockets.bpf.h",
    "bpf/record_terminals.bpf.h",
    "bpf/record_channels.bpf.h",
    "bpf/record_uring.bpf.h",
    "bpf/record_aio.bpf.h",
    "bpf/record_shapes.bpf.h",
    "bpf/record_calls.bpf.h",
    "bpf/record_states.bpf.h",
    "bpf/record_work.bpf.h",
    "bpf/record_follow.bpf.h",
    "bpf/record_seize.bpf.h",
    "bpf/record_stacks.bpf.h",
    "bpf/record_sample.bpf.h",
    "bpf/record_locks.bpf.h",
];

/// The programs of `pipeprof record --all`, which share headers with those of recordings.
const ALL: &str = "bpf/all.bpf.c";

/// How system calls end, for counted pipelines.
const RESULTS: &str = "bpf/results.bpf.c";

/// Write `pipeprof.bpf.o`, `record.bpf.o`, `all.bpf.o` and `results.bpf.o` into `out`.
pub(crate) fn build(out: &Path) -> Result<()> {
    for source in SOURCES.iter().chain(&RECORD_SOURCES).chain(&[ALL, RESULTS]) {
        println!("cargo::rerun-if-changed={}/{source}", root().display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    compile(SOURCES[0], &out.join("pipeprof.bpf.o"))?;
    compile(RECORD_SOURCES[0], &out.join("record.bpf.o"))?;
    compile(ALL, &out.join("all.bpf.o"))?;
    compile(RESULTS, &out.join("results.bpf.o"))
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
