//! Small tools for every layer: units, text, statistics, atomic files, signals, usage errors.

pub(crate) mod atomic_file;
pub(crate) mod build;
pub(crate) mod cancel;
pub(crate) mod claimed_folder;
pub(crate) mod colour;
pub(crate) mod csv_text;
pub(crate) mod decision;
pub(crate) mod folder_lock;
pub(crate) mod gzip_json;
pub(crate) mod histogram;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod own_child;
pub(crate) mod privileges;
pub(crate) mod process_stat;
pub(crate) mod progress;
pub(crate) mod regular;
pub(crate) mod sha256;
pub(crate) mod size;
pub(crate) mod stats;
pub(crate) mod stored_json;
pub(crate) mod streams;
pub(crate) mod styled_text;
pub(crate) mod text;
pub(crate) mod usage;
pub(crate) mod warning;
