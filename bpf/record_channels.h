/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Channels, and what is counted at their ends, in the form described in pipeprof.h.
 */
#ifndef PIPEPROF_RECORD_CHANNELS_H
#define PIPEPROF_RECORD_CHANNELS_H

/* The sides of a channel: a pipe, or one direction of a socket or terminal. */
#define PR_READ 0
#define PR_WRITE 1

/* Channels that are not pipes have these as their device. Their inode is that of the receiving socket, or for
 * PR_SOCKET_TCP the ports of sender and receiver with a hash of the addresses, or for PR_TERMINAL twice the number of the
 * terminal and two, or three if what it shows goes this way. */
#define PR_SOCKET_STREAM 4293918721
#define PR_SOCKET_DATAGRAM 4293918722
#define PR_SOCKET_PACKET 4293918725
#define PR_SOCKET_TCP 4293918727
#define PR_TERMINAL 4293918728

/* Kinds of calls on channels. */
#define PR_KIND_PLAIN 0
#define PR_KIND_SPLICE 1
#define PR_KIND_VMSPLICE 2
#define PR_KIND_TEE 3
#define PR_KIND_SENDFILE 4
/* Requests of io_submit. */
#define PR_KIND_AIO 5
/* recvfrom and sendto, recvmsg and sendmsg, recvmmsg and sendmmsg. */
#define PR_KIND_BUFFER 6
#define PR_KIND_MESSAGE 7
#define PR_KIND_MESSAGES 8
/* Requests to io_uring. */
#define PR_KIND_RING 9
#define PR_KINDS 10
/* Larger writes are not atomic: PIPE_BUF. */
#define PR_ATOMIC 4096
/* Smaller writes are no whole segment of TCP. */
#define PR_SMALL 1400
/* Python asks for whole buffers of what it still wants (Modules/_io/bufferedio.c). */
#define PR_BUFFER 8192
/* Messages of one call of whose bytes are counted. */
#define PR_MESSAGES 64
/* Requests of one io_submit that are looked at, and events among which the result of one is sought. */
#define PR_REQUESTS 128
#define PR_EVENTS 256

/* Rings of io_uring with a request that waits, and requests that complete more than once. */
#define PR_RINGS 1024
#define PR_SHOTS 1024
/* Kinds of the kernel's threads that work for rings. */
#define PR_IO_WORKER 1
#define PR_IO_POLLER 2

/* Sizes of calls: element i counts 2^i to 2^(i+1)-1 bytes, the last one all from 4 MiB on. */
#define PR_SIZES 23

/* The request to a ring that could not be done at once last. */
struct pr_ring {
	u64 request;
	/* Addresses of the struct file that it waits for, and of that from which it splices. */
	u64 open;
	u64 from;
	u64 side;
};

/* A request that completes more than once. */
struct pr_shot {
	u64 ring;
	u64 number;
};

/* One side of a channel, used by one process. */
struct pr_end {
	struct pr_who who;
	u64 inode;
	u32 device;
	u32 side;
};

/* What happened at a pr_end. */
struct pr_counts {
	u64 bytes;
	u64 kinds[PR_KINDS];
	/* Moved fewer bytes than requested. */
	u64 partial;
	u64 eagain;
	/* EPIPE. */
	u64 broken;
	u64 errors;
	u64 sizes[PR_SIZES];
	/* Bytes requested, of calls whose request is known. */
	u64 asked;
	/* Waited for data or for room. */
	u64 sleeps;
	u64 blocked_ns;
	/* Runnable, but waiting for a CPU, after such a sleep. */
	u64 runnable_ns;
	/* Sleeps and time until another process gave up the pipe's lock. */
	u64 lock_sleeps;
	u64 lock_ns;
	/* Wake-ups of the other side. */
	u64 wakes;
	/* Sleeps in a row in one call, although nothing had moved. */
	u64 needless;
	/* Reads that got the end of file. */
	u64 ended;
	/* Writes of more than PR_ATOMIC bytes that waited for room: others could write in between. */
	u64 parted;
	/* Writes of a thread, one of several of its process, within a line that another thread had begun. */
	u64 split;
	/* Writes of fewer than PR_SMALL bytes to TCP after which a part of a segment waits for the confirmation of others. */
	u64 held_back;
	/* Looks at polls that found it ready. */
	u64 ready;
	/* What the last call of a thread was to write or read, and did not. */
	u64 unsent;
	/* Calls that asked for what the one before had left: writes exactly, reads up to PR_BUFFER bytes less. */
	u64 resumed;
	/* Reads of one byte that did not follow another one directly: a `read` of bash begins. Whether the end of file did. Of a thread of
	 * several that writes: writes that ended a line. */
	u64 lines;
	u64 unended;
	/* Uses of `read` of bash: it asks whether this is a terminal, and next whether it can seek. */
	u64 by_read;
	/* Writes by descriptor 1, and those by descriptor 2 before the first one of these. */
	u64 printed;
	u64 aside;
	/* How often it was added to an epoll set and taken out of one, after the first call. */
	u64 watched;
	u64 unwatched;
	/* Slots in use and slots of the pipe, summed over `fills` calls; of other channels bytes. */
	u64 filled;
	u64 slots;
	u64 fills;
	/* Slots of the pipe, or bytes, as first and last seen; the least. */
	u64 first_slots;
	u64 last_slots;
	u64 least_slots;
	/* When a thread that moved data had begun to run: first and last, ns. */
	u64 first_at;
	u64 last_at;
};

#endif
