/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Calls of probed functions: programs that only count, and pairs of programs that also time. kprobes share one
 * program each, and the probe's cookie or address identifies the function. For fentry and fexit, the Rust code loads
 * a copy of the template for each function, with constants in place of marks. Works on Linux 5.10.
 *
 * The path of a call of the two threads that are compared with directly is short, because every probed call takes it:
 * one helper at the entry besides the clock, no map lookup, one comparison per bit of the bucket's number.
 */

/* From a probe's address to its slot; several addresses may share a slot. */
MAP(slots, HASH, PP_SLOTS * 2, u64, u32);

/* Calls by all other threads, by process * PP_SLOTS + slot. Threads share them, so they need atomics. The map has more
 * elements if each program has a number of its own. */
MAP(functions, ARRAY, PP_WATCHED * PP_SLOTS, u32, struct pp_function);

/* The initial state of a thread. */
MAP(blank, ARRAY, 1, u32, struct pp_task);

/* The current thread, if it is compared with directly and has been seen. Its address costs half as much as its id. */
static __always_inline struct pp_fast *fast_seen(void)
{
	u64 task = bpf_get_current_task();

	if (task == fast[0].address)
		return &fast[0];
	if (task == fast[1].address)
		return &fast[1];
	return 0;
}

/* The current thread, if it is compared with directly. From now on fast_seen() finds it. */
static __always_inline struct pp_fast *fast_of(u32 pid)
{
	struct pp_fast *own = 0;

	if (pid == settings.pids[0])
		own = &fast[0];
	else if (pid == settings.pids[1])
		own = &fast[1];
	if (own)
		own->address = bpf_get_current_task();
	return own;
}

/* A function of a thread that is compared with directly; `place` is at most PP_LAST_PLACE. */
static __always_inline struct pp_function *function_at(struct pp_fast *own, u64 place)
{
	_Static_assert(PP_LAST_PLACE == (PP_SLOTS - 1) * sizeof(struct pp_function), "the last function's place");
	return (void *)own->functions + place;
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
	/* It may have executed another program. */
	if (task)
		task->process = process;
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

/* The place of a duration's bucket (its log2) in the histogram, in bytes, by bisection. */
#define BYTES(bucket) ((bucket) * sizeof(u64))
#define ONE_OF_2(ns, first) ((ns) < 2ULL << (first) ? BYTES(first) : BYTES((first) + 1))
#define ONE_OF_4(ns, first) ((ns) < 4ULL << (first) ? ONE_OF_2(ns, first) : ONE_OF_2(ns, (first) + 2))
#define ONE_OF_8(ns, first) ((ns) < 16ULL << (first) ? ONE_OF_4(ns, first) : ONE_OF_4(ns, (first) + 4))
#define ONE_OF_16(ns, first) ((ns) < 256ULL << (first) ? ONE_OF_8(ns, first) : ONE_OF_8(ns, (first) + 8))
static __always_inline u64 bucket_place(u64 ns)
{
	_Static_assert(PP_BUCKETS == 40, "the last of 8 buckets after 32 takes all longer durations");
	if (ns < 1ULL << 16)
		return ONE_OF_16(ns, 0);
	if (ns < 1ULL << 32)
		return BYTES(16) + ONE_OF_16(ns >> 16, 0);
	return BYTES(32) + ONE_OF_8(ns >> 32, 0);
}

static __always_inline u64 *bucket_of(struct pp_function *function, u64 ns)
{
	u64 place = bucket_place(ns);

	/* Keeps the compiler from choosing between sums instead of numbers. */
	asm volatile("" : "+r"(place));
	return (void *)function->log2 + place;
}

/* Record the start of a call of this frame. */
static __always_inline void start_call(struct pp_task *task, struct pp_call *call, u64 frame)
{
	call->frame = frame;
	call->covered = task->covered;
	call->overhead = task->overhead;
	call->start = bpf_ktime_get_ns();
}

/* Put an open call on top of its thread's others. `frame` is the same at its entry and return, and lower in calls that
 * it makes.
 *
 * A call whose return the kernel did not report stays open until the return of an outer call. An outermost call has
 * no outer one: it has ended when the new call's frame is above it, on the same stack. (A tail call has the same frame
 * as its caller.) */
static __always_inline void push_call(struct pp_task *task, u64 function, u64 frame)
{
	u64 place = task->top, above = frame - task->calls[1].frame;
	struct pp_call *call;

	if (above < PP_STACK_BYTES && (above || function == task->calls[1].function))
		place = 0;
	place += sizeof(struct pp_call);
	if (place > PP_LAST)
		return;
	/* First, so that a call in an interrupt uses the next element. */
	task->top = place;
	asm volatile("" ::: "memory");
	call = call_at(task, place);
	call->function = function;
	start_call(task, call, frame);
}

/* What a probe at an entry does. */
enum entry { COUNT, PUSH, OPEN };

/* A call of all other threads, of a function with an open call, and the first call of each thread. A function of its own,
 * so that the others' path needs few registers. `cost` is the time that a probe which only counts takes, in ns: it is
 * part of the caller's time. */
static __noinline int call_slow(u64 place, u64 frame, u64 cost, u32 entry)
{
	u32 pid = current_pid();
	struct pp_fast *own = fast_of(pid);
	struct pp_function *function;
	struct pp_task *task;
	int process;

	if (place > PP_LAST_PLACE)
		return 0;
	if (own) {
		task = &own->task;
		function = function_at(own, place);
		function->calls++;
		/* An open call with a frame below this one, or the same, has ended: the kernel did not report its return. */
		if (entry == OPEN && (!function->open.frame || frame - function->open.frame < PP_STACK_BYTES)) {
			start_call(task, &function->open, frame);
			return 0;
		}
	} else {
		process = looked_up(pid);
		if (process < 0)
			return 0;
		function = shared_of(process, place / sizeof(*function));
		if (!function)
			return 0;
		__sync_fetch_and_add(&function->calls, 1);
		task = task_of(process, entry != COUNT);
	}
	if (task && entry != COUNT)
		push_call(task, place, frame);
	else if (task)
		task->overhead += cost;
	return 0;
}

/* A number that a program reads from its context or contains. */
typedef u64 number_of(void *ctx);

/* Count a call. What it needs is read after the helper, so that no register has to be saved across it, and in each branch,
 * so that the compiler does not join them. */
static __always_inline int count(void *ctx, number_of *place_of, number_of *cost_of)
{
	struct pp_fast *own = fast_seen();
	u64 place;

	if (!own)
		return call_slow(place_of(ctx), 0, cost_of(ctx), COUNT);
	place = place_of(ctx);
	if (place > PP_LAST_PLACE)
		return 0;
	function_at(own, place)->calls++;
	own->task.overhead += cost_of(ctx);
	return 0;
}

/* Count and open a call whose return will be identified by its frame only. */
static __always_inline int enter(void *ctx, number_of *place_of, number_of *frame_of)
{
	u64 place = place_of(ctx), frame = frame_of(ctx);
	struct pp_fast *own = fast_seen();

	if (!own)
		return call_slow(place, frame, 0, PUSH);
	if (place > PP_LAST_PLACE)
		return 0;
	function_at(own, place)->calls++;
	push_call(&own->task, place, frame);
	return 0;
}

/* Count and open a call whose return will be identified by its function, too. No other call of that function is open,
 * with rare exceptions. */
static __always_inline int enter_known(void *ctx, number_of *place_of, number_of *frame_of)
{
	struct pp_fast *own = fast_seen();
	struct pp_function *function;
	u64 place;

	if (!own)
		return call_slow(place_of(ctx), frame_of(ctx), 0, OPEN);
	place = place_of(ctx);
	if (place > PP_LAST_PLACE)
		return 0;
	function = function_at(own, place);
	if (function->open.frame)
		return call_slow(place, frame_of(ctx), 0, OPEN);
	function->calls++;
	start_call(&own->task, &function->open, frame_of(ctx));
	return 0;
}

/* A call that ended. */
struct ended {
	u64 took;
	/* Without timed callees. */
	u64 self;
	/* Time that probes of callees added to `self`. */
	u64 overhead;
};

/* End a call. `cost` is the part of its probes that is in its caller's time. */
static __always_inline struct ended end_call(struct pp_task *task, struct pp_call *call, u64 now, u64 cost)
{
	struct ended ended;

	ended.took = now - call->start;
	ended.self = ended.took - (task->covered - call->covered);
	ended.overhead = task->overhead - call->overhead;
	/* For the caller: this call's whole time is covered, and of its probes only `cost` is in the caller's time. */
	task->covered = call->covered + ended.took;
	task->overhead = call->overhead + cost;
	asm volatile("" ::: "memory");
	return ended;
}

/* Add a call to those of its thread's function. */
static __always_inline void add_ended(struct pp_function *function, struct ended *ended)
{
	function->total_ns += ended->took;
	function->self_ns += ended->self;
	function->overhead_ns += ended->overhead;
	(*bucket_of(function, ended->took))++;
}

/* The place of the open call of this frame; 0 if it is not known, because it was entered before the probes existed. */
static __always_inline u64 find_call(struct pp_task *task, u64 frame)
{
	u64 place = task->top;
	int i;

	for (i = 0; i < PP_DEPTH; i++) {
		if (!place || place > PP_LAST)
			return 0;
		if (call_at(task, place)->frame == frame)
			return place;
		place -= sizeof(struct pp_call);
	}
	return 0;
}

/* End the call of this frame, and all that are above it: they have ended too, but the kernel did not report their
 * returns. */
static __noinline int leave_slow(u64 frame, u64 now, u64 cost)
{
	u32 pid = current_pid();
	struct pp_fast *own = fast_of(pid);
	struct pp_function *function;
	struct pp_call *call;
	struct pp_task *task;
	struct ended ended;
	u64 place, slot;
	int process;

	if (own) {
		task = &own->task;
	} else {
		process = looked_up(pid);
		if (process < 0)
			return 0;
		task = task_of(process, 0);
	}
	if (!task)
		return 0;
	place = find_call(task, frame);
	if (!place)
		return 0;
	/* The compiler knows that it is at most PP_LAST, but the verifier does not. */
	asm volatile("" : "+r"(place));
	if (place > PP_LAST)
		return 0;
	call = call_at(task, place);
	slot = call->function / sizeof(*function);
	ended = end_call(task, call, now, cost);
	task->top = place - sizeof(struct pp_call);
	/* The verifier allows atomics only at a place that it knows to be a multiple of 8. The assembly keeps the compiler
	 * from comparing the place instead. */
	asm volatile("" : "+r"(slot));
	if (slot >= PP_SLOTS)
		return 0;
	function = own ? &own->functions[slot] : shared_of(process, slot);
	if (!function)
		return 0;
	__sync_fetch_and_add(&function->total_ns, ended.took);
	__sync_fetch_and_add(&function->self_ns, ended.self);
	__sync_fetch_and_add(&function->overhead_ns, ended.overhead);
	__sync_fetch_and_add(bucket_of(function, ended.took), 1);
	return 0;
}

/* End the latest open call of this thread, if it has this frame. A frame is part of one thread's stack, so it
 * identifies the thread, too. */
static __always_inline int leave_top(struct pp_fast *own, u64 frame, u64 now, u64 cost)
{
	u64 top = own->task.top, place;
	struct pp_call *call;
	struct ended ended;

	if (top > PP_LAST)
		return 0;
	call = call_at(&own->task, top);
	if (call->frame != frame)
		return 0;
	place = call->function;
	ended = end_call(&own->task, call, now, cost);
	own->task.top = top - sizeof(struct pp_call);
	if (place <= PP_LAST_PLACE)
		add_ended(function_at(own, place), &ended);
	return 1;
}

/* The return of a call that enter() opened. */
static __always_inline int leave(void *ctx, number_of *frame_of, number_of *cost_of)
{
	u64 frame = frame_of(ctx), cost = cost_of(ctx), now = bpf_ktime_get_ns();

	if (!leave_top(&fast[0], frame, now, cost) && !leave_top(&fast[1], frame, now, cost))
		leave_slow(frame, now, cost);
	return 0;
}

/* End the open call of this thread's function at `place`, if it has this frame. */
static __always_inline int leave_function(struct pp_fast *own, u64 place, u64 frame, u64 now, u64 cost)
{
	struct pp_function *function = function_at(own, place);
	struct ended ended;

	if (function->open.frame != frame)
		return 0;
	ended = end_call(&own->task, &function->open, now, cost);
	function->open.frame = 0;
	add_ended(function, &ended);
	return 1;
}

/* The return of a call that enter_known() opened. */
static __always_inline int leave_known(void *ctx, number_of *place_of, number_of *frame_of, number_of *cost_of)
{
	u64 now = bpf_ktime_get_ns(), frame = frame_of(ctx), place = place_of(ctx), cost = cost_of(ctx);

	if (place > PP_LAST_PLACE)
		return 0;
	if (!leave_function(&fast[0], place, frame, now, cost) && !leave_function(&fast[1], place, frame, now, cost))
		leave_slow(frame, now, cost);
	return 0;
}

/* One more call that its thread has not left. Not static: the verifier then looks at it once, not with each step of the
 * loop below. */
__noinline int count_left(u32 process, u32 slot)
{
	struct pp_function *function = shared_of(process, slot);

	if (function)
		__sync_fetch_and_add(&function->left, 1);
	return 0;
}

/* Threads end inside of the scheduler. */
static __noinline int leave_all(struct pp_task *task)
{
	u64 place = task->top;
	u32 process = task->process;
	int i;

	for (i = 0; i < PP_DEPTH; i++) {
		if (!place || place > PP_LAST)
			break;
		count_left(process, call_at(task, place)->function / sizeof(struct pp_function));
		place -= sizeof(struct pp_call);
	}
	return 0;
}

/* The place of a kprobe's function; larger than PP_LAST_PLACE if it is unknown. */
static __always_inline u64 kprobe_place(void *regs)
{
	struct pt_regs *ctx = regs;
	u64 address;
	u32 *found;

	if (settings.cookies)
		return bpf_get_attach_cookie(ctx);
	address = PROBE_ADDRESS(ctx);
	found = bpf_map_lookup_elem(&slots, &address);
	return (found ? *found : PP_SLOTS) * sizeof(struct pp_function);
}

static __always_inline u64 kprobe_frame(void *regs)
{
	return PROBE_FRAME((struct pt_regs *)regs);
}

static __always_inline u64 kretprobe_frame(void *regs)
{
	return RETURN_FRAME((struct pt_regs *)regs);
}

static __always_inline u64 kprobe_count_cost(__attribute__((unused)) void *regs)
{
	return settings.kprobe_count_ns;
}

static __always_inline u64 kprobe_outside_cost(__attribute__((unused)) void *regs)
{
	return settings.kprobe_outside_ns;
}

SEC("kprobe")
int pp_count(struct pt_regs *ctx)
{
	return count(ctx, kprobe_place, kprobe_count_cost);
}

SEC("kprobe")
int pp_enter(struct pt_regs *ctx)
{
	return enter(ctx, kprobe_place, kprobe_frame);
}

SEC("kretprobe")
int pp_leave(struct pt_regs *ctx)
{
	return leave(ctx, kretprobe_frame, kprobe_outside_cost);
}

/* Constants of templates for fentry. The Rust code puts them in place of their marks. */

static __always_inline u64 marked_place(__attribute__((unused)) void *args)
{
	u64 place;

	asm volatile("%0 = %1" : "=r"(place) : "i"(PP_PLACE_MARK));
	return place;
}

static __always_inline u64 marked_cost(__attribute__((unused)) void *args)
{
	u64 cost;

	asm volatile("%0 = %1" : "=r"(cost) : "i"(PP_COST_MARK));
	return cost;
}

/* A number that identifies the frame of a call: the address of the arguments, which are in the frame of the
 * trampoline that runs both fentry and fexit. The verifier allows arithmetic with a pointer only if the first step is
 * the difference from another one. */
static __always_inline u64 fentry_frame(void *args)
{
	u64 frame = (u64)args;

	asm volatile("%0 -= %1" : "+r"(frame) : "r"(fast));
	return frame;
}

/* Templates. They are loaded as kprobe programs too, so that both loaders accept them. */
SEC("kprobe")
int pp_fcount(void *ctx)
{
	return count(ctx, marked_place, marked_cost);
}

SEC("kprobe")
int pp_fenter(void *ctx)
{
	return enter_known(ctx, marked_place, fentry_frame);
}

SEC("kprobe")
int pp_fleave(void *ctx)
{
	return leave_known(ctx, marked_place, fentry_frame, marked_cost);
}
