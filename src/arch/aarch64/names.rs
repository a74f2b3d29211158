//! Names of processors. /proc/cpuinfo has only their numbers: the implementer and the part of MIDR_EL1
//! (arch/arm64/include/asm/cputype.h).

const ARM: u32 = 0x41;

/// Part numbers of Arm.
const PARTS: [(u32, &str); 19] = [
    (0xd03, "Cortex-A53"),
    (0xd05, "Cortex-A55"),
    (0xd07, "Cortex-A57"),
    (0xd08, "Cortex-A72"),
    (0xd09, "Cortex-A73"),
    (0xd0a, "Cortex-A75"),
    (0xd0b, "Cortex-A76"),
    (0xd0c, "Neoverse N1"),
    (0xd0d, "Cortex-A77"),
    (0xd40, "Neoverse V1"),
    (0xd41, "Cortex-A78"),
    (0xd44, "Cortex-X1"),
    (0xd46, "Cortex-A510"),
    (0xd47, "Cortex-A710"),
    (0xd48, "Cortex-X2"),
    (0xd49, "Neoverse N2"),
    (0xd4f, "Neoverse V2"),
    (0xd84, "Neoverse V3"),
    (0xd8e, "Neoverse N3"),
];

/// The processor with these numbers: `Arm Neoverse N1`; of others, the numbers.
pub fn cpu_name(implementer: u32, part: u32) -> String {
    match PARTS.iter().find(|(known, _)| implementer == ARM && *known == part) {
        Some((_, name)) => format!("Arm {name}"),
        None => format!("implementer {implementer:#x}, part {part:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_names() {
        assert_eq!(cpu_name(ARM, 0xd0c), "Arm Neoverse N1");
        assert_eq!(cpu_name(0x61, 0x22), "implementer 0x61, part 0x22");
    }
}
