/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Stacks and samples, counted in the kernel, for `pipeprof run` and `pipeprof record`. A BPF stack map would drop a stack
 * on a hash collision, so the key is a hash of 64 bits over all FRAMES. No kernel type is read: this needs no BTF.
 */

/* Innermost frame first; zeros after the outermost. */
struct trace {
	u64 frames[FRAMES];
};

MAP(traces, HASH, PP_STACKS, u64, struct trace);

/* By a hash of the sample. */
MAP(samples, HASH, PP_STACKS, u64, struct pr_counted);

/* Buffers for the stacks of a sample. Programs of perf events do not interrupt each other, but those at tracepoints. */
struct sample_traces {
	struct trace kernel;
	struct trace user;
};

MAP(sample_buffer, PERCPU_ARRAY, 1, u32, struct sample_traces);

MAP(lost, ARRAY, 1, u32, struct pp_lost);

#define COUNT_LOST(field) \
	do { \
		struct pp_lost *lost_ = FIRST(lost); \
		if (lost_) \
			__sync_fetch_and_add(&lost_->field, 1); \
	} while (0)

static __always_inline u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

/* Read a stack of the current thread. Returns its key; 0 without one. Flags: as bpf_get_stack. */
static __always_inline u64 read_trace(struct trace *trace, void *ctx, u64 flags)
{
	u64 key = 1;
	long bytes;
	u32 i;

	/* The helper fills the rest with zeros. */
	bytes = bpf_get_stack(ctx, trace->frames, sizeof(trace->frames), flags);
	if (bytes <= 0)
		return 0;
	for (i = 0; i < FRAMES; i++) {
		if (i >= (u32)bytes / sizeof(u64))
			break;
		key = mix(key, trace->frames[i]);
	}
	return key;
}

/* Returns the key; 0 without room. */
static __always_inline u64 keep_trace_as(u64 key, struct trace *trace)
{
	if (bpf_map_lookup_elem(&traces, &key) || !bpf_map_update_elem(&traces, &key, trace, BPF_NOEXIST))
		return key;
	/* Another CPU may have added it in between. */
	if (bpf_map_lookup_elem(&traces, &key))
		return key;
	COUNT_LOST(stacks);
	return 0;
}

/* Keep the kernel stack of the current thread, by way of a buffer. Returns its key; 0 without one. */
static __always_inline u64 keep_trace_in(struct trace *trace, void *ctx)
{
	u64 key = trace ? read_trace(trace, ctx, 0) : 0;

	return key ? keep_trace_as(key, trace) : 0;
}

/* Count where the current thread executes. The sample has `who`, and gets the rest. Most samples are of a kind that was
 * seen before: they need one lookup. */
static __always_inline void add_sample(struct bpf_perf_event_data *ctx, struct pr_counted *taken)
{
	struct sample_traces *buffer = FIRST(sample_buffer);
	struct pr_sample *sample = &taken->sample;
	const u64 *words = (const u64 *)sample;
	struct pr_counted *known;
	u64 key = 1;
	u32 i;

	if (!buffer)
		return;
	sample->trace = PP_IN_USER;
	if (!IN_USER(ctx)) {
		sample->trace = read_trace(&buffer->kernel, ctx, 0);
		if (!sample->trace)
			sample->trace = PP_UNREADABLE;
	}
	sample->user_trace = read_trace(&buffer->user, ctx, BPF_F_USER_STACK);
	sample->pid = current_ids().tgid;
#pragma unroll
	for (i = 0; i < sizeof(*sample) / sizeof(u64); i++)
		key = mix(key, words[i]);
	known = bpf_map_lookup_elem(&samples, &key);
	if (!known) {
		if (sample->trace > PP_UNREADABLE)
			keep_trace_as(sample->trace, &buffer->kernel);
		if (sample->user_trace)
			keep_trace_as(sample->user_trace, &buffer->user);
		taken->count = 1;
		if (!bpf_map_update_elem(&samples, &key, taken, BPF_NOEXIST))
			return;
		/* Another CPU may have added it in between. */
		known = bpf_map_lookup_elem(&samples, &key);
	}
	if (known)
		__sync_fetch_and_add(&known->count, 1);
	else
		COUNT_LOST(samples);
}
