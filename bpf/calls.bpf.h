/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Calls of probed functions: one program for all entries, one for all returns. The probe's cookie or address
 * identifies the function entered, the stack pointer the one that returns. Works on Linux 5.10.
 */

/* From a probe's address to its slot; several addresses may share a slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PP_SLOTS * 2);
	__type(key, u64);
	__type(value, u32);
} slots SEC(".maps");

/* The threads that are compared with directly, by row. Only the thread itself accesses its element, and programs do
 * not interrupt each other on one CPU, so no atomics are needed. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PP_FAST);
	__type(key, u32);
	__type(value, struct pp_task);
} tasks SEC(".maps");

/* Index: row * PP_SLOTS + slot. Rows from PP_FAST on are shared by the threads of a process and need atomics. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PP_ROWS * PP_SLOTS);
	__type(key, u32);
	__type(value, struct pp_function);
} functions SEC(".maps");

/* The initial state of a thread. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pp_task);
} blank SEC(".maps");

static __always_inline struct pp_function *function_of(u32 row, u32 slot)
{
	u32 cell = row * PP_SLOTS + slot;

	return bpf_map_lookup_elem(&functions, &cell);
}

static __always_inline void count_call(int row, struct pp_function *function)
{
	if (row < PP_FAST)
		function->calls++;
	else
		__sync_fetch_and_add(&function->calls, 1);
}

/* The open probed calls of the current thread; null if the map is full. */
static __always_inline struct pp_task *calls_of(int row, int create)
{
	struct pp_task *task, *nothing;
	u32 key = row;
	u64 address;

	if (row < PP_FAST)
		return bpf_map_lookup_elem(&tasks, &key);
	address = bpf_get_current_task();
	task = bpf_map_lookup_elem(&threads, &address);
	if (task || !create)
		return task;
	key = 0;
	nothing = bpf_map_lookup_elem(&blank, &key);
	if (!nothing)
		return 0;
	bpf_map_update_elem(&threads, &address, nothing, BPF_NOEXIST);
	task = bpf_map_lookup_elem(&threads, &address);
	if (task)
		task->process = (u32)row - PP_FAST;
	else
		count_one(PP_COUNT_UNTIMED);
	return task;
}

/* The call at `depth`, which the caller has compared with PP_DEPTH. The mask is for the verifier. It is in assembly
 * because the compiler would optimise it away. */
static __always_inline struct pp_call *call_at(struct pp_task *task, u64 depth)
{
	_Static_assert((PP_DEPTH & (PP_DEPTH - 1)) == 0, "PP_DEPTH is a power of two");
	asm volatile("%0 &= %1" : "+r"(depth) : "i"(PP_DEPTH - 1));
	return &task->calls[depth];
}

/* log2 of a duration, as a bucket. */
static __always_inline u32 bucket_of(u64 ns)
{
	u32 bucket = 0;

	if (ns >> 32) {
		bucket += 32;
		ns >>= 32;
	}
	if (ns >> 16) {
		bucket += 16;
		ns >>= 16;
	}
	if (ns >> 8) {
		bucket += 8;
		ns >>= 8;
	}
	if (ns >> 4) {
		bucket += 4;
		ns >>= 4;
	}
	if (ns >> 2) {
		bucket += 2;
		ns >>= 2;
	}
	bucket += ns >> 1;
	return bucket < PP_BUCKETS ? bucket : PP_BUCKETS - 1;
}

SEC("kprobe")
int pp_enter(struct pt_regs *ctx)
{
	struct pp_function *function;
	struct pp_task *task;
	struct pp_call *call;
	u64 sp, depth;
	u32 slot;
	int row;

	row = watched_row();
	if (row < 0)
		return 0;
	if (settings.cookies) {
		slot = bpf_get_attach_cookie(ctx);
	} else {
		/* A probe's handler gets the address after its breakpoint, which is one byte long. */
		u64 address = ctx->ip - 1;
		u32 *found = bpf_map_lookup_elem(&slots, &address);

		if (!found)
			return 0;
		slot = *found;
	}
	function = function_of(row, slot);
	if (!function)
		return 0;
	count_call(row, function);
	task = calls_of(row, 1);
	if (!task)
		return 0;

	/* A call whose return the kernel did not report stays open until the return of an outer call. An outermost call
	 * has no outer one: it has ended when the stack pointer is above it. (A tail call starts with the same stack
	 * pointer as its caller.) */
	sp = ctx->sp;
	depth = task->depth;
	call = &task->calls[0];
	if (depth && !((call->sp ^ sp) >> 14) && (sp > call->sp || (sp == call->sp && slot == call->slot)))
		depth = 0;
	if (depth >= PP_DEPTH)
		return 0;
	call = call_at(task, depth);
	call->sp = sp;
	call->below = 0;
	call->slot = slot;
	call->children = 0;
	task->depth = depth + 1;
	call->start = bpf_ktime_get_ns();
	return 0;
}

SEC("kretprobe")
int pp_leave(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns(), depth, took, sp;
	struct pp_function *function;
	struct pp_call *call, *parent;
	struct pp_task *task;
	int row, i;

	row = watched_row();
	if (row < 0)
		return 0;
	task = calls_of(row, 0);
	if (!task)
		return 0;

	/* The return address is already popped. */
	sp = ctx->sp - 8;
	for (i = 0; i < PP_DEPTH; i++) {
		depth = task->depth - 1 - i;
		if (depth >= PP_DEPTH)
			return 0; /* entered before the probes existed */
		if (call_at(task, depth)->sp == sp)
			break;
	}
	if (i == PP_DEPTH)
		return 0;
	/* Calls entered since then have ended too; their returns were not reported. */
	task->depth = depth;
	call = call_at(task, depth);
	function = function_of(row, call->slot);
	if (!function)
		return 0;
	took = now - call->start;
	if (row < PP_FAST) {
		function->returns++;
		function->total_ns += took;
		function->self_ns += took - call->below;
		function->children += call->children;
		function->log2[bucket_of(took)]++;
	} else {
		__sync_fetch_and_add(&function->returns, 1);
		__sync_fetch_and_add(&function->total_ns, took);
		__sync_fetch_and_add(&function->self_ns, took - call->below);
		__sync_fetch_and_add(&function->children, call->children);
		__sync_fetch_and_add(&function->log2[bucket_of(took)], 1);
	}
	if (depth > 0) {
		parent = call_at(task, depth - 1);
		parent->below += took;
		parent->children++;
	}
	return 0;
}
