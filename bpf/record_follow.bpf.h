/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Which threads are followed: children of the launching thread while it launches, and all that these fork.
 */

/* What the thread does for rings. Those that poll have no place for a request. */
static __always_inline u32 io_thread_of(u64 task)
{
	if (!HAS_WORKERS || !(BPF_CORE_READ((const struct task_struct *)task, flags) & PF_IO_WORKER))
		return 0;
	return BPF_CORE_READ((const struct task_struct___worker *)task, worker_private) ? PR_IO_WORKER : PR_IO_POLLER;
}

static __always_inline void follow_task(u64 task, const struct pr_who *who, u32 tgid, u32 started)
{
	struct pr_task *empty = FIRST(zeros), *own;
	struct pr_state *shared = shared_state();
	u64 *threads = filter_of(task);

	if (!empty || !shared || !threads)
		return;
	if (bpf_map_update_elem(&tasks, &task, empty, BPF_ANY)) {
		__sync_fetch_and_add(&shared->lost_tasks, 1);
		return;
	}
	own = bpf_map_lookup_elem(&tasks, &task);
	if (!own)
		return;
	own->who = *who;
	own->who.tgid = tgid;
	note_table(own, task);
	own->since = bpf_ktime_get_ns();
	own->own.begin = own->since;
	own->own.threads = 1;
	/* It waits for a CPU. */
	own->state = PR_RUNNABLE;
	own->started = started;
	own->throttled = throttled_time(task);
	own->exec_id = BPF_CORE_READ((const struct task_struct *)task, self_exec_id);
	own->io_thread = io_thread_of(task);
	__sync_fetch_and_add(threads, 1);
}

/* A followed thread has ended. */
static __always_inline void forget_task(u64 task, struct pr_task *own)
{
	u64 *threads = filter_of(task);

	/* Its exit was not seen. */
	if (!own->own.end)
		own->own.end = own->since;
	if (own->started)
		settle(own);
	bpf_map_delete_elem(&tasks, &task);
	if (threads)
		__sync_fetch_and_add(threads, -1);
}

/* The times that the kernel has accounted to the current thread since its last exec. */
static __always_inline void read_times(struct pr_task *own, const struct task_struct *task)
{
	own->own.user_ns = BPF_CORE_READ(task, utime) - own->user_before;
	own->own.system_ns = BPF_CORE_READ(task, stime) - own->system_before;
	own->own.end = bpf_ktime_get_ns();
}

/*
 * Linux 7.2 can preempt a program at a tracepoint, and then skips it for the other threads of that CPU until it goes on (6.18 does
 * not; none between was tried). Without its fork, exec or exit, most of a process is missing. So each of these events has a second
 * program, which does the same if the first one was skipped.
 */

/* The current thread has created a thread, which has not run yet. Not static: the verifier then looks at it once. */
__noinline u32 note_fork(u64 current, u64 created)
{
	struct task_struct *child = (void *)created;
	struct pr_task *parent = find(current), *before = find_any(created), *own;
	u64 *stage = FIRST(launch);
	u32 tgid = BPF_CORE_READ(child, tgid);
	struct pr_who who = {};

	if (is_over(bpf_ktime_get_ns()))
		return 0;
	/* Nothing was seen of the end of the thread that had this address. The new one may be of another program. */
	if (before)
		forget_task(created, before);
	if (parent) {
		parent->own.forks += tgid != parent->who.tgid;
		who = parent->who;
		follow_task(created, &who, tgid, parent->started);
		own = find(created);
		if (tgid != parent->who.tgid) {
			parent->forked |= PR_FORKS;
			if (own) {
				own->forked = PR_FORKED;
				own->own.parent = parent->who.tgid;
			}
		}
		if (own && own->started)
			step_birth(PR_STEP_FORK, own, created, current);
	} else if (stage && *stage && is_recorder()) {
		who.stage = *stage - 1;
		follow_task(created, &who, tgid, 0);
	}
	return 1;
}

SEC("raw_tp/sched_process_fork")
int pr_fork(struct pp_tracepoint *ctx)
{
	note_fork(ctx->args[0], ctx->args[1]);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int pr_fork_again(struct pp_tracepoint *ctx)
{
	const struct task_struct *child = (void *)ctx->args[1];
	const struct pr_task *known = find_any((u64)child);
	const struct pr_state *shared = shared_state();

	/* Without room for it, it would be lost twice. */
	if (!shared || shared->lost_tasks)
		return 0;
	if (known && !known->own.end && known->who.tgid == (u32)BPF_CORE_READ(child, tgid))
		return 0;
	note_fork(ctx->args[0], (u64)child);
	return 0;
}

/* A thread is about to run for the first time: one of io_uring, whose fork has no event. */
SEC("raw_tp/sched_wakeup_new")
int pr_ring_thread(struct pp_tracepoint *ctx)
{
	u64 child = ctx->args[0], current = bpf_get_current_task();
	struct pr_task *parent = find(current), *before, *own;

	if (!parent || !parent->started || !io_thread_of(child) || is_over(bpf_ktime_get_ns()))
		return 0;
	before = find_any(child);
	if (before)
		forget_task(child, before);
	follow_task(child, &parent->who, parent->who.tgid, 1);
	own = find(child);
	if (own)
		step_birth(PR_STEP_FORK, own, child, current);
	return 0;
}

/* Follow the current thread if its parent is followed: its fork was not seen. */
static __always_inline struct pr_task *adopt(u64 task)
{
	const struct task_struct *child = (const void *)task;
	struct pr_task *parent = find((u64)BPF_CORE_READ(child, real_parent)), *before, *own;

	/* Children from before the recording are not part of it. */
	if (!parent || !parent->started || BPF_CORE_READ(child, start_time) < parent->own.begin)
		return 0;
	before = find_any(task);
	if (before)
		forget_task(task, before);
	__sync_fetch_and_add(&parent->own.forks, 1);
	follow_task(task, &parent->who, bpf_get_current_pid_tgid() >> 32, 1);
	own = find(task);
	if (own)
		step_birth(PR_STEP_FORK, own, task, (u64)BPF_CORE_READ(child, real_parent));
	return own;
}

/* The handler of a signal. */
static __always_inline u64 handler_of(const struct task_struct *task, u32 number)
{
	u64 all = (u64)BPF_CORE_READ(task, sighand), handler = 0;

	all += bpf_core_field_offset(struct sighand_struct, action) + bpf_core_field_offset(struct k_sigaction, sa.sa_handler);
	bpf_probe_read_kernel(&handler, sizeof(handler), (const void *)(all + (number - 1) * bpf_core_type_size(struct k_sigaction)));
	return handler;
}

/* The current thread has executed a program. Not static: the verifier then looks at it once. */
__noinline u32 note_exec(u64 task)
{
	struct pr_task *own = find(task), *empty;
	struct pr_who who;
	u64 now = bpf_ktime_get_ns(), parent;

	if (is_over(now))
		return 0;
	if (!own)
		own = adopt(task);
	if (!own)
		return 0;
	/* It has the address of a thread whose end was not seen. */
	if (own->who.tgid != (u32)(bpf_get_current_pid_tgid() >> 32)) {
		forget_task(task, own);
		return 0;
	}
	empty = FIRST(zeros);
	if (!empty)
		return 0;
	now = bpf_ktime_get_ns();
	/* What it did under its old name. Before the first exec it was not yet part of the pipeline. */
	if (own->started) {
		own->own.cpu_ns += now - own->since;
		read_times(own, (struct task_struct *)task);
		settle(own);
	}
	own->user_before = BPF_CORE_READ((struct task_struct *)task, utime);
	own->system_before = BPF_CORE_READ((struct task_struct *)task, stime);
	own->exec_id = BPF_CORE_READ((struct task_struct *)task, self_exec_id);
	own->pages_before = BPF_CORE_READ((const struct task_struct *)task, signal, maxrss);
	parent = own->own.parent;
	own->own = empty->own;
	own->own.parent = parent;
	own->forked = 0;
	own->used[PR_READ] = empty->used[PR_READ];
	own->used[PR_WRITE] = empty->used[PR_WRITE];
	who = own->who;
	bpf_get_current_comm(who.name, sizeof(who.name));
	own->who = who;
	begin_window(now);
	own->started = 1;
	own->state = PR_RUNNING;
	own->since = now;
	own->own.begin = now;
	own->own.threads = 1;
	own->own.execs = 1;
	own->own.ignores_sigpipe = handler_of((const struct task_struct *)task, SIGPIPE) == IGNORED;
	own->own.ignores_sigchld = handler_of((const struct task_struct *)task, SIGCHLD) == IGNORED;
	step_birth(PR_STEP_EXEC, own, task, 0);
	step_args(&own->who, (const struct task_struct *)task);
	/* Descriptors are closed on exec, and a shared table is copied. */
	note_table(own, task);
	if (learn_file(task, STANDARD_INPUT) && own->files[STANDARD_INPUT].device) {
		own->own.input = own->files[STANDARD_INPUT].inodes[PR_READ];
		own->own.input_device = own->files[STANDARD_INPUT].device;
	}
	if (learn_file(task, STANDARD_OUTPUT)) {
		const struct file *output = (const struct file *)own->files[STANDARD_OUTPUT].open;

		own->stdout_open = own->files[STANDARD_OUTPUT].open;
		own->own.output = own->files[STANDARD_OUTPUT].inodes[PR_WRITE];
		own->own.output_device = own->files[STANDARD_OUTPUT].device;
		if (own->files[STANDARD_OUTPUT].file_type == S_IFREG) {
			own->own.output = BPF_CORE_READ(output, f_inode, i_ino);
			own->own.output_device = BPF_CORE_READ(output, f_inode, i_sb, s_dev);
		}
	}
	if (learn_file(task, STANDARD_ERROR)) {
		const struct file *error = (const struct file *)own->files[STANDARD_ERROR].open;

		own->own.quiet = own->files[STANDARD_ERROR].file_type == S_IFCHR &&
				 BPF_CORE_READ(error, f_inode, i_rdev) == NULL_DEVICE;
	}
	return 1;
}

SEC("raw_tp/sched_process_exec")
int pr_exec(__attribute__((unused)) struct pp_tracepoint *ctx)
{
	note_exec(bpf_get_current_task());
	return 0;
}

SEC("raw_tp/sched_process_exec")
int pr_exec_again(__attribute__((unused)) struct pp_tracepoint *ctx)
{
	u64 task = bpf_get_current_task();
	const struct pr_task *own = find(task);

	if (!own || own->exec_id != BPF_CORE_READ((struct task_struct *)task, self_exec_id))
		note_exec(task);
	return 0;
}

/* Whether others send this signal to end a process. */
static __always_inline int ends_process(u32 number)
{
	return number == SIGHUP || number == SIGINT || number == SIGKILL || number == SIGTERM;
}

/* Process 1 of a PID namespace gets no signal that it has no handler for (include/linux/sched/signal.h). */
#define SIGNAL_UNKILLABLE 0x40

/* What a thread does with a signal: a PR_TOLD. */
static __always_inline u64 told_how(const struct task_struct *task, u32 number)
{
	u64 handler = handler_of(task, number);

	if (BPF_CORE_READ(task, blocked.sig[0]) >> (number - 1) & 1)
		return PR_TOLD_BLOCKED;
	if (!handler && BPF_CORE_READ(task, signal, flags) & SIGNAL_UNKILLABLE)
		return PR_TOLD_INIT;
	return handler == IGNORED ? PR_TOLD_IGNORED : handler ? PR_TOLD_HANDLED : PR_TOLD_DEFAULT;
}

/* How a signal that would end another process, and is neither SIGTERM nor SIGHUP, is lost at this one: a PR_TOLD, or 0 if it is not. */
static __always_inline u64 lost_how(const struct task_struct *task, u32 number)
{
	u64 how;

	if (number != SIGINT && number != SIGQUIT && number != SIGABRT && number != SIGUSR1 && number != SIGUSR2)
		return 0;
	how = told_how(task, number);
	/* As shells start jobs of scripts. */
	if (how == PR_TOLD_INIT || (how == PR_TOLD_IGNORED && (number == SIGINT || number == SIGQUIT)))
		return how;
	return 0;
}

/* A signal: its number, information, and the thread that it is for. The current one sends it. */
SEC("raw_tp/signal_generate")
int pr_signal(struct pp_tracepoint *ctx)
{
	const struct task_struct *task = (void *)ctx->args[2];
	u32 number = ctx->args[0];
	struct pr_task *leader;
	u64 lost;
	s32 code = 1;

	/* One for a fault that `kill` has sent: the kernel's own have a positive code (include/uapi/asm-generic/siginfo.h). */
	if ((number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL) && ctx->args[1] > SEND_SIG_PRIV) {
		bpf_probe_read_kernel(&code, sizeof(code), (const void *)(ctx->args[1] + 8));
		leader = find_any((u64)BPF_CORE_READ(task, group_leader));
		if (leader && code <= 0)
			leader->own.sender = bpf_get_current_pid_tgid() >> 32 | (u64)number << 32;
		return 0;
	}
	lost = ctx->args[1] != SEND_SIG_PRIV ? lost_how(task, number) : 0;
	if (!ends_process(number) && !lost && (number < SIGSTOP || number > SIGTTOU))
		return 0;
	leader = find_any((u64)BPF_CORE_READ(task, group_leader));
	if (!leader || is_over(bpf_ktime_get_ns()))
		return 0;
	if (ends_process(number))
		leader->own.got = number;
	if (lost) {
		/* abort(3) sends it to itself. What ends the recording comes last. */
		if (leader->who.tgid == bpf_get_current_pid_tgid() >> 32 || (leader->own.told && lost == PR_TOLD_IGNORED))
			return 0;
		leader->own.told = bpf_get_current_pid_tgid() >> 32 | (u64)number << 32;
		leader->own.told_how = lost;
		if (!leader->own.told_at)
			leader->own.told_at = bpf_ktime_get_ns();
		return 0;
	}
	if (ends_process(number)) {
		struct task_struct *current = (void *)bpf_get_current_task();

		if (ctx->args[1] != SEND_SIG_PRIV)
			leader->own.sender = bpf_get_current_pid_tgid() >> 32 | (u64)number << 32;
		/* prctl(2), PR_SET_PDEATHSIG: no call has sent it. */
		if (!ctx->args[1] && BPF_CORE_READ(current, flags) & PF_EXITING) {
			leader->own.sender |= 1ULL << PR_AT_ITS_END;
			return 0;
		}
		/* A handler can raise the signal again, for its default action: process 1 of a namespace does not get that. */
		if (leader->own.told && leader->who.tgid == bpf_get_current_pid_tgid() >> 32) {
			if (BPF_CORE_READ(task, signal, flags) & SIGNAL_UNKILLABLE)
				leader->own.told_how = PR_TOLD_INIT;
			return 0;
		}
		if (ctx->args[1] != SEND_SIG_PRIV && (number == SIGTERM || number == SIGHUP)) {
			leader->own.told = leader->own.sender;
			leader->own.told_how = told_how(task, number);
			if (leader->own.told_how == PR_TOLD_BLOCKED && leader->takes_signals)
				leader->own.told_how = PR_TOLD_HANDLED;
			if (!leader->own.told_at)
				leader->own.told_at = bpf_ktime_get_ns();
		}
		return 0;
	}
	leader->stopper[0] = leader->stopper[1] = 0;
	if (number == PR_TTIN || number == PR_TTOU) {
		leader->stopper[1] = number;
		return 0;
	}
	if (ctx->args[1] == SEND_SIG_PRIV)
		return 0;
	if (bpf_get_current_pid_tgid() >> 32 == leader->who.tgid)
		leader->stopper[1] = PR_ITSELF;
	else
		bpf_get_current_comm(leader->stopper, sizeof(leader->stopper));
	return 0;
}

/* By process or thread id. */
MAP(victims, HASH, PR_VICTIMS, u32, u32);

/* The kernel kills a process for lack of memory: the id of a thread, or since 6.8 its task. */
SEC("raw_tp/mark_victim")
int pr_victim(struct pp_tracepoint *ctx)
{
	const struct task_struct *task = (const void *)ctx->args[0];
	u32 victim = ctx->args[0], yes = 1;

	if (ctx->args[0] >> 32)
		victim = BPF_CORE_READ(task, pid);
	bpf_map_update_elem(&victims, &victim, &yes, BPF_ANY);
	return 0;
}

/* include/linux/sched.h */
#define EXIT_ZOMBIE 0x20
/* Children of a process that are looked at when it ends. */
#define PR_CHILDREN 64

/* The process ends: its children that are zombies. Not static: the verifier then looks at it once. */
__noinline u32 count_zombies(u64 ending)
{
	const struct list_head *head = (void *)(ending + bpf_core_field_offset(struct task_struct, children));
	const struct list_head *at = BPF_CORE_READ((const struct task_struct *)ending, children.next);
	struct pr_task *own = find(ending);

	if (!own)
		return 0;
	for (u32 i = 0; i < PR_CHILDREN && at && at != head; i++) {
		const struct task_struct *child = (void *)((u64)at - bpf_core_field_offset(struct task_struct, sibling));

		if (BPF_CORE_READ(child, exit_state) & EXIT_ZOMBIE) {
			own->own.last_zombie = BPF_CORE_READ(child, tgid);
			if (!own->own.zombies++)
				own->own.first_zombie = own->own.last_zombie;
		}
		at = BPF_CORE_READ(child, sibling.next);
	}
	return 1;
}

/* The thread ends; it still runs for a moment. Not static: the verifier then looks at it once. */
__noinline u32 note_exit(u64 ending)
{
	const struct task_struct *task = (void *)ending;
	struct pr_task *own = find(ending);
	u32 thread, code;

	if (!own || is_over(bpf_ktime_get_ns()))
		return 0;
	thread = BPF_CORE_READ(task, pid);
	if (bpf_map_lookup_elem(&victims, &thread))
		own->own.starved = 1;
	read_times(own, task);
	/* The last thread: the kernel has noted by now how much memory they had at most (setmax_mm_hiwater_rss). */
	if (!BPF_CORE_READ(task, signal, live.counter)) {
		own->own.pages = BPF_CORE_READ(task, signal, maxrss);
		if (own->own.pages <= own->pages_before)
			own->own.pages = 0;
	}
	/* As for wait(2): the lower seven bits. An exec kills the other threads of its process. */
	if (thread != (u32)BPF_CORE_READ(task, tgid))
		return 0;
	code = BPF_CORE_READ(task, exit_code);
	own->own.signal = code & 0x7f;
	own->own.code = code >> 8 & 0xff;
	count_zombies(ending);
	/* Its last exec was not seen: most of what it did, it did under the name that it has now. */
	if (own->started && own->exec_id != BPF_CORE_READ(task, self_exec_id)) {
		own->own.execs++;
		bpf_get_current_comm(own->who.name, sizeof(own->who.name));
		step_birth(PR_STEP_RENAME, own, (u64)task, 0);
	}
	return 1;
}

SEC("raw_tp/sched_process_exit")
int pr_exit(struct pp_tracepoint *ctx)
{
	note_exit(ctx->args[0]);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int pr_exit_again(struct pp_tracepoint *ctx)
{
	const struct pr_task *own = find(ctx->args[0]);

	if (own && !own->own.end)
		note_exit(ctx->args[0]);
	return 0;
}

/* The task_struct is freed: its address can be used again. */
SEC("raw_tp/sched_process_free")
int pr_free(struct pp_tracepoint *ctx)
{
	struct pr_task *own = find_any(ctx->args[0]);

	if (!own || is_over(bpf_ktime_get_ns()))
		return 0;
	if (own->started)
		step_event(PR_STEP_FREE, 0, ctx->args[0], 0, 0);
	forget_task(ctx->args[0], own);
	return 0;
}
