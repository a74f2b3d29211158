//! Run make: its progress, and the first error of the compiler.

use crate::util::{cancel, progress};
use anyhow::{Context as _, Result, ensure};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// The source cannot be built: the fault is not this machine's.
#[derive(Debug)]
pub(crate) struct BuildFailed(String);

impl BuildFailed {
    pub(super) fn new(why: String) -> Self {
        Self(why)
    }
}

impl std::fmt::Display for BuildFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildFailed {}

/// Run `command`, whose output goes into the file `log`. `what` is shown with the number of objects so far, which are
/// returned.
pub(crate) fn run(mut command: Command, log: &Path, what: &str) -> Result<usize> {
    let cannot = || format!("cannot write {}: free some space, or set PIPEPROF_CACHE to another folder", log.display());
    let mut kept = File::options().create(true).append(true).open(log).with_context(cannot)?;
    // One pipe for both outputs keeps their lines in order.
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let other = writer.try_clone().context("cannot make a pipe")?;
    let mut child = command.stdout(writer).stderr(other).stdin(Stdio::null()).spawn().context("cannot start make")?;
    // It holds the pipe's other end.
    drop(command);
    let mut said = MakeOutput::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read the output of make")?;
        if cancel::happened() {
            // make ends its compilers.
            let pid = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = child.wait();
            cancel::check()?;
        }
        kept.write_all(&line).and_then(|()| kept.write_all(b"\n")).with_context(cannot)?;
        if said.read(&String::from_utf8_lossy(&line)) {
            progress::step(&format!("{what}: {} objects", said.objects));
        }
    }
    let status = child.wait().context("make")?;
    cancel::check()?;
    if !status.success() {
        let log = log.display();
        ensure!(!said.cause().contains("No space left on device"), "{}: free some space", said.cause());
        return Err(BuildFailed(format!("{}; everything that make said is in {log}", said.cause())).into());
    }
    Ok(said.objects)
}

/// What make has said.
#[derive(Debug, Default)]
struct MakeOutput {
    objects: usize,
    /// The first line of the compiler, assembler or linker that is an error.
    error: Option<String>,
    /// The first line of make that is an error.
    make: Option<String>,
    last: String,
}

impl MakeOutput {
    /// Read a line. Returns whether an object was begun.
    fn read(&mut self, line: &str) -> bool {
        let words = line.trim_start();
        let begun = ["CC ", "AS ", "HOSTCC ", "CC [M] "].iter().any(|word| words.starts_with(word));
        self.objects += usize::from(begun);
        let is_error = [": error:", ": fatal error:", "Error: ", "undefined reference to", "error: "];
        let is_of_make = (line.starts_with("make") || line.contains("Makefile:")) && line.contains("***");
        if is_of_make {
            // `*** [scripts/Makefile.build:229: fs/pipe.o] Error 1` follows the error itself.
            self.make.get_or_insert_with(|| line.trim().to_owned());
        } else if is_error.iter().any(|word| line.contains(word)) {
            self.error.get_or_insert_with(|| line.trim().to_owned());
        }
        if !line.trim().is_empty() {
            line.trim().clone_into(&mut self.last);
        }
        begun
    }

    /// Why it failed.
    fn cause(&self) -> &str {
        let cause = self.error.as_deref().or(self.make.as_deref()).unwrap_or(&self.last);
        if cause.is_empty() { "make failed without a message" } else { cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(lines: &[&str]) -> String {
        let mut said = MakeOutput::default();
        for line in lines {
            said.read(line);
        }
        said.cause().to_owned()
    }

    #[test]
    fn the_first_error_of_the_compiler_is_the_cause() {
        let lines = [
            "  CC      fs/splice.o",
            "fs/pipe.c:12:5: warning: unused variable 'x' [-Wunused-variable]",
            "fs/pipe.c:20:5: error: 'y' undeclared (first use in this function)",
            "fs/pipe.c:21:5: error: expected ';'",
            "make[3]: *** [scripts/Makefile.build:229: fs/pipe.o] Error 1",
            "make: *** [Makefile:224: __sub-make] Error 2",
        ];
        assert_eq!(cause(&lines), "fs/pipe.c:20:5: error: 'y' undeclared (first use in this function)");
        assert_eq!(cause(&lines[4..]), "make[3]: *** [scripts/Makefile.build:229: fs/pipe.o] Error 1");
        let link = "ld: fs/pipe.o: in function `pipe_write': pipe.c:(.text+0x1): undefined reference to `x'";
        assert_eq!(cause(&["  LD      vmlinux", link, lines[5]]), link);
        assert_eq!(
            (cause(&["chroot: failed", ""]), cause(&[])),
            ("chroot: failed".to_owned(), "make failed without a message".to_owned())
        );
    }

    #[test]
    fn objects_are_counted_and_the_output_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let count =
            run(shell("echo '  CC      a.o'; echo '  AS      b.o' >&2; echo '  LD      c'"), &log, "x").unwrap();
        assert_eq!(count, 2);
        let error = run(shell("echo 'a.c:1:1: error: no' >&2; exit 2"), &log, "x").unwrap_err().to_string();
        assert!(error.starts_with("a.c:1:1: error: no; everything"), "{error}");
        let kept = std::fs::read_to_string(&log).unwrap();
        assert_eq!(kept, "  CC      a.o\n  AS      b.o\n  LD      c\na.c:1:1: error: no\n");
    }
}
