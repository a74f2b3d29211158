/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Which registers of a system call hold what it does with channels.
 */

/* What a call does with channels, in one number: its kind, and for each of the descriptors that it reads and writes, the bytes
 * that it asks for, and flags as of recv(2), the bit of the register that holds it. */
#define CALL_SHAPE(kind, from, to, asked) ((kind) | (from) << 4 | (to) << 9 | (asked) << 14)
#define WITH_FLAGS(flags) ((flags) << 19)
enum { NOWHERE = 0, IN_DI = 1, IN_SI = 2, IN_DX = 4, IN_R10 = 8, IN_R8 = 16 };
#define KIND_OF(shape) ((shape) & 15)
#define FROM_OF(shape) ((shape) >> 4 & 31)
#define TO_OF(shape) ((shape) >> 9 & 31)
#define ASKED_OF(shape) ((shape) >> 14 & 31)
#define FLAGS_OF(shape) ((shape) >> 19 & 31)

/* The shape of the call with this number; 0 if it is not one on channels. The descriptor of vmsplice is the one that it
 * writes, although it may read. Not static: see native_number. */
__noinline u32 shape_of(u64 number)
{
	switch (number) {
	case NR_READ:
		return CALL_SHAPE(PR_KIND_PLAIN, IN_DI, NOWHERE, IN_DX);
	case NR_WRITE:
		return CALL_SHAPE(PR_KIND_PLAIN, NOWHERE, IN_DI, IN_DX);
	case NR_READV:
	case NR_PREADV2:
		return CALL_SHAPE(PR_KIND_PLAIN, IN_DI, NOWHERE, NOWHERE);
	case NR_WRITEV:
	case NR_PWRITEV2:
		return CALL_SHAPE(PR_KIND_PLAIN, NOWHERE, IN_DI, NOWHERE);
	case NR_SPLICE:
		return CALL_SHAPE(PR_KIND_SPLICE, IN_DI, IN_DX, IN_R8);
	case NR_TEE:
		return CALL_SHAPE(PR_KIND_TEE, IN_DI, IN_SI, IN_DX);
	case NR_VMSPLICE:
		return CALL_SHAPE(PR_KIND_VMSPLICE, NOWHERE, IN_DI, NOWHERE);
	case NR_SENDFILE:
		return CALL_SHAPE(PR_KIND_SENDFILE, IN_SI, IN_DI, IN_R10);
	case NR_RECVFROM:
		return CALL_SHAPE(PR_KIND_BUFFER, IN_DI, NOWHERE, IN_DX) | WITH_FLAGS(IN_R10);
	case NR_SENDTO:
		return CALL_SHAPE(PR_KIND_BUFFER, NOWHERE, IN_DI, IN_DX);
	case NR_RECVMSG:
		return CALL_SHAPE(PR_KIND_MESSAGE, IN_DI, NOWHERE, NOWHERE) | WITH_FLAGS(IN_DX);
	case NR_SENDMSG:
		return CALL_SHAPE(PR_KIND_MESSAGE, NOWHERE, IN_DI, NOWHERE);
	case NR_RECVMMSG:
		return CALL_SHAPE(PR_KIND_MESSAGES, IN_DI, NOWHERE, NOWHERE) | WITH_FLAGS(IN_R10);
	case NR_SENDMMSG:
		return CALL_SHAPE(PR_KIND_MESSAGES, NOWHERE, IN_DI, NOWHERE);
	}
	return 0;
}

/* The register of these `places`. Without a branch: each would double what the verifier has to look at. */
static __always_inline u64 argument(const struct registers *call, u64 places)
{
	return (call->di & -(places & 1)) | (call->si & -(places >> 1 & 1)) | (call->dx & -(places >> 2 & 1)) |
	       (call->r10 & -(places >> 3 & 1)) | (call->r8 & -(places >> 4 & 1));
}
