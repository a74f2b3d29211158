//! Small tools for every layer: units, text, statistics, atomic files, signals, usage errors.

pub mod atomic_file;
pub mod build;
pub mod cancel;
pub mod histogram;
pub mod marker;
pub mod progress;
pub mod size;
pub mod stats;
pub mod stdout;
pub mod text;
pub mod usage;
pub mod warning;
