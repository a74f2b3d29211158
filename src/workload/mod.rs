//! What moves the bytes: writers and readers around a pipe, each a fresh process.

pub mod modes;
pub mod spec;

pub use spec::Spec;
