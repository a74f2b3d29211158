/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Limits and structs of `pipeprof record`, in the form described in pipeprof.h.
 */
#ifndef PIPEPROF_RECORD_H
#define PIPEPROF_RECORD_H

/* Threads followed at once. */
#define PR_TASKS 4096
/* Counters that tell most unwatched threads without a lookup; a power of two. */
#define PR_FILTER 4096
/* Processes that live, or have just ended. */
#define PR_PROCESSES 8192
/* Ends of pipes, by process: xargs makes a pipe for each program that it starts. */
#define PR_ENDS 32768
/* Reasons of sleeps, by process. */
#define PR_WAITS 8192
/* Processes that were running before the recording. */
#define PR_WANTED 1024
/* Generations of tables of file descriptors; a power of two. */
#define PR_GENERATIONS 1024
/* Descriptors remembered by each thread; a power of two. */
#define PR_KNOWN 4
/* Every 16th call on a pipe, its fill is read. */
#define PR_FILL_EVERY 16
/* Of every 64th poll that returns at once, it is looked which of its first descriptors is ready; so many of them. */
#define PR_READY_EVERY 64
#define PR_READY_FIRST 16

/* Bytes of steps of the path that the Rust code has not read yet; a power of two. */
#define PR_RING 8388608
/* Threads that are not followed but carry on what a followed one does; a power of two. */
#define PR_CARRIERS 1024
/* Waits for a CPU from this length on name who had it, ns. */
#define PR_NAMED_WAIT 100000
/* Waits for a CPU from this length on may be due to a quota, ns; groups of groups that are looked at. */
#define PR_LONG_WAIT 1000000
#define PR_GROUPS 6
/* Descriptors that are looked at when none is left: the verifier goes through this loop. */
#define PR_DESCRIPTORS 64
/* Processes that the kernel has chosen to kill for lack of memory. */
#define PR_VICTIMS 256
/* A wake-up this long before a sleep, ns, ended that sleep if no other one did: the thread was on its way to sleep. */
#define PR_EARLY 1000000

/* Frames of stacks. */
#define PR_FRAMES 32
/* Stacks of waits for locks, and of samples with their times, by process. */
#define PR_SAMPLES 16384
/* Pairs of a sleeping thread's stack and its waker's, by process. */
#define PR_OFF_CPU 16384

/* Calls that move bytes, by process and error. */
#define PR_BY_CALL 16384

/* Pipes and sockets of the whole machine. */
#define PR_MOVED 65536

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

/* States of a thread. */
#define PR_RUNNING 1
#define PR_RUNNABLE 2
#define PR_ASLEEP 3
/* It will never run again. */
#define PR_GONE 4

/* Kinds of steps of the path. */
#define PR_STEP_FORK 1
#define PR_STEP_EXEC 2
#define PR_STEP_SEIZE 3
#define PR_STEP_WAKE 4
#define PR_STEP_RUN 5
#define PR_STEP_GONE 6
#define PR_STEP_NAME 7
#define PR_STEP_FREE 8
#define PR_STEP_THROTTLED 9
#define PR_STEP_RENAME 10
#define PR_STEP_SAMPLE 11
#define PR_STEP_LOST 12
#define PR_STEP_ARGS 13

/* Numbers of eight bytes of a command line that are kept. */
#define PR_ARGS 24

/* The window of the recording, as elements of one array: when it ends, ns, or 0 while that is not known; how long it lasts,
 * if it is limited; whether a program has seen that it is over; the thread that starts the recorded processes. */
#define PR_UNTIL 0
#define PR_LASTS 1
#define PR_OVER 2
#define PR_RECORDER 3
#define PR_WINDOW 4

/* Where a wake-up comes from. */
#define PR_IN_PROCESS 0
#define PR_IN_INTERRUPT 1
/* Bits of a wake-up: the woken thread waited for room; the one that wakes it carries on what a followed one did, or sends a
 * signal with `kill`. */
#define PR_FOR_ROOM 16
#define PR_CARRIED 32
#define PR_BY_KILL 64

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

/* Bits of pr_task.forked: it was forked and has executed no program since; it has forked; its head is known, of its standard
 * output and of another file. */
#define PR_FORKED 1
#define PR_FORKS 2
#define PR_HEADED 4
#define PR_HEADED_ELSE 8
/* Numbers of eight bytes of a head, and processes whose heads are kept. */
#define PR_HEAD 16
#define PR_HEADS 256

/* The first bytes that a process wrote after it was forked, or had forked. */
struct pr_head {
	/* PR_FORKED and PR_FORKS. */
	u64 forked;
	u64 length;
	u64 text[PR_HEAD];
};

/* Streams of bytes to and from files that are kept. */
#define PR_STREAMS 4096
/* Numbers of eight bytes of a file's name. */
#define PR_FILE_NAME 4

/* One side of an open file, used by one process by calls that go on where the last one ended. */
struct pr_stream {
	struct pr_who who;
	/* Address of the struct file, which processes can share, and one if it appends. */
	u64 open;
	u64 inode;
	u32 device;
	u32 side;
};

/* What happened at a pr_stream. */
struct pr_streamed {
	u64 calls;
	u64 bytes;
	/* Reads that got the end of file. */
	u64 ended;
	/* Whether it writes at the end of the file only (O_APPEND). */
	u64 appends;
	/* The first place and the one behind the last byte; how often a call began elsewhere than the one before had ended. */
	u64 from;
	u64 to;
	u64 moves;
	u64 next;
	/* Calls that moved the end of a line at last; whether the last one did not; how often others wrote between such a one and the
	 * next one. */
	u64 lines;
	u64 within;
	u64 split;
	/* The task that wrote last. */
	u64 writer;
	/* Whether it is the script of bash, by its descriptor. */
	u64 script;
	/* The size of the largest call, and calls of this size. */
	u64 block;
	u64 blocks;
	u64 first_at;
	u64 last_at;
	/* Whether it had a name at first; bytes that were written when it had none any more, and since when. */
	u64 had_name;
	u64 deleted;
	u64 deleted_at;
	/* Where it wrote on when another process had emptied the file, so that what is before is zeros; the id of that process, as in a
	 * pr_who, and when it did so. */
	u64 hole;
	u64 emptied_by;
	u64 emptied_at;
	/* How many files had been emptied when that was looked up last. */
	u64 emptied;
	u64 name[PR_FILE_NAME];
};

/* What a process does with a signal: its default, nothing, as its handler says, or nothing yet, as it is blocked; or nothing, as it is
 * process 1 of its namespace and has no handler. */
#define PR_TOLD_DEFAULT 1
#define PR_TOLD_IGNORED 2
#define PR_TOLD_HANDLED 3
#define PR_TOLD_BLOCKED 4
#define PR_TOLD_INIT 5

/* In a sender: a thread that ended, not a call. */
#define PR_AT_ITS_END 63

/* Channels to which processes with several threads write. */
#define PR_SHARED 256

/* Files that are emptied. */
#define PR_EMPTIED 1024
#define PR_LOCKED 1024

struct pr_inode {
	u64 inode;
	u64 device;
};

/* By whom, as in a pr_who, and when. */
struct pr_emptied {
	u64 by;
	u64 at;
};

/* Names that processes use. */
#define PR_NAMES 8192
/* Numbers of eight bytes of a path. */
#define PR_NAME 16

/* What is done with a name. PR_OPENS only if that fails. */
#define PR_OPENS 1
#define PR_READS 2
#define PR_WRITES 3
#define PR_CREATES 4
#define PR_EMPTIES 5
#define PR_MAKES 6
#define PR_REMOVES 7
#define PR_RENAMES 8
#define PR_LOOKS 9
/* The same with the address of a socket: its first bytes, and from the second number on the path of one that has a path. Of a
 * socket that listens, the first number is its inode. */
#define PR_CONNECTS 10
#define PR_BINDS 11
#define PR_LISTENS 12
/* inotify: what happens to it is to be told. */
#define PR_WATCHES_IT 13

/* What a process did with a name, and how that failed; 0 if it did not. */
struct pr_name {
	struct pr_who who;
	u64 hash;
	u32 does;
	u32 error;
};

struct pr_named_file {
	u64 calls;
	u64 first_at;
	u64 last_at;
	/* The file that was opened, or the socket: its inode, and the size by then. */
	u64 inode;
	u64 size;
	u32 device;
	u32 file_type;
	/* Whether who read it had it as standard output, too, or who emptied it as standard input. */
	u64 both_ends;
	/* The inode of the folder that a relative path begins at. */
	u64 folder;
	u64 path[PR_NAME];
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
	/* Calls of fsync and fdatasync. */
	u64 syncs;
	/* Calls that asked what its standard output is: the C library does so before it first puts something into its buffer. */
	u64 asked_output;
	/* Calls of close whose descriptor was not open. */
	u64 unopened;
	/* Reads and writes whose descriptor was not open. */
	u64 bad_calls;
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
	/* Calls that were to start a process or thread, of which there were too many (EAGAIN). */
	u64 unforked;
	/* Its children at its end that had ended and for which nobody had waited, at most PR_CHILDREN, and the id of the first one. */
	u64 zombies;
	u64 zombie;
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

/* PR_STEP_WAKE: `task` is woken by `other`. PR_STEP_GONE: `task` has ended. FREE: its address may be used again.
 * THROTTLED: of the next wait for a CPU, `other` ns. LOST: there was no room for some steps before this one, and there has
 * been none for `other` in all. */
struct pr_step {
	u32 kind;
	u32 detail;
	u64 task;
	u64 at;
	u64 other;
};

/* PR_STEP_FORK, EXEC and SEIZE. RENAME: its last exec was not seen. */
struct pr_birth {
	u32 kind;
	u32 state;
	u64 task;
	u64 at;
	u64 other;
	/* The id of its process in pipeprof's PID namespace, and in that of the process; 0 if unknown. */
	u32 here;
	u32 inside;
	/* The id of the thread in the initial PID namespace, and the CPU on which this was seen. */
	u32 thread;
	u32 cpu;
	struct pr_who who;
};

/* PR_STEP_ARGS: the command line of a process that has executed a program, as /proc/PID/cmdline has it. */
struct pr_args {
	u32 kind;
	/* Bytes of it; 0 if it could not be read. */
	u32 length;
	struct pr_who who;
	u64 text[PR_ARGS];
};

/* PR_STEP_NAME: of the thread that wakes in the next step, or of the process that had the CPU before. */
struct pr_named {
	u32 kind;
	u32 tgid;
	u64 task;
	u64 name[2];
};

/* PR_STEP_RUN. */
struct pr_run {
	u32 kind;
	/* Bits 0 to 3: the state before; 4 to 7: as file_type; 8: as side; 9: as locked; from 16 on: the CPU. */
	u32 detail;
	u64 task;
	u64 at;
	/* Begin of the state before. */
	u64 since;
	u32 call;
	/* The process that had the CPU before; 0 if it was idle. */
	u32 before;
	/* Inode and device of the pipe at which it slept, mixed; 0 if at none. */
	u64 pipe;
};

/* PR_STEP_SAMPLE: where the sampling clock found a followed thread. */
struct pr_sampled {
	u32 kind;
	u32 spare;
	u64 at;
	struct pr_sample sample;
};

/* A pipe, or a socket, of the whole machine. */
struct pr_place {
	u64 inode;
	/* 0 for sockets. */
	u64 device;
};

/* What was read and written there, and how full a pipe was when it was last looked. */
struct pr_moved {
	u64 bytes[2];
	u32 used;
	u32 slots;
};

/* Shared between the programs and the Rust code. */
struct pr_state {
	/* Distance of the registers of a system call from the base of the thread's stack. */
	u64 registers;
	/* Not recorded for want of room: threads, ends, processes, reasons. */
	u64 lost_tasks;
	u64 lost_ends;
	u64 lost_processes;
	u64 lost_waits;
	/* Entries made for processes, also those that have been taken out since. */
	u64 processes_made;
	/* Switches to a thread that were not seen. */
	u64 unseen;
	/* Steps of the path not recorded, because the Rust code did not read them in time. */
	u64 lost_steps;
	/* Of these, those that a PR_STEP_LOST has told. */
	u64 told_steps;
	/* pipeprof's PID namespace: its address, and its level below the initial one. */
	u64 namespace;
	u64 level;
	/* Whether what io_uring moves can be seen. */
	u64 rings;
	/* Names had no room. */
	u64 lost_names;
	/* How often files were emptied. */
	u64 emptied;
};

#endif
