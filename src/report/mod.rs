//! Write outcomes for people: terminal tables, files, flame graphs. Only this module calls inferno.

pub(crate) mod annotate;
pub(crate) mod answer;
pub mod chart;
pub mod files;
pub mod flamegraph;
mod folder;
pub(crate) mod html;
pub(crate) mod modes;
pub(crate) mod number;
pub mod stack_files;
pub mod terminal;
