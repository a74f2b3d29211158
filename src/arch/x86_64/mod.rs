//! x86-64.

mod code;
mod machine;

pub(crate) use code::{decoded, disassembler};
pub(crate) use machine::hypervisor_signature;
