//! Standard output that may be closed or full: `print!` panics there.

use std::fmt;
use std::io::{self, Write as _};

/// Write to standard output. Where nobody reads it any more (`| head`) the rest is dropped, and the exit code stays that
/// of the command; where it cannot take the text, the program ends with a line that says so.
pub fn write(text: fmt::Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush())
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
