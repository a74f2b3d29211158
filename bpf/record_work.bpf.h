/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Work that a followed thread queues for the kernel's workers, such as what is written to a terminal. A worker that is busy
 * already is not woken for it (see step_carry), and goes on with the work of others afterwards.
 */

/* CPU, queue and work: include/trace/events/workqueue.h. */
SEC("raw_tp/workqueue_queue_work")
int pr_queue_work(struct pp_tracepoint *ctx)
{
	u64 current = bpf_get_current_task(), work = ctx->args[2], *queued;
	struct pr_task *own = find(current);
	struct registers call;

	if (!own || !own->started || context_now(ctx, current, own, 0, &call) != PR_IN_PROCESS)
		return 0;
	queued = carrier_of(work);
	if (!queued)
		return 0;
	*queued = work;
	step_event(PR_STEP_WAKE, PR_IN_PROCESS, work, bpf_ktime_get_ns(), current);
	return 0;
}

/* Work. */
SEC("raw_tp/workqueue_execute_start")
int pr_do_work(struct pp_tracepoint *ctx)
{
	u64 current = bpf_get_current_task(), work = ctx->args[0];
	u64 *queued = carrier_of(work), *carrier = carrier_of(current);

	if (!queued || !carrier)
		return 0;
	if (*queued == work) {
		*queued = 0;
		*carrier = current;
		step_event(PR_STEP_WAKE, PR_IN_PROCESS | PR_CARRIED, current, bpf_ktime_get_ns(), work);
	} else if (*carrier == current) {
		*carrier = 0;
	}
	return 0;
}
