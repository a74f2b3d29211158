/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Kernel stacks: of sleeping threads, joined to those of who wakes them, and of samples. Sleeps only with
 * settings.stacks: each stack takes some microseconds. A BPF stack map would drop a stack on a hash collision, so the
 * key is a hash of 64 bits.
 */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PR_TRACES);
	__type(key, u64);
	__type(value, struct pr_trace);
} traces SEC(".maps");

/* A buffer for one stack; programs on one CPU do not interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pr_trace);
} trace_buffer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PR_OFF_CPU);
	__type(key, struct pr_off_cpu);
	__type(value, struct pr_wait);
} off_cpu SEC(".maps");

/* Keep a stack of the current thread, by way of a buffer. Returns its key; 0 without one. Flags: as bpf_get_stack. */
static __always_inline u64 keep_trace_in(struct pr_trace *trace, void *ctx, u64 flags)
{
	struct pr_state *shared = shared_state();
	u64 key = 1;
	u32 i;

	/* The helper fills the rest with zeros. */
	if (!trace || bpf_get_stack(ctx, trace->frames, sizeof(trace->frames), flags) <= 0)
		return 0;
#pragma unroll
	for (i = 0; i < PR_FRAMES; i++) {
		key = (key ^ trace->frames[i]) * 0x9e3779b97f4a7c15ULL;
		key ^= key >> 29;
	}
	if (bpf_map_lookup_elem(&traces, &key) || !bpf_map_update_elem(&traces, &key, trace, BPF_NOEXIST))
		return key;
	/* Another CPU may have added it in between. */
	if (bpf_map_lookup_elem(&traces, &key))
		return key;
	if (shared)
		__sync_fetch_and_add(&shared->lost_traces, 1);
	return 0;
}

static __always_inline u64 keep_trace(void *ctx)
{
	return keep_trace_in(FIRST(trace_buffer), ctx, 0);
}

/* Add a sleep that ends now. */
static __always_inline void add_off_cpu(const struct pr_task *own, u64 now)
{
	struct pr_off_cpu sleep = { own->who, own->trace, own->waker_trace, { own->waker[0], own->waker[1] } };
	struct pr_state *shared = shared_state();

	if (!add_wait_to(&off_cpu, &sleep, (own->woken ? own->woken : now) - own->since) && shared)
		__sync_fetch_and_add(&shared->lost_traces, 1);
}
