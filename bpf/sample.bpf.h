/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Samples of the watched processes: at every tick of a sampling clock, and at hits of execution breakpoints.
 */

static __always_inline int sample_process(struct bpf_perf_event_data *ctx, u32 process)
{
	struct pr_counted taken = {};

	taken.sample.who.stage = process;
	bpf_get_current_comm(taken.sample.who.name, sizeof(taken.sample.who.name));
	add_sample(ctx, &taken);
	return 0;
}

SEC("perf_event")
int pp_sample(struct bpf_perf_event_data *ctx)
{
	int process = watched_process();

	return process < 0 ? 0 : sample_process(ctx, process);
}

SEC("perf_event")
int pp_breakpoint(struct bpf_perf_event_data *ctx)
{
	u64 address = ctx->ip, calls;
	struct pp_function *function;
	struct pp_task *task;
	struct pp_fast *own;
	int process;
	u32 *slot, pid;

	pid = current_pid();
	own = fast_of(pid);
	if (own)
		process = settings.processes[own != fast];
	else
		process = looked_up(pid);
	if (process < 0)
		return 0;
	slot = bpf_map_lookup_elem(&slots, &address);
	if (!slot || *slot >= PP_SLOTS)
		return 0;
	if (own) {
		function = &own->functions[*slot];
		calls = function->calls++;
		task = &own->task;
	} else {
		function = shared_of(process, *slot);
		if (!function)
			return 0;
		/* -mcpu=v2 has no atomic operation that returns the old value. */
		calls = function->calls;
		__sync_fetch_and_add(&function->calls, 1);
		task = task_of(process, 0);
	}
	if (task)
		task->overhead += settings.breakpoint_ns;
	return calls % PP_STACK_EVERY ? 0 : sample_process(ctx, process);
}
