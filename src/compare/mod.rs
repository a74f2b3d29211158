//! Compare kernels, or settings of one kernel, with an estimate of reliability.
//!
//! [`matrix`] runs every column in every mode. [`build`] makes one [`model::Comparison`] of these outcomes, or of
//! stored ones ([`input`]); [`steps`] compares column with column. [`render`] writes the model as terminal table,
//! Markdown, JSON and HTML. [`measure`] and [`functions`] match functions with different names. [`exact`] and
//! [`timed`] give the verdicts, [`cycles`] sets estimated cycles next to instructions, [`columns`] names
//! the differences, and [`caveats`] lists caveats.

pub(crate) mod answer;
pub(crate) mod blame;
pub(crate) mod build;
pub(crate) mod calls;
pub mod caveats;
pub(crate) mod columns;
pub mod cycles;
pub(crate) mod details;
pub(crate) mod dropped;
pub(crate) mod exact;
pub(crate) mod functions;
pub(crate) mod inline;
pub(crate) mod input;
pub(crate) mod locks;
pub mod matrix;
pub(crate) mod measure;
pub mod model;
pub(crate) mod pipelines;
pub mod plan;
pub mod render;
pub(crate) mod steps;
pub(crate) mod sums;
pub(crate) mod timed;
pub(crate) mod windows;
pub(crate) mod work;

pub use build::{Compared, compare};
pub(crate) use dropped::Dropped;
pub(crate) use inline::inlined_between;
pub use input::{Against, CompareOptions, Input};
pub(crate) use measure::{Measure, measures};
pub(crate) use model::Comparison;
