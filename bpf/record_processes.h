/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What is counted of a process, and kept of a thread, in the form described in pipeprof.h. record.h includes it
 * behind what it needs.
 */
#ifndef PIPEPROF_RECORD_PROCESSES_H
#define PIPEPROF_RECORD_PROCESSES_H

/* The reason of a sleep outside of channels. */
struct pr_reason {
	struct pr_who who;
	/* Number of the system call, or one of these. */
	u32 call;
	/* Type of the file, as in the upper bits of its mode. */
	u32 file_type;
	/* The name of who stopped or traces it, or 0 and PR_ITSELF or a signal of its terminal; 0 if unknown. */
	u64 holder[2];
};
#define PR_ITSELF 1
/* SIGTTIN and SIGTTOU: its job used its terminal in the background. */
#define PR_TTIN 21
#define PR_TTOU 22
/* Outside of calls, such as in a page fault. */
#define PR_NO_CALL 4294967295
/* It does not wait: a signal has stopped it, or a tracer, or its cgroup is frozen. */
#define PR_STOPPED 4294967294
#define PR_TRACED 4294967293
#define PR_FROZEN 4294967292
/* It is ending: before the kernel begins to close its files, and from then on. */
#define PR_ENDING 4294967291
#define PR_CLOSING 4294967290
/* It does not wait: a thread of the kernel that has no request of its ring to do. */
#define PR_UNUSED 4294967289

struct pr_wait {
	u64 count;
	u64 ns;
};

/* Where a thread slept, and who woke it where. Keys of stacks; 0 if unknown. */
struct pr_off_cpu {
	struct pr_who who;
	u64 trace;
	u64 waker_trace;
	u64 waker[2];
};

/* By which call a process moves bytes, and how it fails; 0 if it does not. */
struct pr_by_call {
	struct pr_who who;
	u32 call;
	u32 error;
};

struct pr_carried {
	u64 calls;
	u64 bytes;
};

/* What a process did. */
struct pr_process {
	u64 threads;
	u64 forks;
	u64 execs;
	/* Monotonic clock, ns: the first exec or fork, and the last exit. */
	u64 begin;
	u64 end;
	/* Time of all its threads. */
	u64 cpu_ns;
	u64 runnable_ns;
	/* Of `runnable_ns`: its cgroup had used up its quota. */
	u64 throttled_ns;
	/* Of `cpu_ns`, as the kernel accounts it: by ticks. */
	u64 user_ns;
	u64 system_ns;
	u64 preemptions;
	u64 calls;
	/* Calls of io_uring_enter, on kernels where its reads and writes are not seen. */
	u64 urings;
	/* Completed requests to io_uring, and those of them that a thread of the kernel has done. */
	u64 rings;
	u64 ring_workers;
	/* Time on a CPU of threads of the kernel that poll rings for requests. */
	u64 poller_ns;
	/* Requests of io_submit, maybe at pipes, that are not counted. */
	u64 requests;
	/* The signal that killed it; 0 if none did. */
	u64 signal;
	/* Killed for lack of memory. */
	u64 starved;
	/* Its exit code, if it ended by itself. */
	u64 code;
	/* The id of the process that forked it, as that of a pr_who; 0 if that was not seen. */
	u64 parent;
	/* Calls of poll and its like that found something ready and did not sleep. */
	u64 polls;
	/* Calls of poll and its like that slept until their time was over. */
	u64 timeouts;
	/* Calls of wait4 that did not wait, and found that no child had ended. */
	u64 watches;
	/* Calls of wait4 for a child that is no child any more, and for which the thread has not just waited. */
	u64 gone;
	/* The id of the last process of which it asked with success whether that lives: kill with signal 0. */
	u64 asked_alive;
	/* The most memory that it had at once, pages; 0 while it lives, and if what it was before its exec had more. */
	u64 pages;
	/* Calls of fsync and fdatasync. */
	u64 syncs;
	/* Calls that asked what its standard output is: the C library does so before it first puts something into its buffer. */
	u64 asked_output;
	/* Calls of close whose descriptor was not open. */
	u64 unopened;
	/* Reads and writes whose descriptor was not open. */
	u64 bad_calls;
	/* Reads and writes of files that moved less than PR_TINY bytes. */
	u64 tiny;
	/* The file of which it read a block last, or in which it stands behind the end; its name, where it stands, and its size then. */
	u64 read_file;
	u64 read_name[PR_READ_NAME];
	u64 read_to;
	u64 read_size;
	/* Calls of fcntl that were to make a pipe larger, and were refused (EPERM). */
	u64 refused_sizes;
	/* Reads that got the end of what is no channel, and the descriptor of the last one and one. */
	u64 ends;
	u64 ended;
	/* Calls of bind; those whose address others had, and the port of the last one of these; 0 if it has none. */
	u64 binds;
	u64 in_use;
	u64 port;
	/* Calls of ioctl that ask how much can be read: FIONREAD. */
	u64 asks;
	/* Calls of connect; those that were refused, and those that found no room in the queue of a listening socket. */
	u64 connects;
	u64 refused;
	u64 queue_full;
	/* Calls that failed; the error of the last one, and in the upper half its number. */
	u64 failed;
	u64 failure;
	/* The same of the last one that was refused for a reason which programs do not expect, and when. */
	u64 refusal;
	u64 refused_at;
	/* Sends to sockets that are no channel, as they are not connected, and those that found no room there (EAGAIN). */
	u64 sends;
	u64 unsendable;
	/* Messages received from sockets that are no channel; datagrams that filled the buffer, and its size at the last one. */
	u64 received;
	u64 filling;
	u64 filling_bytes;
	/* Datagrams that the kernel had dropped for a socket when it read there last; the most of its sockets. */
	u64 dropped;
	/* Whether it was executed with SIGPIPE ignored, and with SIGCHLD ignored. */
	u64 ignores_sigpipe;
	u64 ignores_sigchld;
	/* Writes that failed because there was no room on the device: ENOSPC, EDQUOT. */
	u64 no_space;
	/* Writes that failed because nobody could read them any more: EPIPE. */
	u64 refused_writes;
	/* The device of the file at the last write for which there was no room. */
	u64 full_device;
	/* What others can see: calls that wrote something, that opened to write, and signals sent. */
	u64 effects;
	/* Calls that failed since no descriptor was left (EMFILE). At the first one: how many there may be, of how many it was
	 * looked what they are, and which of these were pipes or sockets. */
	u64 full_tables;
	u64 descriptors;
	u64 looked_at;
	u64 pipes_open;
	u64 sockets_open;
	/* The file whose lock another process had when it tried to get it last; 0 if it has got it. */
	u64 locked;
	u64 locked_device;
	/* The id of the process that had taken it, as that of a pr_who; 0 if that was not seen. */
	u64 locked_by;
	/* Tries that did not get the lock of a file, and the last such file. */
	u64 refusals;
	u64 refused_file;
	/* Of these tries, those for a lock that it had taken itself before. */
	u64 own_refusals;
	/* How often it wrote after it got the lock of a file that had been deleted before. */
	u64 gone_locks;
	/* The id of the process that made an open file return EAGAIN (O_NONBLOCK) which this one uses, too; 0 if it did so itself. */
	u64 unready_by;
	/* The channel that was its standard output when it executed its program; 0 if none. */
	u64 output;
	u64 output_device;
	/* The same of its standard input. */
	u64 input;
	u64 input_device;
	/* The id of the process that sent it the last signal that can end it, as that of a pr_who, and in the upper half the
	 * number of the signal; the highest bit if the kernel sent it when a thread of that process ended; 0 if none or the
	 * kernel did. */
	u64 sender;
	/* The same of the last one that was SIGTERM or SIGHUP, or that process 1 of a PID namespace does not get, and when one was
	 * sent first. */
	u64 told;
	u64 told_at;
	/* What the process does with that: a PR_TOLD. */
	u64 told_how;
	/* Writes to its standard error, and whether that was /dev/null when it executed its program. */
	u64 errors;
	u64 quiet;
	/* The last signal that can end a process which it was sent, whoever did so; 0 if none. */
	u64 got;
	/* Calls that were to start a process or thread, of which there were too many (EAGAIN). */
	u64 unforked;
	/* Its children at its end that had ended and for which nobody had waited, at most PR_CHILDREN, and the ids of the first and
	 * of the last one. */
	u64 zombies;
	u64 first_zombie;
	u64 last_zombie;
};

/* A file descriptor that a thread has used. */
struct pr_file {
	/* The descriptor and one; 0 if unused. */
	u32 fd;
	u32 generation;
	/* As in pr_reason. */
	u32 file_type;
	/* That of the channels; 0 if it has none. */
	u32 device;
	/* The inodes of the channels that it reads and writes, 0 if unknown: of a pipe the same. */
	u64 inodes[2];
	/* Addresses of the pipe_inode_info, and of the sock of a socket; 0 if it is neither. */
	u64 pipe;
	u64 socket;
	/* Address of the struct file. */
	u64 open;
	u32 writable;
	u32 spare;
};

/* The calls of one thread at one end. */
struct pr_used {
	u64 inode;
	u64 device;
	struct pr_counts counts;
};

/* A followed thread. */
struct pr_task {
	struct pr_who who;
	/* Nothing is counted before the first exec. */
	u32 started;
	u32 state;
	/* Begin of the state; time of the wake-up, or 0. */
	u64 since;
	u64 woken;
	/* Why it sleeps: a side of a channel, or pr_reason. */
	u32 call;
	u32 file_type;
	u64 holder[2];
	u64 inode;
	u32 device;
	u32 side;
	/* Waits for the pipe's lock. */
	u32 locked;
	/* Number of sleeps in the present call. */
	u32 again;
	u64 position;
	/* In which call it last slept, and in which it last waited for room in a pipe: the number in `own`. */
	u64 slept;
	u64 waited;
	/* As in pr_off_cpu. */
	u64 trace;
	u64 waker_trace;
	u64 waker[2];
	/* A wake-up while it still ran, and by whom: it may have been about to sleep. */
	u64 early;
	u64 early_waker;
	/* The child for which it has waited last. */
	u64 reaped;
	/* What it wanted of a lock that it did not get last. */
	u64 refused_lock;
	/* How long its cgroups had been throttled when it was last looked at, ns. */
	u64 throttled;
	/* The lock that it waits for, or 0; since when, and the key of its stack. */
	u64 lock;
	u64 lock_since;
	u64 lock_trace;
	/* As holder: who sent its process a signal to stop; 0 if the kernel did. */
	u64 stopper[2];
	/* Its process id in pipeprof's PID namespace, once pr_account has found it. */
	u64 id;
	/* Address of its files_struct. */
	u64 table;
	/* The task's times at the last exec. */
	u64 user_before;
	u64 system_before;
	/* The kernel's number of the last exec that was seen: its tasks count them. */
	u64 exec_id;
	/* PR_FORKED and so on. */
	u64 forked;
	/* Whether it gets blocked signals in another way than by handlers. */
	u64 takes_signals;
	/* The struct file of its standard output when it executed its program. */
	u64 stdout_open;
	/* The most memory of what the process was before its last exec, pages. */
	u64 pages_before;
	/* Whether the file of the lock that it has got last had been deleted before. */
	u64 gone;
	/* The last read of one byte: the number in `own`. */
	u64 byte_call;
	/* The last question whether its standard input is a terminal, which was answered with no: the number in `own`. */
	u64 asked_call;
	/* The last copy of its standard input (dup), or 0. */
	u64 input_copy;
	/* PR_IO_WORKER or PR_IO_POLLER; 0 for threads of the program. */
	u64 io_thread;
	/* Address of the ring to which it has given a request last. */
	u64 ring;
	struct pr_process own;
	struct pr_file files[PR_KNOWN];
	/* Of the request to io_uring that was looked at last. */
	struct pr_file ring_file;
	/* The first channel that it reads, and the first that it writes. */
	struct pr_used used[2];
	/* The name that it used last. */
	u64 path[PR_NAME];
};

#endif
