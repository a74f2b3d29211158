// SPDX-License-Identifier: MIT OR Apache-2.0
// Tasks and vCPUs, and the stack of each task: calls and returns, traps, switches from one task to another.
#ifndef PIPEPROF_TASK_H
#define PIPEPROF_TASK_H

#include "follow.h"

#define FRAMES 256
#define USER_FRAMES 64
#define TASKS 4096
// Kernel stacks of x86-64 are 16 KiB, aligned to their size (THREAD_SIZE, arch/x86/include/asm/page_64_types.h).
#define REGION(address) ((address) >> 14)
// Entry and exception stacks live in the CPU entry area (arch/x86/include/asm/pgtable_64_types.h): no task's stack.
#define IN_ENTRY_AREA(address) ((address) >= 0xfffffe0000000000ull && (address) < 0xfffffe8000000000ull)
#define IN_KERNEL(address) ((address) >> 63)

struct frame {
	uint64_t stack;	 // where the return address lies; 0 for a trap
	uint64_t resume; // where a return is expected to go; 0 where that is not known
	uint64_t rep;	 // traps: the rep instruction that was under way
	uint32_t node;	 // the caller's context
};

struct task {
	uint64_t region; // of its kernel stack; 0 until seen
	unsigned process;
	bool followed; // all of its kernel stack is known
	bool resumed;  // switched to, and no return seen since to where it was called before
	unsigned resumed_frames;
	uint32_t context, user_context;
	unsigned frames, user_frames;
	uint64_t rep;
	struct frame frame[FRAMES], user_frame[USER_FRAMES];
};

struct vcpu {
	struct task *task;
	struct block *block; // under way; null before the first
	uint64_t start;	     // the counter when it started
	const uint64_t *counter;
	uint64_t begun; // instructions of it, once it has ended
	bool ended;
	bool user, entering, switching, process_pending;
	unsigned process;
	uint32_t node;	 // the context now
	uint32_t counted; // the context when the block started
	uint64_t returned; // where the last return is expected to go; 0 where not known
	const struct site *fired; // the latest of the block's instructions to access the stack
	unsigned rep_accesses;	  // of the rep instruction of the block under way
	bool overwriting;  // a speculation trap's call was executed: the return to come goes elsewhere, and that is meant
	uint64_t rep;	   // the address of the rep instruction executed last, if it was the last instruction
	bool rep_goes_on;  // the block under way began with a further iteration of it
};

extern struct vcpu vcpus[VCPUS];

struct task *new_task(unsigned process, bool followed);
// A call or trap at `at` goes one deeper. `stack` is where the return address lies, 0 for a trap.
void push(struct vcpu *v, uint64_t stack, uint64_t resume, uint64_t at, uint64_t rep);

#endif
