/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What processes write to regular files, and read from them as their standard input, where others do so, too.
 */

/* When files were emptied last. */
MAP(emptied_files, LRU_HASH, PR_EMPTIED, struct pr_inode, struct pr_emptied);

/* A process has emptied the regular file that it has open as `fd`. Not static: its own stack, as that of note_head. */
__noinline u32 note_emptied(u64 task, u32 fd)
{
	struct pr_state *shared = shared_state();
	struct pr_task *own = find_any(task);
	struct pr_emptied emptied = {};
	struct pr_inode of = {};
	const struct file *open;
	struct pr_file *file;

	if (!own || !shared)
		return 0;
	file = file_of(own, task, fd);
	if (!file || file->file_type != S_IFREG)
		return 0;
	open = (const struct file *)file->open;
	of.inode = BPF_CORE_READ(open, f_inode, i_ino);
	of.device = BPF_CORE_READ(open, f_inode, i_sb, s_dev);
	emptied.by = own->who.tgid;
	emptied.at = bpf_ktime_get_ns();
	bpf_map_update_elem(&emptied_files, &of, &emptied, BPF_ANY);
	/* Behind the entry, so that who sees the number finds it. */
	__sync_fetch_and_add(&shared->emptied, 1);
	return 1;
}

/* Whether the process of a task has several threads. */
static __always_inline u32 has_threads(u64 task)
{
	return BPF_CORE_READ((struct task_struct *)task, signal, nr_threads) > 1;
}

/* Which task wrote to a channel last, of those of processes with several threads, and one more if that did not end a line. */
MAP(last_writers, LRU_HASH, PR_SHARED, struct pr_inode, u64);

/* A write of `bytes` in `buffer` to the channel `fd`: whether it ends a line, and whether it is within that of another thread. Not
 * static: its own stack, as that of note_head. */
__noinline u32 note_piece(u64 task, u32 fd, u64 buffer, u64 bytes)
{
	struct pr_task *own = find_any(task);
	struct pr_counts *counts;
	struct pr_inode of = {};
	struct pr_file *file;
	char last = '\n';
	u64 *writer, now;

	if (!own || !has_threads(task))
		return 0;
	file = file_of(own, task, fd);
	if (!file || bpf_probe_read_user(&last, 1, (const void *)(buffer + bytes - 1)))
		return 0;
	of.inode = file->inodes[PR_WRITE];
	of.device = file->device;
	now = task | (last != '\n');
	counts = own_counts(own, of.inode, file->device, PR_WRITE);
	if (!counts)
		counts = counts_of(&own->who, of.inode, file->device, PR_WRITE);
	writer = bpf_map_lookup_elem(&last_writers, &of);
	if (counts && last == '\n')
		__sync_fetch_and_add(&counts->lines, 1);
	if (!writer) {
		bpf_map_update_elem(&last_writers, &of, &now, BPF_ANY);
		return 1;
	}
	if (counts && *writer & 1 && *writer != (task | 1))
		__sync_fetch_and_add(&counts->split, 1);
	*writer = now;
	return 1;
}

/* A call that moved `bytes` to or from the file `fd`, or got its end. What it wrote is in `buffer`, if that is not 0. Not static:
 * its own stack, as that of note_head. */
__noinline u32 note_stream(u64 task, u32 fd, u32 side, u64 bytes, u64 buffer)
{
	struct pr_task *own = find_any(task), *empty = FIRST(zeros);
	const struct pr_state *shared = shared_state();
	struct pr_stream key = {};
	struct pr_streamed *stream;
	const unsigned char *name;
	const struct file *open;
	struct pr_file *file;
	char last = '\n';
	u64 to;

	if (!own || !empty || !shared)
		return 0;
	file = &own->files[fd & (PR_KNOWN - 1)];
	open = (const struct file *)file->open;
	key.who = own->who;
	/* A later opening can get the same address. */
	key.open = file->open | !!(BPF_CORE_READ(open, f_flags) & O_APPEND);
	key.inode = BPF_CORE_READ(open, f_inode, i_ino);
	key.device = BPF_CORE_READ(open, f_inode, i_sb, s_dev);
	key.side = side;
	to = BPF_CORE_READ(open, f_pos);
	/* A file of the kernel's that has no position, as many in procfs and tracefs. */
	if (to < bytes)
		return 0;
	stream = bpf_map_lookup_elem(&streams, &key);
	if (!stream) {
		if (bpf_map_update_elem(&streams, &key, (const void *)empty, BPF_NOEXIST))
			return 0;
		stream = bpf_map_lookup_elem(&streams, &key);
		if (!stream)
			return 0;
		stream->first_at = bpf_ktime_get_ns();
		stream->from = stream->next = to - bytes;
		stream->emptied = shared->emptied;
		stream->had_name = !!BPF_CORE_READ(open, f_inode, i_nlink);
		stream->appends = !!(BPF_CORE_READ(open, f_flags) & O_APPEND);
		stream->script = side == PR_READ && fd == SCRIPT;
		name = BPF_CORE_READ(open, f_path.dentry, d_name.name);
		bpf_probe_read_kernel_str(stream->name, sizeof(stream->name), name);
	}
	/* It goes on where it was, but nothing is before that any more. What was emptied before is looked up once, not at each write. */
	if (side == PR_WRITE && bytes && to > bytes && stream->emptied != shared->emptied && to - bytes == stream->next &&
	    !stream->appends) {
		struct pr_inode of = {.inode = key.inode, .device = key.device};
		const struct pr_emptied *emptied;

		stream->emptied = shared->emptied;
		emptied = bpf_map_lookup_elem(&emptied_files, &of);
		if (emptied && emptied->by != own->who.tgid && emptied->at > stream->last_at && stream->last_at) {
			stream->hole = to - bytes;
			stream->emptied_by = emptied->by;
			stream->emptied_at = emptied->at;
		}
	}
	stream->last_at = bpf_ktime_get_ns();
	__sync_fetch_and_add(&stream->calls, 1);
	__sync_fetch_and_add(&stream->bytes, bytes);
	if (!bytes) {
		__sync_fetch_and_add(&stream->ended, 1);
		return 1;
	}
	if (side == PR_WRITE && stream->had_name && !BPF_CORE_READ(open, f_inode, i_nlink)) {
		if (!stream->deleted)
			stream->deleted_at = stream->last_at;
		__sync_fetch_and_add(&stream->deleted, bytes);
	}
	if (to - bytes != stream->next) {
		__sync_fetch_and_add(&stream->moves, 1);
		__sync_fetch_and_add(&stream->split, stream->within);
	}
	if (side == PR_WRITE && stream->within && stream->writer != task)
		__sync_fetch_and_add(&stream->split, 1);
	stream->writer = task;
	/* Only files to which several processes append, or several threads write, can have torn lines, and only a last line that is
	 * read can have no end. */
	if (buffer && (stream->appends || side == PR_READ || has_threads(task)) &&
	    !bpf_probe_read_user(&last, sizeof(last), (void *)(buffer + bytes - 1)) && last == '\n')
		__sync_fetch_and_add(&stream->lines, 1);
	stream->within = last != '\n';
	if (to - bytes < stream->from)
		stream->from = to - bytes;
	if (to > stream->to)
		stream->to = to;
	stream->next = to;
	if (bytes > stream->block) {
		stream->block = bytes;
		stream->blocks = 0;
	}
	if (bytes == stream->block)
		__sync_fetch_and_add(&stream->blocks, 1);
	return 1;
}
