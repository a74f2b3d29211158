//! Compare kernels, or settings of one kernel, with an estimate of reliability.
//!
//! [`matrix`] runs every column in every mode. Of these outcomes, or of stored ones ([`input`]), [`case`] makes what is
//! measured of each column in each case, once: weights ([`measure`]), totals, times, calls, locks, classes of instructions.
//! [`steps`] compares column with column, from measures only: [`exact`] and [`timed`] give the verdicts, [`inline`],
//! [`functions`] and [`sums`] match functions, [`cycles`], [`rep`], [`work`], [`locks`] and [`calls`] explain changes, and [`blame`]
//! names the largest contributor. [`cpus`] says why a change depends on the number of CPUs. Of recordings ([`pipelines`]), [`shares`] compares samples. [`build`] puts all that into a [`model::Comparison`], with what differs between the
//! columns ([`columns`], of [`settings`]) and [`caveats`]. [`causes`] splits the change
//! between two kernels by source, configuration and compiler. [`answer`], [`understated`], [`details`] and [`remarks`] say it in words, [`render`] writes it as terminal
//! table, Markdown, JSON and HTML.

pub(crate) mod answer;
pub(crate) mod blame;
pub(crate) mod build;
pub(crate) mod calls;
pub(crate) mod case;
pub(crate) mod causes;
pub(crate) mod caveats;
pub(crate) mod columns;
pub(crate) mod cpus;
pub mod cycles;
pub(crate) mod details;
pub(crate) mod dropped;
mod entries;
mod evidence;
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
pub(crate) mod remarks;
pub mod render;
pub(crate) mod rep;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod shares;
pub(crate) mod steps;
pub(crate) mod sums;
pub(crate) mod timed;
pub(crate) mod understated;
pub(crate) mod work;

pub use build::{Compared, compare};
pub(crate) use dropped::Dropped;
pub(crate) use inline::inlined_between;
pub use input::{Against, CompareOptions, Input};
pub(crate) use measure::Measure;
pub(crate) use model::Comparison;
