/* Two threads write a page each to standard output. The page of the first one is missing until 20 ms later: for so long,
 * pipe_write holds the pipe's lock, and the second thread waits for it. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

static void *write_page(void *page)
{
	return (void *)write(1, page, PAGE);
}

int main(void)
{
	static char page[PAGE];
	char *missing = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_range range = { (unsigned long)missing, PAGE };
	struct uffdio_register watched = { .range = range, .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zeros = { .range = range };
	struct uffdio_api api = { .api = UFFD_API };
	struct uffd_msg fault;
	pthread_t first, second;
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &watched))
		return 1;
	pthread_create(&first, 0, write_page, missing);
	if (read(faults, &fault, sizeof(fault)) != sizeof(fault))
		return 2;
	pthread_create(&second, 0, write_page, page);
	usleep(20000);
	if (ioctl(faults, UFFDIO_ZEROPAGE, &zeros))
		return 3;
	return pthread_join(first, 0) || pthread_join(second, 0);
}
