//! How to print: width and colour.

use super::colour;
use std::io::IsTerminal as _;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Maximum width in columns; `None` for no limit.
    pub width: Option<u16>,
    pub colour: bool,
}

impl Style {
    /// Plain text of any width.
    pub const PLAIN: Self = Self { width: None, colour: false };

    /// Plain text of the width of standard error.
    pub fn of_stderr() -> Self {
        let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
        Self { width: size.map(|size| size.ws_col).filter(|columns| *columns > 0), colour: false }
    }

    /// The style of standard output: its width, and colours as [`colour`] decides.
    pub fn of_stdout() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        Self {
            width: size.map(|size| size.ws_col).filter(|columns| terminal && *columns > 0),
            colour: colour::on_stdout(),
        }
    }
}
