// SPDX-License-Identifier: MIT OR Apache-2.0
// What is kept: blocks of code, the tree of calling contexts, and how often each block ran in each context.
#ifndef PIPEPROF_STORE_H
#define PIPEPROF_STORE_H

#include "decode.h"

#include <stddef.h>

// All memory of the plugin together. Beyond it nothing is kept and the window is refused, never cut short in silence.
#define MEMORY_BOUND_DEFAULT (512ull << 20)

// Processes are numbered from 0; what no process of the target executes is another's.
#define PROCESSES 64
#define OTHER 0xffffffffu

// The first nodes of the tree, each the root of one kind of context. The numbers are known to raw.rs.
enum root {
	ROOT_NONE,
	ROOT_OTHER,
	ROOT_UNFOLLOWED, // other: it slept since before the window, so its callers are not known
	ROOT_PROCESSES,	 // two for each process: what is followed, and what could not be
};

// A translated block: code at an address, so long. Kept for ever; the same code translated again is the same block.
struct block {
	uint64_t pc;
	uint64_t next; // behind its last instruction
	uint64_t hash;
	uint32_t id;
	uint16_t insns;
	uint16_t bytes;
	struct insn last;
	uint64_t last_pc;
	enum entry entry;
	bool first_rep;
	bool short_call; // a call over a few bytes of its own function: speculation traps, no call of a function
	uint8_t *code;	 // `bytes` bytes of code, then `insns` bytes with the lengths of its instructions
	uint64_t *rep_accesses; // by process, then others; null for none
	// Where the last execution was counted: most blocks run in one context many times.
	uint32_t cached_node;
	uint16_t cached_from, cached_to;
	uint32_t cached_count;
};

// An instruction with a callback.
struct site {
	struct block *block;
	uint64_t addr;
	struct insn insn;
	uint32_t cached_parent, cached_child;
};

struct node {
	uint32_t parent;
	uint8_t root;
	uint64_t addr; // the call instruction, or where an interrupt or exception struck
};

// Instructions `from` to `to` (not included) of a block were completed `count` times in a context.
struct count {
	uint32_t node, block;
	uint16_t from, to;
	uint64_t count;
};

struct store {
	unsigned processes;
	uint64_t bound, used;
	bool full;
	struct block **blocks;
	uint32_t n_blocks;
	struct node *nodes;
	uint32_t n_nodes;
	struct count *counts;
	uint32_t n_counts;
	uint64_t patched; // the first kernel address whose code changed within the window; 0 for none
};

extern struct store store;

void store_init(uint64_t bound, unsigned processes);
// Zeroed memory under the bound, never given back; null where the bound is reached.
void *store_alloc(size_t size);
struct block *store_block(uint64_t pc, const uint8_t *code, unsigned bytes, const uint8_t *lengths, unsigned insns);
uint32_t store_child(uint32_t parent, uint64_t addr);
void store_count(struct block *block, uint32_t node, unsigned from, unsigned to);
// The root of what `process` executes, and of that part whose callers are not known.
unsigned process_root(unsigned process);
unsigned lost_root(unsigned process);
// The process that a node is of, or OTHER.
unsigned node_process(uint32_t node);
// Count one access of the block's rep instruction.
void store_rep_access(struct block *block, unsigned process);
// Write all to `path`, whole or not at all. False with errno set where that fails.
bool store_write(const char *path, const char *problem, const uint64_t *totals, unsigned n_totals);

#endif
