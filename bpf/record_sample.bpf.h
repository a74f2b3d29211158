/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What followed threads execute, at every tick of a sampling clock.
 */

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
	struct pr_counted taken = {};

	if (!own || !own->started || is_over(bpf_ktime_get_ns()))
		return 0;
	taken.sample.who = own->who;
	add_sample(ctx, &taken);
	step_sample(&taken.sample);
	return 0;
}
