//! Exact instruction counts by a QEMU plugin. `plugin/` is its C code; this module is the host's half.
//!
//! The plugin ([`object`]) counts executions between the workload's markers ([`crate::arch::marker`]), per block of
//! code and calling context. It writes numbers and code bytes without names. [`raw`] reads and checks that file,
//! [`names`] has the symbols, `class` the classes of instructions, [`profile`] makes stacks, calls and executed code, `parts`
//! the parts of a window, `switch_work` finds what is executed once per switch, `held` what is executed under the pipe's locks, `user_files` the files of foreign programs' code, `user_contexts` the
//! callers in that code, `source_lines` their
//! sources, and `system_calls` which calls of the kernel are system calls. docs/exactness.md says what is exact and how it was verified.

pub mod class;
mod class_aarch64;
mod contexts;
mod function;
mod held;
pub mod names;
pub mod object;
pub mod parts;
pub mod profile;
pub mod raw;
pub mod source_lines;
mod switch_work;
pub mod system_calls;
mod user_contexts;
mod user_files;

pub use names::Names;
pub use object::Plugin;
pub use profile::{Counted, count};
pub use raw::Raw;
pub use user_files::UserFiles;
