//! Write outcomes for people: terminal tables, files, flame graphs. Only this module calls inferno.

pub mod annotate;
pub mod answer;
pub mod chart;
pub mod files;
pub mod flamegraph;
pub mod html;
pub mod number;
pub mod terminal;
