//! Compare kernels, or settings of one kernel, with an estimate of reliability.
//!
//! [`matrix`] runs every column in every mode. [`build`] makes one [`model::Comparison`] of these outcomes, or of
//! stored ones ([`input`]); [`steps`] compares column with column. [`render`] writes the model as terminal table,
//! Markdown, JSON and HTML. [`measure`] and [`functions`] match functions with different names. [`exact`] and
//! [`timed`] give the verdicts, [`columns`] names the differences, and [`caveats`] lists caveats.

pub mod build;
pub mod calls;
pub mod caveats;
pub mod columns;
pub mod exact;
pub mod functions;
pub mod input;
pub mod matrix;
pub mod measure;
pub mod model;
pub mod plan;
pub mod render;
pub mod steps;
pub mod text;
pub mod timed;

pub use build::{Compared, compare};
pub use input::{Against, CompareOptions, Input};
pub use model::Comparison;
