/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Processes that were running before the recording: iterators over all threads of the machine.
 */

struct bpf_iter_meta;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

/* The process id of a thread in the PID namespace of pipeprof; 0 if it has none there. */
static __always_inline u32 tgid_here(const struct task_struct *task)
{
	const struct pid *other = BPF_CORE_READ(task, group_leader, thread_pid);
	const struct pr_state *shared = shared_state();
	u64 namespace = 0;
	u32 number;

	if (!other || !shared || BPF_CORE_READ(other, level) < shared->level)
		return 0;
	number = number_at(other, shared->level, &namespace);
	return namespace == shared->namespace ? number : 0;
}

/* The address of the iterator's thread as a number; the verifier allows no arithmetic with its pointer. 0 at the end. */
static __always_inline u64 address_of(const struct bpf_iter__task *ctx)
{
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), &ctx->task);
	return address;
}

/* Follow this thread if its process is wanted. */
SEC("iter/task")
int pr_seize(struct bpf_iter__task *ctx)
{
	u64 address = address_of(ctx);
	struct task_struct *task = (void *)address;
	struct pr_who who = {};
	struct pr_task *own;
	struct idle_state idle;
	u32 tgid, *stage;

	if (!task)
		return 0;
	tgid = tgid_here(task);
	stage = bpf_map_lookup_elem(&wanted, &tgid);
	if (!stage || find(address))
		return 0;
	who.stage = *stage;
	BPF_CORE_READ_INTO(&who.name, task, group_leader, comm);
	follow_task(address, &who, BPF_CORE_READ(task, tgid), 1);
	own = find(address);
	if (!own)
		return 0;
	begin_window(own->own.begin);
	own->user_before = BPF_CORE_READ(task, utime);
	own->system_before = BPF_CORE_READ(task, stime);
	idle = idle_state_of(task);
	if (idle.state != TASK_RUNNING) {
		explain(own, address, idle, 0);
		own->state = PR_ASLEEP;
	} else if (bpf_core_field_exists(task->on_cpu) && BPF_CORE_READ(task, on_cpu)) {
		own->state = PR_RUNNING;
	}
	step_birth(PR_STEP_SEIZE, own, address, 0);
	return 0;
}

/* The process id of a followed thread, and the times that the kernel has accounted to it if it had not ended when the window
 * was over. Another one may have its address by now. */
SEC("iter/task")
int pr_account(struct bpf_iter__task *ctx)
{
	u64 address = address_of(ctx);
	struct task_struct *task = (void *)address;
	struct pr_task *own = address ? find_any(address) : 0;

	if (!own || !own->started || own->who.tgid != (u32)BPF_CORE_READ(task, tgid))
		return 0;
	own->id = tgid_here(task);
	if (!own->own.end) {
		own->own.user_ns = BPF_CORE_READ(task, utime) - own->user_before;
		own->own.system_ns = BPF_CORE_READ(task, stime) - own->system_before;
	}
	return 0;
}
