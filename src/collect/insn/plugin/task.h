// SPDX-License-Identifier: MIT OR Apache-2.0
// Tasks and vCPUs, and each task's stack: calls, returns, traps, task switches.
#ifndef PIPEPROF_TASK_H
#define PIPEPROF_TASK_H

#include "follow.h"

#define FRAMES 256
#define TASKS 4096
// Kernel stacks of x86-64 are 16 KiB, aligned to their size (THREAD_SIZE, arch/x86/include/asm/page_64_types.h).
#define REGION(address) ((address) >> 14)
// Entry and exception stacks live in the CPU entry area (arch/x86/include/asm/pgtable_64_types.h): no task's stack.
#define IN_ENTRY_AREA(address) ((address) >= 0xfffffe0000000000ull && (address) < 0xfffffe8000000000ull)
#define IN_KERNEL(address) ((address) >> 63)

struct frame {
	uint64_t stack;	 // address of the return address, or of the call if that is in a register; 0 for a trap
	uint64_t resume; // expected target of the return; 0 if unknown
	uint64_t rep;	 // traps: the interrupted rep instruction
	uint32_t node;	 // the caller's context
	uint32_t callee; // in user code: the context that it calls
	uint64_t at;	 // in user code: the call
};

struct task {
	uint64_t region; // of its kernel stack, or where it saves its registers; 0 until seen
	unsigned process;
	bool followed; // its whole kernel stack is known
	bool resumed;  // switched to, and no return to an earlier caller seen since
	bool born;     // forked in this window, and has not run yet
	bool kept;     // of a process since before this window; its callers from before are not known
	unsigned resumed_frames;
	uint32_t context, user_context;
	unsigned frames, user_frames; // of the latter, there may be one beyond the depth that is followed
	unsigned deeper; // calls below that one, if return addresses are in a register
	uint64_t rep;
	struct frame frame[FRAMES], user_frame[USER_FRAMES + 1];
};

struct vcpu {
	struct task *task;
	struct block *block; // current block; null before the first
	uint64_t start;	     // counter at its start
	const uint64_t *counter;
	uint64_t begun; // its executed instructions, once it has ended
	bool ended;
	bool user, entering, switching, process_pending;
	unsigned process;
	uint32_t node;	 // the current context
	uint32_t counted; // the context at the block's start
	uint64_t returned; // expected target of the last return; 0 if unknown
	const struct site *fired; // the block's latest instruction that accessed the stack
	unsigned rep_accesses;	  // of the rep instruction of the current block
	bool overwriting;  // a speculation trap's call was executed: its return goes elsewhere on purpose
	uint64_t rep;	   // the address of the rep instruction executed last, if it was the last instruction
	bool rep_goes_on;  // the current block began with a further iteration of it
	// With return addresses in a register (link.c):
	uint64_t vectors;	// the table of exceptions; 0 until seen
	uint64_t saved, loaded; // where registers of tasks were stored and loaded last
};

extern struct vcpu vcpus[VCPUS];

// Forget the tasks of an earlier window.
void forget_tasks(void);
// Forget all of an earlier window but which tasks belong to processes.
void keep_tasks(void);
struct task *new_task(unsigned process, bool followed);
// Push a call or trap at `at`. `stack` is the address of the return address, or 0 for a trap.
void push(struct vcpu *v, uint64_t stack, uint64_t resume, uint64_t at, uint64_t rep);
// A task of `process` whose first switch leads to `region`. `parent` is null if it is not known.
void bear(struct vcpu *v, uint64_t region, unsigned process, const struct task *parent);
// The callers of the user code that the task executes from here on are not known.
void forget_callers(struct task *task);
// Note a return in user code, which may match no call.
void note_return(const struct task *task, bool odd);
// A return that matches no known call of the task's kernel stack.
void came_back(struct vcpu *v);
// The task of `v` is replaced by the one that saves its registers, or has its stack, at `region`.
void switch_task(struct vcpu *v, uint64_t region);
// An interrupt or exception in kernel code at `at`, which resumes at `resume` if that is known.
void trap(struct vcpu *v, uint64_t at, uint64_t resume, uint64_t rep);
// Drop the kernel's stack: the task is back in user code.
void to_user(struct vcpu *v);
// From user code at `at` into the kernel.
void from_user(struct vcpu *v, uint64_t at, uint64_t rep);
// Return to what the latest exception within the kernel interrupted. Returns the address expected next.
uint64_t back_from_trap(struct vcpu *v);

#endif
