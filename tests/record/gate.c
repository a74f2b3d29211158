// Writes blocks, each made by its own functions. EXTRA_CALL adds a system call to each block; MOVED has one more function,
// which nothing calls, so that all others are at other addresses; QUADRATIC compares each block with all before it.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef MOVED
__attribute__((used, noinline)) static int never(int x)
{
	for (int i = 0; i < 9; i++)
		x = x * 3 + i;
	return x;
}
#endif

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

int main(void)
{
	static unsigned char block[4096];
	unsigned long x = 1;
	unsigned s = 0;
#ifdef QUADRATIC
	static volatile unsigned long seen[500];
	unsigned found = 0;
#endif

	for (int i = 0; i < 500; i++) {
		x = mixed(x);
		memset(block, (int)x, sizeof(block));
		s += sum(block, sizeof(block));
#ifdef QUADRATIC
		for (int j = 0; j < i; j++)
			found += seen[j] == x;
		seen[i] = x;
#endif
#ifdef EXTRA_CALL
		getppid();
#endif
		if (write(1, block, sizeof(block)) < 0)
			return 1;
	}
#ifdef QUADRATIC
	s += found;
#endif
	fprintf(stderr, "%u\n", s);
	return 0;
}
