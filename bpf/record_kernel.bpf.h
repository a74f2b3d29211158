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
	struct super_block *i_sb;
	unsigned long i_ino;
	struct pipe_inode_info___flat *i_pipe;
} __attribute__((preserve_access_index));

struct file {
	u32 f_mode;
	struct inode *f_inode;
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

struct thread_info {
	u32 status;
} __attribute__((preserve_access_index));

struct task_struct {
	struct thread_info thread_info;
	void *stack;
	u32 __state;
	s32 pid;
	s32 tgid;
	u64 utime;
	u64 stime;
	unsigned long jobctl;
	struct files_struct *files;
	/* Its tracer, if it has one. */
	struct task_struct *parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	s32 on_cpu;
	s32 exit_code;
	char comm[16];
} __attribute__((preserve_access_index));

/* Before 5.14. */
struct task_struct___before_5_14 {
	long state;
} __attribute__((preserve_access_index));

/* The part of struct pt_regs with the number and the arguments of a system call: kernel ABI (asm/ptrace.h). */
struct registers {
	u64 bp;
	u64 bx;
	u64 r11;
	u64 r10;
	u64 r9;
	u64 r8;
	u64 ax;
	u64 cx;
	u64 dx;
	u64 si;
	u64 di;
	u64 orig_ax;
};
/* Its place in pt_regs. */
#define REGISTERS_AT 32

/* Arguments of a raw tracepoint. */
struct pr_event {
	u64 args[3];
};

/* /sys/kernel/tracing/events/raw_syscalls/sys_exit/format */
struct pr_sys_exit_event {
	u64 common;
	s64 number;
	s64 result;
};

enum { S_IFIFO = 1, FMODE_WRITE = 2 };
enum { EAGAIN = 11, EPIPE = 32 };
/* kernel/locking/mutex.h */
enum { MUTEX_FLAGS = 7 };
/* include/linux/sched.h, in all kernels. The last two have underscores there. */
enum { TASK_RUNNING = 0, TASK_INTERRUPTIBLE = 1, TASK_UNINTERRUPTIBLE = 2, TASK_STOPPED = 4, TASK_TRACED = 8 };
/* include/linux/sched/jobctl.h: it is in a frozen cgroup, and sleeps until that is thawed unless it is uninterruptible. */
enum { JOBCTL_TRAP_FREEZE = 1 << 23 };
/* include/linux/sched.h, since 6.1: frozen by a cgroup of version 1. */
enum { TASK_FROZEN = 0x8000 };
/* arch/x86/include/asm/thread_info.h: the thread is in a 32-bit system call. */
enum { TS_COMPAT = 2 };
/* The signals that stop a process; kernel ABI. */
enum { SIGSTOP = 19, SIGTTOU = 22 };
/* include/linux/sched/signal.h: instead of the information on a signal that the kernel sends. */
enum { SEND_SIG_PRIV = 1 };

/* Numbers of system calls on x86-64: kernel ABI. */
enum {
	NR_READ = 0,
	NR_WRITE = 1,
	NR_OPEN = 2,
	NR_CLOSE = 3,
	NR_POLL = 7,
	NR_READV = 19,
	NR_WRITEV = 20,
	NR_SELECT = 23,
	NR_DUP2 = 33,
	NR_PAUSE = 34,
	NR_NANOSLEEP = 35,
	NR_SENDFILE = 40,
	NR_RECVMSG = 47,
	NR_VFORK = 58,
	NR_WAIT4 = 61,
	NR_FCNTL = 72,
	NR_FUTEX = 202,
	NR_EPOLL_WAIT = 232,
	NR_OPENAT = 257,
	NR_PSELECT6 = 270,
	NR_PPOLL = 271,
	NR_UNSHARE = 272,
	NR_SPLICE = 275,
	NR_TEE = 276,
	NR_VMSPLICE = 278,
	NR_EPOLL_PWAIT = 281,
	NR_DUP3 = 292,
	NR_PREADV2 = 327,
	NR_PWRITEV2 = 328,
	NR_IO_URING_ENTER = 426,
	NR_CLOSE_RANGE = 436,
	NR_EPOLL_PWAIT2 = 441,
};
enum { F_SETPIPE_SZ = 1031 };
/* include/uapi/linux/close_range.h */
enum { CLOSE_RANGE_UNSHARE = 2 };
