/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Structures of the kernel that record reads; fields are found by name in its BTF.
 */

struct super_block {
	u32 s_dev;
} __attribute__((preserve_access_index));

struct mutex {
	/* The task that holds it; flags in the lowest three bits. */
	struct {
		s64 counter;
	} owner;
} __attribute__((preserve_access_index));

/* With PREEMPT_RT. */
struct mutex___rt {
	/* Flags in the lowest bit. */
	struct {
		void *owner;
	} rtmutex;
} __attribute__((preserve_access_index));

/* Anonymous unions differ between kernels; CO-RE finds these names inside them. */
struct pipe_inode_info___flat {
	struct mutex mutex;
	u32 head;
	u32 tail;
	u32 max_usage;
} __attribute__((preserve_access_index));

struct inode {
	u16 i_mode;
	u32 i_nlink;
	s64 i_size;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_rdev;
	struct pipe_inode_info___flat *i_pipe;
} __attribute__((preserve_access_index));

struct qstr {
	const unsigned char *name;
} __attribute__((preserve_access_index));

struct dentry {
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
} __attribute__((preserve_access_index));

struct path {
	struct dentry *dentry;
} __attribute__((preserve_access_index));

struct fs_struct {
	struct path pwd;
} __attribute__((preserve_access_index));

struct file {
	u32 f_mode;
	u32 f_flags;
	s64 f_pos;
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
} __attribute__((preserve_access_index));

struct fdtable {
	u32 max_fds;
	struct file **fd;
} __attribute__((preserve_access_index));

struct files_struct {
	struct fdtable *fdt;
} __attribute__((preserve_access_index));

struct pid_namespace;

struct upid {
	s32 nr;
	struct pid_namespace *ns;
} __attribute__((preserve_access_index));

struct pid {
	u32 level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

/* include/uapi/linux/bpf.h; found by name, too. */
enum bpf_func_id {
	BPF_FUNC_get_current_task_btf = 158,
};

/* Whether fields of the current thread can be read by plain loads, without a helper for each: since 5.11. */
#define HAS_CURRENT bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)

struct cfs_bandwidth {
	u64 quota;
	u64 throttled_time;
} __attribute__((preserve_access_index));

struct task_group {
	struct task_group *parent;
	struct cfs_bandwidth cfs_bandwidth;
} __attribute__((preserve_access_index));

struct rlimit {
	unsigned long rlim_cur;
} __attribute__((preserve_access_index));

struct signal_struct {
	struct {
		int counter;
	} live;
	int nr_threads;
	unsigned long maxrss;
	u32 flags;
	struct rlimit rlim[16];
} __attribute__((preserve_access_index));

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
} __attribute__((preserve_access_index));

struct sigaction {
	void *sa_handler;
} __attribute__((preserve_access_index));

struct k_sigaction {
	struct sigaction sa;
} __attribute__((preserve_access_index));

struct sighand_struct {
	struct k_sigaction action[64];
} __attribute__((preserve_access_index));

struct list_head {
	struct list_head *next;
} __attribute__((preserve_access_index));

struct task_struct {
	struct thread_info thread_info;
	void *stack;
	u32 flags;
	u32 __state;
	s32 pid;
	s32 tgid;
	struct fs_struct *fs;
	u64 utime;
	u64 stime;
	unsigned long jobctl;
	struct mm_struct *mm;
	struct files_struct *files;
	u64 start_time;
	u64 self_exec_id;
	struct task_struct *real_parent;
	/* Its tracer, if it has one. */
	struct task_struct *parent;
	struct list_head children;
	struct list_head sibling;
	struct task_struct *group_leader;
	struct task_group *sched_task_group;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct {
		unsigned long sig[1];
	} blocked;
	s32 on_cpu;
	s32 exit_state;
	s32 exit_code;
	char comm[16];
} __attribute__((preserve_access_index));

/* Before 5.14. */
struct task_struct___before_5_14 {
	long state;
} __attribute__((preserve_access_index));

/* /sys/kernel/tracing/events/raw_syscalls/sys_exit/format */
struct pr_sys_exit_event {
	u64 common;
	s64 number;
	s64 result;
};

/* include/uapi/linux/eventpoll.h. */
enum { EPOLL_CTL_ADD = 1, EPOLL_CTL_DEL = 2 };

enum { S_IFIFO = 1, S_IFCHR = 2, S_IFREG = 8, S_IFSOCK = 12, FMODE_WRITE = 2 };
/* /dev/null, as MKDEV of the kernel has it. */
#define NULL_DEVICE (1 << 20 | 3)
/* include/uapi/asm-generic/fcntl.h: what an open is for, in two bits, and where it writes. */
enum { O_ACCESS = 3, O_RDWR = 2, O_CREAT = 0100, O_TRUNC = 01000, O_APPEND = 02000, O_NONBLOCK = 04000 };

/* include/linux/sched/signal.h: a fatal signal or exit_group(2) ends all threads. */
enum { SIGNAL_GROUP_EXIT = 4 };
enum { ENOENT = 2, EBADF = 9, ECHILD = 10, EAGAIN = 11, EACCES = 13, EMFILE = 24, ENOTTY = 25, ENOSPC = 28, ESPIPE = 29, EPIPE = 32 };
/* Why a call is refused that is mostly not. */
enum { EPERM = 1, ENOEXEC = 8, ENOMEM = 12, EBUSY = 16, EXDEV = 18, ENODEV = 19, ETXTBSY = 26, EFBIG = 27, EROFS = 30, EMLINK = 31 };
enum { ENAMETOOLONG = 36, ELOOP = 40, ESTALE = 116 };
enum { ENOTEMPTY = 39, EADDRINUSE = 98, ECONNREFUSED = 111, EDQUOT = 122 };
/* include/uapi/asm-generic/resource.h */
enum { RLIMIT_NOFILE = 7 };

/* include/uapi/asm-generic/poll.h */
enum { POLLIN = 1, POLLHUP = 16 };
/* kernel/locking/mutex.h */
enum { MUTEX_FLAGS = 7 };
/* include/linux/sched.h, in all kernels. The last two have underscores there. */
enum { TASK_RUNNING = 0, TASK_INTERRUPTIBLE = 1, TASK_UNINTERRUPTIBLE = 2, TASK_STOPPED = 4, TASK_TRACED = 8 };
/* Since 4.14: it is switched away for the last time. */
enum { TASK_DEAD = 0x80 };
/* include/linux/sched.h: it is in do_exit. */
enum { PF_EXITING = 4 };
/* The same: a thread of the kernel that works for io_uring. */
enum { PF_IO_WORKER = 0x10 };
/* include/linux/sched/jobctl.h: it is in a frozen cgroup, and sleeps until that is thawed unless it is uninterruptible. */
enum { JOBCTL_TRAP_FREEZE = 1 << 23 };
/* include/linux/sched.h, since 6.1: frozen by a cgroup of version 1. */
enum { TASK_FROZEN = 0x8000 };
/* The signals with which others end a process, or that a fault of its own sends; kernel ABI. */
enum { SIGHUP = 1, SIGINT = 2, SIGKILL = 9, SIGPIPE = 13, SIGTERM = 15, SIGCHLD = 17 };
enum { SIGQUIT = 3, SIGABRT = 6, SIGUSR1 = 10, SIGUSR2 = 12 };
enum { SIGILL = 4, SIGBUS = 7, SIGFPE = 8, SIGSEGV = 11 };
/* What a handler is if the signal is ignored: SIG_IGN. */
enum { IGNORED = 1 };
/* The signals that stop a process; kernel ABI. */
enum { SIGSTOP = 19, SIGTTOU = 22 };
/* include/linux/sched/signal.h: instead of the information on a signal that the kernel sends. */
enum { SEND_SIG_PRIV = 1 };

/* Locks of files, of the process or of the open file, which wait if the number is one more. */
/* include/uapi/asm-generic/fcntl.h */
enum { F_RDLCK, F_UNLCK = 2, LOCK_SH = 1, LOCK_UN = 8 };
enum { F_DUPFD = 0, F_SETFL = 4, F_SETLK = 6, F_SETLKW = 7, F_OFD_SETLK = 37, F_OFD_SETLKW = 38, F_DUPFD_CLOEXEC = 1030, F_SETPIPE_SZ = 1031 };
/* include/uapi/asm-generic/ioctls.h */
enum { TCGETS = 0x5401, FIONREAD = 0x541b, FIONBIO = 0x5421 };
/* include/uapi/linux/close_range.h */
enum { CLOSE_RANGE_UNSHARE = 2 };
