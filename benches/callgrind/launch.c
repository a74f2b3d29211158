// Executes a program with a variable of its environment: VARIABLE PROGRAM. Linked statically, so that it executes no code of
// the libraries that are compared.
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
	if (count != 3 || putenv(words[1]))
		return 2;
	execl(words[2], words[2], NULL);
	return 1;
}
