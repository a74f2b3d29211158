//! Standard output and standard error, which may be closed or full, where `print!` and `eprint!` would panic.

use crate::util::styled_text::StyledText;
use crate::util::text::clean_lines;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

/// Write to standard output, without what could control a terminal, since names from kernels, guests and files are in
/// the text. If the reader has closed it (`| head`), drop the text and keep the command's exit code.
/// If writing fails otherwise, print an error and exit.
pub fn write_out(text: fmt::Arguments<'_>) {
    write_file(clean_lines(&text.to_string()).as_bytes());
}

/// [`write_out`] for text with this program's styles.
pub fn write_styled(text: &StyledText) {
    write_file(text.as_bytes());
}

/// Write the bytes of a file to standard output as they are; otherwise as [`write_out`].
pub fn write_file(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        crate::errln!("pipeprof: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

/// Write what a pipeline has printed in a guest to standard output and standard error: as it is into files and pipes, and
/// without what could control a terminal to one. A reader that has closed it does not want it.
pub fn write_printed(output: &[u8], errors: &[u8]) {
    let shown = |bytes: &[u8], is_terminal: bool| {
        if is_terminal { clean_lines(&String::from_utf8_lossy(bytes)).into_bytes() } else { bytes.to_vec() }
    };
    let _ = io::stdout().write_all(&shown(output, io::stdout().is_terminal()));
    let _ = io::stderr().write_all(&shown(errors, io::stderr().is_terminal()));
}

/// Write to standard error, without what could control a terminal. If that fails, such as after the end of the terminal,
/// nobody can be told, and the command goes on.
pub fn write_err(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_all(clean_lines(&text.to_string()).as_bytes());
}

/// `print!` by [`write_out`].
#[macro_export]
macro_rules! out {
    ($($arguments:tt)*) => { $crate::streams::write_out(format_args!($($arguments)*)) };
}

/// `println!` by [`write_out`].
#[macro_export]
macro_rules! outln {
    ($($arguments:tt)*) => { $crate::streams::write_out(format_args!("{}\n", format_args!($($arguments)*))) };
}

/// `eprint!` by [`write_err`].
#[macro_export]
macro_rules! err {
    ($($arguments:tt)*) => { $crate::streams::write_err(format_args!($($arguments)*)) };
}

/// `eprintln!` by [`write_err`].
#[macro_export]
macro_rules! errln {
    ($($arguments:tt)*) => { $crate::streams::write_err(format_args!("{}\n", format_args!($($arguments)*))) };
}
