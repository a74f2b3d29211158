// Counts its own user instructions by the kernel's counter while it works, and prints the count; with a second argument, it
// only works.
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) static unsigned long mixed(unsigned long x)
{
	for (int i = 0; i < 50; i++)
		x = x * 6364136223846793005UL + 1442695040888963407UL;
	return x;
}

__attribute__((noinline)) static unsigned sum(const unsigned char *bytes, size_t n)
{
	unsigned s = 0;

	for (size_t i = 0; i < n; i++)
		s = s * 31 + bytes[i];
	return s;
}

__attribute__((noinline)) static unsigned work(int blocks)
{
	static unsigned char block[4096];
	unsigned long x = 1;
	unsigned s = 0;

	for (int i = 0; i < blocks; i++) {
		x = mixed(x);
		for (size_t j = 0; j < sizeof(block); j += 64)
			block[j] = x >> (j & 31);
		s += sum(block, sizeof(block));
		// Into the kernel and back.
		syscall(SYS_getppid);
	}
	return s;
}

int main(int count, char **words)
{
	struct perf_event_attr counter = { .type = PERF_TYPE_HARDWARE, .size = sizeof(counter),
		.config = PERF_COUNT_HW_INSTRUCTIONS, .disabled = 1, .exclude_kernel = 1, .exclude_hv = 1 };
	uint64_t before = 0, after = 0;
	int blocks = count > 1 ? atoi(words[1]) : 100, fd;
	unsigned s;

	// Without the counter: what it does in the kernel changes the kernel's code.
	if (count > 2) {
		printf("%u\n", work(blocks));
		return 0;
	}
	fd = syscall(SYS_perf_event_open, &counter, 0, -1, -1, 0);
	if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) || read(fd, &before, sizeof(before)) < 0) {
		perror("perf_event_open");
		return 1;
	}
	s = work(blocks);
	if (read(fd, &after, sizeof(after)) < 0)
		return 1;
	printf("%llu %u\n", (unsigned long long)(after - before), s);
	return 0;
}
