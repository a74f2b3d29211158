//! Write outcomes for people: blocks and their renderers, tables, numbers, charts, files, flame graphs. Only this module
//! calls inferno.

pub(crate) mod annotate;
pub(crate) mod answer;
pub(crate) mod block;
pub mod chart;
pub mod files;
pub mod flamegraph;
mod folder;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod modes;
pub(crate) mod number;
pub(crate) mod table;
pub mod terminal;
