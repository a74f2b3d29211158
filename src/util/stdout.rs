//! Standard output that may be closed or full, where `print!` would panic.

use crate::util::text::clean_styled;
use std::fmt;
use std::io::{self, Write as _};

/// Write to standard output, without what could control a terminal, since names from kernels, guests and files are in
/// the text. If the reader has closed it (`| head`), drop the text and keep the command's exit code.
/// If writing fails otherwise, print an error and exit.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(clean_styled(&text.to_string()).as_bytes()).and_then(|()| stdout.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("pipeprof: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

/// `print!` by [`write`].
#[macro_export]
macro_rules! out {
    ($($arguments:tt)*) => { $crate::util::stdout::write(format_args!($($arguments)*)) };
}

/// `println!` by [`write`].
#[macro_export]
macro_rules! outln {
    ($($arguments:tt)*) => { $crate::util::stdout::write(format_args!("{}\n", format_args!($($arguments)*))) };
}
