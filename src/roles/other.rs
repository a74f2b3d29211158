//! What is left: user space, other work of the kernel, and what measuring itself costs.

use super::{Pattern::*, Role};

/// The role of stacks that never enter the kernel.
pub const USER: &str = "user";
/// The role of kernel stacks in which no frame has a role.
pub const OTHER_KERNEL: &str = "other-kernel";

pub const USER_ROLES: &[Role] = &[Role {
    id: USER,
    title: "user",
    about: "The program's own code, outside the kernel.",
    colour: "#a9d68b",
    article_name: "main",
    frames: &[],
    candidates: &[],
}];

pub const ROLES: &[Role] = &[
    Role {
        id: "tracing",
        title: "probes and tracing",
        about: "BPF programs, ftrace and kprobes at work: what measuring added.",
        colour: "#e9e3ee",
        article_name: "",
        frames: &[
            Prefix("bpf_prog_"),
            Prefix("bpf_trampoline_"),
            Prefix("__bpf_prog_"),
            Prefix("bpf_trace_run"),
            Prefix("bpf_get_stack"),
            Exact("trace_call_bpf"),
            Exact("ftrace_caller"),
            Exact("ftrace_regs_caller"),
            Exact("ftrace_graph_caller"),
            Exact("return_to_handler"),
            Exact("function_graph_enter"),
            Exact("prepare_ftrace_return"),
            Exact("ftrace_graph_func"),
            Exact("ftrace_return_to_handler"),
            Exact("kprobe_ftrace_handler"),
            Exact("kprobe_dispatcher"),
            Exact("kprobe_int3_handler"),
            Exact("kretprobe_dispatcher"),
            Exact("kretprobe_trampoline"),
            Exact("__kretprobe_trampoline"),
            Exact("arch_rethook_trampoline"),
            Exact("kretprobe_trampoline_handler"),
            Exact("__kretprobe_trampoline_handler"),
            Exact("optimized_callback"),
            Prefix("perf_trace_"),
            Prefix("perf_swevent_"),
            Exact("perf_event_overflow"),
            Exact("__perf_event_overflow"),
            Exact("hw_breakpoint_exceptions_notify"),
            Exact("hw_breakpoint_handler"),
        ],
        candidates: &[],
    },
    Role {
        id: OTHER_KERNEL,
        title: "other kernel",
        about: "Kernel code that no role names: other system calls, signals, kernel threads, start-up.",
        colour: "#cfcfcf",
        article_name: "",
        // Roots of work that is not the pipe's, so that it is not booked to the entry code above it. The pipe's own
        // calls are named in full by their roles; full names win over prefixes.
        frames: &[
            Prefix("__x64_sys_"),
            Prefix("__ia32_sys_"),
            Prefix("__se_sys_"),
            Prefix("__do_sys_"),
            Prefix("ksys_"),
            Exact("vm_mmap_pgoff"),
            Exact("do_mmap"),
            Exact("task_work_run"),
            Exact("get_signal"),
            Exact("do_exit"),
            Exact("do_group_exit"),
            Exact("arch_do_signal_or_restart"),
            Prefix("ret_from_fork"),
            Exact("kthread"),
        ],
        candidates: &[],
    },
];
