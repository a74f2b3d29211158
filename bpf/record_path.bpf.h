/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Steps of the path: who wakes whom, and when a thread runs again. The Rust code reads them while the pipeline runs.
 */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PR_RING);
} steps SEC(".maps");

/* By a hash of their address: threads that are not followed, and were last woken by a followed one. They pass on what it
 * gave them: kernel threads, daemons. */
MAP(carriers, ARRAY, PR_CARRIERS, u32, u64);

static __always_inline void count_lost_step(void)
{
	struct pr_state *shared = shared_state();

	if (shared)
		__sync_fetch_and_add(&shared->lost_steps, 1);
}

/* Tell that steps were lost before the next one, at the place of the ring where they are missing. Returns 0 if there is no
 * room for that. */
static __attribute__((noinline)) int tell_lost(u64 lost)
{
	struct pr_step step = { PR_STEP_LOST, 0, 0, bpf_ktime_get_ns(), lost };
	struct pr_state *shared = shared_state();

	if (!shared || bpf_ringbuf_output(&steps, &step, sizeof(step), BPF_RB_NO_WAKEUP))
		return 0;
	/* Another CPU may tell the same, or lose one more: that is told by the next step. */
	shared->told_steps = lost;
	return 1;
}

/* Whether all lost steps have been told. */
static __always_inline int has_told(void)
{
	struct pr_state *shared = shared_state();
	u64 lost = shared ? shared->lost_steps : 0;

	return !shared || lost == shared->told_steps || tell_lost(lost);
}

/* Room for a step of this type, or 0. */
#define NEW_STEP(type) \
	({ \
		struct type *step_ = has_told() ? bpf_ringbuf_reserve(&steps, sizeof(struct type), 0) : 0; \
		if (!step_) \
			count_lost_step(); \
		step_; \
	})

/* The reader looks often enough: nobody has to wake it. */
#define SUBMIT(step) bpf_ringbuf_submit(step, BPF_RB_NO_WAKEUP)

/* For small steps, one helper that copies takes less time than two. */
#define OUTPUT(step) \
	do { \
		if (!has_told() || bpf_ringbuf_output(&steps, &(step), sizeof(step), BPF_RB_NO_WAKEUP)) \
			count_lost_step(); \
	} while (0)

static __always_inline void step_event(u32 kind, u32 detail, u64 task, u64 at, u64 other)
{
	struct pr_step step = { kind, detail, task, at, other };

	OUTPUT(step);
}

/* The number of a process id at this level of PID namespaces, with which namespace that is. */
static __always_inline u32 number_at(const struct pid *id, u32 level, u64 *namespace)
{
	u64 at = bpf_core_field_offset(id->numbers) + level * bpf_core_type_size(struct upid);
	const struct upid *number = (const void *)((u64)id + at);

	*namespace = (u64)BPF_CORE_READ(number, ns);
	return BPF_CORE_READ(number, nr);
}

/* The ids of the process of a thread: in pipeprof's PID namespace, 0 if it has none there, and in its own. */
static __always_inline void read_ids(struct pr_birth *step, u64 task)
{
	const struct pid *id = BPF_CORE_READ((const struct task_struct *)task, group_leader, thread_pid);
	struct pr_state *shared = shared_state();
	u64 namespace = 0;
	u32 level;

	step->here = step->inside = 0;
	if (!id || !shared)
		return;
	level = BPF_CORE_READ(id, level);
	step->inside = number_at(id, level, &namespace);
	if (level < shared->level)
		return;
	step->here = number_at(id, shared->level, &namespace);
	if (namespace != shared->namespace)
		step->here = 0;
}

/* A followed thread exists, or executes another program. `parent`: who forked it. */
static __always_inline void step_birth(u32 kind, const struct pr_task *own, u64 task, u64 parent)
{
	struct pr_birth *step = NEW_STEP(pr_birth);

	if (!step)
		return;
	step->kind = kind;
	step->state = own->state;
	step->task = task;
	step->at = own->since;
	step->other = parent;
	step->who = own->who;
	step->thread = BPF_CORE_READ((const struct task_struct *)task, pid);
	step->cpu = bpf_get_smp_processor_id();
	read_ids(step, task);
	SUBMIT(step);
}

/* The command line of the current thread, which has just executed a program: the pages of its arguments are there. */
static __always_inline void step_args(const struct pr_who *who, const struct task_struct *task)
{
	u64 start = BPF_CORE_READ(task, mm, arg_start), end = BPF_CORE_READ(task, mm, arg_end);
	struct pr_args *step = NEW_STEP(pr_args);
	u32 length;

	if (!step)
		return;
	length = end - start < sizeof(step->text) ? end - start : sizeof(step->text);
	step->kind = PR_STEP_ARGS;
	step->who = *who;
	if (bpf_probe_read_user(step->text, length, (const void *)start))
		length = 0;
	step->length = length;
	SUBMIT(step);
}

/* The name of a thread that is not followed, for the step after this one. */
static __always_inline void step_name(u64 task, u32 tgid, const u64 *name)
{
	struct pr_named *step = NEW_STEP(pr_named);

	if (!step)
		return;
	step->kind = PR_STEP_NAME;
	step->tgid = tgid;
	step->task = task;
	step->name[0] = name[0];
	step->name[1] = name[1];
	SUBMIT(step);
}

/* The pipe at which a thread slept, as one number. */
static __always_inline u64 pipe_number(const struct pr_task *own)
{
	return own->inode ? own->inode ^ ((u64)own->device << 32) : 0;
}

/* How long the cgroups of a thread have been throttled, as far as they have a quota, ns. */
static __attribute__((noinline)) u64 throttled_time(u64 address)
{
	const struct task_struct *task = (const void *)address;
	const struct task_group *group = 0;
	u64 sum = 0;
	u32 i;

	if (!bpf_core_field_exists(task->sched_task_group) || !bpf_core_field_exists(group->cfs_bandwidth))
		return 0;
	group = BPF_CORE_READ(task, sched_task_group);
	for (i = 0; i < PR_GROUPS; i++) {
		if (!group)
			break;
		if (BPF_CORE_READ(group, cfs_bandwidth.quota) != ~0ULL)
			sum += BPF_CORE_READ(group, cfs_bandwidth.throttled_time);
		group = BPF_CORE_READ(group, parent);
	}
	return sum;
}

/* A thread runs from `now` on; its fields say what it did before. `before`, the current thread, ran on this CPU; 0 if
 * unknown. */
static __always_inline void step_run(struct pr_task *own, u64 task, u64 now, u64 before)
{
	u64 from = own->state == PR_ASLEEP && own->woken ? own->woken : own->since, name[2];
	struct pr_run step = {};
	u64 throttled;
	u32 tgid = before ? bpf_get_current_pid_tgid() >> 32 : 0;

	if (now > from + PR_LONG_WAIT) {
		throttled = throttled_time(task);
		if (throttled > own->throttled) {
			u64 of_all = throttled - own->throttled;

			/* The queues of several CPUs are throttled at the same time. */
			own->own.throttled_ns += of_all < now - from ? of_all : now - from;
			step_event(PR_STEP_THROTTLED, 0, task, now, of_all);
		}
		own->throttled = throttled;
	}
	if (tgid && now > from + PR_NAMED_WAIT && !find(before)) {
		bpf_get_current_comm(name, sizeof(name));
		step_name(0, tgid, name);
	}
	step.kind = PR_STEP_RUN;
	step.detail = own->state | own->file_type << 4 | (own->side & 1) << 8 | (u32)!!own->locked << 9 |
		      bpf_get_smp_processor_id() << 16;
	step.task = task;
	step.at = now;
	step.since = own->since;
	step.call = own->call;
	step.before = tgid;
	step.pipe = pipe_number(own);
	OUTPUT(step);
}

/* The place of a thread that is not followed among the carriers. */
static __always_inline u64 *carrier_of(u64 task)
{
	u32 place = hash_of(task) & (PR_CARRIERS - 1);

	return bpf_map_lookup_elem(&carriers, &place);
}
