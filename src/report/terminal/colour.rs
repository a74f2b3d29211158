//! Decide whether output is coloured: by `--color`, else by the terminal and the environment.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU8, Ordering};

/// When to colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::EnumMessage, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum When {
    /// On a terminal, unless the environment has NO_COLOR (no-color.org) or TERM=dumb.
    #[default]
    Auto,
    Always,
    Never,
}

static WHEN: AtomicU8 = AtomicU8::new(When::Auto as u8);

/// Set the choice for all further output.
pub fn choose(when: When) {
    WHEN.store(when as u8, Ordering::Relaxed);
}

/// Whether to colour standard output.
pub(super) fn on_stdout() -> bool {
    is_wanted(|| std::io::stdout().is_terminal())
}

/// Whether to colour a screen of a terminal.
pub fn on_screen() -> bool {
    is_wanted(|| true)
}

fn is_wanted(on_terminal: impl Fn() -> bool) -> bool {
    match WHEN.load(Ordering::Relaxed) {
        when if when == When::Always as u8 => true,
        when if when == When::Never as u8 => false,
        _ => {
            let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
                || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            on_terminal() && !unwanted
        }
    }
}
