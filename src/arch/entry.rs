//! Where the kernel's part of a stack begins.

/// The frame that marks where the kernel begins, in stacks that have no entry frame of their own.
pub const KERNEL: &str = "[kernel]";

/// Whether the kernel's part of a stack starts at this frame (also known by inferno's annotation `_[k]`).
pub fn is_kernel_entry(frame: &str) -> bool {
    let by_name = match frame.as_bytes() {
        [b'[', ..] => frame == KERNEL,
        [b'e', b'l', b'0' | b'1', ..] => {
            // arch/arm64/kernel/entry.S: el0t_64_sync, el1h_64_irq; before 5.15 el0_sync, el1_irq.
            ["el0t_", "el1t_", "el0h_", "el1h_", "el0_", "el1_"].iter().any(|start| frame.starts_with(start))
        }
        [b'v' | b't', ..] => matches!(frame, "vectors" | "tramp_vectors" | "tramp_exit"),
        [b'e', ..] => {
            ["entry_SYSCALL", "entry_SYSENTER", "entry_SYSRET", "entry_INT80"].iter().any(|p| frame.starts_with(p))
                || frame == "error_entry"
        }
        [b'a', ..] => frame.starts_with("asm_"),
        [b'r', ..] => frame.starts_with("ret_from_fork") || matches!(frame, "ret_to_user" | "ret_to_kernel"),
        [b'i', ..] => frame.starts_with("irq_entries_start"),
        [b's', ..] => {
            frame.starts_with("secondary_startup_64")
                || matches!(frame, "syscall_return_via_sysret" | "swapgs_restore_regs_and_return_to_usermode")
        }
        [b'd', ..] => frame == "do_syscall_64",
        [b'p', ..] => frame == "paranoid_entry",
        [b'c', ..] => matches!(frame, "common_interrupt_return" | "common_startup_64"),
        // Unwinding ends in a thunk when the sample fell right after the entry code jumped into it.
        [b'_', ..] => {
            frame == "__bp_harden_el1_vectors"
                || frame.starts_with("__x86_indirect_thunk")
                || frame.starts_with("__x86_return_thunk")
        }
        _ => false,
    };
    by_name || frame.ends_with("_[k]")
}
