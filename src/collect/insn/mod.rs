//! Exact instruction counts, by a QEMU plugin: `plugin/` is the half in C, this is the half on the host.
//!
//! The plugin ([`object`]) counts, per block of code and calling context, what executed between the workload's markers
//! ([`crate::util::marker`]), and writes numbers and code bytes without a name. [`raw`] reads that file and checks
//! it, [`names`] has the symbols, [`profile`] makes stacks, calls and executed code of both. docs/exactness.md says
//! what is exact and how it was checked.

pub mod names;
pub mod object;
pub mod profile;
pub mod raw;

pub use names::Names;
pub use object::Plugin;
pub use profile::{Counted, count};
pub use raw::Raw;
