//! AArch64.

mod code;
mod machine;
mod names;

pub(crate) use code::{decoded, disassembler};
pub(crate) use machine::is_emulated;
pub use names::cpu_name;
