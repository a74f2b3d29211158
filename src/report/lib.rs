//! Write outcomes for people: blocks and their renderers, tables, numbers, charts, files, flame graphs. Only this module
//! calls inferno.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as report;
pub(crate) use {::arch, ::kernel, ::profile, ::result, ::roles, ::util, ::workload};

pub mod annotate;
pub mod answer;
pub mod block;
pub mod chart;
pub mod files;
pub mod flamegraph;
mod folder;
pub mod html;
pub mod markdown;
pub mod modes;
pub mod number;
pub mod table;
pub mod terminal;
