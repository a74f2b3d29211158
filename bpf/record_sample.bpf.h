/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What threads execute, at every tick of a sampling clock.
 */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PR_SAMPLES);
	__type(key, struct pr_sample);
	__type(value, u64);
} samples SEC(".maps");

/* As trace_buffer: a tick can interrupt the programs that use that one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pr_trace);
} sample_buffer SEC(".maps");

/* When a sample fell: the map does not say. If there is no room for it, nothing but the time is lost. */
static __always_inline void step_sample(const struct pr_sample *sample)
{
	struct pr_sampled *step = bpf_ringbuf_reserve(&steps, sizeof(*step), 0);

	if (!step)
		return;
	step->kind = PR_STEP_SAMPLE;
	step->spare = 0;
	step->at = bpf_ktime_get_ns();
	step->sample = *sample;
	SUBMIT(step);
}

SEC("perf_event")
int pr_sample(struct bpf_perf_event_data *ctx)
{
	struct pr_task *own = find(bpf_get_current_task());
	struct pr_state *shared = shared_state();
	struct pr_sample sample = {};
	u64 first = 1, *count;

	if (!own || !own->started)
		return 0;
	sample.who = own->who;
	sample.trace = PR_IN_USER;
	if (!(ctx->cs & 3)) {
		sample.trace = keep_trace_in(FIRST(sample_buffer), ctx, 0);
		if (!sample.trace)
			sample.trace = PR_UNREADABLE;
	}
	sample.user_trace = keep_trace_in(FIRST(sample_buffer), ctx, BPF_F_USER_STACK);
	sample.pid = current_ids().tgid;
	step_sample(&sample);
	count = bpf_map_lookup_elem(&samples, &sample);
	if (!count && !bpf_map_update_elem(&samples, &sample, &first, BPF_NOEXIST))
		return 0;
	/* Another CPU may have added it in between. */
	count = bpf_map_lookup_elem(&samples, &sample);
	if (count)
		__sync_fetch_and_add(count, 1);
	else if (shared)
		__sync_fetch_and_add(&shared->lost_samples, 1);
	return 0;
}
