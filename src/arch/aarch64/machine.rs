//! What tells that an emulator executes this.

/// Hertz of the counter of time that QEMU emulates: one count in 16 ns (`GTIMER_SCALE`, target/arm/internals.h). Under KVM
/// and other hypervisors it is the processor's own.
const EMULATED_HERTZ: u64 = 62_500_000;

/// Whether QEMU's TCG executes this. Arm processors have no signature of hypervisors, but only QEMU's emulated machines have this
/// frequency of the counter, or a processor without an implementer (`-cpu max`). Of a program that QEMU executes alone, as in a
/// container for another processor, the kernel is one for that processor.
pub(crate) fn is_emulated() -> bool {
    let text = |read: std::io::Result<Vec<u8>>| String::from_utf8_lossy(&read.unwrap_or_default()).into_owned();
    let is_qemu = text(std::fs::read("/proc/device-tree/compatible")).contains("linux,dummy-virt")
        || text(std::fs::read("/sys/class/dmi/id/sys_vendor")).contains("QEMU");
    let midr = text(std::fs::read("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"));
    let is_program = cfg!(target_arch = "aarch64")
        && is_of_x86(&text(std::fs::read("/proc/cpuinfo")), &text(std::fs::read("/sys/devices/system/cpu/modalias")));
    is_program || is_qemu && only_emulated(counter_hertz(), &midr)
}

/// Whether the kernel is one for x86: by its list of processors, which newer QEMUs replace, or by what its modules are for.
fn is_of_x86(processors: &str, modules: &str) -> bool {
    processors.contains("vendor_id") || modules.contains("type:x86")
}

/// Whether no processor has this frequency and this MIDR_EL1, in hexadecimal (bits 31 to 24 are the implementer).
fn only_emulated(hertz: Option<u64>, midr: &str) -> bool {
    let midr = u64::from_str_radix(midr.trim().trim_start_matches("0x"), 16);
    hertz == Some(EMULATED_HERTZ) || midr.is_ok_and(|midr| midr >> 24 & 0xff == 0)
}

#[cfg(target_arch = "aarch64")]
fn counter_hertz() -> Option<u64> {
    let hertz: u64;
    // SAFETY: Linux lets programs read this register, or reads it for them, and reading it has no side effects.
    unsafe { std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags)) };
    Some(hertz)
}

#[cfg(not(target_arch = "aarch64"))]
fn counter_hertz() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_counter_and_a_processor_of_nobody() {
        let neoverse_n1 = "0x00000000413fd0c1\n";
        assert!(only_emulated(Some(62_500_000), neoverse_n1));
        assert!(only_emulated(Some(1_000_000_000), "0x00000000000f0510\n"), "-cpu max");
        assert!(
            is_of_x86("processor\t: 0\nvendor_id\t: AuthenticAMD\n", "")
                && is_of_x86("", "cpu:type:x86,ven0002fam0019")
        );
        assert!(!is_of_x86("processor\t: 0\nCPU implementer\t: 0x41\n", "cpu:type:aarch64:feature:,0000,0001"));
        for hertz in [None, Some(25_000_000), Some(1_000_000_000)] {
            assert!(!only_emulated(hertz, neoverse_n1) && !only_emulated(hertz, ""));
        }
    }
}
