// SPDX-License-Identifier: MIT OR Apache-2.0
#include "follow.h"

#include <string.h>

#define FRAMES 256
#define USER_FRAMES 64
#define TASKS 4096
// Kernel stacks of x86-64 are 16 KiB, aligned to their size (THREAD_SIZE, arch/x86/include/asm/page_64_types.h).
#define REGION(address) ((address) >> 14)
// Entry and exception stacks live in the CPU entry area (arch/x86/include/asm/pgtable_64_types.h): no task's stack.
#define IN_ENTRY_AREA(address) ((address) >= 0xfffffe0000000000ull && (address) < 0xfffffe8000000000ull)
#define IN_KERNEL(address) ((address) >> 63)

uint64_t totals[TOTALS];

struct frame {
	uint64_t stack;	 // where the return address lies; 0 for a trap
	uint64_t resume; // where a return is expected to go; 0 where that is not known
	uint64_t rep;	 // traps: the rep instruction that was under way
	uint32_t node;	 // the caller's context
};

struct task {
	uint64_t region; // of its kernel stack; 0 until seen
	enum side side;
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
	bool user, entering, switching, side_pending;
	enum side side;
	uint32_t node;	 // the context now
	uint32_t counted; // the context when the block started
	uint64_t returned; // where the last return is expected to go; 0 where not known
	const struct site *fired; // the latest of the block's instructions to access the stack
	unsigned rep_accesses;	  // of the rep instruction of the block under way
	bool overwriting;  // a speculation trap's call was executed: the return to come goes elsewhere, and that is meant
	uint64_t rep;	   // the address of the rep instruction executed last, if it was the last instruction
	bool rep_goes_on;  // the block under way began with a further iteration of it
};

static struct vcpu vcpus[VCPUS];
static struct vcpu *latest;
static struct task *tasks[TASKS];
static unsigned n_tasks;
static struct task overflow;

static uint32_t side_root(enum side side)
{
	return side == SIDE_WRITER ? ROOT_WRITER : side == SIDE_READER ? ROOT_READER : ROOT_OTHER;
}

// Where the context of a task is not known.
static uint32_t lost_root(enum side side)
{
	return side == SIDE_WRITER ? ROOT_WRITER_UNATTRIBUTED :
	       side == SIDE_READER ? ROOT_READER_UNATTRIBUTED :
				     ROOT_UNFOLLOWED;
}

static struct task *new_task(enum side side, bool followed)
{
	struct task *task = n_tasks < TASKS ? store_alloc(sizeof(*task)) : NULL;

	if (!task) {
		store.full = true;
		task = &overflow;
	} else {
		tasks[n_tasks++] = task;
	}
	task->side = side;
	task->followed = followed;
	task->context = followed ? side_root(side) : lost_root(side);
	task->user_context = side_root(side);
	return task;
}

static struct task *task_of(uint64_t region)
{
	for (unsigned i = 0; i < n_tasks; i++)
		if (tasks[i]->region == region) {
			struct task *found = tasks[i];

			// The most recently wanted is found first.
			memmove(tasks + 1, tasks, i * sizeof(*tasks));
			tasks[0] = found;
			return found;
		}
	return NULL;
}

// The stack of the vCPU's task cannot be followed: what it executes from here is unattributed.
static void lose(struct vcpu *v)
{
	struct task *task = v->task;

	if (task->side != SIDE_OTHER)
		totals[TOTAL_LOST_STACKS]++;
	task->frames = 0;
	task->followed = false;
	v->node = lost_root(task->side);
}

static void push(struct vcpu *v, uint64_t stack, uint64_t resume, uint64_t at, uint64_t rep)
{
	struct task *task = v->task;
	bool user = stack && !IN_KERNEL(stack);
	unsigned *n = user ? &task->user_frames : &task->frames;

	if (*n == (user ? USER_FRAMES : FRAMES)) {
		if (user) {
			*n = 0;
			v->node = side_root(task->side);
			return;
		}
		lose(v);
	}
	(user ? task->user_frame : task->frame)[(*n)++] = (struct frame){ stack, resume, rep, v->node };
	v->node = store_child(v->node, at);
}

// Drop frames that lie on the part of the stack that is free once its pointer is above `stack`.
static void prune(struct vcpu *v, uint64_t stack)
{
	struct task *task = v->task;
	unsigned keep = task->frames;

	if (!IN_KERNEL(stack)) {
		while (task->user_frames && task->user_frame[task->user_frames - 1].stack <= stack)
			v->node = task->user_frame[--task->user_frames].node;
		return;
	}
	for (unsigned i = task->frames; i-- && task->frame[i].stack;) {
		const struct frame *frame = &task->frame[i];

		if (REGION(frame->stack) == REGION(stack) && frame->stack > stack)
			break;
		if (REGION(frame->stack) == REGION(stack))
			keep = i;
	}
	if (keep < task->frames) {
		v->node = task->frame[keep].node;
		task->frames = keep;
	}
}

// The stack pointer was loaded from another task: whose it is, the first access to the new stack tells.
static void switch_task(struct vcpu *v, uint64_t stack)
{
	struct task *to = task_of(REGION(stack));

	totals[TOTAL_SWITCHES]++;
	v->switching = false;
	v->task->context = v->node;
	v->task->rep = 0;
	if (!to) {
		to = new_task(SIDE_OTHER, false);
		to->region = REGION(stack);
	}
	to->resumed = true;
	to->resumed_frames = to->frames;
	v->task = to;
	v->node = to->context;
}

static void see_stack(struct vcpu *v, uint64_t stack)
{
	if (!IN_KERNEL(stack))
		return;
	if (v->switching) {
		switch_task(v, stack);
	} else if (v->entering && !IN_ENTRY_AREA(stack)) {
		v->entering = false;
		if (v->task->region != REGION(stack)) {
			struct task *stale = task_of(REGION(stack));

			if (stale)
				stale->region = 0;
			v->task->region = REGION(stack);
		}
	}
}

static void on_return(struct vcpu *v, uint64_t stack)
{
	struct task *task = v->task;
	bool user = !IN_KERNEL(stack);
	struct frame *frames = user ? task->user_frame : task->frame;
	unsigned *n = user ? &task->user_frames : &task->frames;

	v->returned = 0;
	for (unsigned i = *n; i-- && frames[i].stack;)
		if (frames[i].stack == stack) {
			v->node = frames[i].node;
			v->returned = frames[i].resume;
			*n = i;
			if (!user && i < task->resumed_frames)
				task->resumed = false;
			return;
		}
	prune(v, stack);
	if (task->resumed && !user && task->frames <= task->resumed_frames) {
		// A new task, or one that slept since before the window.
		task->resumed = false;
		if (task->side != SIDE_OTHER)
			totals[TOTAL_LOST_STACKS]++;
		task->side = SIDE_OTHER;
		task->frames = 0;
		task->user_frames = 0;
		task->followed = false;
		task->user_context = ROOT_OTHER;
		v->node = ROOT_UNFOLLOWED;
	} else if (task->followed && !user && !v->overwriting) {
		totals[TOTAL_ODD_RETURNS]++;
	}
	v->overwriting = false;
}

void follow_stack(unsigned vcpu, struct site *site, uint64_t address)
{
	struct vcpu *v = &vcpus[vcpu];

	// Each instruction accesses the stack once. What comes besides are accesses of the CPU itself, such as those by
	// which it delivers an interrupt: QEMU 7.2 reports them as the latest instruction's.
	if (!v->task || v->block != site->block || v->fired == site)
		return;
	v->fired = site;
	see_stack(v, address);
	if (site->insn.flow == FLOW_RET) {
		on_return(v, address);
		return;
	}
	prune(v, address);
	v->overwriting = site->insn.flow == FLOW_CALL && site->block->short_call;
	if (site->insn.flow == FLOW_CALL_INDIRECT || (site->insn.flow == FLOW_CALL && !site->block->short_call))
		push(v, address, site->block->next, site->addr, 0);
}

void follow_switch(unsigned vcpu)
{
	vcpus[vcpu].switching = true;
}

void follow_rep(unsigned vcpu, struct site *site)
{
	struct vcpu *v = &vcpus[vcpu];

	if (v->block == site->block && v->rep_accesses++ < (site->insn.rep_twice ? 2 : 1))
		site->block->rep_accesses[root_side(store.nodes[v->counted].root)]++;
}

void follow_side(unsigned vcpu, enum side side)
{
	vcpus[vcpu].side_pending = true;
	vcpus[vcpu].side = side;
}

// An interrupt or exception struck kernel code at `at`, which is to be resumed at `resume` if that is known.
static void trap(struct vcpu *v, uint64_t at, uint64_t resume, uint64_t rep)
{
	totals[TOTAL_TRAPS]++;
	push(v, 0, resume, at, rep);
}

// Leave the kernel's stack behind: the task is back in user code.
static void to_user(struct vcpu *v)
{
	v->user = true;
	v->task->frames = 0;
	v->task->followed = true;
	v->task->resumed = false;
	v->node = v->task->user_context;
}

// From user code at `at` into the kernel.
static void from_user(struct vcpu *v, uint64_t at, uint64_t rep)
{
	v->user = false;
	v->entering = true;
	v->task->frames = 0;
	v->task->followed = true;
	v->task->user_context = v->node;
	v->task->rep = rep;
	v->node = store_child(v->node, at);
}

// `iret` within the kernel: back to what the latest trap interrupted. Tells where that goes on.
static uint64_t back_from_trap(struct vcpu *v)
{
	struct task *task = v->task;

	while (task->frames) {
		const struct frame *frame = &task->frame[--task->frames];

		v->node = frame->node;
		if (!frame->stack) {
			v->rep = frame->rep;
			return frame->resume;
		}
	}
	return 0;
}

// The block that ended on `v` and the one that starts: what happened between them? `done` of the block's instructions
// were completed; `trapped` says that the new block cannot be where the old one leads.
static void into_kernel_block(struct vcpu *v, const struct block *to, uint64_t last, uint64_t resume, uint64_t rep)
{
	const struct block *from = v->block;
	bool whole = v->begun == from->insns;
	enum flow flow = whole ? from->last.flow : FLOW_NEXT;

	if (v->user) {
		from_user(v, last, rep);
		return;
	}
	switch (flow) {
	case FLOW_NEXT:
	case FLOW_JUMP:
	case FLOW_BRANCH:
	case FLOW_HLT:
	case FLOW_UD:
	case FLOW_INT:
		if (to->pc == resume || (flow == FLOW_BRANCH && (to->pc == from->next || to->pc == from->last.target)))
			return;
		trap(v, resume && flow != FLOW_BRANCH ? resume : last, flow == FLOW_BRANCH ? 0 : resume, rep);
		return;
	case FLOW_CALL:
		if (to->pc != from->last.target)
			trap(v, from->last.target, from->last.target, 0);
		return;
	case FLOW_RET:
		// error_entry moves its return address to another place on the stack before it returns by it.
		if (!v->returned && v->task->frames && v->task->frame[v->task->frames - 1].stack &&
		    v->task->frame[v->task->frames - 1].resume == to->pc) {
			v->node = v->task->frame[--v->task->frames].node;
			return;
		}
		if (to->pc != v->returned && to->entry != ENTRY_NONE)
			trap(v, v->returned ? v->returned : last, v->returned, 0);
		return;
	case FLOW_CALL_INDIRECT:
	case FLOW_JUMP_INDIRECT:
		if (to->entry != ENTRY_NONE)
			trap(v, last, 0, 0);
		return;
	case FLOW_IRET:
		if (to->pc == from->next)
			return; // to itself, to serialise
		for (unsigned i = 0; i < v->task->frames; i++)
			if (!v->task->frame[i].stack) {
				uint64_t back = back_from_trap(v);

				if (to->pc != back && to->entry != ENTRY_NONE)
					trap(v, back ? back : last, back, v->rep);
				return;
			}
		if (!v->task->followed) {
			v->task->frames = 0;
			v->node = lost_root(v->task->side);
			return;
		}
		// To user code, and struck before its first instruction.
		__attribute__((fallthrough));
	case FLOW_SYSRET:
		rep = v->task->rep;
		to_user(v);
		from_user(v, last, rep);
		return;
	case FLOW_SYSCALL:
		return;
	}
}

// Count the block that ended on `v`, given the one that follows it (null: none does).
static void settle(struct vcpu *v, const struct block *to)
{
	struct block *from = v->block;
	unsigned begun = v->begun, done = begun, skip = v->rep_goes_on ? 1 : 0;
	bool whole = begun == from->insns, kernel = to && IN_KERNEL(to->pc), last_rep = false, faulted = false;
	uint64_t last = from->pc, resume = from->next, rep = 0;

	if (whole) {
		last = from->last_pc;
		last_rep = from->last.rep;
	} else {
		const uint8_t *lengths = from->code + from->bytes;

		for (unsigned i = 0; i + 1 < begun; i++)
			last += lengths[i];
		resume = last + (begun ? lengths[begun - 1] : 0);
		last_rep = begun == 1 && from->first_rep;
	}
	if (whole && from->last.flow == FLOW_JUMP)
		resume = from->last.target;
	totals[TOTAL_BEGUN] += begun;
	if (begun && to) {
		bool straight = !whole || from->last.flow == FLOW_NEXT || from->last.flow == FLOW_UD;

		if (kernel && straight && to->entry == ENTRY_ERROR && to->pc != resume)
			faulted = true;
		else if (whole && from->last.flow == FLOW_UD)
			faulted = true;
		else if (!whole && to->pc == last && !last_rep) {
			totals[TOTAL_REPLAYED]++;
			done--;
		}
	}
	if (faulted) {
		totals[TOTAL_FAULTED]++;
		resume = last;
		done--;
	}
	totals[TOTAL_REPEATED] += skip && done;
	if (skip && faulted && !done)
		rep = last; // it was counted with its first iteration
	else if (last_rep && !faulted)
		rep = last;
	if (last_rep && !faulted && to && to->pc == last)
		resume = last;
	store_count(from, v->counted, skip, done);
	v->rep = rep;
	if (!to)
		return;
	if (kernel) {
		if (last_rep && to->pc != last && to->pc != resume)
			resume = rep && !faulted ? 0 : resume;
		into_kernel_block(v, to, last, resume, rep);
	} else if (!v->user) {
		uint64_t going = v->task->rep;

		to_user(v);
		v->rep = going;
	}
}

void follow_block(unsigned vcpu, struct block *block, const uint64_t *counter)
{
	struct vcpu *v = &vcpus[vcpu];

	// One counter may serve all vCPUs: the block before this one ended here, whichever vCPU ran it.
	if (latest && latest != v && latest->block && !latest->ended) {
		latest->begun = *latest->counter - latest->start;
		latest->ended = true;
	}
	latest = v;
	if (v->block) {
		// Further iterations of one rep instruction: nothing changes but their number.
		if (v->block == block && v->rep_goes_on && block->insns == 1 && !v->side_pending &&
		    *counter - v->start == 1 && !v->ended) {
			totals[TOTAL_BEGUN]++;
			totals[TOTAL_REPEATED]++;
			v->start = *counter;
			v->rep_accesses = 0;
			return;
		}
		if (!v->ended)
			v->begun = *counter - v->start;
		settle(v, block);
	} else {
		v->user = !IN_KERNEL(block->pc);
		if (!v->task) {
			v->task = new_task(SIDE_OTHER, false);
			v->node = v->user ? ROOT_OTHER : ROOT_UNFOLLOWED;
		}
	}
	if (v->side_pending) {
		v->side_pending = false;
		v->task->side = v->side;
		v->task->user_frames = 0;
		v->node = side_root(v->side);
		if (!v->user) {
			v->task->user_context = v->node;
			v->node = store_child(v->node, v->block ? v->block->last_pc : 0);
		}
	}
	v->rep_goes_on = block->first_rep && v->rep == block->pc;
	v->rep = 0;
	v->counted = v->node;
	v->block = block;
	v->counter = counter;
	v->fired = NULL;
	v->rep_accesses = 0;
	v->start = *counter;
	v->ended = false;
}

void follow_open(unsigned vcpu, enum side side)
{
	memset(vcpus, 0, sizeof(vcpus));
	latest = NULL;
	vcpus[vcpu].task = new_task(SIDE_OTHER, true);
	vcpus[vcpu].node = ROOT_OTHER;
	follow_side(vcpu, side);
}

void follow_close(void)
{
	for (unsigned i = 0; i < VCPUS; i++) {
		struct vcpu *v = &vcpus[i];

		if (!v->block)
			continue;
		totals[TOTAL_VCPUS]++;
		if (!v->ended)
			v->begun = *v->counter - v->start;
		settle(v, NULL);
		v->block = NULL;
	}
}
