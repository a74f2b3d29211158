/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What processes do with files, and with their names, in the form described in pipeprof.h.
 */
#ifndef PIPEPROF_RECORD_NAMED_H
#define PIPEPROF_RECORD_NAMED_H

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

/* Processes of which is kept what they wrote to their standard error, numbers of eight bytes of a text, and the most bytes that are added
 * to it at once. */
#define PR_SAID 512
#define PR_WORDS 32
#define PR_WORDS_AT_ONCE 127
/* Its end was a write of its own, as of a question that was interrupted. */
#define PR_ENDED_LATER 2

/* What a process wrote to its standard error. A line can be several writes. */
struct pr_said {
	/* When it wrote last, by the programs' clock, ns. */
	u64 at;
	/* The last line has no end yet, or PR_ENDED_LATER. */
	u64 unfinished;
	u64 first_length;
	u64 last_length;
	/* Begins with the first line. */
	u64 first[PR_WORDS];
	/* Ends with the last line. */
	u64 last[PR_WORDS];
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
/* Of these, names of locks, for which there is room in any case. */
#define PR_LOCK_NAMES 1024
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

#endif
