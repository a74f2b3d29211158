/* Nanoseconds per getppid in the fastest of five rounds: what src/collect/calibrate.rs measures, as a program of its
 * own. */
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double round_of(int calls)
{
	struct timespec start, end;
	int i;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (i = 0; i < calls; i++)
		syscall(SYS_getppid);
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / calls;
}

int main(int count, char **words)
{
	double fastest = 1e18;
	int i;

	for (i = 0; i < 5; i++) {
		double took = round_of(2000);

		if (took < fastest)
			fastest = took;
	}
	printf("%s %.1f ns per call\n", count > 1 ? words[1] : "", fastest);
	return 0;
}
