/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Waits for locks at which threads sleep (mutexes, semaphores), by the stack of the waiting thread. Only with
 * settings.stacks, on kernels with the tracepoints contention_begin and contention_end (since 5.19). Waiting for a spin
 * lock is not recorded: it is time on a CPU.
 */

/* include/trace/events/lock.h, LCB_F_SPIN; the other flags say which lock it is. */
enum { LOCK_SPINS = 1 };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PR_SAMPLES);
	__type(key, struct pr_sample);
	__type(value, struct pr_wait);
} lock_waits SEC(".maps");

/* As trace_buffer: a wake-up in an interrupt uses that one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct trace);
} lock_buffer SEC(".maps");

/* Lock and flags. */
SEC("raw_tp/contention_begin")
int pr_lock_begin(struct pr_event *ctx)
{
	struct pr_task *own;

	if (!((u32)ctx->args[1] & ~LOCK_SPINS))
		return 0;
	own = find(bpf_get_current_task());
	/* A mutex reports that it spins, and again that it sleeps. */
	if (!own || !own->started || own->lock)
		return 0;
	own->lock = ctx->args[0];
	own->lock_since = bpf_ktime_get_ns();
	own->lock_trace = keep_trace_in(FIRST(lock_buffer), ctx);
	return 0;
}

SEC("raw_tp/contention_end")
int pr_lock_end(struct pr_event *ctx)
{
	struct pr_task *own = find(bpf_get_current_task());
	struct pr_sample place = {};

	if (!own || !own->lock || own->lock != ctx->args[0])
		return 0;
	own->lock = 0;
	place.who = own->who;
	place.trace = own->lock_trace;
	if (!add_wait_to(&lock_waits, &place, bpf_ktime_get_ns() - own->lock_since))
		COUNT_LOST(stacks);
	return 0;
}
