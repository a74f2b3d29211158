/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * How the system calls of each process end, in a guest: all of them, by number. Only their exit is seen, when the registers
 * still hold the number.
 */
#include "common.bpf.h"

#include <bpf/bpf_core_read.h>

const volatile struct pp_settings settings = {};

struct task_struct {
	struct thread_info thread_info;
} __attribute__((preserve_access_index));

/* include/linux/errno.h: the kernel repeats such a call, or it was interrupted. include/linux/err.h: larger values are no error. */
enum { ERESTARTSYS = 512, ERESTART_RESTARTBLOCK = 516, MAX_ERRNO = 4095 };

MAP(results, HASH, PP_RESULTS, struct pp_ended_call, struct pp_results);

/* How often there was no room. */
MAP(lost, ARRAY, 1, u32, u64);

SEC("raw_tp/sys_exit")
int pp_result(struct pp_tracepoint *ctx)
{
	const struct task_struct *task = (const void *)bpf_get_current_task();
	struct pp_ended_call key = {};
	struct pp_results none = {}, *known;
	struct registers call;
	s64 result = ctx->args[1];
	u64 *missing;

	/* 32-bit programs have other numbers. */
	if (load_registers(&call, ctx->args[0]) || BPF_CORE_READ(task, thread_info.COMPAT_FIELD) & COMPAT_BITS)
		return 0;
	key.tgid = bpf_get_current_pid_tgid() >> 32;
	key.number = call.orig_ax;
	known = bpf_map_lookup_elem(&results, &key);
	if (!known) {
		bpf_map_update_elem(&results, &key, &none, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&results, &key);
	}
	if (!known) {
		missing = FIRST(lost);
		if (missing)
			__sync_fetch_and_add(missing, 1);
		return 0;
	}
	__sync_fetch_and_add(&known->calls, 1);
	if (result > 0)
		__sync_fetch_and_add(&known->returned, result);
	else if (result < 0 && result >= -MAX_ERRNO && (result > -ERESTARTSYS || result < -ERESTART_RESTARTBLOCK))
		__sync_fetch_and_add(&known->errors, 1);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
