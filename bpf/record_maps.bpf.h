/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * The followed threads, and what is kept of those that have ended.
 */

/* By the address of the task_struct. */
MAP(tasks, HASH, PR_TASKS, u64, struct pr_task);

/* How many followed threads have an address with this hash. */
MAP(filter, ARRAY, PR_FILTER, u32, u64);

MAP(processes, HASH, PR_PROCESSES, struct pr_who, struct pr_process);
MAP(ends, HASH, PR_ENDS, struct pr_end, struct pr_counts);
MAP(waits, HASH, PR_WAITS, struct pr_reason, struct pr_wait);
MAP(heads, HASH, PR_HEADS, struct pr_end, struct pr_head);
MAP(said, LRU_HASH, PR_SAID, struct pr_who, struct pr_said);
MAP(streams, HASH, PR_STREAMS, struct pr_stream, struct pr_streamed);
MAP(names, HASH, PR_NAMES, struct pr_name, struct pr_named_file);

/* By table of descriptors, which processes can share: increased when one of them may have got another file. */
MAP(generations, ARRAY, PR_GENERATIONS, u32, u32);

MAP(state, ARRAY, 1, u32, struct pr_state);

/* Nothing changes any more when the window is over: what is read is what was at that time, however late it is read. */
MAP(window, ARRAY, PR_WINDOW, u32, u64);

/* The number of the stage that the launching thread starts, and one; 0 if it starts none. */
MAP(launch, ARRAY, 1, u32, u64);

/* By process id in pipeprof's PID namespace: the stage of a process that was running before the recording. */
MAP(wanted, HASH, PR_WANTED, u32, u32);

/* Zeros, because the stack of a program is too small for them. */
MAP(zeros, ARRAY, 1, u32, struct pr_task);

static __always_inline struct pr_state *shared_state(void)
{
	return FIRST(state);
}

/* The upper bits of a product depend on all bits of the address. */
static __always_inline u32 hash_of(u64 address)
{
	return (address * 0x9e3779b97f4a7c15ULL) >> 32;
}

static __always_inline u64 *filter_of(u64 task)
{
	u32 place = hash_of(task) & (PR_FILTER - 1);

	return bpf_map_lookup_elem(&filter, &place);
}

/* The followed thread that has or had this address, if there was one. */
static __always_inline struct pr_task *find_any(u64 task)
{
	u64 *threads = filter_of(task);

	if (!threads || !*threads)
		return 0;
	return bpf_map_lookup_elem(&tasks, &task);
}

/* A thread begins, at this time. With the first one, the window does. */
static __always_inline void begin_window(u64 now)
{
	u32 place = PR_UNTIL;
	u64 *until = bpf_map_lookup_elem(&window, &place), *lasts;

	place = PR_LASTS;
	lasts = bpf_map_lookup_elem(&window, &place);
	if (until && !*until && lasts && *lasts)
		*until = now + *lasts;
}

/* Whether the window is over at this time. */
static __always_inline int is_over(u64 now)
{
	u32 place = PR_UNTIL;
	u64 *until = bpf_map_lookup_elem(&window, &place), *over;

	if (!until || !*until || now <= *until)
		return 0;
	place = PR_OVER;
	over = bpf_map_lookup_elem(&window, &place);
	if (over && !*over)
		*over = 1;
	return 1;
}

/* Whether it is known to be over. For programs that do not read the time: others do so at each switch. */
static __always_inline int was_over(void)
{
	u32 place = PR_OVER;
	u64 *over = bpf_map_lookup_elem(&window, &place);

	return over && *over;
}

/* Whether the current thread is the one that starts the recorded processes. */
static __always_inline int is_recorder(void)
{
	u32 place = PR_RECORDER;
	u64 *recorder = bpf_map_lookup_elem(&window, &place);

	return recorder && *recorder == current_pid();
}

/* The followed thread at this address, if it is one and the window is not over. When the recording ends, another thread may
 * have the address of one that is gone: the programs are detached one after the other. */
static __always_inline struct pr_task *find(u64 task)
{
	struct pr_task *own = find_any(task);

	return own && own->state != PR_GONE && !was_over() ? own : 0;
}

static __always_inline u32 *generation_of(const struct pr_task *own)
{
	u32 place = hash_of(own->table) & (PR_GENERATIONS - 1);

	return bpf_map_lookup_elem(&generations, &place);
}

/* The counts of a side of a pipe, for threads whose own memory holds another pipe's. */
static __always_inline struct pr_counts *counts_of(const struct pr_who *who, u64 inode, u32 device, u32 side)
{
	struct pr_end end = { *who, inode, device, side };
	struct pr_counts *known = bpf_map_lookup_elem(&ends, &end);
	struct pr_state *shared;
	struct pr_task *empty;

	if (known)
		return known;
	empty = FIRST(zeros);
	if (!empty)
		return 0;
	bpf_map_update_elem(&ends, &end, &empty->used[0].counts, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&ends, &end);
	shared = shared_state();
	if (!known && shared)
		__sync_fetch_and_add(&shared->lost_ends, 1);
	return known;
}

/* Add a wait to a map of struct pr_wait. Returns 0 if the map is full. */
static __always_inline int add_wait_to(void *map, const void *key, u64 ns)
{
	struct pr_wait *known = bpf_map_lookup_elem(map, key), first = { 1, ns };

	if (!known && !bpf_map_update_elem(map, key, &first, BPF_NOEXIST))
		return 1;
	/* Another CPU may have added it in between. */
	known = bpf_map_lookup_elem(map, key);
	if (!known)
		return 0;
	__sync_fetch_and_add(&known->count, 1);
	__sync_fetch_and_add(&known->ns, ns);
	return 1;
}

/* Add the time of a sleep outside of pipes. */
static __always_inline void add_wait(const struct pr_task *own, u64 ns)
{
	struct pr_reason reason = { own->who, own->call, own->file_type, { own->holder[0], own->holder[1] } };
	struct pr_state *shared = shared_state();

	if (!add_wait_to(&waits, &reason, ns) && shared)
		__sync_fetch_and_add(&shared->lost_waits, 1);
}

static __always_inline void add_counts(struct pr_counts *sum, const struct pr_counts *more)
{
	u64 *to = (u64 *)sum;
	const u64 *from = (const u64 *)more;
	u32 i;

	/* The last five are not sums. */
#pragma unroll
	for (i = 0; i < sizeof(*sum) / sizeof(u64) - 5; i++)
		__sync_fetch_and_add(&to[i], from[i]);
	if (!sum->first_slots)
		sum->first_slots = more->first_slots;
	if (more->last_slots)
		sum->last_slots = more->last_slots;
	if (more->least_slots && (!sum->least_slots || more->least_slots < sum->least_slots))
		sum->least_slots = more->least_slots;
	if (more->first_at && (!sum->first_at || more->first_at < sum->first_at))
		sum->first_at = more->first_at;
	if (more->last_at > sum->last_at)
		sum->last_at = more->last_at;
}

static __always_inline struct pr_process *process_of(const struct pr_who *who)
{
	struct pr_process *known = bpf_map_lookup_elem(&processes, who);
	struct pr_state *shared = shared_state();
	struct pr_task *empty = FIRST(zeros);

	if (known || !empty || !shared)
		return known;
	if (!bpf_map_update_elem(&processes, who, &empty->own, BPF_NOEXIST))
		__sync_fetch_and_add(&shared->processes_made, 1);
	known = bpf_map_lookup_elem(&processes, who);
	if (!known)
		__sync_fetch_and_add(&shared->lost_processes, 1);
	return known;
}

/* Move what a thread has counted to the maps of its process. */
static __always_inline void settle(struct pr_task *own)
{
	struct pr_process *process = process_of(&own->who);
	struct pr_counts *counts;

	if (process) {
		__sync_fetch_and_add(&process->threads, own->own.threads);
		__sync_fetch_and_add(&process->forks, own->own.forks);
		__sync_fetch_and_add(&process->execs, own->own.execs);
		if (!process->begin || own->own.begin < process->begin)
			process->begin = own->own.begin;
		if (own->own.end > process->end)
			process->end = own->own.end;
		__sync_fetch_and_add(&process->cpu_ns, own->own.cpu_ns);
		__sync_fetch_and_add(&process->runnable_ns, own->own.runnable_ns);
		__sync_fetch_and_add(&process->throttled_ns, own->own.throttled_ns);
		__sync_fetch_and_add(&process->user_ns, own->own.user_ns);
		__sync_fetch_and_add(&process->system_ns, own->own.system_ns);
		__sync_fetch_and_add(&process->preemptions, own->own.preemptions);
		__sync_fetch_and_add(&process->calls, own->own.calls);
		__sync_fetch_and_add(&process->urings, own->own.urings);
		__sync_fetch_and_add(&process->requests, own->own.requests);
		__sync_fetch_and_add(&process->rings, own->own.rings);
		__sync_fetch_and_add(&process->ring_workers, own->own.ring_workers);
		__sync_fetch_and_add(&process->poller_ns, own->own.poller_ns);
		if (own->own.signal)
			process->signal = own->own.signal;
		if (own->own.starved)
			process->starved = 1;
		if (own->own.code)
			process->code = own->own.code;
		if (own->own.parent)
			process->parent = own->own.parent;
		__sync_fetch_and_add(&process->polls, own->own.polls);
		__sync_fetch_and_add(&process->timeouts, own->own.timeouts);
		__sync_fetch_and_add(&process->watches, own->own.watches);
		__sync_fetch_and_add(&process->gone, own->own.gone);
		if (own->own.asked_alive)
			process->asked_alive = own->own.asked_alive;
		if (own->own.pages > process->pages)
			process->pages = own->own.pages;
		__sync_fetch_and_add(&process->syncs, own->own.syncs);
		__sync_fetch_and_add(&process->asked_output, own->own.asked_output);
		__sync_fetch_and_add(&process->unopened, own->own.unopened);
		__sync_fetch_and_add(&process->bad_calls, own->own.bad_calls);
		__sync_fetch_and_add(&process->tiny, own->own.tiny);
		__sync_fetch_and_add(&process->refused_sizes, own->own.refused_sizes);
		if (own->own.read_file) {
			process->read_file = own->own.read_file;
			__builtin_memcpy(process->read_name, own->own.read_name, sizeof(process->read_name));
			process->read_to = own->own.read_to;
			process->read_size = own->own.read_size;
		}
		__sync_fetch_and_add(&process->ends, own->own.ends);
		if (own->own.ended)
			process->ended = own->own.ended;
		__sync_fetch_and_add(&process->binds, own->own.binds);
		__sync_fetch_and_add(&process->in_use, own->own.in_use);
		if (own->own.port)
			process->port = own->own.port;
		__sync_fetch_and_add(&process->asks, own->own.asks);
		__sync_fetch_and_add(&process->connects, own->own.connects);
		__sync_fetch_and_add(&process->refused, own->own.refused);
		__sync_fetch_and_add(&process->queue_full, own->own.queue_full);
		__sync_fetch_and_add(&process->failed, own->own.failed);
		if (own->own.failure)
			process->failure = own->own.failure;
		if (own->own.refusal) {
			process->refusal = own->own.refusal;
			process->refused_at = own->own.refused_at;
		}
		if (own->own.got)
			process->got = own->own.got;
		if (own->own.zombies) {
			process->zombies = own->own.zombies;
			process->first_zombie = own->own.first_zombie;
			process->last_zombie = own->own.last_zombie;
		}
		__sync_fetch_and_add(&process->sends, own->own.sends);
		__sync_fetch_and_add(&process->unsendable, own->own.unsendable);
		__sync_fetch_and_add(&process->received, own->own.received);
		__sync_fetch_and_add(&process->filling, own->own.filling);
		if (own->own.filling)
			process->filling_bytes = own->own.filling_bytes;
		__sync_fetch_and_add(&process->ignores_sigpipe, own->own.ignores_sigpipe);
		__sync_fetch_and_add(&process->ignores_sigchld, own->own.ignores_sigchld);
		__sync_fetch_and_add(&process->no_space, own->own.no_space);
		__sync_fetch_and_add(&process->refused_writes, own->own.refused_writes);
		if (own->own.full_device)
			process->full_device = own->own.full_device;
		__sync_fetch_and_add(&process->gone_locks, own->own.gone_locks);
		__sync_fetch_and_add(&process->effects, own->own.effects);
		__sync_fetch_and_add(&process->full_tables, own->own.full_tables);
		if (own->own.descriptors) {
			process->descriptors = own->own.descriptors;
			process->looked_at = own->own.looked_at;
			process->pipes_open = own->own.pipes_open;
			process->sockets_open = own->own.sockets_open;
		}
		__sync_fetch_and_add(&process->refusals, own->own.refusals);
		__sync_fetch_and_add(&process->own_refusals, own->own.own_refusals);
		if (own->own.refused_file)
			process->refused_file = own->own.refused_file;
		if (own->own.dropped > process->dropped)
			process->dropped = own->own.dropped;
		if (own->own.locked) {
			process->locked = own->own.locked;
			process->locked_device = own->own.locked_device;
			process->locked_by = own->own.locked_by;
		}
		if (own->own.unready_by)
			process->unready_by = own->own.unready_by;
		if (own->own.output) {
			process->output = own->own.output;
			process->output_device = own->own.output_device;
		}
		if (own->own.input) {
			process->input = own->own.input;
			process->input_device = own->own.input_device;
		}
		if (own->own.sender)
			process->sender = own->own.sender;
		if (own->own.told)
			process->told = own->own.told;
		if (own->own.told_how)
			process->told_how = own->own.told_how;
		if (own->own.told_at && !process->told_at)
			process->told_at = own->own.told_at;
		__sync_fetch_and_add(&process->errors, own->own.errors);
		__sync_fetch_and_add(&process->quiet, own->own.quiet);
		__sync_fetch_and_add(&process->unforked, own->own.unforked);
	}
	if (own->used[PR_READ].inode) {
		counts = counts_of(&own->who, own->used[PR_READ].inode, own->used[PR_READ].device, PR_READ);
		if (counts)
			add_counts(counts, &own->used[PR_READ].counts);
	}
	if (own->used[PR_WRITE].inode) {
		counts = counts_of(&own->who, own->used[PR_WRITE].inode, own->used[PR_WRITE].device, PR_WRITE);
		if (counts)
			add_counts(counts, &own->used[PR_WRITE].counts);
	}
}
