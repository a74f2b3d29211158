// SPDX-License-Identifier: MIT OR Apache-2.0
// A return leads to the address after its call, so the address tells which call it ends. Exceptions lead to the table of
// vectors (Arm ARM, "Exception vectors"): 16 entries of 128 bytes. The first of four quarters are for exceptions from the
// kernel, the last for those from user code; the first entry of each quarter is for those that an instruction causes.
#include "link.h"

#include <string.h>

#define VECTORS 2048ull
#define QUARTER 512ull
#define ENTRY 128ull

enum origin { NOWHERE, SAME_LEVEL, USER_LEVEL };

// What exception leads to `pc`, if it is in the table of `v`.
static enum origin origin_of(const struct vcpu *v, uint64_t pc)
{
	if (!v->vectors || (pc & ~(VECTORS - 1)) != v->vectors || pc & (ENTRY - 1))
		return NOWHERE;
	return (pc & (VECTORS - 1)) < 2 * QUARTER ? SAME_LEVEL : USER_LEVEL;
}

// All of user code's exceptions lead to the table, and nothing else does.
static void learn(struct vcpu *v, uint64_t pc)
{
	if (!(pc & (ENTRY - 1)) && (pc & (VECTORS - 1)) >= 2 * QUARTER)
		v->vectors = pc & ~(VECTORS - 1);
}

bool link_faults(struct vcpu *v, const struct block *to)
{
	if (v->user)
		learn(v, to->pc);
	return origin_of(v, to->pc) != NOWHERE && !(to->pc & (QUARTER - 1));
}

static void leave_unknown(struct vcpu *v)
{
	struct task *task = v->task;

	if (!v->user) {
		came_back(v);
	} else if (task->user_frames) {
		// Another stack, as of coroutines: its callers are not known.
		forget_callers(task);
		v->node = process_root(task->process);
	}
}

static void on_return(struct vcpu *v, const struct block *to)
{
	struct task *task = v->task;
	struct frame *frames = v->user ? task->user_frame : task->frame;
	unsigned *n = v->user ? &task->user_frames : &task->frames;
	// An interrupt hides where the return leads. It leads to the latest call.
	bool hidden = to && (v->user ? IN_KERNEL(to->pc) : origin_of(v, to->pc) != NOWHERE);

	v->returned = 0;
	if (v->user && task->deeper) {
		task->deeper--;
		note_return(task, false);
		return;
	}
	for (unsigned i = *n; i-- && frames[i].stack;)
		if (hidden || (to && frames[i].resume == to->pc)) {
			v->node = frames[i].node;
			v->returned = frames[i].resume;
			*n = i;
			if (v->user)
				note_return(task, false);
			else if (i < task->resumed_frames)
				task->resumed = false;
			return;
		}
	if (v->user)
		note_return(task, true);
	if (to)
		leave_unknown(v);
}

void link_leave(struct vcpu *v, const struct block *to)
{
	const struct block *from = v->block;

	if (from->last.flow == FLOW_RET)
		on_return(v, to);
	else if (from->last.flow == FLOW_CALL || from->last.flow == FLOW_CALL_INDIRECT)
		push(v, from->last_pc, from->next, from->last_pc, 0);
}

void link_into_kernel(struct vcpu *v, const struct block *to, bool whole, uint64_t last, uint64_t resume)
{
	enum flow flow = whole ? v->block->last.flow : FLOW_NEXT;
	enum origin origin;

	if (v->user)
		learn(v, to->pc);
	origin = origin_of(v, to->pc);

	if (v->user || origin == USER_LEVEL) {
		// If not from user code, it returned there, and was interrupted before the first instruction.
		if (!v->user)
			to_user(v);
		from_user(v, last, 0);
		return;
	}
	if (origin == NOWHERE) {
		if (flow == FLOW_IRET)
			back_from_trap(v);
		return;
	}
	switch (flow) {
	case FLOW_RET:
		resume = v->returned;
		break;
	case FLOW_CALL:
		resume = v->block->last.target;
		break;
	case FLOW_IRET:
		resume = back_from_trap(v);
		break;
	case FLOW_BRANCH:
	case FLOW_CALL_INDIRECT:
	case FLOW_JUMP_INDIRECT:
		resume = 0;
		break;
	default:
		break;
	}
	trap(v, resume ? resume : last, resume, 0);
}

void follow_registers(unsigned vcpu, uint64_t address, bool stored)
{
	uint64_t *place = stored ? &vcpus[vcpu].saved : &vcpus[vcpu].loaded;

	// Of the two registers, the first one is at the place.
	if (address != *place + 8)
		*place = address;
}

// Where copy_thread has stored, and for which process. One of these is where a new task begins to execute: the last of its
// saved registers (struct cpu_context, arch/arm64/include/asm/processor.h: x19 to x28, fp, sp, pc).
#define CONTEXT_PC 96
#define BIRTHS 1024

static struct {
	uint64_t address;
	unsigned process;
} births[BIRTHS];
static unsigned n_births;

void link_birth(struct vcpu *v, uint64_t address)
{
	births[n_births % BIRTHS].address = address;
	births[n_births++ % BIRTHS].process = v->task ? v->task->process : OTHER;
}

void link_forget(void)
{
	memset(births, 0, sizeof(births));
}

void link_switch(struct vcpu *v)
{
	if (!v->task || !v->saved || !v->loaded || v->saved == v->loaded)
		return;
	v->task->region = v->saved;
	for (unsigned i = 0; i < BIRTHS; i++)
		if (births[i].address == v->loaded + CONTEXT_PC) {
			births[i].address = 0;
			bear(v, v->loaded, births[i].process, NULL);
		}
	switch_task(v, v->loaded);
}
