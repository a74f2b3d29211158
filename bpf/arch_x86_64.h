/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What differs by processor in the BPF programs: registers and the numbers of system calls. Calls of 32-bit programs are
 * in arch_x86_64_compat.h.
 */
#ifndef ARCH_X86_64_H
#define ARCH_X86_64_H

/* From linux/bpf_perf_event.h on x86-64. It is kernel ABI and needs no relocation, so sampling needs no BTF. */
struct bpf_perf_event_data {
	u64 registers_before_ip[16];
	u64 ip;
	u64 cs;
	u64 flags;
	u64 sp;
	u64 ss;
	u64 sample_period;
	u64 addr;
};

/* Whether a sample is of user code: the lowest bits of cs. */
#define IN_USER(sample) ((sample)->cs & 3)

struct pt_regs {
	unsigned long sp;
	unsigned long ip;
} __attribute__((preserve_access_index));

/* Of a probe, from its registers: the address of its instruction, as its handler gets the address after its breakpoint, which
 * is one byte long; the stack where its function is called; and where it returns, when the return address is popped. */
#define PROBE_ADDRESS(ctx) ((ctx)->ip - 1)
#define PROBE_FRAME(ctx) ((ctx)->sp)
#define RETURN_FRAME(ctx) ((ctx)->sp - 8)

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
/* In orig_ax: the number of no call. */
#define NO_CALL (~0ULL)

/* Read them from the struct pt_regs at `regs`. */
static __always_inline int load_registers(struct registers *call, u64 regs)
{
	return bpf_probe_read_kernel(call, sizeof(*call), (void *)(regs + REGISTERS_AT)) ? -1 : 0;
}

/* The same without a helper, where the verifier knows what `regs` is. */
static __always_inline void copy_registers(struct registers *call, const void *regs)
{
	const struct registers *from = regs + REGISTERS_AT;

	call->orig_ax = from->orig_ax;
	call->bx = from->bx;
	call->cx = from->cx;
	call->di = from->di;
	call->si = from->si;
	call->dx = from->dx;
	call->r10 = from->r10;
	call->r8 = from->r8;
}

struct thread_info {
	u32 status;
} __attribute__((preserve_access_index));

/* arch/x86/include/asm/thread_info.h: the thread is in a 32-bit system call. */
#define COMPAT_FIELD status
#define COMPAT_BITS 2
/* arch_x86_64_compat.h */
#define HAS_32_BIT_TABLE

/* Numbers of system calls on x86-64: kernel ABI. */
enum {
	NR_READ = 0,
	NR_WRITE = 1,
	NR_OPEN = 2,
	NR_CLOSE = 3,
	NR_STAT = 4,
	NR_FSTAT = 5,
	NR_LSTAT = 6,
	NR_POLL = 7,
	NR_LSEEK = 8,
	NR_IOCTL = 16,
	NR_PREAD64 = 17,
	NR_PWRITE64 = 18,
	NR_READV = 19,
	NR_WRITEV = 20,
	NR_ACCESS = 21,
	NR_SELECT = 23,
	NR_DUP = 32,
	NR_DUP2 = 33,
	NR_PAUSE = 34,
	NR_NANOSLEEP = 35,
	NR_SENDFILE = 40,
	NR_CONNECT = 42,
	NR_BIND = 49,
	NR_LISTEN = 50,
	NR_ACCEPT = 43,
	NR_SENDTO = 44,
	NR_RECVFROM = 45,
	NR_SENDMSG = 46,
	NR_RECVMSG = 47,
	NR_SHUTDOWN = 48,
	NR_CLONE = 56,
	NR_FORK = 57,
	NR_VFORK = 58,
	NR_EXECVE = 59,
	NR_WAIT4 = 61,
	NR_KILL = 62,
	NR_FCNTL = 72,
	NR_FLOCK = 73,
	NR_FSYNC = 74,
	NR_FDATASYNC = 75,
	NR_FTRUNCATE = 77,
	NR_CHDIR = 80,
	NR_RENAME = 82,
	NR_MKDIR = 83,
	NR_RMDIR = 84,
	NR_LINK = 86,
	NR_UNLINK = 87,
	NR_SYMLINK = 88,
	NR_CHMOD = 90,
	NR_RT_SIGTIMEDWAIT = 128,
	NR_FUTEX = 202,
	NR_IO_SUBMIT = 209,
	NR_EPOLL_WAIT = 232,
	NR_EPOLL_CTL = 233,
	NR_INOTIFY_ADD_WATCH = 254,
	NR_OPENAT = 257,
	NR_MKDIRAT = 258,
	NR_NEWFSTATAT = 262,
	NR_UNLINKAT = 263,
	NR_RENAMEAT = 264,
	NR_LINKAT = 265,
	NR_SYMLINKAT = 266,
	NR_FCHMODAT = 268,
	NR_FACCESSAT = 269,
	NR_PSELECT6 = 270,
	NR_PPOLL = 271,
	NR_UNSHARE = 272,
	NR_SPLICE = 275,
	NR_TEE = 276,
	NR_VMSPLICE = 278,
	NR_EPOLL_PWAIT = 281,
	NR_ACCEPT4 = 288,
	NR_SIGNALFD4 = 289,
	NR_DUP3 = 292,
	NR_RECVMMSG = 299,
	NR_SENDMMSG = 307,
	NR_RENAMEAT2 = 316,
	NR_EXECVEAT = 322,
	NR_COPY_FILE_RANGE = 326,
	NR_PREADV2 = 327,
	NR_PWRITEV2 = 328,
	NR_STATX = 332,
	NR_IO_URING_ENTER = 426,
	NR_CLONE3 = 435,
	NR_CLOSE_RANGE = 436,
	NR_FACCESSAT2 = 439,
	NR_EPOLL_PWAIT2 = 441,
	NR_FCHMODAT2 = 452,
};

#endif
