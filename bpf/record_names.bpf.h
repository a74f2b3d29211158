/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What processes do with files by their names: what they find, make, empty, rename and remove, and what they do not find.
 */

/* How a call uses a name: what it does, and where its path and flags are. */
#define NAME_USE(does, path, flags) ((does) | (path) << 8 | (flags) << 16)
enum { PATH_IN_DI, PATH_IN_SI, PATH_IN_DX, PATH_IN_R10 };
enum { NO_FLAGS, FLAGS_IN_SI, FLAGS_IN_DX };
#define FOLDER_IN_DI (1 << 24)
#define FOLDER_IN_DX (1 << 25)

/* That of the call with this number; 0 if it has no name. Not static, as shape_of. */
__noinline u32 name_use_of(u64 number)
{
	switch (number) {
	case NR_OPEN:
		return NAME_USE(PR_OPENS, PATH_IN_DI, FLAGS_IN_SI);
	case NR_OPENAT:
		return NAME_USE(PR_OPENS, PATH_IN_SI, FLAGS_IN_DX) | FOLDER_IN_DI;
	case NR_MKDIR:
		return NAME_USE(PR_MAKES, PATH_IN_DI, NO_FLAGS);
	case NR_MKDIRAT:
		return NAME_USE(PR_MAKES, PATH_IN_SI, NO_FLAGS) | FOLDER_IN_DI;
	case NR_LINK:
	case NR_SYMLINK:
		return NAME_USE(PR_MAKES, PATH_IN_SI, NO_FLAGS);
	case NR_LINKAT:
		return NAME_USE(PR_MAKES, PATH_IN_R10, NO_FLAGS) | FOLDER_IN_DX;
	case NR_SYMLINKAT:
		return NAME_USE(PR_MAKES, PATH_IN_DX, NO_FLAGS);
	case NR_UNLINK:
	case NR_RMDIR:
		return NAME_USE(PR_REMOVES, PATH_IN_DI, NO_FLAGS);
	case NR_UNLINKAT:
		return NAME_USE(PR_REMOVES, PATH_IN_SI, NO_FLAGS) | FOLDER_IN_DI;
	case NR_RENAME:
		return NAME_USE(PR_RENAMES, PATH_IN_SI, NO_FLAGS);
	case NR_RENAMEAT:
	case NR_RENAMEAT2:
		return NAME_USE(PR_RENAMES, PATH_IN_R10, NO_FLAGS) | FOLDER_IN_DX;
	case NR_INOTIFY_ADD_WATCH:
		return NAME_USE(PR_WATCHES_IT, PATH_IN_SI, NO_FLAGS);
	case NR_STAT:
	case NR_LSTAT:
	case NR_ACCESS:
	case NR_CHMOD:
	case NR_CHDIR:
		return NAME_USE(PR_LOOKS, PATH_IN_DI, NO_FLAGS);
	case NR_NEWFSTATAT:
	case NR_STATX:
	case NR_FACCESSAT:
	case NR_FACCESSAT2:
	case NR_FCHMODAT:
	case NR_FCHMODAT2:
		return NAME_USE(PR_LOOKS, PATH_IN_SI, NO_FLAGS) | FOLDER_IN_DI;
	}
	return 0;
}

/* A file of the system, which is there for all: nobody waits for one to be made. */
static __always_inline int is_of_system(u64 begin)
{
	switch ((u32)begin) {
	case 0x7273752f: /* /usr */
	case 0x62696c2f: /* /lib */
	case 0x6e69622f: /* /bin */
	case 0x6374652f: /* /etc */
	case 0x6f72702f: /* /pro */
	case 0x7379732f: /* /sys */
	case 0x7665642f: /* /dev */
		return 1;
	}
	return 0;
}

/* Whether a path of so many bytes, with its end, is by its name a lock or has the id of a process. */
static __always_inline int is_of_lock(const u64 *path, s64 length)
{
	u32 last = 0;

	if (length < 6)
		return 0;
	bpf_probe_read_kernel(&last, sizeof(last), (const void *)((u64)path + length - 5));
	return last == 0x6469702e || last == 0x6b636f6c || last == 0x6b636c2e; /* .pid, lock, .lck */
}

/* Whether descriptor `fd` of a thread is the file with this struct inode. Not static, as note_open. */
__noinline u32 is_open_as(u64 task, u32 fd, u64 inode)
{
	struct pr_task *own = find_any(task);
	const struct file *open;
	struct pr_file *file;

	if (!own)
		return 0;
	file = file_of(own, task, fd);
	if (!file)
		return 0;
	open = (const struct file *)file->open;
	return (u64)BPF_CORE_READ(open, f_inode) == inode;
}

/* Port 53, as the network has it. */
#define NAME_SERVER 0x3500

/* FNV-1a, of words. */
#define HASH_PRIME 0x100000001b3

/* The entry of the name that a thread has used last, with this use counted. `lock`: it is that of a lock. */
static __always_inline struct pr_named_file *used_name(struct pr_task *own, u64 task, struct pr_name *key, int lock)
{
	struct pr_state *shared = shared_state();
	struct pr_task *empty = FIRST(zeros);
	u64 now = bpf_ktime_get_ns();
	struct pr_named_file *named;
	u32 i;

	for (i = 0; i < PR_NAME; i++)
		key->hash = (key->hash ^ own->path[i]) * HASH_PRIME;
	named = bpf_map_lookup_elem(&names, key);
	if (!named) {
		if (!shared || !empty)
			return 0;
		if (!lock && shared->other_names >= PR_NAMES - PR_LOCK_NAMES) {
			shared->lost_names = 1;
			return 0;
		}
		if (!lock)
			__sync_fetch_and_add(&shared->other_names, 1);
		if (bpf_map_update_elem(&names, key, (const void *)empty, BPF_NOEXIST)) {
			shared->lost_names = 1;
			return 0;
		}
		named = bpf_map_lookup_elem(&names, key);
		if (!named)
			return 0;
		named->first_at = now;
		named->folder = BPF_CORE_READ((const struct task_struct *)task, fs, pwd.dentry, d_inode, i_ino);
		__builtin_memcpy(named->path, own->path, sizeof(named->path));
	}
	named->last_at = now;
	__sync_fetch_and_add(&named->calls, 1);
	return named;
}

/* Whether an address is that of a server for names: port 53, also of UDP. */
static __always_inline int is_name_server(u64 address)
{
	u16 begin[2] = {};

	bpf_probe_read_user(begin, sizeof(begin), (const void *)address);
	return (begin[0] == AF_INET || begin[0] == AF_INET6) && begin[1] == NAME_SERVER;
}

/* `bind` or `listen` was successful, `connect` was for a name server, the path for `bind` is in use, or `connect` found nobody who
 * listens. Not static, as note_open. */
__noinline u32 note_address(u64 task, u64 does, u32 fd, u64 address, s64 result)
{
	struct pr_task *own = find_any(task);
	struct pr_state *shared = shared_state();
	struct pr_name key = {};
	struct pr_named_file *named;
	const struct file *open;
	struct pr_file *file;
	u16 family = 0;
	u64 inode;
	u32 i;

	if (!own || !shared || shared->lost_names)
		return 0;
	file = file_of(own, task, fd);
	if (!file)
		return 0;
	open = (const struct file *)file->open;
	inode = BPF_CORE_READ(open, f_inode, i_ino);
	for (i = 0; i < PR_NAME; i++)
		own->path[i] = 0;
	if (does == PR_LISTENS) {
		own->path[0] = inode;
	} else {
		bpf_probe_read_user(&family, sizeof(family), (const void *)address);
		own->path[0] = family;
		/* Who looks for a free port tries many. */
		if (result == -EADDRINUSE && family != AF_UNIX)
			return 0;
		/* The family, the port and the address, or the path. */
		if (family == AF_INET || family == AF_INET6)
			bpf_probe_read_user(own->path, 8, (const void *)address);
		else if (family != AF_UNIX || bpf_probe_read_user_str(own->path + 1, sizeof(own->path) - 8,
								      (const void *)(address + sizeof(family))) < 2)
			return 0;
	}
	key.who = own->who;
	key.does = does;
	if (result < 0)
		key.error = -result;
	named = used_name(own, task, &key, 0);
	if (named)
		named->inode = inode;
	return 1;
}

/* A call that uses the name at `path` ends with `result`. `use` is what it does, or 0 without flags, and in its upper half the
 * descriptor of the folder that the path begins at. Not static, as note_open. */
__noinline u32 note_name(u64 task, u64 use, u64 path, u64 flags, s64 result)
{
	struct pr_task *own = find_any(task);
	struct pr_state *shared = shared_state();
	struct pr_name key = {};
	struct pr_named_file *named;
	const struct file *open;
	struct pr_file *file;
	u32 i, does = use & 0xff;
	s32 folder = use >> 32, other;
	s64 length;
	int lock;

	if (!own || !shared)
		return 0;
	for (i = 0; i < PR_NAME; i++)
		own->path[i] = 0;
	length = bpf_probe_read_user_str(own->path, sizeof(own->path), (const void *)path);
	/* Of what is there, most is looked at for no reason that concerns others. */
	if (length < 2)
		return 0;
	lock = is_of_lock(own->path, length);
	if (!lock && (shared->lost_names || (does == PR_LOOKS && result >= 0)))
		return 0;
	key.who = own->who;
	key.does = does;
	if (result < 0)
		key.error = -result;
	if (does == PR_OPENS && result >= 0)
		key.does = (flags & O_ACCESS) == 0 ? PR_READS : flags & O_TRUNC ? PR_EMPTIES : flags & O_CREAT ? PR_CREATES : PR_WRITES;
	if ((key.does == PR_READS || key.does == PR_LOOKS || key.error == ENOENT) && is_of_system(own->path[0]))
		return 0;
	named = used_name(own, task, &key, lock);
	if (!named)
		return 0;
	if (folder >= 0 && named->calls == 1) {
		file = file_of(own, task, folder);
		open = file ? (const struct file *)file->open : 0;
		named->folder = BPF_CORE_READ(open, f_inode, i_ino);
	}
	if (does != PR_OPENS || result < 0)
		return 1;
	file = file_of(own, task, result);
	if (!file)
		return 1;
	open = (const struct file *)file->open;
	named->inode = BPF_CORE_READ(open, f_inode, i_ino);
	named->device = BPF_CORE_READ(open, f_inode, i_sb, s_dev);
	named->file_type = file->file_type;
	named->size = BPF_CORE_READ(open, f_inode, i_size);
	other = key.does == PR_READS ? STANDARD_OUTPUT : STANDARD_INPUT;
	/* Who has closed that end before gets its number. */
	named->both_ends = result != other && is_open_as(task, other, (u64)BPF_CORE_READ(open, f_inode));
	return 1;
}

/* Whether a call that fails so was refused for a reason which programs do not expect. */
static __always_inline int is_refusal(s64 result)
{
	switch (-result) {
	case EPERM:
	case E2BIG:
	case ENOEXEC:
	case ENOMEM:
	case EACCES:
	case EBUSY:
	case EXDEV:
	case ENODEV:
	case ETXTBSY:
	case EFBIG:
	case EROFS:
	case EMLINK:
	case ENAMETOOLONG:
	case ELOOP:
	case ESTALE:
		return 1;
	}
	return 0;
}

/* Whether a program needs what this call does: it opens, makes, removes, renames or executes something by its name. What it only asks
 * about, or sets for itself, it can do without. */
static __always_inline int matters(u64 number)
{
	u32 does = name_use_of(number) & 0xff;

	return number == NR_EXECVE || number == NR_EXECVEAT || (does && does != PR_LOOKS && does != PR_WATCHES_IT);
}

/* Whether it may be of interest that a call on a name ended so. */
static __always_inline int tells(s64 result)
{
	return is_refusal(result) || result >= 0 || result == -ENOENT || result == -EEXIST || result == -ENOTEMPTY;
}

static __always_inline void note_path(u64 task, const struct registers *call, s64 result)
{
	u32 use = name_use_of(call->orig_ax), where = use >> 8 & 0xff, flags = use >> 16 & 0xff;
	s32 folder = -1;

	if (!use || !tells(result))
		return;
	if (use & FOLDER_IN_DI)
		folder = call->di;
	else if (use & FOLDER_IN_DX)
		folder = call->dx;
	note_name(task, (u64)folder << 32 | (use & 0xff),
		  where == PATH_IN_DI ? call->di : where == PATH_IN_SI ? call->si : where == PATH_IN_DX ? call->dx : call->r10,
		  flags == FLAGS_IN_SI ? call->si : call->dx, result);
}
