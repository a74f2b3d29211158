//! This machine, if it is x86-64.

/// The signature of the hypervisor: CPUID leaf 0x40000000 (KVM documentation, "KVM CPUID bits"). `None` without one.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hypervisor_signature() -> Option<String> {
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

/// Other processors have no such instruction.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn hypervisor_signature() -> Option<String> {
    None
}
