// What any tool pays that sees system calls by tracepoints: empty BPF programs.
//
// empty TRACEPOINT[,TRACEPOINT...] COMMAND [ARGUMENT...]: runs the command with an empty program at each raw tracepoint.
// empty --calls COUNT: prints the CPU time of one getppid in ns, the best of 15 series of COUNT calls.
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

static int load(void)
{
	// return 0;
	struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attributes;

	memset(&attributes, 0, sizeof(attributes));
	attributes.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
	attributes.insns = (unsigned long)program;
	attributes.insn_cnt = 2;
	attributes.license = (unsigned long)"GPL";
	return bpf(BPF_PROG_LOAD, &attributes);
}

static double ns_per_call(long count)
{
	struct timespec begin, end;
	double best = 0;

	for (int series = 0; series < 15; series++) {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
		for (long call = 0; call < count; call++)
			syscall(SYS_getppid);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
		double ns = ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / count;
		if (!series || ns < best)
			best = ns;
	}
	return best;
}

int main(int count, char **arguments)
{
	if (count == 3 && !strcmp(arguments[1], "--calls")) {
		printf("%.0f\n", ns_per_call(atol(arguments[2])));
		return 0;
	}
	if (count < 3) {
		fprintf(stderr, "empty TRACEPOINT[,TRACEPOINT...] COMMAND [ARGUMENT...]\n");
		return 2;
	}
	int program = load();
	if (program < 0) {
		perror("empty: BPF");
		return 1;
	}
	for (char *name = strtok(arguments[1], ","); name; name = strtok(0, ",")) {
		union bpf_attr attributes;

		memset(&attributes, 0, sizeof(attributes));
		attributes.raw_tracepoint.name = (unsigned long)name;
		attributes.raw_tracepoint.prog_fd = program;
		if (bpf(BPF_RAW_TRACEPOINT_OPEN, &attributes) < 0) {
			perror(name);
			return 1;
		}
	}
	pid_t child = fork();
	if (!child) {
		execvp(arguments[2], arguments + 2);
		perror(arguments[2]);
		_exit(127);
	}
	int status = 1;
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
