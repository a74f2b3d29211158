/* A child called `compute` computes for 0.4 s of CPU time, and then tells its parent, which only waits. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY = 9, LISTENER = 9 };

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
