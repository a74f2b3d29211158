//! What a machine is to pipeprof.

/// A machine.
#[derive(Debug)]
pub struct Hardware {
    /// QEMU's program, and its package on Debian.
    pub(in crate::vm) qemu: &'static str,
    pub package: &'static str,
    /// The variable that names another QEMU.
    pub variable: &'static str,
    /// QEMU's machine, with its options.
    pub(in crate::vm) machine: &'static str,
    /// QEMU's processor for guests for which none is given, and for those whose instructions are counted: the kernel counts
    /// none itself, which would cost instructions.
    pub(in crate::vm) cpu: &'static str,
    pub(super) counted_cpu: &'static str,
    /// The device at which init says that it is ready. Only a guest that is to be saved stops there.
    pub(in crate::vm) ready: &'static str,
    /// The option for the serial port of the console, and for that of messages; `NAME` is the name of the port's file.
    pub(in crate::vm) ports: [[&'static str; 2]; 2],
    /// The kernel's arguments.
    pub(in crate::vm) words: &'static [&'static str],
    /// Those under TCG.
    pub(in crate::vm) emulated_words: &'static [&'static str],
    /// The serial port for messages, in the guest.
    pub port: &'static str,
    /// The kernel's image in its tree, and the target of make that makes it.
    pub(in crate::vm) image: &'static str,
    pub(in crate::vm) target: &'static str,
    /// The option of a kernel's configuration that says for which processor it is, and that of the console.
    pub(in crate::vm) own_option: &'static str,
    pub(in crate::vm) console_option: &'static str,
    /// Options that only kernels for this machine need to be profiled in a guest: a fragment of a configuration.
    pub(in crate::vm) options: &'static str,
    /// What is left out of a distribution's configuration for such kernels alone.
    pub(in crate::vm) left_out: &'static str,
}
