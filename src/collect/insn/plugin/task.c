// SPDX-License-Identifier: MIT OR Apache-2.0
#include "link.h"

#include <string.h>

struct vcpu vcpus[VCPUS];

static struct task *tasks[TASKS];
static unsigned n_tasks, tasks_made;
static struct task overflow;

void forget_tasks(void)
{
	n_tasks = 0;
	link_forget();
}

void keep_tasks(void)
{
	unsigned kept = 0;

	link_forget();
	for (unsigned i = 0; i < n_tasks; i++) {
		struct task *task = tasks[i];
		uint64_t region = task->region;
		unsigned process = task->process;

		// A thread in user code says at its marker which process it is.
		if (process == OTHER || !region)
			continue;
		memset(task, 0, sizeof(*task));
		task->region = region;
		task->process = process;
		task->kept = true;
		task->context = task->user_context = process_root(process);
		tasks[i] = tasks[kept];
		tasks[kept++] = task;
	}
	n_tasks = kept;
}

struct task *new_task(unsigned process, bool followed)
{
	struct task *task = NULL;

	if (n_tasks < tasks_made) {
		// Of an earlier window.
		task = tasks[n_tasks++];
		memset(task, 0, sizeof(*task));
	} else if (n_tasks < TASKS) {
		task = store_alloc(sizeof(*task));
		if (task) {
			tasks[n_tasks++] = task;
			tasks_made++;
		}
	}
	if (!task) {
		store.full = true;
		task = &overflow;
	}
	task->process = process;
	task->followed = followed;
	task->context = followed ? process_root(process) : lost_root(process);
	task->user_context = process_root(process);
	return task;
}

static struct task *task_of(uint64_t region)
{
	for (unsigned i = 0; i < n_tasks; i++)
		if (tasks[i]->region == region) {
			struct task *found = tasks[i];

			// The most recently used is found first.
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

	if (task->process != OTHER)
		totals[TOTAL_LOST_STACKS]++;
	task->frames = 0;
	task->followed = false;
	v->node = lost_root(task->process);
}

// The upper end of a stack, in which copy_thread puts what a new task starts with: its user registers (struct pt_regs,
// 168 bytes, with 16 bytes above them under FRED), and below these struct inactive_task_frame (64 bytes).
#define BIRTH_PLACE (16384 - 168 - 16 - 64)

void bear(struct vcpu *v, uint64_t region, unsigned process, const struct task *parent)
{
	struct task *task;

	if (!v->task || region == v->task->region)
		return;
	task = task_of(region);
	if (task && task->born)
		return;
	if (!task) {
		if (process == OTHER)
			return;
		task = new_task(process, true);
		task->region = region;
	}
	// A stack may have been that of a task that has ended.
	task->process = process;
	task->followed = process != OTHER;
	task->born = task->followed;
	task->kept = false;
	task->resumed = false;
	task->frames = 0;
	task->rep = 0;
	task->context = task->followed ? process_root(process) : lost_root(process);
	forget_callers(task);
	if (store.foreign && process != OTHER && parent) {
		// A child goes on where its parent is; of a thread, it is what starts it.
		task->user_frames = parent->user_frames;
		memcpy(task->user_frame, parent->user_frame, task->user_frames * sizeof(*task->user_frame));
		task->user_context = parent->user_context;
	}
}

void follow_birth(unsigned vcpu, uint64_t address)
{
	struct vcpu *v = &vcpus[vcpu];

	if (!IN_KERNEL(address))
		return;
	if (arch->links)
		link_birth(v, address);
	else if (!IN_ENTRY_AREA(address) && (address & 16383) >= BIRTH_PLACE)
		bear(v, REGION(address), v->task ? v->task->process : OTHER, v->task);
}

void forget_callers(struct task *task)
{
	task->user_frames = task->deeper = 0;
	task->user_context = process_root(task->process);
}

void note_return(const struct task *task, bool odd)
{
	if (task->process == OTHER)
		return;
	user_returns[task->process][0]++;
	user_returns[task->process][1] += odd;
}

static void push_user(struct vcpu *v, struct frame frame, uint64_t at)
{
	struct task *task = v->task;
	bool last = task->user_frames == store.depth;

	if (task->user_frames > store.depth || !store.depth) {
		task->deeper++;
		return;
	}
	frame.at = at;
	frame.callee = 0;
	// A recursion is followed until it comes to the same call again, or it would have contexts without end.
	for (unsigned i = store.foreign ? task->user_frames : 0; i-- && !frame.callee;)
		if (task->user_frame[i].at == at)
			frame.callee = task->user_frame[i].callee;
	if (!frame.callee)
		frame.callee = store_call_of_user(v->node, last ? DEEPER : at);
	task->user_frame[task->user_frames++] = frame;
	v->node = frame.callee;
}

void push(struct vcpu *v, uint64_t stack, uint64_t resume, uint64_t at, uint64_t rep)
{
	struct task *task = v->task;
	bool user = stack && !IN_KERNEL(stack);

	if (user) {
		push_user(v, (struct frame){ .stack = stack, .resume = resume, .node = v->node }, at);
		return;
	}
	if (task->frames == FRAMES)
		lose(v);
	task->frame[task->frames++] = (struct frame){ .stack = stack, .resume = resume, .rep = rep, .node = v->node };
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

void switch_task(struct vcpu *v, uint64_t region)
{
	struct task *to = task_of(region);

	totals[TOTAL_SWITCHES]++;
	v->switching = false;
	v->task->context = v->node;
	v->task->rep = 0;
	if (!to) {
		to = new_task(OTHER, false);
		to->region = region;
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
		// The stack pointer was loaded from another task. The first access to the new stack identifies it.
		switch_task(v, REGION(stack));
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

void came_back(struct vcpu *v)
{
	struct task *task = v->task;

	if (task->resumed && task->frames <= task->resumed_frames) {
		// A new task, or one that slept since before the window.
		task->resumed = false;
		if (task->born) {
			// From here on it executes ret_from_fork.
			task->born = false;
			v->node = process_root(task->process);
			return;
		}
		if (task->kept) {
			task->frames = 0;
			v->node = process_root(task->process);
			return;
		}
		if (task->process != OTHER)
			totals[TOTAL_LOST_STACKS]++;
		task->process = OTHER;
		task->frames = 0;
		task->user_frames = 0;
		task->followed = false;
		task->user_context = ROOT_OTHER;
		v->node = ROOT_UNFOLLOWED;
	} else if (task->followed && !v->overwriting) {
		totals[TOTAL_ODD_RETURNS]++;
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
			if (user)
				note_return(task, false);
			else if (i < task->resumed_frames)
				task->resumed = false;
			return;
		}
	if (user)
		note_return(task, task->user_frames <= store.depth);
	prune(v, stack);
	if (!user)
		came_back(v);
	v->overwriting = false;
}

void follow_stack(unsigned vcpu, struct site *site, uint64_t address)
{
	struct vcpu *v = &vcpus[vcpu];

	// Each instruction accesses the stack once. Further accesses are the CPU's own, such as those that deliver an
	// interrupt, which QEMU 7.2 reports as the latest instruction's.
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
