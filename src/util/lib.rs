//! Small tools for every layer: units, text, statistics, atomic files, signals, usage errors.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as util;

pub mod atomic_file;
pub mod build;
pub mod cancel;
pub mod choice;
pub mod claimed_folder;
pub mod clock;
pub mod colour;
pub mod csv_text;
pub mod decision;
pub mod find_program;
pub mod folder_lock;
pub mod git;
pub mod gzip_json;
pub mod histogram;
pub mod limits;
pub mod memory;
pub mod own_child;
pub mod privileges;
pub mod process_stat;
pub mod progress;
pub mod regression;
pub mod regular;
pub mod running_program;
pub mod sha256;
pub mod size;
pub mod stats;
pub mod stored_json;
pub mod streams;
pub mod styled_text;
pub mod text;
pub mod unpreempted;
pub mod usage;
pub mod warning;
