//! QEMU's own machine for AArch64.

use super::model::Hardware;

pub(super) const HARDWARE: Hardware = Hardware {
    qemu: "qemu-system-aarch64",
    package: "qemu-system-arm",
    variable: "PIPEPROF_QEMU_AARCH64",
    machine: "virt,gic-version=3",
    // It has atomic operations in one instruction (FEAT_LSE), so nothing is retried, and a counter of instructions.
    cpu: "neoverse-n1",
    counted_cpu: "neoverse-n1,pmu=off",
    ready: "pvpanic-pci",
    // The machine has one port; the other one is on its bus.
    ports: [["-serial", "chardev:NAME"], ["-device", "pci-serial,chardev=NAME"]],
    words: &["earlycon=pl011,0x9000000", "console=ttyAMA0"],
    emulated_words: &[],
    port: "/dev/ttyS0",
    image: "arch/arm64/boot/Image",
    target: "Image",
    own_option: "ARM64",
    console_option: "SERIAL_AMBA_PL011_CONSOLE",
    options: include_str!("aarch64.config"),
    left_out: include_str!("aarch64_left_out.config"),
};
