//! What interrupts the pipe's work, and where sampling cannot look.

use super::{Pattern::*, Role};

/// The role of samples that [`SKEWED_LEAVES`] attract.
pub const IRQ_OFF: &str = "irq-off";

pub const ROLES: &[Role] = &[
    Role {
        id: "irq",
        title: "interrupts",
        about: "Interrupts and what they do before anything deeper has a role of its own.",
        colour: "#b9c6d8",
        article_name: "asm_sysvec_apic_timer_interrupt",
        frames: &[
            Prefix("asm_sysvec_"),
            Prefix("sysvec_"),
            Prefix("__sysvec_"),
            Prefix("fred_sysvec_"),
            Exact("asm_common_interrupt"),
            Exact("asm_spurious_interrupt"),
            Exact("common_interrupt"),
            Exact("__common_interrupt"),
            Prefix("irq_entries_start"),
            Exact("spurious_entries_start"),
            Exact("common_interrupt_return"),
            Exact("restore_regs_and_return_to_kernel"),
            Exact("irq_exit_rcu"),
            Exact("__irq_exit_rcu"),
            Exact("irq_enter_rcu"),
            Exact("asm_exc_nmi"),
            Exact("exc_nmi"),
            Exact("end_repeat_nmi"),
            Exact("flush_smp_call_function_queue"),
        ],
        candidates: &[],
    },
    Role {
        id: "timer",
        title: "timer tick",
        about: "The periodic tick and other high-resolution timers.",
        colour: "#cad4e2",
        article_name: "hrtimer_interrupt",
        frames: &[
            Exact("hrtimer_interrupt"),
            Exact("__hrtimer_run_queues"),
            Exact("local_apic_timer_interrupt"),
            Exact("timer_interrupt"),
            Exact("tick_handle_periodic"),
            Exact("tick_periodic"),
            Prefix("tick_sched_"),
            Exact("tick_nohz_handler"),
            Exact("tick_nohz_highres_handler"),
            Exact("update_process_times"),
            Exact("scheduler_tick"),
            Exact("sched_tick"),
            Exact("update_wall_time"),
        ],
        candidates: &[],
    },
    Role {
        id: "softirq",
        title: "softirqs",
        about: "Deferred work of interrupts: timers, RCU, load balancing.",
        colour: "#dbe2ec",
        article_name: "",
        frames: &[
            Exact("__do_softirq"),
            Exact("handle_softirqs"),
            Exact("do_softirq"),
            Exact("run_ksoftirqd"),
            Exact("run_timer_softirq"),
            Exact("__run_timers"),
            Exact("rcu_core"),
            Exact("rcu_core_si"),
            Exact("run_rebalance_domains"),
            Exact("sched_balance_softirq"),
            Exact("do_softirq_own_stack"),
        ],
        candidates: &[],
    },
    Role {
        id: IRQ_OFF,
        title: "irq-off (skewed)",
        about: "Samples of cpu-clock that waited for interrupts to come back on: the time was spent in the caller, before.",
        colour: "#c7bdb0",
        article_name: "_raw_spin_unlock_irqrestore",
        frames: &[],
        candidates: &[],
    },
];

/// Leaf frames at which interrupts come back on. A cpu-clock sample whose timer fired while they were off lands
/// there, whatever ran in the meantime. Exact profiles have no such skew, nor has sampling by a hardware counter
/// whose overflow is an NMI.
pub const SKEWED_LEAVES: &[&str] = &[
    "_raw_spin_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "__raw_spin_unlock_irqrestore",
    "__raw_spin_unlock_irq",
    "_raw_read_unlock_irqrestore",
    "_raw_read_unlock_irq",
    "_raw_write_unlock_irqrestore",
    "_raw_write_unlock_irq",
    "finish_task_switch",
    "raw_spin_rq_unlock_irq",
    "__local_irq_enable",
    "arch_local_irq_restore",
    "arch_local_irq_enable",
    "native_restore_fl",
    "native_irq_enable",
];
