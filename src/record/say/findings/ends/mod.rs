//! How programs end: exit codes, signals, and who hides them.

pub(crate) mod answers;
pub(crate) mod broken_pipe;
pub(crate) mod exit;
pub(crate) mod exit_of;
pub(crate) mod failed;
pub(crate) mod killed_part;
pub(crate) mod last_words;
pub(crate) mod not_started;
pub(crate) mod unheeded;
pub(crate) mod why;
pub(crate) mod without_output;
