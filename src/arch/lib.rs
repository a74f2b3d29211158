//! What differs by processor: a folder for each. The C halves are in bpf/arch_*.h and src/collect/insn/plugin; the loops of
//! `reproduce::memory` are in assembly.

// Paths are the same in all crates: `crate::MODULE::`.

mod aarch64;
mod code;
mod entry;
mod instruction;
pub mod marker;
pub mod old_calls;
mod processor;
mod x86_64;

pub use aarch64::cpu_name;
pub use code::{calls_kernel_or_reads_clock, decoded, disassembler, marker_places};
pub use entry::{KERNEL, is_kernel_entry};
pub use instruction::{AddressNames, Disassembler, Flow, Instruction};
pub use processor::Processor;

/// The models of cycles of instructions: name, file.
pub const CYCLE_MODELS: [(&str, &str); 1] = [("published-1", include_str!("x86_64/models/published-1.toml"))];

/// The signature of QEMU's TCG.
pub const EMULATOR: &str = "TCGTCGTCGTCG";

/// The signature of the hypervisor; `None` without one, or if this processor does not say.
pub fn hypervisor_signature() -> Option<String> {
    x86_64::hypervisor_signature().or_else(|| aarch64::is_emulated().then(|| EMULATOR.to_owned()))
}

/// Whether an emulator executes this: times then say nothing of a processor's.
pub fn is_emulated() -> bool {
    hypervisor_signature().is_some_and(|signature| signature == EMULATOR)
}
