//! Small things that every layer needs: units, files written whole or not at all, signals.

pub mod atomic_file;
pub mod build;
pub mod cancel;
pub mod marker;
pub mod progress;
pub mod size;
pub mod stats;
pub mod stdout;
pub mod warning;
