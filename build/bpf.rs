//! The BPF part: compiles bpf/pipeprof.bpf.c and bpf/record.bpf.c to one object each and translates their headers to
//! Rust.

use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const SOURCES: [&str; 8] = [
    "bpf/pipeprof.bpf.c",
    "bpf/pipeprof.h",
    "bpf/arch_x86_64.h",
    "bpf/common.bpf.h",
    "bpf/follow.bpf.h",
    "bpf/calls.bpf.h",
    "bpf/stacks.bpf.h",
    "bpf/sample.bpf.h",
];

/// The programs of `pipeprof record`, which share bpf/common.bpf.h, bpf/pipeprof.h and bpf/stacks.bpf.h with the others.
const RECORD_SOURCES: [&str; 15] = [
    "bpf/record.bpf.c",
    "bpf/record.h",
    "bpf/record_kernel.bpf.h",
    "bpf/record_maps.bpf.h",
    "bpf/record_path.bpf.h",
    "bpf/record_compat.bpf.h",
    "bpf/record_pipes.bpf.h",
    "bpf/record_aio.bpf.h",
    "bpf/record_calls.bpf.h",
    "bpf/record_states.bpf.h",
    "bpf/record_follow.bpf.h",
    "bpf/record_seize.bpf.h",
    "bpf/record_stacks.bpf.h",
    "bpf/record_sample.bpf.h",
    "bpf/record_locks.bpf.h",
];

/// Write `pipeprof.bpf.o`, `record.bpf.o`, `shared.rs` and `record.rs` into `out`.
pub(crate) fn build(out: &Path) -> Result<()> {
    for source in SOURCES.iter().chain(&RECORD_SOURCES) {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    compile(SOURCES[0], &out.join("pipeprof.bpf.o"))?;
    compile(RECORD_SOURCES[0], &out.join("record.bpf.o"))?;
    for (path, name) in [(SOURCES[1], "shared.rs"), (RECORD_SOURCES[1], "record.rs")] {
        let header = std::fs::read_to_string(path).context(path)?;
        std::fs::write(out.join(name), to_rust(path, &header)?).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

fn compile(source: &str, object: &Path) -> Result<()> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let output = Command::new(&clang)
        // -g produces BTF; v2 is the newest instruction set supported by all kernels since 5.3 and by aya's
        // relocator.
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v2", "-Wall", "-Wextra", "-Werror", "-fno-stack-protector"])
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

/// Translate the constants and structs of a header in the format described in its first lines.
fn to_rust(path: &str, header: &str) -> Result<String> {
    let mut rust = format!("// Made by build.rs from {path}.\n");
    let mut open = false;
    for (number, line) in without_comments(header).lines().enumerate() {
        let line = line.trim();
        let unknown = || format!("{path}:{}: build/bpf.rs cannot parse this line: {line}", number + 1);
        if let Some(define) = line.strip_prefix("#define ") {
            if let Some((name, value)) = define.split_once(' ') {
                let value: u64 = value.trim().parse().with_context(unknown)?;
                writeln!(rust, "pub const {name}: usize = {value};")?;
            }
        } else if line.is_empty() || line.starts_with('#') {
        } else if let Some(name) = line.strip_prefix("struct ").and_then(|rest| rest.strip_suffix(" {")) {
            let derive = "Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, bytemuck::Zeroable, bytemuck::Pod";
            writeln!(rust, "#[repr(C)]\n#[derive({derive})]\npub struct {} {{", camel(name))?;
            open = true;
        } else if line == "};" && open {
            rust.push_str("}\n");
            open = false;
        } else {
            let member = line.strip_suffix(';').filter(|_| open).with_context(unknown)?;
            let (kind, name) = member.rsplit_once(' ').with_context(unknown)?;
            let kind = kind.strip_prefix("struct ").map_or_else(|| kind.to_owned(), camel);
            let (name, kind) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
                Some((name, length)) => (name, format!("[{kind}; {length}]")),
                None => (name, kind),
            };
            writeln!(rust, "    pub {name}: {kind},")?;
        }
    }
    Ok(rust)
}

/// Remove comments and keep line numbers.
fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, comment)) = rest.split_once("/*") {
        let (comment, after) = comment.split_once("*/").unwrap_or((comment, ""));
        plain.push_str(before);
        plain.extend(comment.chars().filter(|c| *c == '\n'));
        rest = after;
    }
    plain + rest
}

/// `pp_task` to `Task`.
fn camel(name: &str) -> String {
    name.trim_start_matches("pp_").split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}
