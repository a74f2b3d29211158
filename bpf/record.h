/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Limits and structs of `pipeprof record`, in the form described in pipeprof.h.
 */
#ifndef PIPEPROF_RECORD_H
#define PIPEPROF_RECORD_H

/* Threads followed at once. */
#define PR_TASKS 4096
/* Counters that tell most unwatched threads without a lookup; a power of two. */
#define PR_FILTER 4096
/* Processes that live, or have just ended. */
#define PR_PROCESSES 8192
/* Ends of pipes, by process: xargs makes a pipe for each program that it starts. */
#define PR_ENDS 32768
/* Reasons of sleeps, by process. */
#define PR_WAITS 8192
/* Processes that were running before the recording. */
#define PR_WANTED 1024
/* Generations of tables of file descriptors; a power of two. */
#define PR_GENERATIONS 1024
/* Descriptors remembered by each thread; a power of two. */
#define PR_KNOWN 4
/* A call that moves fewer bytes to or from a file has no buffer. */
#define PR_TINY 16
/* One that reads so much of a file reads it in blocks. */
#define PR_BLOCK 4096
/* Numbers of eight bytes of its name. */
#define PR_READ_NAME 4
/* Every 16th call on a pipe, its fill is read. */
#define PR_FILL_EVERY 16
/* Of every 64th poll that returns at once, it is looked which of its first descriptors is ready; so many of them. */
#define PR_READY_EVERY 64
#define PR_READY_FIRST 16

/* Bytes of steps of the path that the Rust code has not read yet; a power of two. */
#define PR_RING 8388608
/* Threads that are not followed but carry on what a followed one does; a power of two. */
#define PR_CARRIERS 1024
/* Waits for a CPU from this length on name who had it, ns. */
#define PR_NAMED_WAIT 100000
/* Waits for a CPU from this length on may be due to a quota, ns; groups of groups that are looked at. */
#define PR_LONG_WAIT 1000000
#define PR_GROUPS 6
/* Descriptors that are looked at when none is left: the verifier goes through this loop. */
#define PR_DESCRIPTORS 64
/* Processes that the kernel has chosen to kill for lack of memory. */
#define PR_VICTIMS 256
/* A wake-up this long before a sleep, ns, ended that sleep if no other one did: the thread was on its way to sleep. */
#define PR_EARLY 1000000

/* Frames of stacks. */
#define PR_FRAMES 32
/* Stacks of waits for locks, and of samples with their times, by process. */
#define PR_SAMPLES 16384
/* Pairs of a sleeping thread's stack and its waker's, by process. */
#define PR_OFF_CPU 16384

/* Calls that move bytes, by process and error. */
#define PR_BY_CALL 16384

/* Pipes and sockets of the whole machine. */
#define PR_MOVED 65536

#include "record_channels.h"
#include "record_named.h"
#include "record_processes.h"
#include "record_steps.h"

/* A pipe, or a socket, of the whole machine. */
struct pr_place {
	u64 inode;
	/* 0 for sockets. */
	u64 device;
};

/* What was read and written there, and how full a pipe was when it was last looked. */
struct pr_moved {
	u64 bytes[2];
	u32 used;
	u32 slots;
};

/* Shared between the programs and the Rust code. */
struct pr_state {
	/* Distance of the registers of a system call from the base of the thread's stack. */
	u64 registers;
	/* Not recorded for want of room: threads, ends, processes, reasons. */
	u64 lost_tasks;
	u64 lost_ends;
	u64 lost_processes;
	u64 lost_waits;
	/* Entries made for processes, also those that have been taken out since. */
	u64 processes_made;
	/* Switches to a thread that were not seen. */
	u64 unseen;
	/* Steps of the path not recorded, because the Rust code did not read them in time. */
	u64 lost_steps;
	/* Of these, those that a PR_STEP_LOST has told. */
	u64 told_steps;
	/* pipeprof's PID namespace: its address, and its level below the initial one. */
	u64 namespace;
	u64 level;
	/* Whether what io_uring moves can be seen. */
	u64 rings;
	/* Names other than those of locks, and whether some had no room. */
	u64 other_names;
	u64 lost_names;
	/* How often files were emptied. */
	u64 emptied;
};

#endif
