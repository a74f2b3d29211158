/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Limits and structs shared by the BPF programs and the Rust code; the only definition. build.rs turns this file
 * into Rust, so only this form is allowed: `#define PP_NAME number`, and structs of u64, u32 and earlier structs,
 * without padding.
 */
#ifndef PIPEPROF_H
#define PIPEPROF_H

/* Processes watched at once, by number. */
#define PP_WATCHED 64
/* The same if each program in a process has a number of its own; the number of those for which there is no room. */
#define PP_PROGRAMS 1024
/* Threads that are compared with directly; all others are looked up. */
#define PP_FAST 2
/* Threads known when the programs start, without those compared with directly. */
#define PP_GIVEN 4096
/* Simultaneous threads that started after the programs. */
#define PP_FOLLOWED 8192
/* Threads inside probed functions at once, without those compared with directly. */
#define PP_THREADS 2048
/* Functions probed at once. */
#define PP_SLOTS 64
/* Elements for the nested timed calls of one task; the first is never used. */
#define PP_DEPTH 32
/* The last element's place, in bytes. */
#define PP_LAST 1240
/* Size of a kernel stack on x86-64. */
#define PP_STACK_BYTES 16384
/* The place of the last function of a thread, in bytes: PP_SLOTS - 1 times the size of pp_function. */
#define PP_LAST_PLACE 25200
/* Stand for a function's place, and for the cost of its probe, in templates of programs. */
#define PP_PLACE_MARK 1364283729
#define PP_COST_MARK 1364283730
/* A breakpoint's stack is taken at the first hit and then at every 64th: reading it takes 4,000 instructions. */
#define PP_STACK_EVERY 64
/* Buckets of the latency histogram: the last one takes 2^39 ns (nine minutes) and more. */
#define PP_BUCKETS 40
#define PP_RESULTS 16384
/* Frames kept of a stack, nearest first: the kernel's own limit. */
#define PP_FRAMES 127
/* Distinct stacks, and distinct samples; the Rust code makes room for more. */
#define PP_STACKS 8192
/* Instead of the key of a stack: the sample fell into user code, or the kernel's stack cannot be read. */
#define PP_IN_USER 0
#define PP_UNREADABLE 1

/* Settings, constant once loaded. */
struct pp_settings {
	/* Whether kprobes carry their function's place as an attach cookie (5.15 and newer). Otherwise the address
	 * identifies it. */
	u32 cookies;
	/* Time that probes add to their caller's time, in ns: by a kprobe that counts, by a breakpoint, and by a pair of
	 * kprobes that also time, without the part that is in the called function's time. */
	u32 kprobe_count_ns;
	u32 breakpoint_ns;
	u32 kprobe_outside_ns;
	/* The threads that are compared with directly, and the numbers of their processes. */
	u32 pids[PP_FAST];
	u32 processes[PP_FAST];
	/* The PID namespace of all ids, by device and inode; 0 for the initial one. */
	u64 namespace_device;
	u64 namespace_inode;
	/* `pipeprof record`: whether stacks of sleeps are kept. */
	u64 stacks;
	/* Whether each process that watched ones start, and each program that one executes, has a number of its own. */
	u64 programs;
};

/* Counters of following, as elements of one array. */
/* Number of thread ids in `given`; 0 skips the lookup. Written by the Rust code. */
#define PP_COUNT_GIVEN 0
/* Number of tasks added to `followed` so far; 0 skips the lookup. */
#define PP_COUNT_FOLLOWED 1
/* Tasks not added because `followed` was full. */
#define PP_COUNT_UNFOLLOWED 2
/* Calls counted but not timed because the map of threads was full. */
#define PP_COUNT_UNTIMED 3
/* Numbers given to processes and programs so far. */
#define PP_COUNT_NUMBERS 4
#define PP_COUNTS 5

/* A program in a process, which has a number of its own. */
struct pp_program {
	/* The number of the process that forked, or executed this program. */
	u32 from;
	/* The process, in the initial PID namespace. */
	u32 tgid;
	/* Bytes of the program's name; 0 if it is that of `from`. */
	u64 name[2];
};

/* Not kept for want of room. */
struct pp_lost {
	/* Stacks; of `pipeprof record` also pairs of stacks, and waits for locks by stack. */
	u64 stacks;
	u64 samples;
};

/* A task that is looked up by its address. */
struct pp_member {
	/* The number of its process. */
	u32 process;
	/* The process to which `process` belongs, in the initial PID namespace: a child's is that of its parent at first. */
	u32 tgid;
};

/* A program in a process, as `pipeprof record` distinguishes them. */
struct pr_who {
	/* The number of the stage that it belongs to; of samples of `pipeprof run`, that of the watched process. */
	u32 stage;
	/* In the initial PID namespace; of samples of `pipeprof run`, 0. */
	u32 tgid;
	/* Bytes of its name, as two numbers. */
	u64 name[2];
};

/* Where a thread executes; the traces are keys of stacks. */
struct pr_sample {
	struct pr_who who;
	u64 trace;
	/* The user stack; 0 if unknown. */
	u64 user_trace;
	/* The process id in the PID namespace of the settings; 0 if it is outside it. */
	u64 pid;
};

struct pr_counted {
	struct pr_sample sample;
	u64 count;
};

/* One open call of a timed function. */
struct pp_call {
	/* Identifies the matching return: the stack pointer at entry, or what stands for it. */
	u64 frame;
	/* Its place among the functions of a thread, in bytes: programs add it to an address. */
	u64 function;
	u64 start;
	/* The thread's `covered` and `overhead` at entry. */
	u64 covered;
	u64 overhead;
};

/* A thread's open timed calls, outermost first, from the second element on. Calls in interrupts are on top, because
 * they return before the interrupted code continues. */
struct pp_task {
	/* The place of the innermost one, in bytes; 0 if no call is open. */
	u64 top;
	/* The number of its process. */
	u64 process;
	/* Time in timed calls that have ended, in ns, without what an enclosing call's end has replaced. */
	u64 covered;
	/* Time that probes have added to the innermost open call, in ns, on top of its value at entry. */
	u64 overhead;
	struct pp_call calls[PP_DEPTH];
};

/* The calls of one probed function by one thread, or by the other threads of one process. */
struct pp_function {
	/* A thread's open call of this function, which its return finds by function and frame. The frame is 0 while no call is
	 * open. */
	struct pp_call open;
	u64 calls;
	/* Of calls that returned. */
	u64 total_ns;
	/* Total time without timed callees. */
	u64 self_ns;
	/* The part of `self_ns` that probes of callees added. */
	u64 overhead_ns;
	/* The calls that returned, by log2 of their duration. */
	u64 log2[PP_BUCKETS];
	/* Calls that had not returned when their thread ended. */
	u64 left;
};

/* A thread that is compared with directly. */
struct pp_fast {
	/* Its task_struct, once it was seen; 0 before, and after its end. */
	u64 address;
	struct pp_task task;
	struct pp_function functions[PP_SLOTS];
};

/* The system calls of one process with one number. */
struct pp_ended_call {
	u32 tgid;
	u32 number;
};

/* How they ended. */
struct pp_results {
	u64 calls;
	/* Of these, those that failed. */
	u64 errors;
	/* The sum of what the others returned: bytes, of calls that move them. */
	u64 returned;
};

#endif
