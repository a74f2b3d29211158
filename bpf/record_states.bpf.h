/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * The states of threads: running, runnable, asleep and why.
 */

static __always_inline u32 state_of(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ((const struct task_struct___before_5_14 *)task, state);
}

/* What tells why a thread does not run. */
struct idle_state {
	u32 state;
	u32 flags;
	u64 jobctl;
};

static __always_inline struct idle_state idle_state_of(const struct task_struct *task)
{
	struct idle_state idle = { state_of(task), BPF_CORE_READ(task, flags), BPF_CORE_READ(task, jobctl) };

	return idle;
}

/* The same for the current thread. */
static __always_inline struct idle_state idle_state_now(u64 task)
{
	const struct task_struct *current;
	struct idle_state idle;

	if (!HAS_CURRENT)
		return idle_state_of((const void *)task);
	current = bpf_get_current_task_btf();
	idle.flags = current->flags;
	idle.jobctl = current->jobctl;
	if (bpf_core_field_exists(current->__state))
		idle.state = current->__state;
	else
		idle.state = ((const struct task_struct___before_5_14 *)current)->state;
	return idle;
}

static __always_inline int waits_at_socket(u32 call)
{
	switch (call) {
	case NR_CONNECT:
	case NR_ACCEPT:
	case NR_SENDTO:
	case NR_RECVFROM:
	case NR_SENDMSG:
	case NR_RECVMSG:
	case NR_ACCEPT4:
	case NR_RECVMMSG:
	case NR_SENDMMSG:
		return 1;
	}
	return 0;
}

/* The thread sleeps at a side of the channel of this file. */
static __always_inline void asleep_at(struct pr_task *own, const struct pr_file *file, u32 side, u32 locked,
				      const struct pipe_fill *fill)
{
	/* Of sockets and terminals it is not known what has moved. */
	u64 position = !file->pipe ? own->position + 1 : side == PR_READ ? fill->tail : fill->head;
	struct pr_counts *counts;

	own->inode = file->inodes[side & 1];
	own->device = file->device;
	own->side = side;
	own->locked = locked;
	if (locked || !own->inode)
		return;
	/* The call may never return. */
	counts = own_counts(own, own->inode, file->device, side & 1);
	if (counts && fill->slots)
		note_slots(counts, fill->slots);
	if (own->again && own->position == position)
		own->again++;
	else
		own->again = 1;
	own->position = position;
}

/* What a thread that sleeps in a call on a channel waits for: data or room, a pipe's lock, or something else, such as a
 * page fault or a disk. */
enum { WAITS_AT_CHANNEL, WAITS_FOR_LOCK, WAITS_ELSEWHERE };

/* pipe_read, pipe_write and splice wait for data and room without the lock and interruptibly, and for the lock
 * uninterruptibly. Whoever holds it waits for something else. `fill` gets how full the pipe is. */
static __always_inline u32 waits_for(const struct pr_file *file, u64 task, u32 task_state, struct pipe_fill *fill)
{
	u64 owner;

	if (!file->pipe) {
		/* In a call on a pipe as well, something to read or no room are what makes it wait for the pipe. */
		fill->used = file->socket && has_unread(file->socket);
		/* The verifier of 5.10 wants all of it. */
		fill->slots = fill->head = fill->tail = 0;
		return task_state & TASK_UNINTERRUPTIBLE ? WAITS_ELSEWHERE : WAITS_AT_CHANNEL;
	}
	owner = read_pipe(file, fill);
	if ((owner & ~(u64)MUTEX_FLAGS) == task)
		return WAITS_ELSEWHERE;
	if (!(task_state & TASK_UNINTERRUPTIBLE))
		return WAITS_AT_CHANNEL;
	/* Between two owners, the flags say that there are waiting threads. */
	return owner ? WAITS_FOR_LOCK : WAITS_ELSEWHERE;
}

/* Whether its cgroup keeps the thread from running. */
static __always_inline int is_frozen(struct idle_state idle)
{
	return idle.state & TASK_FROZEN || (!(idle.state & TASK_UNINTERRUPTIBLE) && idle.jobctl & JOBCTL_TRAP_FREEZE);
}

/* A thread does not wait, but is stopped or traced: find out by whom. */
static __always_inline void explain_stop(struct pr_task *own, u64 task, u32 task_state)
{
	const struct task_struct *stopped = (const void *)task;
	struct pr_task *leader;

	if (task_state & TASK_TRACED) {
		own->call = PR_TRACED;
		BPF_CORE_READ_INTO(&own->holder, stopped, parent, comm);
		return;
	}
	own->call = PR_STOPPED;
	leader = find_any((u64)BPF_CORE_READ(stopped, group_leader));
	if (leader) {
		own->holder[0] = leader->stopper[0];
		own->holder[1] = leader->stopper[1];
	}
}

/* What a thread waits for that is ending. The first process of a PID namespace waits for the others, which are its children
 * then. */
static __always_inline u32 ending_of(const struct task_struct *task, u32 task_state)
{
	const struct pid *pid = 0;
	u64 last;

	if (BPF_CORE_READ(task, files))
		return PR_ENDING;
	if (!(task_state & TASK_INTERRUPTIBLE))
		return PR_CLOSING;
	pid = BPF_CORE_READ(task, group_leader, thread_pid);
	last = bpf_core_field_offset(pid->numbers) + BPF_CORE_READ(pid, level) * bpf_core_type_size(struct upid);
	return BPF_CORE_READ((const struct upid *)((u64)pid + last), nr) == 1 ? NR_WAIT4 : PR_CLOSING;
}

/* It sleeps because of a request to io_uring: find out at which channel. */
static __always_inline void sleep_by_ring(struct pr_task *own, u64 task, struct idle_state idle, u32 fd, u32 registered)
{
	u32 side = ring_wait(task, fd, registered), wait;
	struct pipe_fill fill = {};

	if (!side)
		return;
	own->file_type = own->ring_file.file_type;
	if (!own->ring_file.device)
		return;
	wait = own->io_thread ? waits_for(&own->ring_file, task, idle.state, &fill) : WAITS_AT_CHANNEL;
	if (!own->io_thread)
		fill_of_file(&own->ring_file, side - 1, &fill);
	if (wait != WAITS_ELSEWHERE)
		asleep_at(own, &own->ring_file, side - 1, wait == WAITS_FOR_LOCK, &fill);
}

/* Find out why a thread sleeps, which may be the current one. */
static __always_inline void explain(struct pr_task *own, u64 task, struct idle_state idle, int is_current)
{
	struct registers call;
	u64 stack;
	struct channel_call found;
	struct pr_file from = {}, *file, *to = 0;
	struct pipe_fill fill;
	u32 wait;

	own->call = PR_NO_CALL;
	own->file_type = 0;
	own->holder[0] = own->holder[1] = 0;
	own->inode = 0;
	if (idle.state & (TASK_STOPPED | TASK_TRACED)) {
		explain_stop(own, task, idle.state);
		return;
	}
	if (is_frozen(idle)) {
		own->call = PR_FROZEN;
		return;
	}
	/* The call during which a signal has ended it is over. */
	if (idle.flags & PF_EXITING) {
		own->call = ending_of((const void *)task, idle.state);
		return;
	}
	if (own->io_thread) {
		own->call = PR_UNUSED;
		sleep_by_ring(own, task, idle, 0, 0);
		return;
	}
	if ((is_current ? read_call_now(task, &stack, &call) : read_call(task, &call)) || call.orig_ax > 1023)
		return;
	own->call = call.orig_ax;
	if (call.orig_ax == NR_IO_URING_ENTER) {
		sleep_by_ring(own, task, idle, call.di, call.r10 & IORING_ENTER_REGISTERED_RING);
		return;
	}
	/* Opening a file of a disk is not interruptible; opening a FIFO waits for a process at the other end. */
	if ((own->call == NR_OPEN || own->call == NR_OPENAT) && !(idle.state & TASK_UNINTERRUPTIBLE))
		own->file_type = S_IFIFO;
	if (!decode(&call, &found, is_current))
		return;
	if (found.from >= 0) {
		file = file_of(own, task, found.from);
		if (!file)
			return;
		/* The other file may take its place. */
		from = *file;
		own->file_type = from.file_type;
	}
	if (found.to >= 0) {
		to = file_of(own, task, found.to);
		if (!to)
			return;
		/* Of the two files, the one that is not a channel is named. */
		if (found.from < 0 || from.device)
			own->file_type = to->file_type;
	}
	if (from.device) {
		wait = waits_for(&from, task, idle.state, &fill);
		/* Between two channels it waits for data first. With data there, it waits for the other file. */
		if (wait == WAITS_FOR_LOCK || (wait == WAITS_AT_CHANNEL && (!to || !fill.used))) {
			asleep_at(own, &from, PR_READ, wait == WAITS_FOR_LOCK, &fill);
			return;
		}
	}
	if (to && to->device) {
		u32 side = found.kind == PR_KIND_VMSPLICE && !to->writable ? PR_READ : PR_WRITE;

		wait = waits_for(to, task, idle.state, &fill);
		/* With room in a pipe, it waits for the file that it reads. */
		if (wait == WAITS_FOR_LOCK || (wait == WAITS_AT_CHANNEL && (found.from < 0 || fill.used >= fill.slots))) {
			asleep_at(own, to, side, wait == WAITS_FOR_LOCK, &fill);
			return;
		}
	}
	/* It copies to or from memory whose pages are not there yet. */
	if ((from.device && !to) || (to && to->device && found.from < 0))
		own->call = PR_NO_CALL;
}

/* Whether preempted, previous, which is still the current one, next. */
SEC("raw_tp/sched_switch")
int pr_switch(struct pp_tracepoint *ctx)
{
	u64 from = ctx->args[1], to = ctx->args[2], now = 0;
	struct pr_task *own = find(from);
	struct idle_state idle;

	if (own) {
		now = bpf_ktime_get_ns();
		if (is_over(now))
			return 0;
		if (own->state != PR_RUNNING)
			resume_unseen(own, from, now);
		own->own.cpu_ns += now - own->since;
		if (own->io_thread == PR_IO_POLLER)
			own->own.poller_ns += now - own->since;
		idle = idle_state_now(from);
		own->since = now;
		own->woken = 0;
		if ((u8)ctx->args[0] || idle.state == TASK_RUNNING) {
			own->state = PR_RUNNABLE;
			own->own.preemptions++;
		} else {
			u32 state = PR_ASLEEP;

			if (idle.state & TASK_DEAD) {
				own->own.end = now;
				state = PR_GONE;
				step_event(PR_STEP_GONE, own->started, from, now, 0);
			} else {
				explain(own, from, idle, 1);
			}
			if (settings.stacks) {
				own->trace = keep_trace(ctx);
				own->waker_trace = own->waker[0] = own->waker[1] = 0;
			}
			/* Whoever wakes it on another CPU finds the reason complete. */
			own->state = state;
		}
	}
	own = find(to);
	if (own) {
		if (!now)
			now = bpf_ktime_get_ns();
		if (!is_over(now))
			resume(own, to, now, from);
	}
	return 0;
}

/* Whether the thread uses this side of a channel. */
static __always_inline int uses(const struct pr_task *own, const struct pr_file *file, u32 side)
{
	/* What the waker reads. */
	struct pr_end end = { own->who, file->inodes[PR_READ], file->device, side };
	const struct pr_used *used = &own->used[side];

	return (used->inode == end.inode && used->device == file->device) || bpf_map_lookup_elem(&ends, &end);
}

/* Whether the current thread moves data through a socket. What the kernel delivers to this machine meanwhile, in a soft
 * interrupt, comes from it. */
static __always_inline int moves_through_socket(struct pr_task *own, u64 task, const struct registers *call)
{
	const struct pr_file *file;

	switch (call->orig_ax) {
	case NR_CONNECT:
	case NR_SENDTO:
	case NR_RECVFROM:
	case NR_SENDMSG:
	case NR_RECVMSG:
	case NR_SHUTDOWN:
	case NR_RECVMMSG:
	case NR_SENDMMSG:
		return 1;
	case NR_READ:
	case NR_WRITE:
	case NR_READV:
	case NR_WRITEV:
	case NR_SENDFILE:
	/* The descriptor is gone from the table, but not yet forgotten if the thread has used it. */
	case NR_CLOSE:
		file = file_of(own, task, call->di);
		return file && file->file_type == S_IFSOCK;
	}
	return 0;
}

/* In what context the current thread executes. The arguments of a raw tracepoint are on the stack in use: interrupts use
 * another one than the thread, unless they interrupt user code. Nothing else that programs can read tells it on all
 * kernels. `own`: the current thread, if it is followed; `sleeper`: whom it wakes. `call` gets the call that it is in, a
 * number above 1023 if in none. */
static __always_inline u32 context_now(struct pp_tracepoint *ctx, u64 task, struct pr_task *own,
				       const struct pr_task *sleeper, struct registers *call)
{
	struct pr_state *shared = shared_state();
	u64 begin = 0, end;
	int in_call;

	call->orig_ax = NO_CALL;
	/* The idle thread wakes nobody of itself. */
	if (!shared || !(u32)bpf_get_current_pid_tgid())
		return PR_IN_INTERRUPT;
	if (read_call_now(task, &begin, call))
		call->orig_ax = NO_CALL;
	end = begin + shared->registers;
	/* The verifier allows comparisons of the address, but no arithmetic. */
	asm volatile("" : "+r"(begin), "+r"(end));
	/* A thread that a signal ends in user code, or after a handler, is in no call. Threads of the kernel have zeros for
	 * registers. */
	in_call = (own && own->own.end) || call->orig_ax <= 1023 ||
		  BPF_CORE_READ((const struct task_struct *)task, signal, flags) & SIGNAL_GROUP_EXIT;
	if ((u64)ctx >= begin && (u64)ctx < end)
		return in_call ? PR_IN_PROCESS : PR_IN_INTERRUPT;
	if (!own || !in_call || !sleeper)
		return PR_IN_INTERRUPT;
	if (sleeper->file_type != S_IFSOCK && !waits_for_any(sleeper->call) && !waits_at_socket(sleeper->call))
		return PR_IN_INTERRUPT;
	return own->own.end || moves_through_socket(own, task, call) ? PR_IN_PROCESS : PR_IN_INTERRUPT;
}

/* A thread that is not followed is woken: it carries on what the current one does, if that is followed. */
static __always_inline void step_carry(struct pp_tracepoint *ctx, u64 task)
{
	u64 current = bpf_get_current_task(), *carrier = carrier_of(task);
	struct pr_task *waker = find(current);
	struct registers call;

	if (!carrier)
		return;
	if (waker && waker->started && context_now(ctx, current, waker, 0, &call) == PR_IN_PROCESS) {
		*carrier = task;
		step_event(PR_STEP_WAKE, PR_IN_PROCESS, task, bpf_ktime_get_ns(), current);
	} else if (*carrier == task) {
		*carrier = 0;
	}
}

/* Record that the current thread wakes another one, in this context. `bits` of the wake-up are known already. */
static __always_inline void step_wake(const struct pr_task *own, u64 task, u64 current, const struct pr_task *waker,
				      u32 context, u32 bits)
{
	u64 *carrier, name[2];
	u32 detail = context | bits;

	if (context == PR_IN_PROCESS && !waker) {
		carrier = carrier_of(current);
		if (carrier && *carrier == current)
			detail |= PR_CARRIED;
		bpf_get_current_comm(name, sizeof(name));
		step_name(current, 0, name);
	}
	if (own->inode && own->side == PR_WRITE && !own->locked)
		detail |= PR_FOR_ROOM;
	step_event(PR_STEP_WAKE, detail, task, own->woken, current);
}

/* The woken thread; the current one wakes it. */
SEC("raw_tp/sched_waking")
int pr_waking(struct pp_tracepoint *ctx)
{
	u64 task = ctx->args[0], current, now;
	struct pr_task *own = find(task), *waker;
	struct registers call;
	struct channel_call found;
	struct pr_file *file;
	struct pr_counts *counts;
	u32 side, found_at, context;
	u64 inode;
	s64 fd;

	if (!own) {
		step_carry(ctx, task);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (is_over(now))
		return 0;
	current = bpf_get_current_task();
	if (own->state == PR_RUNNING && task != current) {
		own->early = now;
		own->early_waker = current;
	}
	if (own->state != PR_ASLEEP || own->woken)
		return 0;
	own->woken = now;
	waker = find(current);
	context = context_now(ctx, current, waker, own, &call);
	if (own->started)
		step_wake(own, task, current, waker, context,
			  context == PR_IN_PROCESS && call.orig_ax == NR_KILL ? PR_BY_KILL : 0);
	if (settings.stacks) {
		own->waker_trace = keep_trace(ctx);
		bpf_get_current_comm(own->waker, sizeof(own->waker));
	}
	/* What interrupts a call on a channel, such as a timer, does not wake for that channel. */
	if (!own->inode && (context != PR_IN_PROCESS || !waits_for_any(own->call)))
		return 0;
	if (!waker || !waker->started || waker->io_thread || !decode(&call, &found, 1))
		return 0;
	/* The waker's side: the one opposite to the sleeper's, or else that it writes, unless the sleeper writes what the
	 * waker reads. */
	side = own->inode ? !(own->side & 1) : found.to >= 0 ? PR_WRITE : PR_READ;
	if (!own->inode && found.from >= 0) {
		file = file_of(waker, current, found.from);
		if (file && file->device && uses(own, file, PR_WRITE))
			side = PR_READ;
	}
	fd = side == PR_WRITE ? found.to : found.from;
	if (fd < 0)
		return 0;
	file = file_of(waker, current, fd);
	inode = file && file->device ? file->inodes[side & 1] : 0;
	if (!file || !inode)
		return 0;
	if (!own->inode) {
		/* poll and its like do not tell the channel; the waker does. */
		own->inode = inode;
		own->device = file->device;
		own->side = !side;
		own->locked = 0;
		own->again = 0;
	}
	if (own->inode != inode || own->device != file->device)
		return 0;
	found_at = side & 1;
	counts = own_counts(waker, inode, file->device, found_at);
	if (!counts)
		counts = counts_of(&waker->who, inode, file->device, side);
	if (counts)
		counts->wakes++;
	return 0;
}
