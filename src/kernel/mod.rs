//! The running kernel, read from /proc and /sys: symbols, roles, configuration, features. Parsers accept any `R:
//! Read`.

pub mod attempt;
pub mod config;
pub mod environment;
pub mod features;
pub mod info;
pub mod namespace;
pub mod reach;
pub mod resolve;
pub mod symbols;
pub mod tracefs;
