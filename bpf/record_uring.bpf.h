/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Requests to io_uring: what they move, counted when they complete, and for which file a process or a thread of the kernel
 * waits. The kernel's threads that work for a ring are threads of the process, but fork without an event.
 */

struct io_cqe {
	u64 user_data;
	s32 res;
} __attribute__((preserve_access_index));

struct io_wq_work {
	u32 flags;
} __attribute__((preserve_access_index));

/* A request. Of what it is to do, the part begins where the file is. */
struct io_kiocb {
	struct file *file;
	u8 opcode;
	struct io_cqe cqe;
	void *ctx;
	struct io_wq_work work;
} __attribute__((preserve_access_index));

struct io_rw {
	u32 len;
} __attribute__((preserve_access_index));

struct io_splice {
	u64 len;
	s32 splice_fd_in;
	u32 flags;
} __attribute__((preserve_access_index));

/* A thread that does requests that sleep. */
struct io_worker {
	struct io_wq_work *cur_work;
} __attribute__((preserve_access_index));

struct task_struct___worker {
	void *worker_private;
} __attribute__((preserve_access_index));

/* Before Linux 5.19, events do not give the request. */
#define HAS_REQUESTS bpf_core_field_exists(((struct io_kiocb *)0)->cqe)
#define HAS_WORKERS bpf_core_field_exists(((struct task_struct___worker *)0)->worker_private)

/* include/uapi/linux/io_uring.h */
enum {
	IORING_OP_READV = 1,
	IORING_OP_WRITEV = 2,
	IORING_OP_READ_FIXED = 4,
	IORING_OP_WRITE_FIXED = 5,
	IORING_OP_SENDMSG = 9,
	IORING_OP_RECVMSG = 10,
	IORING_OP_READ = 22,
	IORING_OP_WRITE = 23,
	IORING_OP_SEND = 26,
	IORING_OP_RECV = 27,
	IORING_OP_SPLICE = 30,
	IORING_OP_TEE = 33,
	IORING_OP_SEND_ZC = 47,
	IORING_OP_SENDMSG_ZC = 48,
	IORING_OP_READ_MULTISHOT = 49,
	IORING_OP_READV_FIXED = 60,
	IORING_OP_WRITEV_FIXED = 61,
};
/* The file that is spliced from is a registered one. */
enum { SPLICE_F_FD_IN_FIXED = 1U << 31 };
/* include/uapi/linux/io_uring.h: the ring is named by an index, not by a descriptor. */
enum { IORING_ENTER_REGISTERED_RING = 16 };

/* What a request does. */
enum { RING_READS = 1, RING_WRITES = 2, RING_SPLICES = 4, RING_SIZED = 8 };

static __always_inline u32 ring_shape(u32 opcode)
{
	switch (opcode) {
	case IORING_OP_READ:
	case IORING_OP_READ_FIXED:
		return RING_READS | RING_SIZED;
	case IORING_OP_READV:
	case IORING_OP_READV_FIXED:
	case IORING_OP_READ_MULTISHOT:
	case IORING_OP_RECV:
	case IORING_OP_RECVMSG:
		return RING_READS;
	case IORING_OP_WRITE:
	case IORING_OP_WRITE_FIXED:
		return RING_WRITES | RING_SIZED;
	case IORING_OP_WRITEV:
	case IORING_OP_WRITEV_FIXED:
	case IORING_OP_SEND:
	case IORING_OP_SENDMSG:
	case IORING_OP_SEND_ZC:
	case IORING_OP_SENDMSG_ZC:
		return RING_WRITES;
	case IORING_OP_SPLICE:
	case IORING_OP_TEE:
		return RING_SPLICES;
	}
	return 0;
}

/* By the address of a ring: the request that could not be done at once last. */
MAP(rings, HASH, PR_RINGS, u64, struct pr_ring);

/* Requests that complete more than once, by ring and the process's own number. */
MAP(shots, HASH, PR_SHOTS, struct pr_shot, u64);

/* Let `ring_file` of the thread be this open file. Not static: see native_number. */
__noinline u32 learn_ring_file(u64 task, u64 open)
{
	struct pr_task *own = find_any(task);

	if (!own)
		return 0;
	own->ring_file.fd = own->ring_file.file_type = 0;
	own->ring_file.device = 0;
	own->ring_file.pipe = own->ring_file.socket = 0;
	/* A thread of the kernel finds it only when it begins. */
	if (!open)
		return 0;
	learn_open(&own->ring_file, (struct file *)open);
	return 1;
}

/* The file that a request to splice takes its data from; 0 if that is a registered one. Not static: see native_number. */
__noinline u64 spliced_from(u64 request)
{
	const struct io_splice *splice;
	u32 flags, fd;

	if (!HAS_REQUESTS)
		return 0;
	splice = (const void *)(request + bpf_core_field_offset(((struct io_kiocb *)0)->file));
	flags = BPF_CORE_READ(splice, flags);
	fd = BPF_CORE_READ(splice, splice_fd_in);
	return flags & SPLICE_F_FD_IN_FIXED ? 0 : open_file(bpf_get_current_task(), fd);
}

/* Count what a request of the current thread has moved, or a part of it. Not static: see native_number. */
__noinline u32 count_ring(u64 request, s64 result)
{
	u64 task = bpf_get_current_task();
	struct pr_task *own = find(task);
	const struct io_kiocb *done = (const void *)request;
	const struct io_rw *moves;
	u32 opcode, shape, side;
	u64 open, asked = 0;

	if (!HAS_REQUESTS || !own || !own->started || !request)
		return 0;
	opcode = BPF_CORE_READ(done, opcode);
	shape = ring_shape(opcode);
	if (!shape)
		return 0;
	own->own.rings++;
	own->own.ring_workers += own->io_thread == PR_IO_WORKER;
	if (shape & RING_SIZED) {
		moves = (const void *)(request + bpf_core_field_offset(((struct io_kiocb *)0)->file));
		asked = BPF_CORE_READ(moves, len);
	}
	side = shape & RING_READS ? PR_READ : PR_WRITE;
	if (side == PR_WRITE)
		own->own.effects += result > 0;
	open = (u64)BPF_CORE_READ(done, file);
	if (learn_ring_file(task, open) && own->ring_file.device)
		count_by_ring(task, side, opcode == IORING_OP_TEE, result, asked);
	if (shape & RING_SPLICES) {
		open = spliced_from(request);
		if (open && learn_ring_file(task, open) && own->ring_file.device)
			count_by_ring(task, PR_READ, opcode == IORING_OP_TEE, result, asked);
	}
	return 1;
}

/* Remember for which side of which file a request waits: if it cannot be done at once, a thread of the kernel does it, or it is
 * tried again once there are data or room. */
static __always_inline int wait_by_ring(u64 request)
{
	struct pr_task *own = find(bpf_get_current_task());
	const struct io_kiocb *waits = (const void *)request;
	struct pr_ring waiting = { .request = request };
	u32 shape;
	u64 ring;

	if (!HAS_REQUESTS || !own || !own->started)
		return 0;
	shape = ring_shape(BPF_CORE_READ(waits, opcode));
	if (!shape)
		return 0;
	waiting.open = (u64)BPF_CORE_READ(waits, file);
	waiting.side = shape & RING_READS ? PR_READ : PR_WRITE;
	if (shape & RING_SPLICES)
		waiting.from = spliced_from(request);
	ring = (u64)BPF_CORE_READ(waits, ctx);
	bpf_map_update_elem(&rings, &ring, &waiting, BPF_ANY);
	return 0;
}

/* A request is about to be done for the first time. */
SEC("raw_tp/io_uring_submit_req")
int pr_ring_submit(struct pp_tracepoint *ctx)
{
	struct pr_task *own = find(bpf_get_current_task());
	const struct io_kiocb *request = (const void *)ctx->args[0];
	struct pr_shot shot;
	u64 address = ctx->args[0];

	if (!HAS_REQUESTS || !own)
		return 0;
	own->ring = (u64)BPF_CORE_READ(request, ctx);
	if (BPF_CORE_READ(request, opcode) != IORING_OP_READ_MULTISHOT)
		return 0;
	shot.ring = own->ring;
	shot.number = BPF_CORE_READ(request, cqe.user_data);
	bpf_map_update_elem(&shots, &shot, &address, BPF_ANY);
	return 0;
}

SEC("raw_tp/io_uring_poll_arm")
int pr_ring_poll(struct pp_tracepoint *ctx)
{
	return wait_by_ring(ctx->args[0]);
}

SEC("raw_tp/io_uring_queue_async_work")
int pr_ring_async(struct pp_tracepoint *ctx)
{
	return wait_by_ring(ctx->args[0]);
}

/* A request has completed: all of it, or with `request` 0 a part of one that goes on. */
static __always_inline int complete_by_ring(u64 ring, u64 request, u64 number, s64 result)
{
	const struct io_kiocb *done = (const void *)request;
	struct pr_shot shot = { ring, number };
	struct pr_ring *waiting;
	u64 *going;

	if (!HAS_REQUESTS || !find(bpf_get_current_task()))
		return 0;
	if (!request) {
		going = bpf_map_lookup_elem(&shots, &shot);
		if (going)
			count_ring(*going, result);
		return 0;
	}
	waiting = bpf_map_lookup_elem(&rings, &ring);
	if (waiting && waiting->request == request)
		bpf_map_delete_elem(&rings, &ring);
	if (BPF_CORE_READ(done, opcode) == IORING_OP_READ_MULTISHOT)
		bpf_map_delete_elem(&shots, &shot);
	count_ring(request, result);
	return 0;
}

/* The arguments of the event until 6.11. */
struct ring_arguments {
	u64 ring;
	u64 request;
	u64 number;
	u64 result;
};


SEC("raw_tp/io_uring_complete")
int pr_ring_complete_numbers(struct pp_tracepoint *ctx)
{
	/* Kernels with fewer arguments do not attach a program that reads one of these. */
	const struct ring_arguments *all = (const void *)ctx;

	return complete_by_ring(all->ring, all->request, all->number, (s32)all->result);
}

/* The same with the entry that the process gets (include/uapi/linux/io_uring.h, struct io_uring_cqe). */
SEC("raw_tp/io_uring_complete")
int pr_ring_complete(struct pp_tracepoint *ctx)
{
	struct {
		u64 number;
		s32 result;
		u32 flags;
	} entry = {};

	if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)ctx->args[2]))
		return 0;
	return complete_by_ring(ctx->args[0], ctx->args[1], entry.number, entry.result);
}

/* What a request to splice waits for, of its two ends. */
static __always_inline u32 spliced_side(u64 task, struct pr_task *own, u64 from, u64 to)
{
	struct pipe_fill fill = {};

	if (from && learn_ring_file(task, from) && own->ring_file.device) {
		if (fill_of_file(&own->ring_file, PR_READ, &fill) && !fill.used)
			return PR_READ;
	}
	learn_ring_file(task, to);
	return PR_WRITE;
}

/* Let `ring_file` be the file for which a sleeping thread waits: in io_uring_enter with this descriptor, or as a thread of the
 * kernel. Returns its side and one; 0 if none is known. Not static: see native_number. */
__noinline u32 ring_wait(u64 task, u32 fd, u32 registered)
{
	struct pr_task *own = find_any(task);
	const struct io_kiocb *request;
	const struct io_worker *worker;
	struct pr_ring *waiting;
	u64 ring, work;
	u32 shape;

	if (!HAS_REQUESTS || !own)
		return 0;
	if (own->io_thread) {
		if (!HAS_WORKERS)
			return 0;
		worker = BPF_CORE_READ((const struct task_struct___worker *)task, worker_private);
		work = worker ? (u64)BPF_CORE_READ(worker, cur_work) : 0;
		if (!work)
			return 0;
		request = (const void *)(work - bpf_core_field_offset(((struct io_kiocb *)0)->work));
		shape = ring_shape(BPF_CORE_READ(request, opcode));
		if (!shape)
			return 0;
		if (shape & RING_SPLICES)
			return 1 + spliced_side(task, own, spliced_from((u64)request), (u64)BPF_CORE_READ(request, file));
		learn_ring_file(task, (u64)BPF_CORE_READ(request, file));
		return 1 + (shape & RING_READS ? PR_READ : PR_WRITE);
	}
	ring = own->ring;
	if (!ring && !registered)
		ring = (u64)BPF_CORE_READ((const struct file *)open_file(task, fd), private_data);
	waiting = bpf_map_lookup_elem(&rings, &ring);
	if (!waiting)
		return 0;
	if (waiting->from)
		return 1 + spliced_side(task, own, waiting->from, waiting->open);
	learn_ring_file(task, waiting->open);
	return 1 + waiting->side;
}
