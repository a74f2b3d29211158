//! Connections, who listens, and who answers.

pub(crate) mod connections;
pub(crate) mod held_back;
pub(crate) mod listens;
pub(crate) mod name_server;
pub(crate) mod no_answer;
pub(crate) mod not_shut;
pub(crate) mod relays;
