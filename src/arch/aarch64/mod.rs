//! AArch64.

mod code;

pub(crate) use code::{decoded, disassembler};
