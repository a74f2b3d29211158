/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Calls on pipes, counted when they return.
 */

/* As they follow each other in the kernel's structure. */
struct pipe_fields {
	u32 head;
	u32 tail;
	u32 max_usage;
};

struct pipe_fill {
	u32 used;
	u32 slots;
	u32 head;
	u32 tail;
};

static __always_inline void fill_of(const struct pipe_fields *fields, struct pipe_fill *fill)
{
	const struct pipe_inode_info___flat *pipe = 0;

	fill->head = fields->head;
	fill->tail = fields->tail;
	fill->slots = fields->max_usage;
	fill->used = fields->head - fields->tail;
	/* Since 6.14, both can be of 16 bits. */
	if (bpf_core_field_size(pipe->head) == sizeof(u16))
		fill->used = (u16)fill->used;
}

/* Whether `head`, `tail` and `max_usage` follow each other. */
#define FIELDS_FOLLOW(pipe) \
	(bpf_core_field_offset((pipe)->tail) == bpf_core_field_offset((pipe)->head) + 4 && \
	 bpf_core_field_offset((pipe)->max_usage) == bpf_core_field_offset((pipe)->head) + 8)

static __always_inline void read_fill(const struct pr_file *file, struct pipe_fill *fill)
{
	const struct pipe_inode_info___flat *pipe = (const void *)file->pipe;
	struct pipe_fields fields = {};

	if (FIELDS_FOLLOW(pipe)) {
		bpf_probe_read_kernel(&fields, sizeof(fields),
				      (void *)(file->pipe + bpf_core_field_offset(pipe->head)));
	} else {
		fields.head = BPF_CORE_READ(pipe, head);
		fields.tail = BPF_CORE_READ(pipe, tail);
		fields.max_usage = BPF_CORE_READ(pipe, max_usage);
	}
	fill_of(&fields, fill);
}

/* The begin of a pipe_inode_info: all that is read of it, unless debugging options of the kernel make locks larger. */
struct pipe_begin {
	u64 owner;
	u64 locks[9];
	struct pipe_fields fields;
	u32 spare;
};

/* The same, and the owner of the pipe's lock, with its flags. */
static __always_inline u64 read_pipe(const struct pr_file *file, struct pipe_fill *fill)
{
	const struct pipe_inode_info___flat *pipe = (const void *)file->pipe;
	const struct mutex___rt *rt = (const void *)&pipe->mutex;
	struct pipe_begin begin = {};

	if (bpf_core_field_exists(pipe->mutex.owner) && !bpf_core_field_offset(pipe->mutex.owner.counter) &&
	    FIELDS_FOLLOW(pipe) && bpf_core_field_offset(pipe->head) == __builtin_offsetof(struct pipe_begin, fields)) {
		bpf_probe_read_kernel(&begin, sizeof(begin), (void *)file->pipe);
		fill_of(&begin.fields, fill);
		return begin.owner;
	}
	read_fill(file, fill);
	if (bpf_core_field_exists(pipe->mutex.owner))
		return BPF_CORE_READ(pipe, mutex.owner.counter);
	if (bpf_core_field_exists(rt->rtmutex))
		return (u64)BPF_CORE_READ(rt, rtmutex.owner);
	return 0;
}

/* Find out what the descriptor `fd` of the thread is; 0 if it is not open. It is looked up again once a descriptor of
 * its table may have got another file. */
static __always_inline struct pr_file *file_of(struct pr_task *own, u64 task, u32 fd)
{
	struct pr_file *file = &own->files[fd & (PR_KNOWN - 1)];
	u32 *generation = generation_of(own);
	struct fdtable *table;
	struct file **all, *open = 0;
	struct inode *inode;
	u32 mode;

	if (!generation)
		return 0;
	if (file->fd == fd + 1 && file->generation == *generation)
		return file;
	/* Opening it does not change the generation. */
	file->fd = 0;
	file->generation = *generation;
	file->pipe = 0;
	table = BPF_CORE_READ((struct task_struct *)task, files, fdt);
	if (fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	all = BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&open, sizeof(open), all + fd) || !open)
		return 0;
	inode = BPF_CORE_READ(open, f_inode);
	mode = BPF_CORE_READ(inode, i_mode);
	file->fd = fd + 1;
	file->file_type = mode >> 12;
	file->inode = BPF_CORE_READ(inode, i_ino);
	file->device = BPF_CORE_READ(inode, i_sb, s_dev);
	file->writable = BPF_CORE_READ(open, f_mode) & FMODE_WRITE;
	if (file->file_type == S_IFIFO)
		file->pipe = (u64)BPF_CORE_READ(inode, i_pipe);
	return file;
}

/* The registers of the call in which the thread with this stack is. */
static __always_inline int read_registers(u64 stack, struct registers *call)
{
	struct pr_state *shared = shared_state();

	if (!shared || !shared->registers)
		return -1;
	return bpf_probe_read_kernel(call, sizeof(*call), (void *)(stack + shared->registers + REGISTERS_AT)) ? -1 : 0;
}

/* The call that the thread is in. It must not run meanwhile. */
static __always_inline int read_call(u64 task, struct registers *call)
{
	if (read_registers((u64)BPF_CORE_READ((struct task_struct *)task, stack), call))
		return -1;
	if (is_compat(task))
		widen(call);
	return 0;
}

/* The same for the current thread, and the base of its stack. */
static __always_inline int read_call_now(u64 task, u64 *stack, struct registers *call)
{
	const struct task_struct *current;
	u32 status;

	if (HAS_CURRENT) {
		current = bpf_get_current_task_btf();
		*stack = (u64)current->stack;
		status = current->thread_info.status;
	} else {
		current = (const void *)task;
		*stack = (u64)BPF_CORE_READ(current, stack);
		status = BPF_CORE_READ(current, thread_info.status);
	}
	if (read_registers(*stack, call))
		return -1;
	if (status & TS_COMPAT)
		widen(call);
	return 0;
}

/* Not static: see native_number. */
__noinline u32 log2_of(u64 value)
{
	u32 bits = 0;

	if (value >> 32)
		return 32;
	if (value >> 16) {
		bits += 16;
		value >>= 16;
	}
	if (value >> 8) {
		bits += 8;
		value >>= 8;
	}
	if (value >> 4) {
		bits += 4;
		value >>= 4;
	}
	if (value >> 2) {
		bits += 2;
		value >>= 2;
	}
	return bits + (value >> 1);
}

/* Add in a thread's own memory, or in that of all threads. */
#define ADD(field, value) \
	do { \
		if (shared) \
			__sync_fetch_and_add(&(field), (value)); \
		else \
			(field) += (value); \
	} while (0)

static __always_inline void note_slots(struct pr_counts *counts, u32 slots)
{
	if (!counts->first_slots)
		counts->first_slots = slots;
	counts->last_slots = slots;
	if (!counts->least_slots || slots < counts->least_slots)
		counts->least_slots = slots;
}

static __always_inline void count_call(struct pr_counts *counts, int shared, const struct pr_file *file, u32 side,
				       u32 kind, s64 result, u64 asked)
{
	u64 bucket;
	struct pipe_fill fill;

	if (!(counts->kinds[kind] & (PR_FILL_EVERY - 1))) {
		read_fill(file, &fill);
		ADD(counts->filled, fill.used);
		ADD(counts->slots, fill.slots);
		ADD(counts->fills, 1);
		note_slots(counts, fill.slots);
	}
	ADD(counts->kinds[kind], 1);
	if (result < 0) {
		if (result == -EAGAIN)
			ADD(counts->eagain, 1);
		else if (result == -EPIPE)
			ADD(counts->broken, 1);
		else
			ADD(counts->errors, 1);
		return;
	}
	/* tee leaves what it reads in the pipe. */
	if (kind == PR_KIND_TEE && side == PR_READ)
		return;
	ADD(counts->bytes, result);
	if (asked) {
		ADD(counts->asked, asked);
		if ((u64)result < asked)
			ADD(counts->partial, 1);
	}
	if (!result)
		return;
	bucket = log2_of(result);
	if (bucket >= PR_SIZES)
		bucket = PR_SIZES - 1;
	/* clang removes a check that it thinks is done; the verifier needs one. */
	asm volatile("%0 &= 31" : "+r"(bucket));
	if (bucket < PR_SIZES)
		ADD(counts->sizes[bucket], 1);
}

/* The thread's own counts of this side, if they are of this pipe. The first pipe that it uses gets them. */
static __always_inline struct pr_counts *own_counts(struct pr_task *own, u64 inode, u32 device, u32 side)
{
	struct pr_used *used = &own->used[side];

	if (!used->inode) {
		used->inode = inode;
		used->device = device;
	}
	return used->inode == inode && used->device == device ? &used->counts : 0;
}

static __always_inline void count(struct pr_task *own, const struct pr_file *file, u32 side, u32 kind, s64 result,
				  u64 asked)
{
	struct pr_counts *counts = own_counts(own, file->inode, file->device, side);

	if (counts) {
		count_call(counts, 0, file, side, kind, result, asked);
		return;
	}
	counts = counts_of(&own->who, file->inode, file->device, side);
	if (counts)
		count_call(counts, 1, file, side, kind, result, asked);
}

/* A call on pipes: descriptors that it reads and writes, or -1. */
struct pipe_call {
	s64 from;
	s64 to;
	u64 asked;
	u32 kind;
};

/* What a call does with pipes, in one number: its kind, and the registers that hold the descriptors that it reads and
 * writes and the bytes that it asks for. */
#define CALL_SHAPE(kind, from, to, asked) ((kind) | (from) << 4 | (to) << 8 | (asked) << 12)
enum { NOWHERE, IN_DI, IN_SI, IN_DX, IN_R10, IN_R8 };

/* The shape of the call with this number; 0 if it is not one on pipes. The descriptor of vmsplice is the one that it
 * writes, although it may read. Not static: see native_number. */
__noinline u32 shape_of(u64 number)
{
	switch (number) {
	case NR_READ:
		return CALL_SHAPE(PR_KIND_PLAIN, IN_DI, NOWHERE, IN_DX);
	case NR_WRITE:
		return CALL_SHAPE(PR_KIND_PLAIN, NOWHERE, IN_DI, IN_DX);
	case NR_READV:
	case NR_PREADV2:
		return CALL_SHAPE(PR_KIND_PLAIN, IN_DI, NOWHERE, NOWHERE);
	case NR_WRITEV:
	case NR_PWRITEV2:
		return CALL_SHAPE(PR_KIND_PLAIN, NOWHERE, IN_DI, NOWHERE);
	case NR_SPLICE:
		return CALL_SHAPE(PR_KIND_SPLICE, IN_DI, IN_DX, IN_R8);
	case NR_TEE:
		return CALL_SHAPE(PR_KIND_TEE, IN_DI, IN_SI, IN_DX);
	case NR_VMSPLICE:
		return CALL_SHAPE(PR_KIND_VMSPLICE, NOWHERE, IN_DI, NOWHERE);
	case NR_SENDFILE:
		return CALL_SHAPE(PR_KIND_SENDFILE, IN_SI, IN_DI, IN_R10);
	}
	return 0;
}

static __always_inline u64 argument(const struct registers *call, u32 place)
{
	switch (place) {
	case IN_DI:
		return call->di;
	case IN_SI:
		return call->si;
	case IN_DX:
		return call->dx;
	case IN_R10:
		return call->r10;
	case IN_R8:
		return call->r8;
	}
	return 0;
}

/* What the call does with pipes; 0 if nothing. */
static __always_inline int decode(const struct registers *call, struct pipe_call *found, int is_current)
{
	u32 shape = shape_of(call->orig_ax), from = shape >> 4 & 15, to = shape >> 8 & 15;
	u64 requests;

	if (call->orig_ax == NR_IO_SUBMIT) {
		requests = is_current ? common_request(call->dx, call->si) : 0;
		found->from = requests & REQUEST_READS ? (s64)(u32)requests : -1;
		found->to = requests & REQUEST_WRITES ? (s64)(u32)requests : -1;
		found->asked = 0;
		found->kind = PR_KIND_AIO;
		return !!requests;
	}
	/* Each call on pipes has a descriptor. */
	if (!shape)
		return 0;
	found->from = from ? (s64)(u32)argument(call, from) : -1;
	found->to = to ? (s64)(u32)argument(call, to) : -1;
	found->asked = argument(call, shape >> 12 & 15);
	found->kind = shape & 15;
	return 1;
}

/* Count a request of an io_submit that returns to the current thread. Returns 0 if that is not possible. Not static: see
 * native_number. */
__noinline u32 count_request(u64 ring, u64 requests, u32 number)
{
	u64 task = bpf_get_current_task();
	struct pr_task *own = find(task);
	struct aio_request request = {};
	struct pr_file *file;
	s64 result = 0;
	u64 what, asked = 0;

	if (!own || !read_request(requests, number, &request))
		return 0;
	what = meaning_of(&request);
	file = what ? file_of(own, task, what) : 0;
	if (!file || !file->pipe)
		return 1;
	if (!result_of(ring, request.address, &result))
		return 0;
	if (request.control.operation <= AIO_WRITE)
		asked = request.control.bytes;
	count(own, file, what & REQUEST_WRITES ? PR_WRITE : PR_READ, PR_KIND_AIO, result, asked);
	return 1;
}

/* Count all requests of an io_submit that has submitted so many. */
static __always_inline void count_requests(struct pr_task *own, const struct registers *call, s64 submitted)
{
	u32 i;

	for (i = 0; i < PR_REQUESTS && i < submitted; i++)
		own->own.requests += !count_request(call->di, call->dx, i);
	if (submitted > PR_REQUESTS)
		own->own.requests += submitted - PR_REQUESTS;
}

/* A descriptor of its table may have got another file. */
static __always_inline void forget_files(const struct pr_task *own)
{
	u32 *generation = generation_of(own);

	if (generation)
		__sync_fetch_and_add(generation, 1);
}

/* The thread has got a table. */
static __always_inline void note_table(struct pr_task *own, u64 task)
{
	u32 i;

	own->table = (u64)BPF_CORE_READ((struct task_struct *)task, files);
	for (i = 0; i < PR_KNOWN; i++)
		own->files[i].fd = 0;
}

/* The sleep of a thread ends: it runs again, `now`. */
static __always_inline void add_sleep(struct pr_task *own, u64 now)
{
	u64 woken = own->woken && own->woken < now ? own->woken : now;
	u64 blocked = woken > own->since ? woken - own->since : 0;
	struct pr_counts *counts;

	own->own.runnable_ns += now - woken;
	if (!own->inode) {
		add_wait(own, blocked);
		return;
	}
	counts = own_counts(own, own->inode, own->device, own->side & 1);
	if (!counts)
		counts = counts_of(&own->who, own->inode, own->device, own->side);
	if (!counts)
		return;
	if (own->locked) {
		counts->lock_sleeps++;
		counts->lock_ns += blocked;
		return;
	}
	counts->sleeps++;
	counts->blocked_ns += blocked;
	counts->runnable_ns += now - woken;
	if (own->again > 1)
		counts->needless++;
}

/* The thread runs from `now` on. The thread `before`, the current one, had the CPU; 0 if unknown. */
static __always_inline void resume(struct pr_task *own, u64 task, u64 now, u64 before)
{
	if (own->state == PR_ASLEEP && !own->woken && own->early + PR_EARLY > own->since) {
		own->woken = own->early > own->since ? own->early : own->since;
		step_event(PR_STEP_WAKE, PR_IN_PROCESS, task, own->woken, own->early_waker);
	}
	own->early = 0;
	if (own->started)
		step_run(own, task, now, before);
	if (own->state == PR_RUNNABLE) {
		own->own.runnable_ns += now - own->since;
	} else if (own->state == PR_ASLEEP && own->started) {
		if (settings.stacks)
			add_off_cpu(own, now);
		add_sleep(own, now);
	}
	own->state = PR_RUNNING;
	own->since = now;
}

/* It runs, but nothing was seen of the switch to it. Some virtual machines hide what happens while a process of their
 * own is running. */
static __always_inline void resume_unseen(struct pr_task *own, u64 task, u64 now)
{
	struct pr_state *shared = shared_state();

	if (shared)
		__sync_fetch_and_add(&shared->unseen, 1);
	resume(own, task, now, 0);
}

/* A call ends with `result`. Its `registers` can be read without a helper, or are where they always are if that is 0. */
static __always_inline int add_call(const struct registers *registers, s64 result)
{
	u64 task = bpf_get_current_task();
	struct pr_task *own = find(task);
	struct registers call = {};
	struct pipe_call found;
	struct pr_file *file;
	u64 stack, now;

	if (!own || !own->started)
		return 0;
	if (own->state != PR_RUNNING) {
		now = bpf_ktime_get_ns();
		if (is_over(now))
			return 0;
		resume_unseen(own, task, now);
	}
	own->again = 0;
	own->own.calls++;
	if (registers) {
		call.orig_ax = registers->orig_ax;
		call.bx = registers->bx;
		call.cx = registers->cx;
		call.di = registers->di;
		call.si = registers->si;
		call.dx = registers->dx;
		call.r10 = registers->r10;
		call.r8 = registers->r8;
		if (is_compat_now(task))
			widen(&call);
	} else if (read_call_now(task, &stack, &call)) {
		return 0;
	}
	if (call.orig_ax == NR_IO_SUBMIT) {
		count_requests(own, &call, result);
		return 0;
	}
	if (decode(&call, &found, 1)) {
		if (found.from >= 0) {
			file = file_of(own, task, found.from);
			if (file && file->pipe)
				count(own, file, PR_READ, found.kind, result, found.asked);
		}
		if (found.to >= 0) {
			file = file_of(own, task, found.to);
			if (file && file->pipe && found.kind == PR_KIND_VMSPLICE && !file->writable)
				count(own, file, PR_READ, found.kind, result, found.asked);
			else if (file && file->pipe)
				count(own, file, PR_WRITE, found.kind, result, found.asked);
		}
		return 0;
	}
	switch (call.orig_ax) {
	case NR_FCNTL:
		if (call.si != F_SETPIPE_SZ)
			break;
		file = file_of(own, task, call.di);
		if (file && file->pipe && result > 0) {
			struct pr_counts *counts =
				own_counts(own, file->inode, file->device, file->writable ? PR_WRITE : PR_READ);
			struct pipe_fill fill;

			read_fill(file, &fill);
			if (counts)
				note_slots(counts, fill.slots);
		}
		break;
	case NR_UNSHARE:
		note_table(own, task);
		break;
	case NR_CLOSE_RANGE:
		if (call.dx & CLOSE_RANGE_UNSHARE)
			note_table(own, task);
		forget_files(own);
		break;
	case NR_CLOSE:
	case NR_DUP2:
	case NR_DUP3:
		forget_files(own);
		break;
	case NR_IO_URING_ENTER:
		own->own.urings++;
		break;
	case COMPAT_IO_SUBMIT:
		if (result > 0)
			own->own.requests += result;
		break;
	}
	return 0;
}

/* Registers and result. The verifier knows their type, so that they are read by plain loads: the program takes less time
 * than one of a raw tracepoint, which needs a helper for each read. */
SEC("tp_btf/sys_exit")
int pr_sys_exit(struct pp_tracepoint *ctx)
{
	return add_call((const void *)(ctx->args[0] + REGISTERS_AT), ctx->args[1]);
}

/* The same for kernels that run the programs of raw sys_exit preemptibly: a thread that is preempted there keeps the
 * kernel from calling the program for all other threads of the CPU until it runs again. perf's events disable
 * preemption. Calling bpf_preempt_disable and bpf_preempt_enable instead makes it worse: a preemption that is due then
 * happens in the latter, still within the program. */
SEC("tp/raw_syscalls/sys_exit")
int pr_sys_exit_event(struct pr_sys_exit_event *ctx)
{
	return add_call(0, ctx->result);
}

/* Attached for a moment, for the launching thread: where the registers of a call are on a stack. The distance is the
 * same for all threads, but differs between kernels and CPUs (FRED). */
SEC("raw_tp/sys_exit")
int pr_learn(struct pp_tracepoint *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct pr_state *shared = shared_state();

	if (shared && current_pid() == settings.pids[0])
		shared->registers = ctx->args[0] - (u64)BPF_CORE_READ(task, stack);
	return 0;
}
