/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Waits for locks at which threads sleep (mutexes, semaphores), by the stack of the waiting thread. Only with
 * settings.stacks, on kernels with the tracepoints contention_begin and contention_end (since 5.19). Waiting for a spin
 * lock is not recorded: it is time on a CPU.
 */

/* include/trace/events/lock.h, LCB_F_SPIN; the other flags say which lock it is. */
enum { LOCK_SPINS = 1 };

MAP(lock_waits, HASH, PR_SAMPLES, struct pr_sample, struct pr_wait);

/* As trace_buffer: a wake-up in an interrupt uses that one. */
MAP(lock_buffer, PERCPU_ARRAY, 1, u32, struct trace);

/* Lock and flags. */
SEC("raw_tp/contention_begin")
int pr_lock_begin(struct pp_tracepoint *ctx)
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
int pr_lock_end(struct pp_tracepoint *ctx)
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
