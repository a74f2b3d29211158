// Moves its standard input, a file, to its standard output, a pipe, by splice. Where the kernel refuses that, which LOST makes
// it do, it reads and writes instead.
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

#ifdef LOST
enum { FLAGS = ~0 }; // EINVAL
#else
enum { FLAGS = 0 };
#endif

int main(void)
{
	static char block[BLOCK];
	ssize_t n;

	while ((n = splice(0, NULL, 1, NULL, BLOCK, FLAGS)) > 0)
		;
	if (!n)
		return 0;
	while ((n = read(0, block, BLOCK)) > 0)
		if (write(1, block, n) != n)
			return 1;
	return n < 0;
}
