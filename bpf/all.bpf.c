/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What all processes of the machine move through pipes and sockets. Calls are seen at their exit only, when the registers
 * still hold the arguments. Who waits for whom is read from /proc.
 */
#include "common.bpf.h"

#include <bpf/bpf_core_read.h>

#include "record.h"

const volatile struct pp_settings settings = {};

#include "record_kernel.bpf.h"
#include "record_pipes.bpf.h"
#include "record_shapes.bpf.h"

/* include/linux/socket.h: what is peeked at stays, and errors are no data. */
enum { PEEKS = 0x2002 };

MAP(moved, HASH, PR_MOVED, struct pr_place, struct pr_moved);

/* How often there was no room for a pipe or socket. */
MAP(lost, ARRAY, 1, u32, u64);

/* What is known of the pipe or socket of an open file; 0 if it is neither, or there is no room. */
static __always_inline struct pr_moved *moved_of(const struct file *open)
{
	const struct inode *inode = BPF_CORE_READ(open, f_inode);
	u32 kind = BPF_CORE_READ(inode, i_mode) >> 12;
	struct pr_place place = {};
	struct pr_moved none = {}, *known;
	u64 *missing;

	if (kind != S_IFIFO && kind != S_IFSOCK)
		return 0;
	place.inode = BPF_CORE_READ(inode, i_ino);
	if (kind == S_IFIFO)
		place.device = BPF_CORE_READ(inode, i_sb, s_dev);
	known = bpf_map_lookup_elem(&moved, &place);
	if (known)
		return known;
	bpf_map_update_elem(&moved, &place, &none, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&moved, &place);
	missing = FIRST(lost);
	if (!known && missing)
		__sync_fetch_and_add(missing, 1);
	return known;
}

/* A call of the current thread has moved so many bytes through the file of this descriptor. */
static __always_inline void add_moved(const struct task_struct *task, u32 fd, u32 side, u32 kind, u64 bytes)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **all, *open = 0;
	struct pr_moved *known;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return;
	all = BPF_CORE_READ(table, fd);
	if (bpf_probe_read_kernel(&open, sizeof(open), all + fd) || !open)
		return;
	/* It may read, too. */
	if (kind == PR_KIND_VMSPLICE && !(BPF_CORE_READ(open, f_mode) & FMODE_WRITE))
		side = PR_READ;
	known = moved_of(open);
	if (!known)
		return;
	if (side == PR_READ)
		__sync_fetch_and_add(&known->bytes[PR_READ], bytes);
	else
		__sync_fetch_and_add(&known->bytes[PR_WRITE], bytes);
}

SEC("raw_tp/sys_exit")
int pr_move(struct pp_tracepoint *ctx)
{
	const struct task_struct *task;
	struct registers call;
	s64 result = ctx->args[1];
	u32 shape, kind, from, to;

	if (result <= 0 ||
	    load_registers(&call, ctx->args[0]))
		return 0;
	shape = shape_of(call.orig_ax);
	if (!shape)
		return 0;
	task = (const void *)bpf_get_current_task();
	kind = KIND_OF(shape);
	from = FROM_OF(shape);
	to = TO_OF(shape);
	/* 32-bit programs have other numbers, and calls of several messages return no bytes. */
	if (BPF_CORE_READ(task, thread_info.COMPAT_FIELD) & COMPAT_BITS || kind == PR_KIND_MESSAGES ||
	    argument(&call, FLAGS_OF(shape)) & PEEKS)
		return 0;
	/* tee leaves what it reads. */
	if (from && kind != PR_KIND_TEE)
		add_moved(task, argument(&call, from), PR_READ, kind, result);
	if (to)
		add_moved(task, argument(&call, to), PR_WRITE, kind, result);
	return 0;
}

struct bpf_iter_meta;
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
} __attribute__((preserve_access_index));

/* How full the pipe of an open file is. */
SEC("iter/task_file")
int pr_fill(struct bpf_iter__task_file *ctx)
{
	const struct file *open = 0;
	const struct inode *inode;
	struct pipe_fill fill;
	struct pr_moved *known;

	/* The verifier allows no arithmetic with the iterator's own pointer. */
	bpf_probe_read_kernel(&open, sizeof(open), &ctx->file);
	if (!open)
		return 0;
	inode = BPF_CORE_READ(open, f_inode);
	if (BPF_CORE_READ(inode, i_mode) >> 12 != S_IFIFO)
		return 0;
	known = moved_of(open);
	if (!known)
		return 0;
	read_fill((u64)BPF_CORE_READ(inode, i_pipe), &fill);
	known->used = fill.used;
	known->slots = fill.slots;
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
