/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What the BPF programs and the Rust side share: limits and structs, defined here and nowhere else. build.rs
 * turns this file into Rust, so it keeps to a small form: `#define PP_NAME number` and structs of u64, u32 and
 * structs named before, whose members need no padding.
 */
#ifndef PIPEPROF_H
#define PIPEPROF_H

/* Processes watched at once, by number. */
#define PP_WATCHED 64
/* Threads that are compared with directly; all others are looked up. */
#define PP_FAST 2
/* Rows of counters: one for each thread that is compared with directly, then one for the other threads of each
 * process: PP_FAST + PP_WATCHED. */
#define PP_ROWS 66
/* Threads named when the programs start, beyond those compared with directly. */
#define PP_GIVEN 4096
/* Threads that live at once and began after the programs did. */
#define PP_FOLLOWED 8192
/* Threads that can be inside probed functions at once, beyond those compared with directly. */
#define PP_THREADS 2048
/* Functions probed at once. */
#define PP_SLOTS 64
/* Probed functions of one task that can be inside each other. */
#define PP_DEPTH 32
/* Buckets of the latency histogram: the last one takes 2^39 ns (nine minutes) and more. */
#define PP_BUCKETS 40
/* Frames kept of a stack, nearest first; the kernel's own limit is 127. */
#define PP_KERNEL_FRAMES 127
#define PP_USER_FRAMES 64
/* Distinct stacks. */
#define PP_STACKS 8192
/* The slot of a stack that is a sample and no hit of a breakpoint. */
#define PP_NO_SLOT 4294967295

/* Set before loading, constant for the verifier. */
struct pp_settings {
	/* Whether probes carry their slot as an attach cookie (5.15 and newer); else it is found by address. */
	u32 cookies;
	u32 unused;
	/* The threads that are compared with directly, and their processes' numbers. */
	u32 pids[PP_FAST];
	u32 processes[PP_FAST];
	/* The PID namespace that all ids are of, by device and inode; 0 for the first one. */
	u64 namespace_device;
	u64 namespace_inode;
};

/* Counters of following, as elements of one array. */
/* Thread ids in `given`: where there are none, nobody looks. Written by the Rust side. */
#define PP_COUNT_GIVEN 0
/* Tasks put into `followed` so far: where there are none, nobody looks. */
#define PP_COUNT_FOLLOWED 1
/* Tasks for which there was no room in `followed`. */
#define PP_COUNT_UNFOLLOWED 2
/* Calls that were counted but not timed, for want of room for their thread. */
#define PP_COUNT_UNTIMED 3
#define PP_COUNTS 4

/* What is known of a task that is found by its address. */
struct pp_member {
	/* The number of its process. */
	u32 process;
	/* How often it, or whoever forked it, executed another program since the start. */
	u32 execs;
};

/* A distinct stack and how often it was seen. Keyed by a hash over all the rest. */
struct pp_stack {
	u64 count;
	/* The number of the watched process. */
	u32 process;
	/* Whose memory the user frames are in: the thread group's id, 0 where it is of another PID namespace. */
	u32 pid;
	/* As in pp_member. */
	u32 execs;
	u32 slot;
	/* Frames in use. */
	u32 kernel;
	u32 user;
	u64 kernel_frames[PP_KERNEL_FRAMES];
	u64 user_frames[PP_USER_FRAMES];
};

/* What sampling and breakpoints saw and could not keep. */
struct pp_losses {
	/* Events of the watched processes. */
	u64 seen;
	/* Not counted: no room for another stack. */
	u64 full;
	/* Not counted: the map was busy (an event inside an update of the same bucket). */
	u64 busy;
	/* Counted without their kernel part. */
	u64 kernel_unreadable;
	/* Counted without their user part. */
	u64 user_unreadable;
};

/* One probed function inside which a task is. */
struct pp_call {
	/* The stack pointer at entry, which says what return belongs to it. */
	u64 sp;
	u64 start;
	/* Time in probed functions that it called. */
	u64 below;
	u32 slot;
	/* Probed functions that it called. */
	u32 children;
};

/* The probed functions inside which a thread is, outermost first. Interrupts stack up on top: they return before
 * what they interrupt goes on. */
struct pp_task {
	u64 depth;
	/* The number of its process. */
	u64 process;
	struct pp_call calls[PP_DEPTH];
};

/* What the threads of one row did in one probed function. */
struct pp_function {
	u64 calls;
	u64 returns;
	u64 total_ns;
	/* Total less probed callees. */
	u64 self_ns;
	/* Probed callees of the calls that returned. */
	u64 children;
	u64 log2[PP_BUCKETS];
};

#endif
