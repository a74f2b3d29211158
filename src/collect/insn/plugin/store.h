// SPDX-License-Identifier: MIT OR Apache-2.0
// Stores blocks of code, the tree of calling contexts, and how often each block ran in each context.
#ifndef PIPEPROF_STORE_H
#define PIPEPROF_STORE_H

#include "decode.h"

#include <stddef.h>

// Limit of the plugin's memory. A window that needs more is rejected, never silently truncated.
#define MEMORY_BOUND_DEFAULT (512ull << 20)

// Processes are numbered from 0; OTHER is everything outside the target.
#define PROCESSES 64
#define OTHER 0xffffffffu

// The first nodes of the tree, each the root of one kind of context. raw.rs depends on these numbers.
enum root {
	ROOT_NONE,
	ROOT_OTHER,
	ROOT_UNFOLLOWED, // other: it slept since before the window, so its callers are unknown
	ROOT_PROCESSES,	 // two for each process: followed, and not followed
};

// A translated block: code at an address. Never freed; the same code translated again is the same block.
struct block {
	uint64_t pc;
	uint64_t next; // address after its last instruction
	uint64_t hash;
	uint32_t id;
	uint16_t insns;
	uint16_t bytes;
	struct insn last;
	uint64_t last_pc;
	enum entry entry;
	bool first_rep;
	bool short_call; // a call that skips a few bytes of its own function: a speculation trap, not a function call
	uint8_t *code;	 // `bytes` bytes of code, then `insns` bytes with the lengths of its instructions
	// The last counter used: most blocks run many times in one context.
	uint32_t cached_node;
	uint16_t cached_from, cached_to;
	uint32_t cached_count;
	uint32_t window; // the latest window in which it was executed
	// The same for the accesses of its rep instruction.
	uint32_t rep_node, rep_count;
};

// An instruction with a callback.
struct site {
	struct block *block;
	uint64_t addr;
	struct insn insn;
};

struct node {
	uint32_t parent;
	uint8_t root;
	uint64_t addr; // the call instruction, or the interrupted instruction, or DEEPER
};

// The address of a context for all user code that is called below its parent: those beyond the limits of depth and number.
#define DEEPER 1

// Instructions `from` to `to` (not included) of a block were completed `count` times in a context. If both are
// REP_ACCESSES, the block's rep instruction accessed memory `count` times, which gives its iterations.
#define REP_ACCESSES 0xffff
struct count {
	uint32_t node, block;
	uint16_t from, to;
	uint64_t count;
};

// Calls of user code within one another that are followed, at most.
#define USER_FRAMES 256

struct store {
	unsigned processes;
	uint64_t bound, used;
	bool full;
	bool tapered; // record what each part of a window executes (store_tick)
	bool foreign;	   // user code is of any programs
	unsigned depth;	   // of calling contexts of user code, at most USER_FRAMES; 0: it has none
	uint32_t contexts; // with so many nodes, user code gets no more
	struct block **blocks;
	uint32_t n_blocks;
	struct node *nodes;
	uint32_t n_nodes;
	struct count *counts;
	uint32_t n_counts;
	uint32_t window;  // counted from 1; 0 before the first
	uint64_t patched; // the first kernel address whose code changed within the window, or 0
};

extern struct store store;

void store_init(uint64_t bound, unsigned processes);
// Begin a window: forget contexts and counts of the one before. Blocks stay, because translated code refers to them.
void store_open(void);
// Zeroed memory within the limit, never freed; null if the limit is reached.
void *store_alloc(size_t size);
struct block *store_block(uint64_t pc, const uint8_t *code, unsigned bytes, const uint8_t *lengths, unsigned insns);
uint32_t store_child(uint32_t parent, uint64_t addr);
// The same for a call in user code; beyond the limit of contexts it is the one for the rest.
uint32_t store_call_of_user(uint32_t parent, uint64_t addr);
// The same for what leads from user code to the kernel.
uint32_t store_entry_of_user(uint32_t parent, uint64_t addr);
void store_count(struct block *block, uint32_t node, unsigned from, unsigned to);
// The roots of a process's contexts: with known callers, and with unknown callers.
unsigned process_root(unsigned process);
unsigned lost_root(unsigned process);
// Count one access of the block's rep instruction in a context.
void store_rep_access(struct block *block, uint32_t node);
// The first process makes a system call. Its calls divide a window into parts of equal work (store_tapered).
void store_tick(void);
// Write everything to `path` atomically. Returns false and sets errno on failure.
bool store_write(const char *path, const char *problem, const uint64_t *totals, unsigned n_totals);
// Returns of each process in user code: all, and those that match no call.
extern uint64_t user_returns[PROCESSES][2];

#endif
