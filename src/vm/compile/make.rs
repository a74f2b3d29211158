//! Run make: its progress, and the first error of the compiler.

use crate::util::running_program::RunningProgram;
use crate::util::{progress, size};
use anyhow::{Context as _, Result, ensure};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

/// The source cannot be built: the fault is not this machine's.
#[derive(Debug)]
pub struct BuildFailed(String);

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

/// make did not end when it was asked to: what it was making may be half written.
#[derive(Debug)]
pub(super) struct MakeKilled;

impl std::fmt::Display for MakeKilled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("make did not end when it was asked to")
    }
}

/// What make says is kept up to this, bytes, as of a guest's console. A kernel's build with all warnings says 10 MiB.
const LONGEST_LOG: u64 = 64 << 20;

/// So much is looked at of each line, bytes.
const LONGEST_LINE: usize = 64 << 10;

/// So much is shown of a line, characters.
const SHOWN: usize = 500;

/// Run `command`, whose output goes into the file `log`. `what` is shown with the number of objects so far, which are
/// returned.
pub(crate) fn run(command: Command, log: &Path, what: &str) -> Result<usize> {
    let cannot = || format!("cannot write {}: free some space, or set PIPEPROF_CACHE to another folder", log.display());
    let mut kept = File::options().create(true).append(true).open(log).with_context(cannot)?;
    let mut room = LONGEST_LOG.saturating_sub(kept.metadata().with_context(cannot)?.len());
    // One pipe for both outputs keeps their lines in order.
    let mut make = RunningProgram::start(command, true).context("cannot start make")?;
    let mut said = MakeOutput::default();
    let (mut part, mut line) = (vec![0; LONGEST_LINE], Vec::new());
    let mut follow = || -> Result<bool> {
        let length = make.read(&mut part).context("cannot read the output of make")?;
        let part = part.get(..length).unwrap_or_default();
        kept.write_all(part).with_context(cannot)?;
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            line.extend(piece.iter().take(LONGEST_LINE - line.len()));
            if piece.ends_with(b"\n") && said.read(&String::from_utf8_lossy(&std::mem::take(&mut line))) {
                progress::step(&format!("{what}: {} objects", said.objects));
            }
        }
        let log = log.display();
        room = room.checked_sub(length as u64).ok_or_else(|| {
            BuildFailed(format!(
                "make said more than {}, and was ended: its begin is in {log}",
                size::format(LONGEST_LOG)
            ))
        })?;
        Ok(length > 0)
    };
    let followed = loop {
        match follow() {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // Interrupted, or it says too much.
    if let Err(error) = followed {
        return Err(if make.ask_to_end() { error } else { error.context(MakeKilled) });
    }
    said.read(&String::from_utf8_lossy(&line));
    let (status, _) = make.end()?;
    if !status.success() {
        ensure!(!said.cause().contains("No space left on device"), "{}: free some space", said.cause());
        let (cause, log) = (said.cause(), log.display());
        return Err(BuildFailed(format!("{cause}; everything that make said is in {log}")).into());
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
    fn cause(&self) -> String {
        let cause = self.error.as_deref().or(self.make.as_deref()).unwrap_or(&self.last);
        match cause.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{} [...]", cause.get(..end).unwrap_or(cause)),
            None if cause.is_empty() => "make failed without a message".to_owned(),
            None => cause.to_owned(),
        }
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
        said.cause()
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

    #[test]
    fn long_lines_and_long_outputs_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let why = |script: &str| {
            let log = folder.path().join("log");
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let why = run(command, &log, "x").unwrap_err().to_string();
            let length = std::fs::metadata(&log).unwrap().len();
            std::fs::remove_file(log).unwrap();
            (why, length)
        };
        let (error, length) = why("printf 'x.c: error: '; yes | head -c 4000000 | tr -d '\\n'; exit 2");
        assert!(error.starts_with("x.c: error: yyy") && error.contains("yyy [...]; everything") && error.len() < 1000);
        assert_eq!(length, 2_000_012);
        let (error, length) = why("yes $(printf '%05000d' 0)");
        assert!(error.starts_with("make said more than 64M, and was ended"), "{error}");
        assert!((LONGEST_LOG..LONGEST_LOG + (1 << 20)).contains(&length), "{length}");
    }
}
