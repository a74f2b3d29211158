//! What differs between kernels, or between settings of one, and how far to believe it.
//!
//! [`matrix`] runs every column in every mode; [`build`] makes one [`model::Comparison`] of the outcomes, or of stored
//! ones ([`input`]), column by column in [`steps`]; [`render`] writes that model as terminal table, Markdown, JSON and HTML. [`measure`] and [`functions`] match
//! what two kernels call differently, [`exact`] and [`timed`] give the verdicts, [`columns`] names what differs, [`caveats`]
//! what to know before believing it.

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
