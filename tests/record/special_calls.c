/* Calls on pipes that programs seldom make. The argument says which. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 10000

/* In the lower 4 GiB, for 32-bit calls. */
static char *buffer;

/* A descriptor that is not open when it is first used. */
static int late(void)
{
	if (write(9, buffer, 1) != -1 || fcntl(1, F_DUPFD, 9) != 9)
		return 1;
	for (int i = 0; i < 100; i++)
		if (write(9, buffer, SIZE) != SIZE)
			return 1;
	return 0;
}

/* Another process with the same table of descriptors replaces standard output by another pipe. */
static int shared(void)
{
	int other[2], child;

	if (pipe(other) || write(1, buffer, 1) != 1)
		return 1;
	child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (!child)
		_exit(dup2(other[1], 1) != 1);
	if (waitpid(child, 0, 0) != child)
		return 1;
	for (int i = 0; i < 20; i++)
		if (write(1, buffer, SIZE) != SIZE || read(other[0], buffer, SIZE) != SIZE)
			return 1;
	return 0;
}

/* Two descriptors that are remembered in one place: 0 and 4. */
static int splice_to_4(void)
{
	dup2(1, 4);
	close(1);
	while (splice(0, 0, 4, 0, SIZE, 0) > 0)
		;
	return 0;
}

static long int80(long number, long first, long second, long third)
{
	long result;

	asm volatile("int $0x80"
		     : "=a"(result)
		     : "a"(number), "b"(first), "c"(second), "d"(third)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}

/* 3 is close, and 4 is stat, as 64-bit calls; 6 is lstat, 162 is sync. */
static int compat_write(void)
{
	int *time = (int *)buffer;

	int80(6, 0, 0, 0);
	for (int i = 0; i < 20; i++)
		if (int80(4, 1, (long)buffer, SIZE) != SIZE)
			return 1;
	time[0] = 0;
	time[1] = 100000000;
	return int80(162, (long)time, 0, 0);
}

static int compat_read(void)
{
	while (int80(3, 0, (long)buffer, SIZE) > 0)
		;
	return 0;
}

/* All of standard input, to standard output and to nowhere. */
static int copy(void)
{
	int null = open("/dev/null", O_WRONLY);
	ssize_t copied, done;

	while ((copied = tee(0, 1, 65536, 0)) > 0)
		for (; copied > 0; copied -= done)
			if ((done = splice(0, 0, null, 0, copied, 0)) <= 0)
				return 1;
	return 0;
}

/* A child that shares the memory, and ends after 100 ms. */
static int child(void)
{
	int child = vfork();

	if (!child) {
		usleep(100000);
		_exit(0);
	}
	return waitpid(child, 0, 0) != child;
}

/* Wait for room in poll. */
static int poll_write(void)
{
	struct pollfd room = { .fd = 1, .events = POLLOUT };

	fcntl(1, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 100;)
		if (write(1, buffer, 4096) == 4096)
			i++;
		else if (poll(&room, 1, -1) != 1)
			return 1;
	return 0;
}

/* Let the pipe fill, and empty it. */
static int slow_splice(void)
{
	do
		usleep(10000);
	while (splice(0, 0, 1, 0, 65536, 0) > 0);
	return 0;
}

/* More than are looked at. */
#define REQUESTS 200

/* `calls` calls of io_submit, each with so many requests; 0 at the end of the file. */
static int submit(int operation, int descriptor, int calls, int requests)
{
	struct iocb all[REQUESTS] = {}, *pointers[REQUESTS];
	struct io_event done[REQUESTS];
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, requests, &context))
		return 1;
	for (int i = 0; i < requests; i++) {
		pointers[i] = &all[i];
		all[i].aio_lio_opcode = operation;
		all[i].aio_fildes = descriptor;
		all[i].aio_buf = (unsigned long)buffer;
		all[i].aio_nbytes = SIZE;
	}
	for (; calls; calls--) {
		if (syscall(SYS_io_submit, context, requests, pointers) != requests ||
		    syscall(SYS_io_getevents, context, requests, requests, done, 0) != requests || done[0].res < 0)
			return 1;
		if (!done[0].res)
			return 0;
	}
	return 0;
}

static int aio_write(void)
{
	return submit(IOCB_CMD_PWRITE, 1, 25, 4);
}

static int aio_read(void)
{
	return submit(IOCB_CMD_PREAD, 0, -1, 1);
}

static int aio_many(void)
{
	return submit(IOCB_CMD_PWRITE, 1, 2, REQUESTS);
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} modes[] = {
		{ "late", late },		  { "shared", shared },		  { "splice-to-4", splice_to_4 },
		{ "compat-write", compat_write }, { "compat-read", compat_read }, { "copy", copy },
		{ "child", child },		  { "poll-write", poll_write },	  { "slow-splice", slow_splice },
		{ "aio-write", aio_write },	  { "aio-read", aio_read },	  { "aio-many", aio_many },
	};

	buffer = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	for (unsigned long i = 0; i < sizeof(modes) / sizeof(*modes) && count == 2; i++)
		if (!strcmp(modes[i].name, arguments[1]))
			return modes[i].run();
	return 2;
}
