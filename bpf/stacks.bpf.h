/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Stacks and samples, counted in the kernel, for `pipeprof run` and `pipeprof record`. A BPF stack map would drop a stack
 * on a hash collision, so the key is a hash of 64 bits over all FRAMES. No kernel type is read: this needs no BTF.
 */

/* Innermost frame first; zeros after the outermost. */
struct trace {
	u64 frames[FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PP_STACKS);
	__type(key, u64);
	__type(value, struct trace);
} traces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PP_STACKS);
	__type(key, struct pr_sample);
	__type(value, u64);
} samples SEC(".maps");

/* A buffer for one stack. Programs of perf events do not interrupt each other, but those at tracepoints. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct trace);
} sample_buffer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pp_lost);
} lost SEC(".maps");

#define COUNT_LOST(field) \
	do { \
		struct pp_lost *lost_ = FIRST(lost); \
		if (lost_) \
			__sync_fetch_and_add(&lost_->field, 1); \
	} while (0)

/* Keep a stack of the current thread, by way of a buffer. Returns its key; 0 without one. Flags: as bpf_get_stack. */
static __always_inline u64 keep_trace_in(struct trace *trace, void *ctx, u64 flags)
{
	u64 key = 1;
	long bytes;
	u32 i;

	if (!trace)
		return 0;
	/* The helper fills the rest with zeros. */
	bytes = bpf_get_stack(ctx, trace->frames, sizeof(trace->frames), flags);
	if (bytes <= 0)
		return 0;
	for (i = 0; i < FRAMES; i++) {
		if (i >= (u32)bytes / sizeof(u64))
			break;
		key = (key ^ trace->frames[i]) * 0x9e3779b97f4a7c15ULL;
		key ^= key >> 29;
	}
	if (bpf_map_lookup_elem(&traces, &key) || !bpf_map_update_elem(&traces, &key, trace, BPF_NOEXIST))
		return key;
	/* Another CPU may have added it in between. */
	if (bpf_map_lookup_elem(&traces, &key))
		return key;
	COUNT_LOST(stacks);
	return 0;
}

/* Count where the current thread executes, whose `who` the sample has, and complete it. */
static __always_inline void add_sample(struct bpf_perf_event_data *ctx, struct pr_sample *sample)
{
	u64 first = 1, *count;

	sample->trace = PP_IN_USER;
	if (!(ctx->cs & 3)) {
		sample->trace = keep_trace_in(FIRST(sample_buffer), ctx, 0);
		if (!sample->trace)
			sample->trace = PP_UNREADABLE;
	}
	sample->user_trace = keep_trace_in(FIRST(sample_buffer), ctx, BPF_F_USER_STACK);
	sample->pid = current_ids().tgid;
	count = bpf_map_lookup_elem(&samples, sample);
	if (!count && !bpf_map_update_elem(&samples, sample, &first, BPF_NOEXIST))
		return;
	/* Another CPU may have added it in between. */
	count = bpf_map_lookup_elem(&samples, sample);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		COUNT_LOST(samples);
}
