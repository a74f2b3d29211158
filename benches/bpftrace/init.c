/* The guest's first process: the loop alone, then under bpftrace. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(char **words)
{
	int status, child = fork();

	if (!child) {
		execv(words[0], words);
		perror(words[0]);
		_exit(1);
	}
	waitpid(child, &status, 0);
	if (status)
		printf("%s ended with status %d\n", words[0], status);
	fflush(stdout);
}

int main(void)
{
	/* What pipeprof counts of a call: how many, their time, its histogram. */
	static char probes[] =
		"kprobe:__x64_sys_getppid /pid == cpid/ { @start[tid] = nsecs; }"
		"kretprobe:__x64_sys_getppid /@start[tid]/ { $took = nsecs - @start[tid]; @calls = count();"
		" @total = sum($took); @latency = hist($took); delete(@start[tid]); }";
	char *alone[] = { "/bin/loop", "alone", NULL };
	char *probed[] = { "/usr/bin/bpftrace", "-e", probes, "-c", "/bin/loop bpftrace", NULL };
	int port;

	mount("proc", "/proc", "proc", 0, 0);
	mount("sysfs", "/sys", "sysfs", 0, 0);
	mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
	mount("tmpfs", "/tmp", "tmpfs", 0, 0);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, 0);
	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, 0);
	port = open("/dev/ttyS0", O_RDWR);
	dup2(port, 0);
	dup2(port, 1);
	dup2(port, 2);
	setenv("PATH", "/bin:/usr/bin", 1);
	run(alone);
	run(probed);
	reboot(RB_POWER_OFF);
	return 0;
}
