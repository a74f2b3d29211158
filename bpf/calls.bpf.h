/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Calls of probed functions: programs that only count, and pairs of programs that also time. kprobes share one
 * program each, and the probe's cookie or address identifies the function. For fentry and fexit, the Rust code loads
 * a copy of the template for each function, with the function's slot in place of PP_SLOT_MARK. Works on Linux 5.10.
 */

/* From a probe's address to its slot; several addresses may share a slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PP_SLOTS * 2);
	__type(key, u64);
	__type(value, u32);
} slots SEC(".maps");

/* The threads that are compared with directly. Only the thread itself accesses its element. It is a global variable,
 * because its address needs no map lookup. */
struct pp_fast fast[PP_FAST];

/* Calls by all other threads, by process * PP_SLOTS + slot. Threads share them, so they need atomics. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PP_WATCHED * PP_SLOTS);
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

/* The current thread, if it is one of those that are compared with directly. */
static __always_inline struct pp_fast *fast_of(u32 pid)
{
	if (pid == settings.pids[0])
		return &fast[0];
	if (pid == settings.pids[1])
		return &fast[1];
	return 0;
}

/* A cell of `functions`. */
static __always_inline struct pp_function *shared_of(u32 process, u32 slot)
{
	u32 cell = process * PP_SLOTS + slot;

	return slot < PP_SLOTS ? bpf_map_lookup_elem(&functions, &cell) : 0;
}

/* The open calls of a thread that is looked up; null if it has none, or the map is full. */
static __always_inline struct pp_task *task_of(u32 process, int create)
{
	struct pp_task *task, *nothing;
	u64 address = bpf_get_current_task();
	u32 zero = 0;

	task = bpf_map_lookup_elem(&threads, &address);
	if (task || !create)
		return task;
	nothing = bpf_map_lookup_elem(&blank, &zero);
	if (!nothing)
		return 0;
	bpf_map_update_elem(&threads, &address, nothing, BPF_NOEXIST);
	task = bpf_map_lookup_elem(&threads, &address);
	if (task)
		task->process = process;
	else
		count_one(PP_COUNT_UNTIMED);
	return task;
}

/* The open call at `place`, which the caller has compared with PP_LAST. The assembly keeps the compiler from adding it
 * to the address before it is compared, which the verifier refuses. */
static __always_inline struct pp_call *call_at(struct pp_task *task, u64 place)
{
	asm volatile("" : "+r"(place));
	_Static_assert(PP_LAST == (PP_DEPTH - 1) * sizeof(struct pp_call), "PP_LAST is the last element");
	return (void *)task->calls + place;
}

/* log2 of a duration, as a bucket. Calls of a microsecond take four comparisons. */
static __always_inline u64 bucket_of(u64 ns)
{
	u64 bucket = 0;

	if (ns >> 16) {
		if (ns >> 32) {
			bucket = 32;
			ns >>= 32;
		}
		if (ns >> 16) {
			bucket += 16;
			ns >>= 16;
		}
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

/* Threads that are looked up are in functions of their own, so that the others' path needs few registers. */

static __noinline int count_slow(u32 pid, u64 slot, u64 cost)
{
	int process = looked_up(pid);
	struct pp_function *function;
	struct pp_task *task;

	if (process < 0)
		return 0;
	function = shared_of(process, slot);
	if (!function)
		return 0;
	__sync_fetch_and_add(&function->calls, 1);
	task = task_of(process, 0);
	if (task)
		task->overhead += cost;
	return 0;
}

/* Count a call. `cost` is the time that this probe takes, in ns: it is part of the caller's time. */
static __always_inline int count(u64 slot, u64 cost)
{
	u32 pid = current_pid();
	struct pp_fast *own = fast_of(pid);

	if (!own)
		return count_slow(pid, slot, cost);
	if (slot < PP_SLOTS)
		own->functions[slot].calls++;
	own->task.overhead += cost;
	return 0;
}

/* Record an open call. `frame` is the same at its entry and return, and lower in calls that it makes.
 *
 * A call whose return the kernel did not report stays open until the return of an outer call. An outermost call has
 * no outer one: it has ended when the new call's frame is above it, on the same stack. (A tail call has the same frame
 * as its caller.) */
static __always_inline void open_call(struct pp_task *task, u64 slot, u64 frame)
{
	u64 place = task->top, above = frame - task->calls[1].frame;
	struct pp_call *call;

	if (above < PP_STACK_BYTES && (above || slot == task->calls[1].slot))
		place = 0;
	place += sizeof(struct pp_call);
	if (place > PP_LAST)
		return;
	/* First, so that a call in an interrupt uses the next element. */
	task->top = place;
	asm volatile("" ::: "memory");
	call = call_at(task, place);
	call->frame = frame;
	call->slot = slot;
	call->covered = task->covered;
	call->overhead = task->overhead;
	call->start = bpf_ktime_get_ns();
}

static __noinline int enter_slow(u32 pid, u64 slot, u64 frame)
{
	int process = looked_up(pid);
	struct pp_function *function;
	struct pp_task *task;

	if (process < 0)
		return 0;
	function = shared_of(process, slot);
	if (!function)
		return 0;
	__sync_fetch_and_add(&function->calls, 1);
	task = task_of(process, 1);
	if (task)
		open_call(task, slot, frame);
	return 0;
}

static __always_inline int enter(u64 slot, u64 frame)
{
	u32 pid = current_pid();
	struct pp_fast *own = fast_of(pid);

	if (!own)
		return enter_slow(pid, slot, frame);
	if (slot >= PP_SLOTS)
		return 0;
	own->functions[slot].calls++;
	open_call(&own->task, slot, frame);
	return 0;
}

/* A call that ended. */
struct ended {
	u64 slot;
	u64 took;
	/* Without timed callees. */
	u64 self;
	/* Time that probes of callees added to `self`. */
	u64 overhead;
};

/* Close the open call at `place`, and all that were entered since then: they have ended too, but the kernel did not
 * report their returns. `cost` is the part of this call's probes that is in its caller's time. */
static __always_inline void close_call(struct pp_task *task, u64 place, struct pp_call *call, u64 now, u64 cost,
				       struct ended *ended)
{
	ended->slot = call->slot;
	ended->took = now - call->start;
	ended->self = ended->took - (task->covered - call->covered);
	ended->overhead = task->overhead - call->overhead;
	/* For the caller: this call's whole time is covered, and of its probes only `cost` is in the caller's time. */
	task->covered = call->covered + ended->took;
	task->overhead = call->overhead + cost;
	asm volatile("" ::: "memory");
	task->top = place - sizeof(struct pp_call);
}

/* Close the call of this frame. False if it was entered before the probes existed. */
static __always_inline int find_and_close(struct pp_task *task, u64 frame, u64 now, u64 cost, struct ended *ended)
{
	u64 place = task->top;
	struct pp_call *call;
	int i;

	for (i = 0; i < PP_DEPTH; i++) {
		if (!place || place > PP_LAST)
			return 0;
		call = call_at(task, place);
		if (call->frame == frame) {
			close_call(task, place, call, now, cost, ended);
			return 1;
		}
		place -= sizeof(struct pp_call);
	}
	return 0;
}

static __noinline int leave_slow(u64 frame, u64 now, u64 cost)
{
	u32 pid = current_pid();
	struct pp_fast *own = fast_of(pid);
	struct pp_function *function;
	struct pp_task *task;
	struct ended ended;
	int process;

	if (own) {
		task = &own->task;
	} else {
		process = looked_up(pid);
		if (process < 0)
			return 0;
		task = task_of(process, 0);
	}
	if (!task || !find_and_close(task, frame, now, cost, &ended) || ended.slot >= PP_SLOTS)
		return 0;
	function = own ? &own->functions[ended.slot] : shared_of(process, ended.slot);
	if (!function)
		return 0;
	__sync_fetch_and_add(&function->total_ns, ended.took);
	__sync_fetch_and_add(&function->self_ns, ended.self);
	__sync_fetch_and_add(&function->overhead_ns, ended.overhead);
	__sync_fetch_and_add(&function->log2[bucket_of(ended.took)], 1);
	return 0;
}

/* Close the latest open call of this thread, if it has this frame. A frame is part of one thread's stack, so it
 * identifies the thread, too. */
static __always_inline int close_top(struct pp_fast *own, u64 frame, u64 now, u64 cost)
{
	struct pp_function *function;
	u64 place = own->task.top;
	struct pp_call *call;
	struct ended ended;

	if (place > PP_LAST)
		return 0;
	call = call_at(&own->task, place);
	if (call->frame != frame)
		return 0;
	close_call(&own->task, place, call, now, cost, &ended);
	if (ended.slot < PP_SLOTS) {
		function = &own->functions[ended.slot];
		function->total_ns += ended.took;
		function->self_ns += ended.self;
		function->overhead_ns += ended.overhead;
		function->log2[bucket_of(ended.took)]++;
	}
	return 1;
}

static __always_inline int leave(u64 frame, u64 cost)
{
	u64 now = bpf_ktime_get_ns();

	if (!close_top(&fast[0], frame, now, cost) && !close_top(&fast[1], frame, now, cost))
		leave_slow(frame, now, cost);
	return 0;
}

/* The slot of a kprobe; PP_SLOTS if it is unknown. */
static __always_inline u64 slot_of(struct pt_regs *ctx)
{
	u64 address;
	u32 *found;

	if (settings.cookies)
		return bpf_get_attach_cookie(ctx);
	/* A probe's handler gets the address after its breakpoint, which is one byte long. */
	address = ctx->ip - 1;
	found = bpf_map_lookup_elem(&slots, &address);
	return found ? *found : PP_SLOTS;
}

SEC("kprobe")
int pp_count(struct pt_regs *ctx)
{
	return count(slot_of(ctx), settings.kprobe_count_ns);
}

SEC("kprobe")
int pp_enter(struct pt_regs *ctx)
{
	return enter(slot_of(ctx), ctx->sp);
}

SEC("kretprobe")
int pp_leave(struct pt_regs *ctx)
{
	/* The return address is already popped. */
	return leave(ctx->sp - 8, settings.kprobe_outside_ns);
}

/* The slot in a template for fentry. */
static __always_inline u64 template_slot(void)
{
	u64 slot;

	asm volatile("%0 = %1" : "=r"(slot) : "i"(PP_SLOT_MARK));
	return slot;
}

/* A number that identifies the frame of a call: the address of the arguments, which are in the frame of the
 * trampoline that runs both fentry and fexit. The verifier allows arithmetic with a pointer only if the first step is
 * the difference from another one. */
static __always_inline u64 frame_of(void *ctx)
{
	u64 frame = (u64)ctx;

	asm volatile("%0 -= %1" : "+r"(frame) : "r"(fast));
	return frame;
}

/* Templates. They are loaded as kprobe programs too, so that both loaders accept them. */
SEC("kprobe")
int pp_fcount(__attribute__((unused)) void *ctx)
{
	return count(template_slot(), settings.fentry_count_ns);
}

SEC("kprobe")
int pp_fenter(void *ctx)
{
	return enter(template_slot(), frame_of(ctx));
}

SEC("kprobe")
int pp_fleave(void *ctx)
{
	return leave(frame_of(ctx), settings.fentry_outside_ns);
}
