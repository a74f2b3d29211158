// SPDX-License-Identifier: MIT OR Apache-2.0
#include "link.h"

#include <string.h>

uint64_t totals[TOTALS];

static struct vcpu *latest;

void follow_switch(unsigned vcpu)
{
	struct vcpu *v = &vcpus[vcpu];

	if (arch->links)
		link_switch(v);
	else
		v->switching = true;
}

void follow_rep(unsigned vcpu, struct site *site)
{
	struct vcpu *v = &vcpus[vcpu];

	if (v->block == site->block && v->rep_accesses++ < (site->insn.rep_twice ? 2 : 1))
		store_rep_access(site->block, v->counted);
}

void follow_process(unsigned vcpu, unsigned process)
{
	vcpus[vcpu].process_pending = true;
	vcpus[vcpu].process = process;
}

void follow_exec(unsigned vcpu)
{
	if (vcpus[vcpu].task)
		forget_callers(vcpus[vcpu].task);
}

void trap(struct vcpu *v, uint64_t at, uint64_t resume, uint64_t rep)
{
	totals[TOTAL_TRAPS]++;
	push(v, 0, resume, at, rep);
}

void to_user(struct vcpu *v)
{
	v->user = true;
	v->task->frames = 0;
	v->task->followed = true;
	v->task->resumed = false;
	v->node = v->task->user_context;
}

void from_user(struct vcpu *v, uint64_t at, uint64_t rep)
{
	v->user = false;
	v->entering = true;
	v->task->frames = 0;
	v->task->followed = true;
	v->task->user_context = v->node;
	v->task->rep = rep;
	v->node = store_entry_of_user(v->node, at);
}

uint64_t back_from_trap(struct vcpu *v)
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

// Find out what happened between the block that ended on `v` and the one that starts. `done` instructions of the old
// block completed. `trapped`: the old block does not lead to the new one.
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
		// error_entry moves its return address on the stack before it returns.
		if (!v->returned && v->task->frames && v->task->frame[v->task->frames - 1].stack &&
		    v->task->frame[v->task->frames - 1].resume == to->pc) {
			v->node = v->task->frame[--v->task->frames].node;
			return;
		}
		if (to->pc != v->returned && to->entry > ENTRY_CUT)
			trap(v, v->returned ? v->returned : last, v->returned, 0);
		return;
	case FLOW_CALL_INDIRECT:
	case FLOW_JUMP_INDIRECT:
		if (to->entry > ENTRY_CUT)
			trap(v, last, 0, 0);
		return;
	case FLOW_IRET:
		if (to->pc == from->next)
			return; // to itself, to serialise the CPU
		for (unsigned i = 0; i < v->task->frames; i++)
			if (!v->task->frame[i].stack) {
				uint64_t back = back_from_trap(v);

				if (to->pc != back && to->entry > ENTRY_CUT)
					trap(v, back ? back : last, back, v->rep);
				return;
			}
		if (!v->task->followed) {
			v->task->frames = 0;
			v->node = lost_root(v->task->process);
			return;
		}
		// Returned to user code and interrupted before its first instruction.
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

// Count the block that ended on `v`. `to` is the block that follows, or null.
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

		if (kernel && straight && to->pc != resume &&
		    (arch->links ? link_faults(v, to) : to->entry == ENTRY_ERROR))
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
		rep = last; // already counted with its first iteration
	else if (last_rep && !faulted)
		rep = last;
	if (last_rep && !faulted && to && to->pc == last)
		resume = last;
	store_count(from, v->counted, skip, done);
	if (whole && from->last.flow == FLOW_SYSCALL && v->task->process == 0)
		store_tick();
	v->rep = rep;
	if (arch->links && whole)
		link_leave(v, to);
	if (!to)
		return;
	if (kernel && arch->links) {
		link_into_kernel(v, to, whole, last, resume);
	} else if (kernel) {
		if (last_rep && to->pc != last && to->pc != resume)
			resume = rep && !faulted ? 0 : resume;
		into_kernel_block(v, to, last, resume, rep);
	} else if (!v->user) {
		uint64_t going = v->task->rep;

		to_user(v);
		v->rep = going;
	}
}

// Whether the whole block leads where it says, so that nothing is to be found out. Most blocks do.
static bool is_plain(const struct vcpu *v, const struct block *to)
{
	const struct block *from = v->block;

	enum flow flow = from->last.flow;

	if (arch->links || v->begun != from->insns || v->rep_goes_on || from->last.rep || v->user == IN_KERNEL(to->pc))
		return false;
	if (v->user)
		return flow != FLOW_SYSCALL && flow != FLOW_UD;
	return to->pc == from->next ? flow == FLOW_NEXT || flow == FLOW_BRANCH :
				      to->pc == from->last.target && (flow == FLOW_JUMP || flow == FLOW_BRANCH);
}

void follow_block(unsigned vcpu, struct block *block, const uint64_t *counter)
{
	struct vcpu *v = &vcpus[vcpu];

	// All vCPUs may share a counter: the previous block ended here, on whichever vCPU it ran.
	if (latest && latest != v && latest->block && !latest->ended) {
		latest->begun = *latest->counter - latest->start;
		latest->ended = true;
	}
	latest = v;
	if (v->block) {
		// Further iterations of one rep instruction change only their number.
		if (v->block == block && v->rep_goes_on && block->insns == 1 && !v->process_pending &&
		    *counter - v->start == 1 && !v->ended) {
			totals[TOTAL_BEGUN]++;
			totals[TOTAL_REPEATED]++;
			v->start = *counter;
			v->rep_accesses = 0;
			return;
		}
		if (!v->ended)
			v->begun = *counter - v->start;
		if (is_plain(v, block)) {
			totals[TOTAL_BEGUN] += v->begun;
			store_count(v->block, v->counted, 0, v->begun);
			v->rep = 0;
		} else {
			settle(v, block);
		}
	} else {
		v->user = !IN_KERNEL(block->pc);
		if (!v->task) {
			v->task = new_task(OTHER, false);
			v->node = v->user ? ROOT_OTHER : ROOT_UNFOLLOWED;
		}
	}
	if (v->process_pending) {
		v->process_pending = false;
		v->task->process = v->process;
		forget_callers(v->task);
		v->node = process_root(v->process);
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

void follow_open(unsigned vcpu, unsigned process, bool keep)
{
	memset(vcpus, 0, sizeof(vcpus));
	memset(totals, 0, sizeof(totals));
	if (keep)
		keep_tasks();
	else
		forget_tasks();
	latest = NULL;
	vcpus[vcpu].task = new_task(OTHER, true);
	vcpus[vcpu].node = ROOT_OTHER;
	follow_process(vcpu, process);
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
