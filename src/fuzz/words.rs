//! Words that a user types.

use crate::cli;
use crate::util::size;

/// A size in bytes, a time, or a list of sizes.
///
/// Properties: what is read is written so that it reads the same; every number can be written and read.
///
/// # Panics
/// If one does not hold.
pub fn sizes(bytes: &[u8]) {
    if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
        let number = u64::from_le_bytes(bytes);
        assert_eq!(size::parse(&size::format(number)), Ok(number));
    }
    let text = String::from_utf8_lossy(bytes);
    match size::parse(&text) {
        Ok(number) => assert_eq!(size::parse(&size::format(number)), Ok(number), "{text}"),
        Err(error) => assert!(!error.is_empty()),
    }
    cli::dry::values(&text);
}

/// The words of a command line, each on a line of its own. Nothing is run.
///
/// Properties: an error has a text and the exit code of usage errors; a workload can be given by flags again; requests
/// arrive in a guest as they were sent; quoted words are split into the same words.
///
/// # Panics
/// If one does not hold.
pub fn command_lines(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<String> = text.lines().map(str::to_owned).collect();
    cli::dry::check(&words);
}
