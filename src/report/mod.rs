//! Outcomes made readable: terminal table, files, flame graphs (the only place that calls inferno).

pub mod annotate;
pub mod answer;
pub mod chart;
pub mod files;
pub mod flamegraph;
pub mod html;
pub mod number;
pub mod terminal;
