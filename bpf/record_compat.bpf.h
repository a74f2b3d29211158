/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * 32-bit system calls: those of 32-bit programs, and int 0x80 in 64-bit ones.
 */

/* Whether the thread is in a 32-bit call. */
static __always_inline int is_compat(u64 task)
{
	return BPF_CORE_READ((const struct task_struct *)task, thread_info.COMPAT_FIELD) & COMPAT_BITS;
}

/* The same for the current thread. */
static __always_inline int is_compat_now(u64 task)
{
	if (HAS_CURRENT)
		return bpf_get_current_task_btf()->thread_info.COMPAT_FIELD & COMPAT_BITS;
	return is_compat(task);
}

#ifdef HAS_32_BIT_TABLE
#include "arch_x86_64_compat.h"
#endif
