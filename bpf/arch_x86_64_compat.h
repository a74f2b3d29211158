/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * 32-bit system calls of x86-64 have numbers of their own, and arguments in other registers.
 */

/* The numbers from this one on are the same. */
#define COMPAT_SAME 424
/* The numbers of no call, and of io_submit, whose requests have another form. */
#define COMPAT_OTHER 1023
#define COMPAT_IO_SUBMIT 1022

/* The number of the 64-bit call that does the same: arch/x86/entry/syscalls/syscall_32.tbl. Only those by which waits
 * are named or channels are used.
 *
 * Not static: the verifier then looks at it once, and does not follow each number that it can return into its callers. */
__noinline u32 native_number(u32 number)
{
	if (number >= COMPAT_SAME)
		return number;
	switch (number) {
	case 3:
		return NR_READ;
	case 4:
		return NR_WRITE;
	case 5:
		return NR_OPEN;
	case 6:
		return NR_CLOSE;
	case 7: /* waitpid */
	case 114:
	case 284: /* waitid */
		return NR_WAIT4;
	case 29: /* pause */
	case 179: /* rt_sigsuspend */
		return NR_PAUSE;
	case 41:
		return NR_DUP;
	case 55:
	case 221: /* fcntl64 */
		return NR_FCNTL;
	case 63:
		return NR_DUP2;
	case 82:
	case 142: /* _newselect */
		return NR_SELECT;
	case 102: /* socketcall, whose arguments are in memory */
	case 362:
		return NR_CONNECT;
	case 120: /* clone */
	case 190:
		return NR_VFORK;
	case 145:
		return NR_READV;
	case 146:
		return NR_WRITEV;
	case 162:
	case 267: /* clock_nanosleep */
	case 407: /* clock_nanosleep_time64 */
		return NR_NANOSLEEP;
	case 168:
	case 309: /* ppoll */
	case 414: /* ppoll_time64 */
		return NR_POLL;
	case 187:
	case 239: /* sendfile64 */
		return NR_SENDFILE;
	case 240:
	case 422: /* futex_time64 */
		return NR_FUTEX;
	case 248:
		return COMPAT_IO_SUBMIT;
	case 255:
		return NR_EPOLL_CTL;
	case 256:
	case 319: /* epoll_pwait */
		return NR_EPOLL_WAIT;
	case 295:
		return NR_OPENAT;
	case 308:
	case 413: /* pselect6_time64 */
		return NR_PSELECT6;
	case 310:
		return NR_UNSHARE;
	case 313:
		return NR_SPLICE;
	case 315:
		return NR_TEE;
	case 316:
		return NR_VMSPLICE;
	case 330:
		return NR_DUP3;
	case 361:
		return NR_BIND;
	case 364:
		return NR_ACCEPT4;
	case 369:
		return NR_SENDTO;
	case 370:
		return NR_SENDMSG;
	case 371:
		return NR_RECVFROM;
	case 372:
		return NR_RECVMSG;
	case 378:
		return NR_PREADV2;
	case 379:
		return NR_PWRITEV2;
	}
	return COMPAT_OTHER;
}

/* Turn a 32-bit call into the 64-bit one. */
static __always_inline void widen(struct registers *call)
{
	call->orig_ax = native_number(call->orig_ax);
	call->r10 = (u32)call->si;
	call->r8 = (u32)call->di;
	call->di = (u32)call->bx;
	call->si = (u32)call->cx;
	call->dx = (u32)call->dx;
}
