//! What differs by processor: x86-64. The C halves are in bpf/arch_x86_64.h and src/collect/insn/plugin/decode.c; the
//! loops of `reproduce::memory` are in assembly.

// Paths are the same in all crates: `crate::MODULE::`.

mod code;
mod entry;
pub mod marker;

pub use code::{Flow, decoded, flow};
pub use entry::{KERNEL, is_kernel_entry};

/// The models of cycles of instructions: name, file.
pub const CYCLE_MODELS: [(&str, &str); 1] = [("published-1", include_str!("models/published-1.toml"))];

/// The signature of QEMU's TCG.
pub const EMULATOR: &str = "TCGTCGTCGTCG";

/// The signature of the hypervisor: CPUID leaf 0x40000000 (KVM documentation, "KVM CPUID bits"). `None` without one.
pub fn hypervisor_signature() -> Option<String> {
    const UNDER_HYPERVISOR: u32 = 1 << 31;
    #[allow(unused_unsafe, reason = "the call became safe after rust-version")]
    // SAFETY: every 64-bit x86 CPU has this instruction, and it has no side effects.
    let cpuid = |leaf| unsafe { std::arch::x86_64::__cpuid(leaf) };
    if cpuid(1).ecx & UNDER_HYPERVISOR == 0 {
        return None;
    }
    let leaf = cpuid(0x4000_0000);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|register| register.to_le_bytes()).collect();
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned())
}
