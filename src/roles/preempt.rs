//! Where the kernel gives up a CPU that its task did not want to give up.

use super::function_name;

/// Functions whose calls of the scheduler are preemptions: on the way back to user code (kernel/entry/common.c), out of
/// an interrupt in kernel code, and where preemption is enabled again (kernel/sched/core.c).
const PREEMPTING: [&str; 10] = [
    "exit_to_user_mode_loop",
    "exit_to_user_mode_prepare",
    "irqentry_exit_to_user_mode",
    "syscall_exit_to_user_mode",
    "raw_irqentry_exit_cond_resched",
    "irqentry_exit_cond_resched",
    "__cond_resched",
    "irqentry_exit",
    // arch/arm64/kernel/signal.c and entry-common.c
    "do_notify_resume",
    "arm64_preempt_schedule_irq",
];

/// The frame of what a process executes once per switch on its way back to user code, as counted runs find it. It has the
/// scheduler's role.
pub const AFTER_SWITCH: &str = "[after-switch]";

/// Whether a switch below this frame is a preemption.
pub fn preempts(frame: &str) -> bool {
    let name = function_name(frame);
    name.starts_with("preempt_schedule") || PREEMPTING.contains(&name)
}
