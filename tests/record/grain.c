// Writes 4 MiB. BLOCK is how much at once; APART is a function that is no longer inlined.
#include <unistd.h>

#ifndef BLOCK
#define BLOCK 65536
#endif
#ifdef APART
__attribute__((noinline))
#endif
static unsigned step(unsigned x, unsigned char c)
{
	return (x ^ c) * 16777619u;
}

/* Its loop is made of vectors by -O3. */
__attribute__((noinline)) static void mix(unsigned *to, const unsigned *from, long n)
{
	for (long i = 0; i < n; i++)
		to[i] = to[i] * 3 + (from[i] >> 2);
}

int main(int argc, char **argv)
{
	static unsigned block[BLOCK / sizeof(unsigned)], other[BLOCK / sizeof(unsigned)];
	unsigned x = 1;

	(void)argv;
	for (long done = 0; done < 4 << 20; done += BLOCK) {
		for (long i = 0; i < BLOCK / 64; i++)
			x = step(x, (unsigned char)i);
		other[x % 64] = x;
		mix(block, other, BLOCK / (long)sizeof(unsigned) - argc + 1);
		if (write(1, block, BLOCK) != BLOCK)
			return 1;
	}
	return 0;
}
