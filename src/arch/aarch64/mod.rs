//! AArch64.

mod code;
mod names;

pub(crate) use code::{decoded, disassembler};
pub use names::cpu_name;
