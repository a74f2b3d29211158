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

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use crate as compare;
pub(crate) use {
    ::arch, ::collect, ::experiment, ::kernel, ::process, ::profile, ::record, ::report, ::result, ::roles, ::run,
    ::util, ::vm, ::workload,
};

pub mod answer;
pub mod blame;
pub mod build;
pub mod calls;
pub mod case;
pub mod causes;
pub mod caveats;
pub mod columns;
pub mod cpus;
pub mod cycles;
pub mod details;
pub mod dropped;
mod entries;
mod evidence;
pub mod exact;
pub mod function_weights;
pub mod functions;
pub mod inline;
pub mod input;
pub mod locks;
pub mod matrix;
pub mod measure;
pub mod model;
pub mod pipelines;
pub mod plan;
mod processors;
pub mod remarks;
pub mod render;
pub mod rep;
pub mod schedule;
pub mod settings;
pub mod shares;
pub mod steps;
pub mod stored;
mod stripped;
pub mod sums;
pub mod timed;
pub mod understated;
mod user_loops;
pub mod work;

pub use build::{Compared, compare};
pub use dropped::Dropped;
pub use inline::inlined_between;
pub use input::{Against, CompareOptions, Input, NOW};
pub use measure::Measure;
pub use model::Comparison;
