/* A child called `compute` computes for 0.4 s of CPU time, and then tells its parent, which only waits. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY = 9, LISTENER = 9 };
/* Freeing it takes tens of milliseconds. */
enum { MUCH = 1 << 29 };

static void compute(void)
{
	volatile unsigned long sum = 0;
	struct timespec now;

	do {
		for (int i = 0; i < 100000; i++)
			sum += i;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec == 0 && now.tv_nsec < 400000000);
}

/* The child, with standard output to the parent. */
static int tell(const char *way)
{
	struct sockaddr_in address;
	socklen_t length = sizeof(address);
	int *word;

	if (!strcmp(way, "memory")) {
		char *much = mmap(0, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (much == MAP_FAILED || madvise(much, MUCH, MADV_NOHUGEPAGE))
			return 1;
		memset(much, 1, MUCH);
		return write(1, "x", 1) != 1 || pause();
	}
	if (!strcmp(way, "close") && write(1, "x", 1) != 1)
		return 1;
	compute();
	if (!strcmp(way, "futex")) {
		word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY, 0);
		*word = 1;
		syscall(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
		/* Its end is no news. */
		usleep(50000);
	} else if (!strcmp(way, "signal")) {
		kill(getppid(), SIGUSR1);
		usleep(50000);
	} else if (!strcmp(way, "connect")) {
		if (getsockname(LISTENER, (void *)&address, &length) || connect(1, (void *)&address, length))
			return 1;
		usleep(50000);
	} else if (!strcmp(way, "close")) {
		close(1);
		usleep(50000);
	} else {
		return write(1, "x\n", 2) != 2;
	}
	return 0;
}

static int start(const char *way, int output)
{
	int child = fork();

	if (!child) {
		dup2(output, 1);
		close(output);
		execl("./compute", "compute", way, "tell", NULL);
		_exit(1);
	}
	return child < 0;
}

/* The first process of a namespace of process ids ends when all others in it have ended: it kills them, and waits in the
 * kernel until `compute` has freed its memory. */
static int end_namespace(void)
{
	int child, ready[2], status;
	char byte;

	if (pipe(ready) || unshare(CLONE_NEWPID))
		return 2;
	child = fork();
	if (!child) {
		if (start("memory", ready[1]) || read(ready[0], &byte, 1) != 1)
			return 2;
		return 0;
	}
	return child < 0 || waitpid(child, &status, 0) != child || status;
}

static int end_then(void *begun)
{
	while (!*(volatile int *)begun)
		;
	_exit(0);
}

/* Processes that share the memory end while this one changes all pages, for which it has the lock of the mappings: until some
 * of them have slept, which they do nowhere else but when they are gone. */
static int end_under_lock(void)
{
	char *much = mmap(0, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), stack[16384];
	struct rusage used;
	volatile int begun;

	if (much == MAP_FAILED || madvise(much, MUCH, MADV_NOHUGEPAGE))
		return 1;
	memset(much, 1, MUCH);
	for (int i = 0, slept = 0; slept < 3 && i < 10000; i++) {
		begun = 0;
		if (clone(end_then, stack + sizeof(stack), CLONE_VM | SIGCHLD, (void *)&begun) < 0)
			return 1;
		begun = 1;
		mprotect(much, MUCH, i % 2 ? PROT_READ | PROT_WRITE : PROT_READ);
		if (wait4(-1, 0, 0, &used) < 0)
			return 1;
		slept += used.ru_nvcsw > 1;
	}
	return 0;
}

/* A context for requests takes some time to end. */
static int end_with_requests(void)
{
	aio_context_t context = 0;

	return syscall(SYS_io_setup, 8, &context);
}

int main(int count, char **arguments)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	const char *way = arguments[1];
	int ends[2], *word, signal;
	sigset_t set;
	char byte;

	if (count == 3)
		return tell(way);
	if (!strcmp(way, "namespace"))
		return end_namespace();
	if (!strcmp(way, "lock"))
		return end_under_lock();
	if (!strcmp(way, "requests"))
		return end_with_requests();
	if (!strcmp(way, "socketpair")) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || start(way, ends[1]))
			return 2;
		return read(ends[0], &byte, 1) != 1;
	}
	if (!strcmp(way, "terminal")) {
		ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
		if (grantpt(ends[0]) || unlockpt(ends[0]) || (ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY)) < 0)
			return 2;
		return start(way, ends[1]) || read(ends[0], &byte, 1) != 1;
	}
	if (!strcmp(way, "loopback") || !strcmp(way, "connect") || !strcmp(way, "close")) {
		int listener = dup2(socket(AF_INET, SOCK_STREAM, 0), LISTENER);

		ends[1] = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(listener, (void *)&address, length) || listen(listener, 1) ||
		    getsockname(listener, (void *)&address, &length))
			return 2;
		if (!strcmp(way, "connect"))
			return start(way, ends[1]) || accept(listener, 0, 0) < 0;
		if (connect(ends[1], (void *)&address, length))
			return 2;
		ends[0] = accept(listener, 0, 0);
		if (start(way, ends[1]))
			return 2;
		close(ends[1]);
		if (read(ends[0], &byte, 1) != 1)
			return 2;
		return !strcmp(way, "close") ? read(ends[0], &byte, 1) != 0 : 0;
	}
	if (!strcmp(way, "futex")) {
		if (dup2(memfd_create("word", 0), MEMORY) != MEMORY || ftruncate(MEMORY, 4096))
			return 2;
		word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY, 0);
		if (start(way, open("/dev/null", O_WRONLY)))
			return 2;
		while (!*(volatile int *)word)
			syscall(SYS_futex, word, FUTEX_WAIT, 0, 0, 0, 0);
		return 0;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, 0);
	return start(way, open("/dev/null", O_WRONLY)) || sigwait(&set, &signal);
}
