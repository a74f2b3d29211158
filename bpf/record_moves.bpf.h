/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * By which system calls each process moves bytes, at files of any kind, and how these calls fail.
 */

MAP(moves, HASH, PR_BY_CALL, struct pr_by_call, struct pr_carried);

/* Whether a call moves bytes. Not static: see native_number. */
__noinline u32 moves_bytes(u64 number)
{
	return shape_of(number) || number == NR_PREAD64 || number == NR_PWRITE64 || number == NR_COPY_FILE_RANGE;
}

/* Loaded only if that is wanted. */
SEC("raw_tp/sys_exit")
int pr_moves(struct pp_tracepoint *ctx)
{
	u64 task = bpf_get_current_task();
	struct pr_task *own = find(task);
	struct registers call = {};
	struct pr_by_call key = {};
	struct pr_carried first = {}, *known;
	struct pr_state *shared = shared_state();
	s64 result = ctx->args[1];
	u64 stack;

	if (!own || !own->started || read_call_now(task, &stack, &call) || !moves_bytes(call.orig_ax))
		return 0;
	key.who = own->who;
	key.call = call.orig_ax;
	key.error = result < 0 ? -result : 0;
	known = bpf_map_lookup_elem(&moves, &key);
	if (!known) {
		bpf_map_update_elem(&moves, &key, &first, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&moves, &key);
	}
	if (!known) {
		if (shared)
			__sync_fetch_and_add(&shared->lost_waits, 1);
		return 0;
	}
	__sync_fetch_and_add(&known->calls, 1);
	if (result > 0)
		__sync_fetch_and_add(&known->bytes, result);
	return 0;
}
