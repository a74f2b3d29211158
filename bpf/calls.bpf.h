/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Calls of probed functions: one program for all entries, one for all returns. Which function was entered is told
 * by the probe's cookie or address; which one returns, by the stack pointer. Needs nothing newer than 5.10.
 */

/* Address of a probe to its slot; several addresses may lead to one slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PP_SLOTS * 2);
	__type(key, u64);
	__type(value, u32);
} slots SEC(".maps");

/* Process to its index, for those that `settings` does not compare with directly. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PP_WATCHED);
	__type(key, u32);
	__type(value, u32);
} watched SEC(".maps");

/* By the index of the process. Only its own task touches an element, and programs do not interrupt each other on
 * one CPU, so nothing here needs an atomic. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PP_WATCHED);
	__type(key, u32);
	__type(value, struct pp_task);
} tasks SEC(".maps");

/* By index of the process * PP_SLOTS + slot. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PP_WATCHED * PP_SLOTS);
	__type(key, u32);
	__type(value, struct pp_function);
} functions SEC(".maps");

/* The index of the current task among the watched processes, or -1. A process is its first thread. */
static __always_inline int watched_index(void)
{
	u32 pid = current_pid();
	u32 *index;

	if (pid == settings.pids[0])
		return 0;
	if (pid == settings.pids[1])
		return 1;
	if (settings.watched <= 2)
		return -1;
	index = bpf_map_lookup_elem(&watched, &pid);
	return index && *index < PP_WATCHED ? (int)*index : -1;
}

static __always_inline struct pp_function *function_of(u32 index, u32 slot)
{
	u32 cell = index * PP_SLOTS + slot;

	return bpf_map_lookup_elem(&functions, &cell);
}

/* The call at `depth`, which the caller has compared with PP_DEPTH. The mask is for the verifier, and in assembly as
 * the compiler would see through it and leave it out. */
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
	u32 key, slot;
	u64 sp, depth;
	int index;

	index = watched_index();
	if (index < 0)
		return 0;
	if (settings.cookies) {
		slot = bpf_get_attach_cookie(ctx);
	} else {
		/* A probe's handler sees the address behind its (one byte long) breakpoint. */
		u64 address = ctx->ip - 1;
		u32 *found = bpf_map_lookup_elem(&slots, &address);

		if (!found)
			return 0;
		slot = *found;
	}
	key = index;
	task = bpf_map_lookup_elem(&tasks, &key);
	function = function_of(index, slot);
	if (!task || !function)
		return 0;
	function->calls++;

	/* A return that the kernel did not report leaves its call behind, until the return of one further out drops
	 * it. Where the outermost is left behind, nothing would: it is over when the stack is up there again. (A tail
	 * call begins with the very stack pointer of its caller.) */
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
	int index, i;
	u32 key;

	index = watched_index();
	if (index < 0)
		return 0;
	key = index;
	task = bpf_map_lookup_elem(&tasks, &key);
	if (!task)
		return 0;

	/* The return address is off the stack now. */
	sp = ctx->sp - 8;
	for (i = 0; i < PP_DEPTH; i++) {
		depth = task->depth - 1 - i;
		if (depth >= PP_DEPTH)
			return 0; /* entered before the probes were there */
		if (call_at(task, depth)->sp == sp)
			break;
	}
	if (i == PP_DEPTH)
		return 0;
	/* Whatever was entered since is over too, unheard. */
	task->depth = depth;
	call = call_at(task, depth);
	function = function_of(index, call->slot);
	if (!function)
		return 0;
	took = now - call->start;
	function->returns++;
	function->total_ns += took;
	function->self_ns += took - call->below;
	function->children += call->children;
	function->log2[bucket_of(took)]++;
	if (depth > 0) {
		parent = call_at(task, depth - 1);
		parent->below += took;
		parent->children++;
	}
	return 0;
}
