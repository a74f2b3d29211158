// SPDX-License-Identifier: MIT OR Apache-2.0
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct store store;
uint64_t user_returns[PROCESSES][2];

#define PAGE 4096ull

// Open addressing over numbers that start at 1; 0 is an empty slot.
struct table {
	uint32_t *slots;
	uint64_t mask, used;
};

// The executed bytes of a page of kernel code, to detect code that changes.
struct page {
	uint64_t number;
	uint32_t window; // of the bytes known
	uint8_t bytes[PAGE];
	uint8_t known[PAGE / 8];
};

// What was counted between two ticks, by counter.
struct part {
	uint32_t *counts;
	uint32_t n, room;
};

// There are at most PARTS; then neighbours are merged, and from then on a tick is every second one of the former.
#define PARTS 128
#define PARTS_LEAST 16

static struct table block_table, node_table, count_table, page_table;
static uint32_t blocks_room, nodes_room, counts_room;
static struct part parts[PARTS];
static uint64_t *at_last_tick, calls, calls_per_part;
static uint32_t at_last_tick_n, at_last_tick_room;
static unsigned n_parts;
static struct page **pages;
static uint32_t n_pages, pages_room;

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15ull ^ (b + 0x7f4a7c159e3779b9ull) * 0xbf58476d1ce4e5b9ull;

	x ^= x >> 29;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 32;
}

static bool take(uint64_t size)
{
	if (store.used + size > store.bound) {
		store.full = true;
		return false;
	}
	store.used += size;
	return true;
}

void *store_alloc(size_t size)
{
	void *memory = take(size) ? calloc(1, size) : NULL;

	if (!memory)
		store.full = true;
	return memory;
}

// Make room for one more element, within the memory limit.
static void *grown(void *array, uint32_t n, uint32_t *room, size_t size)
{
	uint32_t more = *room ? *room * 2 : 1024;
	void *larger;

	if (n < *room)
		return array;
	if (!take((uint64_t)(more - *room) * size))
		return NULL;
	larger = realloc(array, (size_t)more * size);
	if (!larger) {
		store.full = true;
		return NULL;
	}
	*room = more;
	return larger;
}

static bool table_grow(struct table *table, uint64_t (*hash_of)(uint32_t))
{
	uint64_t slots = table->slots ? (table->mask + 1) * 2 : 4096;
	uint32_t *fresh;

	if (table->slots && table->used * 2 < table->mask)
		return true;
	if (!take(slots * sizeof(*fresh) / (table->slots ? 2 : 1)))
		return false;
	fresh = calloc(slots, sizeof(*fresh));
	if (!fresh) {
		store.full = true;
		return false;
	}
	for (uint64_t i = 0; table->slots && i <= table->mask; i++) {
		uint32_t item = table->slots[i];
		uint64_t at;

		if (!item)
			continue;
		for (at = hash_of(item) & (slots - 1); fresh[at]; at = (at + 1) & (slots - 1))
			;
		fresh[at] = item;
	}
	free(table->slots);
	table->slots = fresh;
	table->mask = slots - 1;
	return true;
}

static uint64_t block_hash(uint32_t item)
{
	return store.blocks[item - 1]->hash;
}

static uint64_t node_hash(uint32_t item)
{
	return mix(store.nodes[item].parent, store.nodes[item].addr);
}

static uint64_t count_key(uint32_t node, uint32_t block, unsigned from, unsigned to)
{
	return mix((uint64_t)node << 32 | block, (uint64_t)from << 16 | to);
}

static uint64_t count_hash(uint32_t item)
{
	const struct count *count = &store.counts[item - 1];

	return count_key(count->node, count->block, count->from, count->to);
}

static uint64_t page_hash(uint32_t item)
{
	return mix(pages[item - 1]->number, 1);
}

static struct page *page_of(uint64_t addr)
{
	uint64_t at, number = addr / PAGE;
	struct page **larger;

	if (!table_grow(&page_table, page_hash))
		return NULL;
	for (at = mix(number, 1) & page_table.mask; page_table.slots[at]; at = (at + 1) & page_table.mask)
		if (pages[page_table.slots[at] - 1]->number == number)
			return pages[page_table.slots[at] - 1];
	larger = grown(pages, n_pages, &pages_room, sizeof(*pages));
	if (!larger)
		return NULL;
	pages = larger;
	pages[n_pages] = store_alloc(sizeof(**pages));
	if (!pages[n_pages])
		return NULL;
	pages[n_pages]->number = number;
	pages[n_pages]->window = store.window;
	page_table.slots[at] = ++n_pages;
	page_table.used++;
	return pages[n_pages - 1];
}

// Record this kernel code, and detect differences from code executed earlier in the same window.
static void remember_code(uint64_t pc, const uint8_t *code, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++) {
		struct page *page = page_of(pc + i);
		unsigned offset = (pc + i) % PAGE;

		if (!page)
			return;
		if (page->window != store.window) {
			page->window = store.window;
			memset(page->known, 0, sizeof(page->known));
		}
		if (!(page->known[offset / 8] & 1 << offset % 8)) {
			page->known[offset / 8] |= 1 << offset % 8;
			page->bytes[offset] = code[i];
		} else if (page->bytes[offset] != code[i] && !store.patched) {
			store.patched = pc + i;
		}
	}
}

void store_init(uint64_t bound, unsigned processes)
{
	store.bound = bound;
	store.processes = processes;
}

static void table_clear(struct table *table)
{
	if (table->slots)
		memset(table->slots, 0, (table->mask + 1) * sizeof(*table->slots));
	table->used = 0;
}

void store_open(void)
{
	store.window++;
	store.patched = 0;
	store.n_nodes = 0;
	memset(user_returns, 0, sizeof(user_returns));
	store.n_counts = 0;
	n_parts = 0;
	calls = 0;
	calls_per_part = 1;
	at_last_tick_n = 0;
	table_clear(&node_table);
	table_clear(&count_table);
	for (uint32_t i = 0; i < store.n_blocks; i++) {
		store.blocks[i]->cached_count = 0;
		store.blocks[i]->rep_count = 0;
	}
	for (unsigned root = 0; root < ROOT_PROCESSES + 2 * store.processes; root++) {
		struct node *larger = grown(store.nodes, store.n_nodes, &nodes_room, sizeof(*store.nodes));

		if (!larger)
			return;
		store.nodes = larger;
		store.nodes[store.n_nodes++] = (struct node){ .root = root };
	}
}

// With -icount, QEMU translates only as many instructions as are left until its next event. If these are the first ones of a
// handler, what it is is known from where else it begins there.
static void settle_entry(struct block *block)
{
	if (block->entry == ENTRY_NONE)
		return;
	for (uint32_t i = 0; i < store.n_blocks; i++) {
		struct block *other = store.blocks[i];

		if (other->pc != block->pc)
			continue;
		if (other->entry == ENTRY_CUT)
			other->entry = block->entry;
		else if (block->entry == ENTRY_CUT && other->entry != ENTRY_NONE)
			block->entry = other->entry;
	}
}

struct block *store_block(uint64_t pc, const uint8_t *code, unsigned bytes, const uint8_t *lengths, unsigned insns)
{
	struct block *block, **larger;
	uint64_t at, hash = mix(pc, insns);

	for (unsigned i = 0; i < bytes; i++)
		hash = (hash ^ code[i]) * 0x100000001b3ull;
	hash ^= hash >> 31;
	if (!table_grow(&block_table, block_hash))
		return NULL;
	for (at = hash & block_table.mask; block_table.slots[at]; at = (at + 1) & block_table.mask) {
		block = store.blocks[block_table.slots[at] - 1];
		if (block->hash == hash && block->pc == pc && block->insns == insns && block->bytes == bytes &&
		    !memcmp(block->code, code, bytes))
			return block;
	}
	larger = grown(store.blocks, store.n_blocks, &blocks_room, sizeof(*store.blocks));
	if (!larger)
		return NULL;
	store.blocks = larger;
	block = store_alloc(sizeof(*block));
	if (!block)
		return NULL;
	block->code = store_alloc(bytes + insns);
	if (!block->code)
		return NULL;
	memcpy(block->code, code, bytes);
	memcpy(block->code + bytes, lengths, insns);
	block->pc = pc;
	block->next = pc + bytes;
	block->last_pc = block->next - lengths[insns - 1];
	block->hash = hash;
	block->insns = insns;
	block->bytes = bytes;
	block->last = arch->decode(code + bytes - lengths[insns - 1], lengths[insns - 1], block->last_pc);
	block->first_rep = arch->decode(code, lengths[0], pc).rep;
	block->short_call = block->last.flow == FLOW_CALL && block->last.target > block->next &&
			    block->last.target - block->next <= 16;
	block->entry = pc >> 63 ? arch->entry_kind(code, bytes) : ENTRY_NONE;
	settle_entry(block);
	block->id = store.n_blocks;
	store.blocks[store.n_blocks++] = block;
	block_table.slots[at] = store.n_blocks;
	block_table.used++;
	return block;
}

// The place in the table of this child, or of where it belongs.
static uint64_t child_slot(uint32_t parent, uint64_t addr)
{
	uint64_t at;

	for (at = mix(parent, addr) & node_table.mask; node_table.slots[at]; at = (at + 1) & node_table.mask) {
		const struct node *node = &store.nodes[node_table.slots[at]];

		if (node->parent == parent && node->addr == addr)
			break;
	}
	return at;
}

uint32_t store_child(uint32_t parent, uint64_t addr)
{
	struct node *larger;
	uint64_t at;

	if (!table_grow(&node_table, node_hash))
		return parent;
	at = child_slot(parent, addr);
	if (node_table.slots[at])
		return node_table.slots[at];
	larger = grown(store.nodes, store.n_nodes, &nodes_room, sizeof(*store.nodes));
	if (!larger)
		return parent;
	store.nodes = larger;
	store.nodes[store.n_nodes] = (struct node){ parent, store.nodes[parent].root, addr };
	node_table.slots[at] = store.n_nodes;
	node_table.used++;
	return store.n_nodes++;
}

static bool has_room(uint32_t parent, uint64_t addr)
{
	return store.n_nodes < store.contexts || (node_table.slots && node_table.slots[child_slot(parent, addr)]);
}

// For user code beyond the limit of contexts.
static uint32_t rest_of(uint32_t node)
{
	return store_child(store.nodes[node].root, DEEPER);
}

uint32_t store_call_of_user(uint32_t parent, uint64_t addr)
{
	return has_room(parent, addr) ? store_child(parent, addr) : rest_of(parent);
}

uint32_t store_entry_of_user(uint32_t parent, uint64_t addr)
{
	// An interrupt between the kernel and the first instruction of user code says nothing of the latter.
	uint64_t at = store.foreign && (!store.depth || addr >> 63) ? 0 : addr;

	return has_room(parent, at) ? store_child(parent, at) : store_child(rest_of(parent), 0);
}

// The number of the counter of this range in this context, from 1; 0 if the memory limit is reached.
static uint32_t counter_of(const struct block *block, uint32_t node, unsigned from, unsigned to)
{
	struct count *larger;
	uint64_t at;

	if (!table_grow(&count_table, count_hash))
		return 0;
	for (at = count_key(node, block->id, from, to) & count_table.mask; count_table.slots[at];
	     at = (at + 1) & count_table.mask) {
		const struct count *count = &store.counts[count_table.slots[at] - 1];

		if (count->node == node && count->block == block->id && count->from == from && count->to == to)
			break;
	}
	if (!count_table.slots[at]) {
		larger = grown(store.counts, store.n_counts, &counts_room, sizeof(*store.counts));
		if (!larger)
			return 0;
		store.counts = larger;
		store.counts[store.n_counts] = (struct count){ node, block->id, from, to, 0 };
		count_table.slots[at] = ++store.n_counts;
		count_table.used++;
	}
	return count_table.slots[at];
}

void store_count(struct block *block, uint32_t node, unsigned from, unsigned to)
{
	if (to <= from)
		return;
	if (block->window != store.window) {
		block->window = store.window;
		if (block->pc >> 63)
			remember_code(block->pc, block->code, block->bytes);
	}
	if (!block->cached_count || block->cached_node != node || block->cached_from != from ||
	    block->cached_to != to) {
		block->cached_count = counter_of(block, node, from, to);
		block->cached_node = node;
		block->cached_from = from;
		block->cached_to = to;
	}
	if (block->cached_count)
		store.counts[block->cached_count - 1].count++;
}

void store_rep_access(struct block *block, uint32_t node)
{
	if (!block->rep_count || block->rep_node != node) {
		block->rep_count = counter_of(block, node, REP_ACCESSES, REP_ACCESSES);
		block->rep_node = node;
	}
	if (block->rep_count)
		store.counts[block->rep_count - 1].count++;
}

// Make room for `n` numbers.
static bool numbers(uint64_t **array, uint32_t n, uint32_t *room)
{
	while (*room < n) {
		uint64_t *larger = grown(*array, *room, room, sizeof(**array));

		if (!larger)
			return false;
		*array = larger;
	}
	return true;
}

// Make room for `n` counts in a part, and for few more: there are many parts.
static bool part_room(struct part *part, uint32_t n)
{
	uint32_t room = (n + 4095) / 4096 * 4096;
	uint32_t *larger;

	if (n <= part->room)
		return true;
	if (!take((uint64_t)(room - part->room) * sizeof(*part->counts)))
		return false;
	larger = realloc(part->counts, (size_t)room * sizeof(*part->counts));
	if (!larger) {
		store.full = true;
		return false;
	}
	part->counts = larger;
	part->room = room;
	return true;
}

static uint32_t bounded(uint64_t count)
{
	return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static void merge_parts(void)
{
	for (unsigned i = 0; i < PARTS / 2; i++) {
		// The later one knows all counters of the earlier one.
		struct part earlier = parts[2 * i], later = parts[2 * i + 1];

		for (uint32_t c = 0; c < earlier.n; c++)
			later.counts[c] = bounded((uint64_t)later.counts[c] + earlier.counts[c]);
		parts[2 * i + 1] = earlier;
		parts[2 * i] = parts[i];
		parts[i] = later;
	}
	n_parts = PARTS / 2;
	calls_per_part *= 2;
}

void store_tick(void)
{
	struct part *part;

	if (!store.tapered || ++calls % calls_per_part)
		return;
	if (n_parts == PARTS) {
		merge_parts();
		if (calls % calls_per_part)
			return;
	}
	part = &parts[n_parts];
	if (!part_room(part, store.n_counts) ||
	    !numbers(&at_last_tick, store.n_counts, &at_last_tick_room))
		return;
	part->n = store.n_counts;
	for (uint32_t c = 0; c < store.n_counts; c++) {
		part->counts[c] = bounded(store.counts[c].count - (c < at_last_tick_n ? at_last_tick[c] : 0));
		at_last_tick[c] = store.counts[c].count;
	}
	at_last_tick_n = store.n_counts;
	n_parts++;
}

// The weight of a part in the middle of a window is the largest, and falls to 0 at both ends: the square of a parabola
// (biweight). Integers, so that every machine has the same.
static uint64_t weight_of(unsigned part)
{
	uint64_t root = (2ull * part + 1) * (2ull * (n_parts - part) - 1);

	return root * root;
}

// How often this counter would have counted in the window if all its parts had executed the weighted mean of all parts.
// Work that is done in bursts then hardly depends on whether the window's ends cut one (docs/exactness.md).
static uint64_t store_tapered(uint32_t counter)
{
	unsigned __int128 sum = 0, weights = 0;

	if (n_parts < PARTS_LEAST)
		return store.counts[counter].count;
	for (unsigned i = 0; i < n_parts; i++) {
		weights += weight_of(i);
		if (counter < parts[i].n)
			sum += (unsigned __int128)weight_of(i) * parts[i].counts[counter];
	}
	weights *= calls_per_part;
	return (sum * calls + weights / 2) / weights;
}

unsigned process_root(unsigned process)
{
	return process == OTHER ? ROOT_OTHER : ROOT_PROCESSES + 2 * process;
}

unsigned lost_root(unsigned process)
{
	return process == OTHER ? ROOT_UNFOLLOWED : ROOT_PROCESSES + 2 * process + 1;
}

// The format, little-endian, which raw.rs reads: magic, problem, totals, the processor, the number of processes, their returns in
// user code, nodes, blocks, counts, parts, end mark.
static void put(FILE *file, uint64_t value, unsigned size)
{
	fwrite(&value, size, 1, file);
}

static void write_all(FILE *file, const char *problem, const uint64_t *totals, unsigned n_totals)
{
	fwrite("PPINSN07", 8, 1, file);
	put(file, strlen(problem), 4);
	fwrite(problem, strlen(problem), 1, file);
	put(file, n_totals, 4);
	for (unsigned i = 0; i < n_totals; i++)
		put(file, totals[i], 8);
	put(file, arch->number, 4);
	put(file, store.processes, 4);
	for (unsigned i = 0; i < store.processes; i++)
		for (unsigned which = 0; which < 2; which++)
			put(file, user_returns[i][which], 8);
	put(file, store.n_nodes, 4);
	for (uint32_t i = 0; i < store.n_nodes; i++) {
		put(file, store.nodes[i].parent, 4);
		put(file, store.nodes[i].root, 4);
		put(file, store.nodes[i].addr, 8);
	}
	put(file, store.n_blocks, 4);
	for (uint32_t i = 0; i < store.n_blocks; i++) {
		const struct block *block = store.blocks[i];

		put(file, block->pc, 8);
		put(file, block->insns, 2);
		put(file, block->bytes, 2);
		fwrite(block->code, (size_t)block->bytes + block->insns, 1, file);
	}
	put(file, store.n_counts, 4);
	for (uint32_t i = 0; i < store.n_counts; i++) {
		put(file, store.counts[i].node, 4);
		put(file, store.counts[i].block, 4);
		put(file, store.counts[i].from, 2);
		put(file, store.counts[i].to, 2);
		put(file, store.counts[i].count, 8);
		put(file, store_tapered(i), 8);
	}
	put(file, n_parts, 4);
	for (unsigned i = 0; i < n_parts; i++)
		for (uint32_t c = 0; c < store.n_counts; c++)
			put(file, c < parts[i].n ? parts[i].counts[c] : 0, 4);
	fwrite("PPEND", 5, 1, file);
}

bool store_write(const char *path, const char *problem, const uint64_t *totals, unsigned n_totals)
{
	char aside[4096];
	FILE *file;
	bool failed;

	if ((size_t)snprintf(aside, sizeof(aside), "%s.part", path) >= sizeof(aside))
		return false;
	file = fopen(aside, "wb");
	if (!file)
		return false;
	write_all(file, problem, totals, n_totals);
	failed = ferror(file);
	failed = fclose(file) || failed;
	if (failed || rename(aside, path)) {
		unlink(aside);
		return false;
	}
	return true;
}
