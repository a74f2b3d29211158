/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Pipes and what they hold.
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

static __always_inline void read_fill(u64 address, struct pipe_fill *fill)
{
	const struct pipe_inode_info___flat *pipe = (const void *)address;
	struct pipe_fields fields = {};

	if (FIELDS_FOLLOW(pipe)) {
		bpf_probe_read_kernel(&fields, sizeof(fields),
				      (void *)(address + bpf_core_field_offset(pipe->head)));
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
	read_fill(file->pipe, fill);
	if (bpf_core_field_exists(pipe->mutex.owner))
		return BPF_CORE_READ(pipe, mutex.owner.counter);
	if (bpf_core_field_exists(rt->rtmutex))
		return (u64)BPF_CORE_READ(rt, rtmutex.owner);
	return 0;
}
