// SPDX-License-Identifier: MIT OR Apache-2.0
// Loaded into QEMU (LD_PRELOAD): its threads take turns, so that what a guest executes does not depend on this machine.
//
// Under -icount, one thread executes all CPUs of the guest. The main thread moves the clock of a guest that sleeps, and also
// looks at the guest's timers whenever it wakes up; a third thread frees memory (util/rcu.c). If one of these acts while
// the guest executes, it can end the turn of a CPU, at a moment that depends on the host: accel/tcg/tcg-accel-ops-rr.c and
// softmmu/icount.c of QEMU 7.2. Here, one of the three has the turn, and passes it on only where it waits: for a condition,
// a file, a time, a futex or a mutex. While the guest executes, the others wait. Who is next does not depend on how fast
// the host wakes a thread up: a thread that is woken by the one that has the turn wants it from that moment on. The CPUs'
// thread calls the main thread at each timer of the guest. It lets that do what it has to do, before the guest goes on:
// some timers are the main thread's.
//
// Other threads, such as those that save a guest or read a disk, are left alone.
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HOOK __attribute__((visibility("default")))

// By rank. The main thread is before the CPUs': it handles all that it has, and then lets them execute.
enum { MEMORY, MAIN, CPUS, THREADS };

// More mutexes are counted only. QEMU holds three at most.
#define MOST_HELD 16

struct thread {
	pthread_cond_t turn;	  // it has got the turn
	pthread_cond_t *sleeps_on; // the condition for which it waits
	const struct pollfd *files; // those for which it waits
	nfds_t n_files;
	bool called; // another one has written to one of these
	bool wants, known;
	pthread_mutex_t *held[MOST_HELD];
	unsigned n_held;
};

static struct thread threads[THREADS] = {
	{ .turn = PTHREAD_COND_INITIALIZER },
	{ .turn = PTHREAD_COND_INITIALIZER },
	{ .turn = PTHREAD_COND_INITIALIZER },
};
// Who has the turn.
static struct thread *holder;
// Protects both.
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct thread *self;
// Its destructor is called when a thread ends.
static pthread_key_t ending;

// The C library's own functions.
static struct {
	int (*mutex_lock)(pthread_mutex_t *);
	int (*mutex_trylock)(pthread_mutex_t *);
	int (*mutex_unlock)(pthread_mutex_t *);
	int (*cond_wait)(pthread_cond_t *, pthread_mutex_t *);
	int (*cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	int (*cond_signal)(pthread_cond_t *);
	int (*cond_broadcast)(pthread_cond_t *);
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*join)(pthread_t, void **);
	int (*setname)(pthread_t, const char *);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	ssize_t (*write)(int, const void *, size_t);
	int (*clock_nanosleep)(clockid_t, int, const struct timespec *, struct timespec *);
	int (*nanosleep)(const struct timespec *, struct timespec *);
	long (*syscall)(long, ...);
} real;

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

// Other C libraries do not have it.
#pragma weak dlvsym

// Conditions have two versions in glibc for x86-64. Programs of this century use the later one.
static void *next_cond(const char *name)
{
	void *found = dlvsym ? dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2") : NULL;

	return found ? found : next(name);
}

// Constructors of other libraries may call a function before this library's own has run.
static void find(void)
{
	if (real.syscall)
		return;
	real.mutex_lock = next("pthread_mutex_lock");
	real.mutex_trylock = next("pthread_mutex_trylock");
	real.mutex_unlock = next("pthread_mutex_unlock");
	real.cond_wait = next_cond("pthread_cond_wait");
	real.cond_timedwait = next_cond("pthread_cond_timedwait");
	real.cond_signal = next_cond("pthread_cond_signal");
	real.cond_broadcast = next_cond("pthread_cond_broadcast");
	real.create = next("pthread_create");
	real.join = next("pthread_join");
	real.setname = next("pthread_setname_np");
	real.ppoll = next("ppoll");
	real.write = next("write");
	real.clock_nanosleep = next("clock_nanosleep");
	real.nanosleep = next("nanosleep");
	real.syscall = next("syscall");
}

// The functions below that have `_locked` in their names are called with the guard.
static void pass_locked(void)
{
	holder = NULL;
	for (int i = 0; i < THREADS && !holder; i++)
		// One that was called may not have woken up yet. It has got the turn when it does.
		if (threads[i].wants || threads[i].called) {
			threads[i].wants = threads[i].called = false;
			holder = &threads[i];
			real.cond_signal(&holder->turn);
		}
}

static void want_locked(struct thread *thread)
{
	thread->wants = holder != thread;
	if (!holder)
		pass_locked();
}

static void await_locked(void)
{
	while (holder != self)
		real.cond_wait(&self->turn, &guard);
}

static void give(void)
{
	real.mutex_lock(&guard);
	pass_locked();
	real.mutex_unlock(&guard);
}

static void take(void)
{
	int error = errno;

	real.mutex_lock(&guard);
	want_locked(self);
	await_locked();
	real.mutex_unlock(&guard);
	errno = error;
}

static void join_in(struct thread *thread)
{
	if (self || thread->known)
		return;
	thread->known = true;
	self = thread;
	take();
}

// Add to the counter that pipeprof reads.
static void report(uint64_t what)
{
	const char *number = getenv(TURNS_COUNTER);

	if (number && write(atoi(number), &what, sizeof(what)) < 0)
		return; // pipeprof does not learn of it, and says that the guest may not repeat itself.
}

static void leave(void *nothing);

__attribute__((constructor)) static void begin(void)
{
	find();
	// Not in a script that starts QEMU, nor in what that calls: other programs wait in other ways.
	if (!strstr(program_invocation_short_name, "qemu"))
		return;
	self = holder = &threads[MAIN];
	self->known = true;
	pthread_key_create(&ending, leave);
	report(TURNS_LOADED);
}

static void wake(const pthread_cond_t *cond)
{
	real.mutex_lock(&guard);
	for (int i = 0; i < THREADS; i++)
		if (threads[i].sleeps_on == cond) {
			threads[i].sleeps_on = NULL;
			want_locked(&threads[i]);
		}
	real.mutex_unlock(&guard);
}

// A thread of these three may be woken without reason, as any thread that waits for a condition.
HOOK int pthread_cond_signal(pthread_cond_t *cond)
{
	find();
	wake(cond);
	return real.cond_signal(cond);
}

HOOK int pthread_cond_broadcast(pthread_cond_t *cond)
{
	find();
	wake(cond);
	return real.cond_broadcast(cond);
}

static int holds(pthread_mutex_t *mutex, int error)
{
	if (self && !error) {
		real.mutex_lock(&guard);
		if (self->n_held < MOST_HELD)
			self->held[self->n_held] = mutex;
		self->n_held++;
		real.mutex_unlock(&guard);
	}
	return error;
}

static void let_go_locked(const pthread_mutex_t *mutex)
{
	unsigned last = self->n_held < MOST_HELD ? self->n_held : MOST_HELD;

	for (unsigned i = last; i-- > 0;)
		if (self->held[i] == mutex) {
			self->held[i] = self->held[last - 1];
			break;
		}
	if (self->n_held)
		self->n_held--;
}

// Whether one of the three has the mutex, and waits for its turn or for something else.
static bool is_held(const pthread_mutex_t *mutex)
{
	bool held = false;

	real.mutex_lock(&guard);
	for (int i = 0; i < THREADS; i++)
		for (unsigned j = 0; j < threads[i].n_held && j < MOST_HELD; j++)
			held |= threads[i].held[j] == mutex;
	real.mutex_unlock(&guard);
	return held;
}

HOOK int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	find();
	return holds(mutex, real.mutex_trylock(mutex));
}

HOOK int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int error;

	find();
	if (!self)
		return real.mutex_lock(mutex);
	error = real.mutex_trylock(mutex);
	// Threads that take no turns give it back soon, at a moment that depends on the host: so this one keeps its turn, unless
	// that takes long.
	if (error == EBUSY && !is_held(mutex)) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		error = pthread_mutex_timedlock(mutex, &until);
	}
	if (error != EBUSY && error != ETIMEDOUT)
		return holds(mutex, error);
	give();
	error = real.mutex_lock(mutex);
	take();
	return holds(mutex, error);
}

// Where the CPUs' thread has no mutex, the main thread can do what it was called for.
HOOK int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	bool calls;
	int error;

	find();
	if (!self)
		return real.mutex_unlock(mutex);
	real.mutex_lock(&guard);
	let_go_locked(mutex);
	calls = self == &threads[CPUS] && !self->n_held && threads[MAIN].called;
	real.mutex_unlock(&guard);
	error = real.mutex_unlock(mutex);
	if (calls) {
		give();
		take();
	}
	return error;
}

HOOK ssize_t write(int file, const void *bytes, size_t length)
{
	struct thread *called = &threads[MAIN];
	ssize_t written;

	find();
	written = real.write(file, bytes, length);
	if (self == &threads[CPUS]) {
		real.mutex_lock(&guard);
		for (nfds_t i = 0; i < called->n_files; i++)
			if (called->files[i].fd == file && called->files[i].events & POLLIN)
				called->called = true;
		real.mutex_unlock(&guard);
	}
	return written;
}

// Without the condition itself, because waking up from that would take the mutex before the turn.
HOOK int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	find();
	if (!self)
		return real.cond_wait(cond, mutex);
	real.mutex_lock(&guard);
	self->sleeps_on = cond;
	let_go_locked(mutex);
	real.mutex_unlock(mutex);
	pass_locked();
	await_locked();
	real.mutex_unlock(&guard);
	return pthread_mutex_lock(mutex);
}

// Give the turn while CALL waits.
#define WAITING(result, call) \
	do { \
		if (self) \
			give(); \
		result = call; \
		if (self) \
			take(); \
	} while (0)

HOOK int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	int error;

	find();
	WAITING(error, real.cond_timedwait(cond, mutex, until));
	return error;
}

HOOK int pthread_join(pthread_t thread, void **result)
{
	int error;

	find();
	WAITING(error, real.join(thread, result));
	return error;
}

HOOK int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	int error;

	find();
	WAITING(error, real.clock_nanosleep(clock, flags, time, left));
	return error;
}

HOOK int nanosleep(const struct timespec *time, struct timespec *left)
{
	int error;

	find();
	WAITING(error, real.nanosleep(time, left));
	return error;
}

// What is ready is handled before the turn is given, and read again when it is back: meanwhile more may be ready.
HOOK int ppoll(struct pollfd *files, nfds_t number, const struct timespec *time, const sigset_t *mask)
{
	static const struct timespec now;
	int ready, error;

	find();
	if (!self)
		return real.ppoll(files, number, time, mask);
	ready = real.ppoll(files, number, &now, mask);
	if (ready || (time && !time->tv_sec && !time->tv_nsec))
		return ready;
	real.mutex_lock(&guard);
	self->files = files;
	self->n_files = number;
	pass_locked();
	real.mutex_unlock(&guard);
	ready = real.ppoll(files, number, time, mask);
	error = errno;
	// Until it has the turn, it can be called.
	real.mutex_lock(&guard);
	want_locked(self);
	await_locked();
	self->n_files = 0;
	self->called = false;
	real.mutex_unlock(&guard);
	errno = error;
	return ready >= 0 ? real.ppoll(files, number, &now, mask) : ready;
}

HOOK int poll(struct pollfd *files, nfds_t number, int ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000L };

	return ppoll(files, number, ms < 0 ? NULL : &time, NULL);
}

// QEMU and GLib wait for futexes by it.
HOOK long syscall(long number, ...)
{
	long value[6], result;
	int operation;
	va_list list;

	find();
	// A caller passes fewer. The others are whatever is in their places, as for the C library's own.
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		value[i] = va_arg(list, long);
	va_end(list);
	operation = (int)value[1] & FUTEX_CMD_MASK;
	if (number != SYS_futex || (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET))
		return real.syscall(number, value[0], value[1], value[2], value[3], value[4], value[5]);
	WAITING(result, real.syscall(number, value[0], value[1], value[2], value[3], value[4], value[5]));
	return result;
}

// QEMU gives its threads names (-name debug-threads=on): accel/tcg/tcg-accel-ops-rr.c.
HOOK int pthread_setname_np(pthread_t thread, const char *name)
{
	find();
	if (strncmp(name, "ALL CPUs", 8) == 0 && pthread_equal(thread, pthread_self())) {
		join_in(&threads[CPUS]);
		report(TURNS_TAKEN);
	}
	return real.setname(thread, name);
}

struct start {
	void *(*run)(void *);
	void *with;
	bool first;
};

// A thread that ends has no use for its turn.
static void leave(__attribute__((unused)) void *nothing)
{
	if (self)
		give();
	self = NULL;
}

static void *run(void *given)
{
	struct start start = *(struct start *)given;

	free(given);
	if (start.first)
		join_in(&threads[MEMORY]);
	pthread_setspecific(ending, &ending);
	return start.run(start.with);
}

// The first thread is the one that frees memory: a constructor starts it, before there are names.
HOOK int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *with)
{
	static bool made;
	struct start *start;

	find();
	start = self == &threads[MAIN] ? malloc(sizeof(*start)) : NULL;
	if (!start)
		return real.create(thread, attributes, function, with);
	*start = (struct start){ function, with, !made };
	made = true;
	return real.create(thread, attributes, run, start);
}
