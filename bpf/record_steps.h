/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Steps of the path, in the form described in pipeprof.h.
 */
#ifndef PIPEPROF_RECORD_STEPS_H
#define PIPEPROF_RECORD_STEPS_H

/* States of a thread. */
#define PR_RUNNING 1
#define PR_RUNNABLE 2
#define PR_ASLEEP 3
/* It will never run again. */
#define PR_GONE 4

/* Kinds of steps of the path. */
#define PR_STEP_FORK 1
#define PR_STEP_EXEC 2
#define PR_STEP_SEIZE 3
#define PR_STEP_WAKE 4
#define PR_STEP_RUN 5
#define PR_STEP_GONE 6
#define PR_STEP_NAME 7
#define PR_STEP_FREE 8
#define PR_STEP_THROTTLED 9
#define PR_STEP_RENAME 10
#define PR_STEP_SAMPLE 11
#define PR_STEP_LOST 12
#define PR_STEP_ARGS 13

/* Numbers of eight bytes of a command line that are kept. */
#define PR_ARGS 24

/* The window of the recording, as elements of one array: when it ends, ns, or 0 while that is not known; how long it lasts,
 * if it is limited; whether a program has seen that it is over; the thread that starts the recorded processes. */
#define PR_UNTIL 0
#define PR_LASTS 1
#define PR_OVER 2
#define PR_RECORDER 3
#define PR_WINDOW 4

/* Where a wake-up comes from. */
#define PR_IN_PROCESS 0
#define PR_IN_INTERRUPT 1
/* Bits of a wake-up: the woken thread waited for room; the one that wakes it carries on what a followed one did, or sends a
 * signal with `kill`. */
#define PR_FOR_ROOM 16
#define PR_CARRIED 32
#define PR_BY_KILL 64

/* PR_STEP_WAKE: `task` is woken by `other`. PR_STEP_GONE: `task` has ended. FREE: its address may be used again.
 * THROTTLED: of the next wait for a CPU, `other` ns. LOST: there was no room for some steps before this one, and there has
 * been none for `other` in all. */
struct pr_step {
	u32 kind;
	u32 detail;
	u64 task;
	u64 at;
	u64 other;
};

/* PR_STEP_FORK, EXEC and SEIZE. RENAME: its last exec was not seen. */
struct pr_birth {
	u32 kind;
	u32 state;
	u64 task;
	u64 at;
	u64 other;
	/* The id of its process in pipeprof's PID namespace, and in that of the process; 0 if unknown. */
	u32 here;
	u32 inside;
	/* The id of the thread in the initial PID namespace, and the CPU on which this was seen. */
	u32 thread;
	u32 cpu;
	struct pr_who who;
};

/* PR_STEP_ARGS: the command line of a process that has executed a program, as /proc/PID/cmdline has it. */
struct pr_args {
	u32 kind;
	/* Bytes of it; 0 if it could not be read. */
	u32 length;
	struct pr_who who;
	u64 text[PR_ARGS];
};

/* PR_STEP_NAME: of the thread that wakes in the next step, or of the process that had the CPU before. */
struct pr_named {
	u32 kind;
	u32 tgid;
	u64 task;
	u64 name[2];
};

/* PR_STEP_RUN. */
struct pr_run {
	u32 kind;
	/* Bits 0 to 3: the state before; 4 to 7: as file_type; 8: as side; 9: as locked; from 16 on: the CPU. */
	u32 detail;
	u64 task;
	u64 at;
	/* Begin of the state before. */
	u64 since;
	u32 call;
	/* The process that had the CPU before; 0 if it was idle. */
	u32 before;
	/* Inode and device of the pipe at which it slept, mixed; 0 if at none. */
	u64 pipe;
};

/* PR_STEP_SAMPLE: where the sampling clock found a followed thread. */
struct pr_sampled {
	u32 kind;
	u32 spare;
	u64 at;
	struct pr_sample sample;
};

#endif
