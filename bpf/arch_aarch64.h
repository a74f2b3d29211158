/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What differs by processor in the BPF programs: registers and the numbers of system calls, on AArch64. Calls of 32-bit
 * programs are not decoded.
 */
#ifndef ARCH_AARCH64_H
#define ARCH_AARCH64_H

/* From linux/bpf_perf_event.h on arm64. It is kernel ABI and needs no relocation, so sampling needs no BTF. */
struct bpf_perf_event_data {
	u64 registers[31];
	u64 sp;
	u64 ip;
	u64 pstate;
	u64 sample_period;
	u64 addr;
};

/* Whether a sample is of user code: the mode in pstate is EL0. */
#define IN_USER(sample) (!((sample)->pstate & 15))

struct user_pt_regs {
	u64 regs[31];
	u64 sp;
	u64 pc;
} __attribute__((preserve_access_index));

struct pt_regs {
	struct user_pt_regs user_regs;
} __attribute__((preserve_access_index));

/* Of a probe, from its registers: the address of its instruction, the stack where its function is called, and where it
 * returns. */
#define PROBE_ADDRESS(ctx) ((ctx)->user_regs.pc)
#define PROBE_FRAME(ctx) ((ctx)->user_regs.sp)
#define RETURN_FRAME(ctx) ((ctx)->user_regs.sp)

/* The number and the arguments of a system call. The names of arguments are those of x86-64's registers. */
struct registers {
	u64 si;
	u64 dx;
	u64 r10;
	u64 r8;
	u64 di;
	u64 orig_ax; /* the number */
};

/* Their places in struct pt_regs (arch/arm64/include/asm/ptrace.h): x1 to x4, and after the user's registers orig_x0, as x0
 * becomes the result, and syscallno, which is -1 for no call. */
#define X1_AT 8
#define ORIG_X0_AT 272
#define SYSCALLNO_AT 280
/* In orig_ax: the number of no call. */
#define NO_CALL (~0ULL)

/* Read them from the struct pt_regs at `regs`. */
static __always_inline int load_registers(struct registers *call, u64 regs)
{
	s32 number;

	if (bpf_probe_read_kernel(call, 4 * sizeof(u64), (void *)(regs + X1_AT)) ||
	    bpf_probe_read_kernel(&call->di, sizeof(call->di), (void *)(regs + ORIG_X0_AT)) ||
	    bpf_probe_read_kernel(&number, sizeof(number), (void *)(regs + SYSCALLNO_AT)))
		return -1;
	call->orig_ax = (s64)number;
	return 0;
}

/* The same without a helper, where the verifier knows what `regs` is. */
static __always_inline void copy_registers(struct registers *call, const void *regs)
{
	call->si = *(const u64 *)(regs + X1_AT);
	call->dx = *(const u64 *)(regs + X1_AT + 8);
	call->r10 = *(const u64 *)(regs + X1_AT + 16);
	call->r8 = *(const u64 *)(regs + X1_AT + 24);
	call->di = *(const u64 *)(regs + ORIG_X0_AT);
	call->orig_ax = (s64)*(const s32 *)(regs + SYSCALLNO_AT);
}

struct thread_info {
	unsigned long flags;
} __attribute__((preserve_access_index));

/* arch/arm64/include/asm/thread_info.h: TIF_32BIT. The numbers of 32-bit programs are others, which are not decoded. */
#define COMPAT_FIELD flags
#define COMPAT_BITS (1 << 22)

/* Make a call of a 32-bit program one that is not known. */
static __always_inline void widen(struct registers *call)
{
	call->orig_ax = 1023;
}

/* Numbers of system calls: kernel ABI (include/uapi/asm-generic/unistd.h). Those from ABSENT on do not exist here. */
enum {
	NR_IO_SUBMIT = 2,
	NR_EPOLL_CTL = 21,
	NR_EPOLL_PWAIT = 22,
	NR_DUP = 23,
	NR_DUP3 = 24,
	NR_FCNTL = 25,
	NR_INOTIFY_ADD_WATCH = 27,
	NR_IOCTL = 29,
	NR_FLOCK = 32,
	NR_MKDIRAT = 34,
	NR_UNLINKAT = 35,
	NR_SYMLINKAT = 36,
	NR_LINKAT = 37,
	NR_RENAMEAT = 38,
	NR_FTRUNCATE = 46,
	NR_FACCESSAT = 48,
	NR_CHDIR = 49,
	NR_FCHMODAT = 53,
	NR_OPENAT = 56,
	NR_CLOSE = 57,
	NR_LSEEK = 62,
	NR_READ = 63,
	NR_WRITE = 64,
	NR_READV = 65,
	NR_WRITEV = 66,
	NR_PREAD64 = 67,
	NR_PWRITE64 = 68,
	NR_SENDFILE = 71,
	NR_PSELECT6 = 72,
	NR_PPOLL = 73,
	NR_SIGNALFD4 = 74,
	NR_VMSPLICE = 75,
	NR_SPLICE = 76,
	NR_TEE = 77,
	NR_NEWFSTATAT = 79,
	NR_FSTAT = 80,
	NR_FSYNC = 82,
	NR_FDATASYNC = 83,
	NR_UNSHARE = 97,
	NR_FUTEX = 98,
	NR_NANOSLEEP = 101,
	NR_KILL = 129,
	NR_RT_SIGTIMEDWAIT = 137,
	NR_ACCEPT = 202,
	NR_BIND = 200,
	NR_LISTEN = 201,
	NR_CONNECT = 203,
	NR_SENDTO = 206,
	NR_RECVFROM = 207,
	NR_SHUTDOWN = 210,
	NR_SENDMSG = 211,
	NR_RECVMSG = 212,
	NR_CLONE = 220,
	NR_EXECVE = 221,
	NR_ACCEPT4 = 242,
	NR_RECVMMSG = 243,
	NR_WAIT4 = 260,
	NR_SENDMMSG = 269,
	NR_RENAMEAT2 = 276,
	NR_EXECVEAT = 281,
	NR_COPY_FILE_RANGE = 285,
	NR_PREADV2 = 286,
	NR_PWRITEV2 = 287,
	NR_STATX = 291,
	NR_IO_URING_ENTER = 426,
	NR_CLONE3 = 435,
	NR_CLOSE_RANGE = 436,
	NR_FACCESSAT2 = 439,
	NR_EPOLL_PWAIT2 = 441,
	NR_FCHMODAT2 = 452,
	/* Calls of 32-bit programs, which are not decoded. */
	COMPAT_IO_SUBMIT = 1022,
	ABSENT = 1 << 16,
	NR_OPEN,
	NR_POLL,
	NR_SELECT,
	NR_DUP2,
	NR_PAUSE,
	NR_FORK,
	NR_VFORK,
	NR_EPOLL_WAIT,
	NR_STAT,
	NR_LSTAT,
	NR_ACCESS,
	NR_RENAME,
	NR_MKDIR,
	NR_RMDIR,
	NR_LINK,
	NR_UNLINK,
	NR_SYMLINK,
	NR_CHMOD,
};

#endif
