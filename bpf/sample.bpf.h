/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Stacks, counted in the kernel: on every tick of a sampling clock, and on every hit of an execution breakpoint. A
 * BPF stack map would drop a stack on a hash collision, so here the key is the stack's whole content.
 */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PP_STACKS);
	__type(key, u64);
	__type(value, struct pp_stack);
} stacks SEC(".maps");

/* Buffer for building a stack; one per CPU, because programs do not interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pp_stack);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pp_losses);
} losses SEC(".maps");

static __always_inline u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 29);
}

static __always_inline int count_stack(struct bpf_perf_event_data *ctx, u32 process, u32 slot)
{
	u32 zero = 0, i, kernel = 0, user = 0;
	struct pp_losses *lost = bpf_map_lookup_elem(&losses, &zero);
	struct pp_stack *stack = bpf_map_lookup_elem(&scratch, &zero);
	struct pp_stack *known;
	u64 hash;
	long bytes;

	if (!lost || !stack)
		return 0;
	__sync_fetch_and_add(&lost->seen, 1);

	bytes = bpf_get_stack(ctx, stack->kernel_frames, sizeof(stack->kernel_frames), 0);
	if (bytes > 0)
		kernel = (u32)bytes / sizeof(u64);
	else if (!(ctx->cs & 3))
		__sync_fetch_and_add(&lost->kernel_unreadable, 1);
	bytes = bpf_get_stack(ctx, stack->user_frames, sizeof(stack->user_frames), BPF_F_USER_STACK);
	if (bytes > 0)
		user = (u32)bytes / sizeof(u64);
	else
		__sync_fetch_and_add(&lost->user_unreadable, 1);

	stack->count = 1;
	stack->process = process;
	stack->pid = current_ids().tgid;
	stack->execs = current_execs();
	stack->slot = slot;
	stack->kernel = kernel;
	stack->user = user;
	hash = mix(((u64)stack->process << 32) | slot, ((u64)kernel << 32) | user);
	hash = mix(hash, ((u64)stack->pid << 32) | stack->execs);
	for (i = 0; i < PP_KERNEL_FRAMES; i++) {
		if (i >= kernel)
			break;
		hash = mix(hash, stack->kernel_frames[i]);
	}
	for (i = 0; i < PP_USER_FRAMES; i++) {
		if (i >= user)
			break;
		hash = mix(hash, stack->user_frames[i]);
	}

	known = bpf_map_lookup_elem(&stacks, &hash);
	if (!known) {
		bytes = bpf_map_update_elem(&stacks, &hash, stack, BPF_NOEXIST);
		if (!bytes)
			return 0;
		/* Another CPU may have added it in between. */
		known = bpf_map_lookup_elem(&stacks, &hash);
	}
	if (known)
		__sync_fetch_and_add(&known->count, 1);
	else if (bytes == -E2BIG)
		__sync_fetch_and_add(&lost->full, 1);
	else
		__sync_fetch_and_add(&lost->busy, 1);
	return 0;
}

SEC("perf_event")
int pp_sample(struct bpf_perf_event_data *ctx)
{
	int process = watched_process();

	return process < 0 ? 0 : count_stack(ctx, process, PP_NO_SLOT);
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
	return calls % PP_STACK_EVERY ? 0 : count_stack(ctx, process, *slot);
}
