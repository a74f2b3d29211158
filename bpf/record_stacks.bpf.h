/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Kernel stacks of sleeping threads, joined to those of who wakes them. Only with settings.stacks: each stack takes some
 * microseconds.
 */

/* A buffer for one stack; programs on one CPU do not interrupt each other. */
MAP(trace_buffer, PERCPU_ARRAY, 1, u32, struct trace);

MAP(off_cpu, HASH, PR_OFF_CPU, struct pr_off_cpu, struct pr_wait);

static __always_inline u64 keep_trace(void *ctx)
{
	return keep_trace_in(FIRST(trace_buffer), ctx);
}

/* Add a sleep that ends now. */
static __always_inline void add_off_cpu(const struct pr_task *own, u64 now)
{
	struct pr_off_cpu sleep = { own->who, own->trace, own->waker_trace, { own->waker[0], own->waker[1] } };

	if (!add_wait_to(&off_cpu, &sleep, (own->woken ? own->woken : now) - own->since))
		COUNT_LOST(stacks);
}
