/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Requests of io_submit. Those at pipes are done within that call, but it returns only how many it has submitted. The kernel
 * adds their results to a ring in the memory of the process, which libraries read, too (fs/aio.c, struct aio_ring).
 */

/* include/uapi/linux/aio_abi.h, struct iocb, from aio_lio_opcode on: older verifiers allow 512 bytes of stack for all. */
struct aio_control {
	u16 operation;
	u16 priority;
	u32 fd;
	u64 buffer;
	u64 bytes;
};
enum { AIO_CONTROL_AT = 16 };
enum { AIO_READ = 0, AIO_WRITE = 1, AIO_READ_VECTOR = 7, AIO_WRITE_VECTOR = 8 };

/* The same file, struct io_event. */
struct aio_event {
	u64 data;
	u64 address;
	s64 result;
	s64 more;
};

/* The begin of the ring; events follow. */
struct aio_ring {
	u32 id;
	u32 events;
	u32 head;
	u32 tail;
	u32 magic;
	u32 features[2];
	u32 bytes;
};
enum { AIO_MAGIC = 0xa10a10a1 };

/* What a request does, above its descriptor. */
#define REQUEST_READS (1ULL << 32)
#define REQUEST_WRITES (1ULL << 33)

struct aio_request {
	u64 address;
	struct aio_control control;
};

/* Read a request of the current thread; 0 if its memory cannot be read. */
static __always_inline int read_request(u64 requests, u32 number, struct aio_request *request)
{
	return !bpf_probe_read_user(&request->address, sizeof(u64), (void *)(requests + number * sizeof(u64))) &&
	       !bpf_probe_read_user(&request->control, sizeof(request->control), (void *)(request->address + AIO_CONTROL_AT));
}

/* What the request does, with its descriptor; 0 if it does not move data. */
static __always_inline u64 meaning_of(const struct aio_request *request)
{
	switch (request->control.operation) {
	case AIO_READ:
	case AIO_READ_VECTOR:
		return REQUEST_READS | request->control.fd;
	case AIO_WRITE:
	case AIO_WRITE_VECTOR:
		return REQUEST_WRITES | request->control.fd;
	}
	return 0;
}

/* The same of a request of the current thread. Not static: see native_number. */
__noinline u64 meaning_at(u64 requests, u32 number)
{
	struct aio_request request = {};

	return read_request(requests, number, &request) ? meaning_of(&request) : 0;
}

/* What all these requests of the current thread do; 0 if it is not the same. Not static: see native_number. */
__noinline u64 common_request(u64 requests, u64 count)
{
	u64 common = 0, what;
	u32 i;

	for (i = 0; i < PR_REQUESTS && i < count; i++) {
		what = meaning_at(requests, i);
		if (!what || (common && what != common))
			return 0;
		common = what;
	}
	return common;
}

/* No result of a request, and that of another one. */
#define UNKNOWN_RESULT (-(1LL << 62))
#define OTHER_RESULT (UNKNOWN_RESULT + 1)

/* The result of the event at `place` if it is that of this request. Not static: see native_number. */
__noinline s64 event_at(u64 place, u64 address)
{
	struct aio_event event = {};

	if (bpf_probe_read_user(&event, sizeof(event), (void *)place))
		return UNKNOWN_RESULT;
	return event.address == address ? event.result : OTHER_RESULT;
}

/* The result of a request that has just been done, if it can be read. Only the part of the ring is in memory that the process
 * or the kernel has read there. Not static: see native_number. */
__noinline s64 result_of(u64 ring, u64 address)
{
	struct aio_ring begin = {};
	s64 result;
	u64 at;
	u32 i;

	if (bpf_probe_read_user(&begin, sizeof(begin), (void *)ring) || begin.magic != AIO_MAGIC)
		return UNKNOWN_RESULT;
	at = begin.tail;
	for (i = 0; i < PR_EVENTS; i++) {
		/* The place before it, or the last one: without a branch, which would double the verifier's work. */
		at--;
		at += -(at >> 63) & begin.events;
		result = event_at(ring + begin.bytes + at * sizeof(struct aio_event), address);
		if (result != OTHER_RESULT)
			return result;
	}
	return UNKNOWN_RESULT;
}

/* Count one at a descriptor that file_of has just learnt. Not static: older verifiers allow 512 bytes of stack for all. */
__noinline u32 count_result(u64 what, s64 result, u64 asked)
{
	struct pr_task *own = find(bpf_get_current_task());

	if (own)
		count(own, &own->files[what & (PR_KNOWN - 1)], what & REQUEST_WRITES ? PR_WRITE : PR_READ, PR_KIND_AIO, result,
		      asked);
	return 0;
}

/* Count a request of an io_submit that returns to the current thread. Returns 0 if that is not possible. Not static: see
 * native_number. */
__noinline u32 count_request(u64 ring, u64 requests, u32 number)
{
	u64 task = bpf_get_current_task();
	struct pr_task *own = find(task);
	struct aio_request request = {};
	struct pr_file *file;
	s64 result;
	u64 what, asked = 0;

	if (!own || !read_request(requests, number, &request))
		return 0;
	what = meaning_of(&request);
	file = what ? file_of(own, task, what) : 0;
	if (!file || !file->device)
		return 1;
	result = result_of(ring, request.address);
	if (result == UNKNOWN_RESULT)
		return 0;
	if (request.control.operation <= AIO_WRITE)
		asked = request.control.bytes;
	count_result(what, result, asked);
	return 1;
}

/* Count all requests of an io_submit of the current thread that has submitted so many. Not static: see native_number. */
__noinline u32 count_requests(u64 ring, u64 requests, s64 submitted)
{
	struct pr_task *own = find(bpf_get_current_task());
	u32 i;

	if (!own)
		return 0;
	for (i = 0; i < PR_REQUESTS && i < submitted; i++)
		own->own.requests += !count_request(ring, requests, i);
	if (submitted > PR_REQUESTS)
		own->own.requests += submitted - PR_REQUESTS;
	return 0;
}
