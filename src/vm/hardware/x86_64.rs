//! The classic PC: every kernel supports its interrupt controllers, timers and serial ports.

use super::model::Hardware;

pub(super) const HARDWARE: Hardware = Hardware {
    qemu: "qemu-system-x86_64",
    package: "qemu-system-x86",
    variable: "PIPEPROF_QEMU",
    machine: "pc",
    // This is QEMU's default; name it, because a default may change.
    cpu: "qemu64",
    counted_cpu: "qemu64",
    ready: "pvpanic",
    ports: [["-serial", "chardev:NAME"], ["-serial", "chardev:NAME"]],
    words: &[
        // Early messages go to the first port, so that an early panic is visible.
        "earlycon=uart8250,io,0x3f8,115200",
        "console=ttyS0,115200",
        // A triple fault needs no firmware.
        "reboot=t",
    ],
    emulated_words: &[
        // The emulated TSC is stable, even if the watchdog doubts it. With it, clock_gettime needs no system call and no
        // slow device.
        "tsc=reliable",
        // The timer interrupt works; do not wait to check it.
        "no_timer_check",
    ],
    port: "/dev/ttyS1",
    image: "arch/x86/boot/bzImage",
    target: "bzImage",
    own_option: "X86_64",
    console_option: "SERIAL_8250_CONSOLE",
    options: include_str!("x86_64.config"),
    left_out: "",
};
