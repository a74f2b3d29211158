//! Parse, run, print the error.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipeprof::cli::main()
}
