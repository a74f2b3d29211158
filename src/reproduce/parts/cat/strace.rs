//! The calls of an installed program, counted by strace.

use crate::reproduce::parts::shared::prelude::*;
use crate::reproduce::pipeline::{End, Pipeline};
use anyhow::{Context as _, anyhow};

/// How many write(2) calls `program` makes for `bytes`, counted by strace.
pub(crate) fn writes(program: &[String], bytes: u64) -> Result<u64> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let log = folder.path().join("calls");
    let mut traced: Vec<String> = ["strace", "-c", "-e", "trace=write", "-o"].map(str::to_owned).to_vec();
    traced.push(log.to_string_lossy().into_owned());
    traced.extend_from_slice(program);
    let reader = ["head".to_owned(), "-c".to_owned(), bytes.to_string()].to_vec();
    Pipeline { writer: traced, reader, cpus: [None; 2], end: End::Bytes(bytes) }.run()?;
    let text = std::fs::read_to_string(&log).context("strace wrote no counts: install it and permit ptrace")?;
    counted(&text, "write").ok_or_else(|| anyhow!("the installed cat makes no write calls"))
}

/// The calls of `name` in the table of `strace -c`.
fn counted(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.split_whitespace().last() == Some(name))?;
    // % time, seconds, usecs/call, calls, errors (may be empty), syscall
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strace_tables_are_read() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     ------ ----------- ----------- --------- --------- ----------------\n\
                     100.00    0.032443           3      8193         1 write\n\
                     100.00    0.032443           3      8193         1 total\n";
        assert_eq!(counted(table, "write"), Some(8193));
        assert_eq!(counted(table, "splice"), None);
    }
}
