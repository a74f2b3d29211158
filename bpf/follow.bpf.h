/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Find the watched process of the current thread. Two threads are compared with directly. Others are looked up:
 * those that existed at the start by their id, later ones by the address of their task_struct, which the fork
 * tracepoint gives. No kernel field is read, so this needs no BTF. An exec keeps the address.
 */

/* The threads that are compared with directly. Only the thread itself accesses its element. It is a global variable,
 * because its address needs no map lookup. */
struct pp_fast fast[PP_FAST];

/* From a thread id to the number of its process. */
MAP(given, HASH, PP_GIVEN, u32, u32);

/* From a task's address to its process. */
MAP(followed, HASH, PP_FOLLOWED, u64, struct pp_member);

/* By a task's address: its open probed calls, for threads that are not compared with directly. */
MAP(threads, HASH, PP_THREADS, u64, struct pp_task);

MAP(counts, ARRAY, PP_COUNTS, u32, u64);

/* By number, if each program has one. */
MAP(programs, HASH, PP_PROGRAMS, u32, struct pp_program);

static __always_inline u64 count_of(u32 which)
{
	u64 *count = bpf_map_lookup_elem(&counts, &which);

	return count ? *count : 0;
}

static __always_inline void count_one(u32 which)
{
	u64 *count = bpf_map_lookup_elem(&counts, &which);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* A new number for the current process, whose number was `from`; PP_PROGRAMS if there are too many. */
static __noinline u32 new_number(u32 from, u32 executed)
{
	struct pp_program program = { .from = from, .tgid = bpf_get_current_pid_tgid() >> 32 };
	u32 number = count_of(PP_COUNT_NUMBERS), i;

	if (executed)
		bpf_get_current_comm(program.name, sizeof(program.name));
	/* Another CPU may take the same one. -mcpu=v2 has no atomic operation that returns the old value. */
	for (i = 0; i < 8 && number < PP_PROGRAMS; i++, number++) {
		if (!bpf_map_update_elem(&programs, &number, &program, BPF_NOEXIST)) {
			count_one(PP_COUNT_NUMBERS);
			return number;
		}
	}
	count_one(PP_COUNT_UNFOLLOWED);
	return PP_PROGRAMS;
}

/* The number of the current thread's process, or -1 if it is not watched. For threads that are not compared with
 * directly. */
static __always_inline int looked_up(u32 pid)
{
	struct pp_member *member;
	u32 *process, tgid;
	u64 task;

	/* First: a thread that was given may have executed another program. */
	if (count_of(PP_COUNT_FOLLOWED)) {
		task = bpf_get_current_task();
		member = bpf_map_lookup_elem(&followed, &task);
		if (member) {
			tgid = bpf_get_current_pid_tgid() >> 32;
			if (settings.programs && member->tgid != tgid) {
				member->process = new_number(member->process, 0);
				member->tgid = tgid;
			}
			return member->process < PP_PROGRAMS ? (int)member->process : -1;
		}
	}
	if (count_of(PP_COUNT_GIVEN)) {
		process = bpf_map_lookup_elem(&given, &pid);
		if (process && *process < PP_PROGRAMS)
			return *process;
	}
	return -1;
}

/* The number of the current thread's process, or -1 if it is not watched. */
static __always_inline int watched_process(void)
{
	u32 pid = current_pid();

	if (pid == settings.pids[0])
		return settings.processes[0];
	if (pid == settings.pids[1])
		return settings.processes[1];
	return looked_up(pid);
}

static __always_inline void follow(u64 task, u32 process)
{
	struct pp_member member = { process, bpf_get_current_pid_tgid() >> 32 };

	/* Increment first: programs do not look into a map whose count is 0. */
	count_one(PP_COUNT_FOLLOWED);
	if (bpf_map_update_elem(&followed, &task, &member, BPF_ANY))
		count_one(PP_COUNT_UNFOLLOWED);
}

/* Parent and child; the parent is the current task, and the child has not run yet. */
SEC("raw_tp/sched_process_fork")
int pp_fork(struct pp_tracepoint *ctx)
{
	int process = watched_process();

	if (process >= 0)
		follow(ctx->args[1], process);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int pp_exec(__attribute__((unused)) struct pp_tracepoint *ctx)
{
	u64 task = bpf_get_current_task();
	struct pp_member *member;
	int process;

	if (!settings.programs)
		return 0;
	process = watched_process();
	if (process < 0)
		return 0;
	process = new_number(process, 1);
	member = bpf_map_lookup_elem(&followed, &task);
	if (member)
		member->process = process;
	else
		follow(task, process);
	return 0;
}

/* Count the calls that the thread has not left; see calls.bpf.h. */
static int leave_all(struct pp_task *task);

/* The task_struct is freed, after the task's exit and its parent's notification. Its address can be reused. */
SEC("raw_tp/sched_process_free")
int pp_free(struct pp_tracepoint *ctx)
{
	u64 task = ctx->args[0];
	struct pp_task *own = bpf_map_lookup_elem(&threads, &task);

	if (own)
		leave_all(own);
	if (fast[0].address == task)
		fast[0].address = 0;
	else if (fast[1].address == task)
		fast[1].address = 0;
	bpf_map_delete_elem(&followed, &task);
	bpf_map_delete_elem(&threads, &task);
	return 0;
}
