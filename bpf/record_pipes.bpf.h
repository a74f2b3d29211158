/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Pipes and what they hold, the registers of a call, and counts of calls on pipes.
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

static __always_inline void note_time(struct pr_counts *counts, u64 at)
{
	if (!counts->first_at)
		counts->first_at = at;
	counts->last_at = at;
}

static __always_inline void count_call(const struct pr_task *own, struct pr_counts *counts, int shared,
				       const struct pr_file *file, u32 side, u32 kind, s64 result, u64 asked)
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
	counts->unsent = 0;
	if (result < 0) {
		if (result == -EAGAIN) {
			ADD(counts->eagain, 1);
			if (side == PR_WRITE && kind == PR_KIND_PLAIN)
				counts->unsent = asked;
		} else if (result == -EPIPE) {
			ADD(counts->broken, 1);
		} else {
			ADD(counts->errors, 1);
		}
		return;
	}
	/* tee leaves what it reads in the pipe. */
	if (kind == PR_KIND_TEE && side == PR_READ)
		return;
	ADD(counts->bytes, result);
	ADD(counts->asked, asked);
	if (!result) {
		if (side == PR_READ)
			ADD(counts->ended, 1);
		return;
	}
	if ((u64)result < asked) {
		ADD(counts->partial, 1);
		if (side == PR_WRITE && kind == PR_KIND_PLAIN)
			counts->unsent = asked - result;
	}
	if (side == PR_WRITE && result > PR_ATOMIC && own->waited == own->own.calls)
		ADD(counts->parted, 1);
	note_time(counts, own->since);
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
		count_call(own, counts, 0, file, side, kind, result, asked);
		return;
	}
	counts = counts_of(&own->who, file->inode, file->device, side);
	if (counts)
		count_call(own, counts, 1, file, side, kind, result, asked);
}
