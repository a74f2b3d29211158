//! Standard output and standard error, which may be closed or full, where `print!` and `eprint!` would panic.

use crate::util::text::clean_styled;
use std::fmt;
use std::io::{self, Write as _};

/// Write to standard output, without what could control a terminal, since names from kernels, guests and files are in
/// the text. If the reader has closed it (`| head`), drop the text and keep the command's exit code.
/// If writing fails otherwise, print an error and exit.
pub(crate) fn write_out(text: fmt::Arguments<'_>) {
    write_file(clean_styled(&text.to_string()).as_bytes());
}

/// Write the bytes of a file to standard output as they are; otherwise as [`write_out`].
pub(crate) fn write_file(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        crate::errln!("pipeprof: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

/// Write to standard error, without what could control a terminal. If that fails, such as after the end of the terminal,
/// nobody can be told, and the command goes on.
pub(crate) fn write_err(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_all(clean_styled(&text.to_string()).as_bytes());
}

/// `print!` by [`write_out`].
#[macro_export]
macro_rules! out {
    ($($arguments:tt)*) => { $crate::util::streams::write_out(format_args!($($arguments)*)) };
}

/// `println!` by [`write_out`].
#[macro_export]
macro_rules! outln {
    ($($arguments:tt)*) => { $crate::util::streams::write_out(format_args!("{}\n", format_args!($($arguments)*))) };
}

/// `eprint!` by [`write_err`].
#[macro_export]
macro_rules! err {
    ($($arguments:tt)*) => { $crate::util::streams::write_err(format_args!($($arguments)*)) };
}

/// `eprintln!` by [`write_err`].
#[macro_export]
macro_rules! errln {
    ($($arguments:tt)*) => { $crate::util::streams::write_err(format_args!("{}\n", format_args!($($arguments)*))) };
}
