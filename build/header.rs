//! Translates the headers of the BPF programs to Rust.

use super::place::root;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;

/// Translate the header at `path`, with those of its folder that it includes, to the file `to`.
pub(crate) fn translate(path: &str, to: &Path) -> Result<()> {
    std::fs::write(to, to_rust(path)?).with_context(|| format!("write {}", to.display()))
}

/// Translate the constants and structs of a header in the format described in its first lines.
fn to_rust(path: &str) -> Result<String> {
    println!("cargo::rerun-if-changed={}/{path}", root().display());
    let header = std::fs::read_to_string(path).context(path.to_owned())?;
    let mut rust = format!("// Made by build/header.rs from {path}.\n");
    let mut open = false;
    for (number, line) in without_comments(&header).lines().enumerate() {
        let line = line.trim();
        let unknown = || format!("{path}:{}: build/header.rs cannot parse this line: {line}", number + 1);
        if let Some(define) = line.strip_prefix("#define ") {
            if let Some((name, value)) = define.split_once(' ') {
                let value: u64 = value.trim().parse().with_context(unknown)?;
                writeln!(rust, "pub const {name}: usize = {value};")?;
            }
        } else if let Some(name) = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            let beside = Path::new(path).with_file_name(name);
            rust += &to_rust(&beside.to_string_lossy())?;
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
