/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Which channel a descriptor belongs to, the registers of a call, and counts of calls on channels.
 */

/* Fill in what an open file is. */
static __always_inline void learn_open(struct pr_file *file, const struct file *open)
{
	const struct inode *inode = BPF_CORE_READ(open, f_inode);
	u32 mode = BPF_CORE_READ(inode, i_mode);

	file->open = (u64)open;
	file->file_type = mode >> 12;
	file->writable = BPF_CORE_READ(open, f_mode) & FMODE_WRITE;
	if (file->file_type == S_IFIFO) {
		file->inodes[PR_READ] = file->inodes[PR_WRITE] = BPF_CORE_READ(inode, i_ino);
		file->device = BPF_CORE_READ(inode, i_sb, s_dev);
		file->pipe = (u64)BPF_CORE_READ(inode, i_pipe);
	} else if (file->file_type == S_IFSOCK) {
		learn_socket(file, open);
	} else if (file->file_type == S_IFCHR) {
		learn_terminal(file, open, BPF_CORE_READ(inode, i_rdev));
	}
}

/* The address of the struct file of this descriptor; 0 if it is not open. */
static __always_inline u64 open_of(u64 task, u32 fd)
{
	struct fdtable *table = BPF_CORE_READ((struct task_struct *)task, files, fdt);
	struct file **all, *open = 0;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	all = BPF_CORE_READ(table, fd);
	return bpf_probe_read_kernel(&open, sizeof(open), all + fd) ? 0 : (u64)open;
}

/* The same, where the stack is too small for that. Not static: see native_number. */
__noinline u64 open_file(u64 task, u32 fd)
{
	return open_of(task, fd);
}

/* Find out what the descriptor `fd` of a followed thread is; 0 if it is not open. Not static: see native_number. */
__noinline u32 learn_file(u64 task, u32 fd)
{
	struct pr_task *own = find_any(task);
	struct pr_file *file;
	u32 *generation;
	u64 open;

	if (!own)
		return 0;
	generation = generation_of(own);
	if (!generation)
		return 0;
	file = &own->files[fd & (PR_KNOWN - 1)];
	/* Opening it does not change the generation. */
	file->fd = 0;
	file->generation = *generation;
	file->device = 0;
	file->pipe = file->socket = 0;
	open = open_of(task, fd);
	if (!open)
		return 0;
	file->fd = fd + 1;
	learn_open(file, (const struct file *)open);
	return 1;
}

/* What the descriptor `fd` of the thread is; 0 if it is not open. It is looked up again once a descriptor of its table may
 * have got another file. */
static __always_inline struct pr_file *file_of(struct pr_task *own, u64 task, u32 fd)
{
	struct pr_file *file = &own->files[fd & (PR_KNOWN - 1)];
	u32 *generation = generation_of(own);

	if (!generation)
		return 0;
	if (file->fd == fd + 1 && file->generation == *generation)
		return file;
	return learn_file(task, fd) ? file : 0;
}

/* The registers of the call in which the thread with this stack is. */
static __always_inline int read_registers(u64 stack, struct registers *call)
{
	struct pr_state *shared = shared_state();

	if (!shared || !shared->registers)
		return -1;
	return load_registers(call, stack + shared->registers);
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
		status = current->thread_info.COMPAT_FIELD;
	} else {
		current = (const void *)task;
		*stack = (u64)BPF_CORE_READ(current, stack);
		status = BPF_CORE_READ(current, thread_info.COMPAT_FIELD);
	}
	if (read_registers(*stack, call))
		return -1;
	if (status & COMPAT_BITS)
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

/* What this pipe or socket holds, above its capacity, which is 0 if unknown. Not static: the verifier then looks at it once. */
__noinline u64 held(u64 pipe, u64 socket, u32 device, u32 side)
{
	struct pipe_fill fill;

	if (!pipe)
		return socket ? socket_fill(socket, device, side) : 0;
	read_fill(pipe, &fill);
	return (u64)fill.used << 32 | fill.slots;
}

/* How full a channel is; 0 if unknown. */
static __always_inline int fill_of_file(const struct pr_file *file, u32 side, struct pipe_fill *fill)
{
	u64 both = held(file->pipe, file->socket, file->device, side);

	fill->used = both >> 32;
	fill->slots = both;
	return !!fill->slots;
}

enum { STANDARD_INPUT, STANDARD_OUTPUT, STANDARD_ERROR };
/* What bash reads its script from (shell.c, `open_shell_script`). */
#define SCRIPT 255
/* include/uapi/linux/fcntl.h */
enum { AT_EMPTY_PATH = 0x1000 };

static __always_inline void count_call(const struct pr_task *own, struct pr_counts *counts, int shared,
				       const struct pr_file *file, u32 side, u32 kind, s64 result, u64 asked)
{
	u64 bucket;
	struct pipe_fill fill;

	if (!(counts->kinds[kind] & (PR_FILL_EVERY - 1)) && fill_of_file(file, side, &fill)) {
		ADD(counts->filled, fill.used);
		ADD(counts->slots, fill.slots);
		ADD(counts->fills, 1);
		note_slots(counts, fill.slots);
	}
	ADD(counts->kinds[kind], 1);
	if (asked && counts->unsent - asked < (side == PR_READ ? PR_BUFFER : 1))
		ADD(counts->resumed, 1);
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
		if (side == PR_READ || kind == PR_KIND_PLAIN)
			counts->unsent = asked - result;
	}
	if (side == PR_WRITE && kind != PR_KIND_AIO && file->fd == STANDARD_OUTPUT + 1)
		ADD(counts->printed, 1);
	if (side == PR_WRITE && kind != PR_KIND_AIO && file->fd == STANDARD_ERROR + 1 && !counts->printed)
		ADD(counts->aside, 1);
	if (side == PR_WRITE && result > PR_ATOMIC && own->waited == own->own.calls)
		ADD(counts->parted, 1);
	if (side == PR_WRITE && file->device == PR_SOCKET_TCP && result < PR_SMALL && is_held_back(file->socket))
		ADD(counts->held_back, 1);
	note_time(counts, own->since);
	bucket = log2_of(result);
	if (bucket >= PR_SIZES)
		bucket = PR_SIZES - 1;
	/* clang removes a check that it thinks is done; the verifier needs one. */
	asm volatile("%0 &= 31" : "+r"(bucket));
	if (bucket < PR_SIZES)
		ADD(counts->sizes[bucket], 1);
}

/* The thread's own counts of this side, if they are of this channel. The first one that it uses gets them. */
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
	u64 inode = file->inodes[side & 1];
	struct pr_counts *counts;

	if (!inode)
		return;
	counts = own_counts(own, inode, file->device, side);
	if (counts) {
		count_call(own, counts, 0, file, side, kind, result, asked);
		return;
	}
	counts = counts_of(&own->who, inode, file->device, side);
	if (counts)
		count_call(own, counts, 1, file, side, kind, result, asked);
}

/* The same for a call that reads one descriptor and writes another one: the lower and the upper half of `both`. Not static: the
 * verifier then looks at it once. */
__noinline u32 count_both(u64 task, u64 both, u32 kind, s64 result, u64 asked)
{
	struct pr_task *own = find_any(task);
	struct pr_file *file;
	u32 side;

	if (!own)
		return 0;
	for (side = PR_READ; side <= PR_WRITE; side++) {
		file = file_of(own, task, side == PR_READ ? both : both >> 32);
		if (file && file->device)
			count(own, file, side, kind & 15, result, asked);
	}
	return 0;
}

/* The same for a request to io_uring at `ring_file`. Not static: the verifier then looks at it once. */
__noinline u32 count_by_ring(u64 task, u32 side, u32 tees, s64 result, u64 asked)
{
	struct pr_task *own = find_any(task);

	if (own)
		count(own, &own->ring_file, side & 1, tees ? PR_KIND_TEE : PR_KIND_RING, result, asked);
	return 0;
}
