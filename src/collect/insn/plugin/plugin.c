// SPDX-License-Identifier: MIT OR Apache-2.0
// QEMU plugin that counts executed instructions exactly, per block of code and calling context, between the workload's
// markers (src/arch/marker.rs). It knows no names; the host (src/collect/insn) has the symbols.
//
// Until the first begin marker, it only looks for markers, when code is translated. The marker makes QEMU drop all
// translated code. From then until the last end marker, each block, instruction and stack access calls the plugin.
// Then it writes the window's file. Between windows, the callbacks return at once.
//
// Arguments: out=FILE (window N is written to FILE.N), windows=N, processes=N:N... (for each process, how many end
// markers close a window), memory=BYTES, births=FROM-TO (the addresses of copy_thread, in hexadecimal: processes that
// fork take their children with them), prepared=yes (each window follows one that is not
// counted, and whose new tasks stay with their processes), users=DEPTH:NUMBER (user code is of any
// programs, and has calling contexts up to this depth, as long as there are fewer contexts than NUMBER), execs=ADDRESS (where the
// kernel begins to replace a task's program), counts=tapered (also counts that
// weigh the ends of a window less, see store_tick).
#include "follow.h"
#include "qemu_api.h"
#include "running.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

EXPORT int qemu_plugin_version = PLUGIN_API;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

// BETWEEN: a window has ended, and another is expected.
enum state { WAITING, OPENING, OPEN, BETWEEN, DONE };

const struct arch *arch;
static const struct arch *const archs[] = { &arch_x86_64, &arch_aarch64 };

static qemu_plugin_id_t self;
static enum state state;
static char *out;
static unsigned windows = 1, window = 1; // expected, and the number of the current or next one
static unsigned expected[PROCESSES], begun[PROCESSES], ended[PROCESSES];
static unsigned opener, opener_process;
static bool closing;
static uint64_t births_from, births_to, exec_at;
#if PLUGIN_API < 2
static int vcpus = 1;
#endif
// With each window comes an earlier one, in which processes start what is counted with them in the window. Whether this is it.
static bool prepares, preparing;
static unsigned closer;
static const char *problem = "";
// Since QEMU 10.0, code translated under -icount contains the number of the translating vCPU as a constant, whichever
// vCPU executes it. Inline operations on a scoreboard use it: if it is not the first vCPU, the second operation of a
// block writes to a wrong address (QEMU 10.0: accel/tcg/plugin-gen.c, gen_cpu_index and gen_plugin_u64_ptr). So with
// several vCPUs a callback counts instructions, and vCPUs are identified by their registers (running.c).
static bool unnamed;
static unsigned running; // if QEMU does not give it: the vCPU of the current block

// Instructions begun. One counter is enough: with -icount all vCPUs alternate in one thread.
static uint64_t counter;

#if PLUGIN_API >= 2
static struct qemu_plugin_scoreboard *counters;

static void on_insn(unsigned vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	counter++;
}

static void count_insn(struct qemu_plugin_insn *insn)
{
	qemu_plugin_u64 per_vcpu = { counters, 0 };

	if (unnamed)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_insn, QEMU_PLUGIN_CB_NO_REGS, NULL);
	else
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, per_vcpu, 1);
}

static const uint64_t *counter_of(unsigned vcpu)
{
	return unnamed ? &counter : qemu_plugin_scoreboard_find(counters, vcpu);
}
#else
static void count_insn(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &counter, 1);
}

static const uint64_t *counter_of(unsigned vcpu)
{
	(void)vcpu;
	return &counter;
}
#endif

static void insn_code(const struct qemu_plugin_insn *insn, uint8_t *code, unsigned len)
{
#if PLUGIN_API >= 3
	qemu_plugin_insn_data(insn, code, len);
#else
	memcpy(code, qemu_plugin_insn_data(insn), len);
#endif
}

// Write the window's file.
static void finish(void)
{
	const char *said = problem;
	static char patched[32], path[4096];

	if (preparing && !*problem && !store.full) {
		preparing = false;
		state = BETWEEN;
		return;
	}

	if (store.full) {
		said = "memory";
	} else if (store.patched && !*said) {
		snprintf(patched, sizeof(patched), "patched 0x%llx", (unsigned long long)store.patched);
		said = patched;
	}
	snprintf(path, sizeof(path), "%s.%u", out, window);
	if (!store_write(path, said, totals, TOTALS))
		fprintf(stderr, "pipeprof plugin: cannot write %s: %s\n", path, strerror(errno));
	state = *said || window == windows ? DONE : BETWEEN;
	preparing = prepares;
	window++;
}

static void on_exit_of_qemu(ON_EXIT)
{
	if (state == DONE)
		return;
	if (state == WAITING || state == BETWEEN)
		store_open(); // an empty window
	problem = state == WAITING || state == BETWEEN ? "never-begun" : "never-ended";
	finish();
}

static void on_block(unsigned vcpu, void *data);
static void on_translate(ON_TRANSLATE);

static void begin_window(void)
{
	state = OPEN;
	closing = false;
	store_open();
	follow_open(opener, opener_process, prepares && !preparing);
}

static void open_window(void)
{
	begin_window();
	qemu_plugin_register_vcpu_tb_trans_cb(self, on_translate AND_NO_DATA);
	qemu_plugin_register_atexit_cb(self, on_exit_of_qemu, NULL);
}

static void on_reset_to_open(ON_RESET)
{
	open_window();
}

// The vCPU that executes a callback; QEMU reports `vcpu`.
static unsigned vcpu_of(unsigned vcpu)
{
	return unnamed ? running : vcpu;
}

static bool all_ended(void)
{
	for (unsigned process = 0; process < store.processes; process++)
		if (ended[process] < expected[process])
			return false;
	return true;
}

static void on_marker(unsigned vcpu, void *data)
{
	unsigned marker = (unsigned)(uintptr_t)data - 1, process = marker / 2;
	bool ends = marker % 2;

	if (process >= store.processes) {
		problem = "processes";
		return;
	}
	vcpu = unnamed ? running_vcpu() : vcpu;
	if (vcpu >= VCPUS) {
		problem = "vcpus";
		return;
	}
	switch (state) {
	case WAITING:
	case BETWEEN:
		if (ends)
			return;
		memset(begun, 0, sizeof(begun));
		memset(ended, 0, sizeof(ended));
		begun[process]++;
		opener = vcpu;
		opener_process = process;
		if (state == BETWEEN) {
			// All code is translated with callbacks. The marker ends its block, so counting begins with the next one.
			begin_window();
			return;
		}
		state = OPENING;
		qemu_plugin_reset(self, on_reset_to_open AND_NO_DATA);
		return;
	case OPENING:
		problem = "crowded";
		return;
	case OPEN:
		follow_process(vcpu, ends ? OTHER : process);
		(ends ? ended : begun)[process]++;
		if (all_ended()) {
			closing = true;
			closer = vcpu;
		}
		return;
	case DONE:
		return;
	}
}

static void on_block(unsigned vcpu, void *data)
{
	if (state != OPEN)
		return;
	if (unnamed) {
		running = running_vcpu();
		vcpu = running;
	}
	if (vcpu >= VCPUS) {
		problem = "vcpus";
		return;
	}
	follow_block(vcpu, data, counter_of(vcpu));
	if (closing && vcpu == closer) {
		follow_close();
		if (memcmp(begun, ended, sizeof(begun)))
			problem = "uneven";
		// The callbacks stay, and return at once. Another reset of the plugin would free them, but QEMU 7.2 can still call
		// those of the latest call or return on another vCPU, at its next interrupt.
		finish();
	}
}

static void on_stack(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	const struct site *site = data;

	vcpu = vcpu_of(vcpu);
	if (state == OPEN && vcpu < VCPUS && qemu_plugin_mem_is_store(info) == (site->insn.stack == STACK_PUSH))
		follow_stack(vcpu, data, address);
}

static void on_switch(unsigned vcpu, void *data)
{
	(void)data;
	vcpu = vcpu_of(vcpu);
	if (state == OPEN && vcpu < VCPUS)
		follow_switch(vcpu);
}

static void on_exec(unsigned vcpu, void *data)
{
	(void)data;
	vcpu = vcpu_of(vcpu);
	if (state == OPEN && vcpu < VCPUS)
		follow_exec(vcpu);
}

static void on_registers(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	(void)data;
	vcpu = vcpu_of(vcpu);
	if (state == OPEN && vcpu < VCPUS)
		follow_registers(vcpu, address, qemu_plugin_mem_is_store(info));
}

static void on_rep(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	const struct site *site = data;

	(void)address;
	vcpu = vcpu_of(vcpu);
	if (state == OPEN && vcpu < VCPUS && qemu_plugin_mem_is_store(info) != site->insn.rep_reads)
		follow_rep(vcpu, data);
}

static void on_birth(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	(void)data;
	vcpu = vcpu_of(vcpu);
	if (state == OPEN && vcpu < VCPUS && qemu_plugin_mem_is_store(info))
		follow_birth(vcpu, address);
}

static enum qemu_plugin_cb_flags reads(void)
{
	return unnamed ? QEMU_PLUGIN_CB_R_REGS : QEMU_PLUGIN_CB_NO_REGS;
}

static void instrument(struct qemu_plugin_insn *insn, const uint8_t *code, unsigned len, uint64_t addr,
		       struct block *block)
{
	struct insn decoded = arch->decode(code, len, addr);
	unsigned marker = arch->marker_of(code, len);
	struct site *site;

	count_insn(insn);
	if (marker)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, reads(), (void *)(uintptr_t)marker);
	if (decoded.stack == STACK_SWITCH && addr >> 63)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_switch, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (addr >= births_from && addr < births_to)
		qemu_plugin_register_vcpu_mem_cb(insn, on_birth, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
	if (addr == exec_at && exec_at)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_exec, reads(), NULL);
	if (decoded.stack == STACK_SAVE || decoded.stack == STACK_LOAD) {
		if (addr >> 63)
			qemu_plugin_register_vcpu_mem_cb(insn, on_registers, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
		return;
	}
	if (decoded.stack != STACK_PUSH && decoded.stack != STACK_POP && !decoded.rep)
		return;
	site = store_alloc(sizeof(*site));
	if (!site)
		return;
	*site = (struct site){ .block = block, .addr = addr, .insn = decoded };
	// Request loads and stores, and distinguish them in the callback: this filter of QEMU 7.2 confuses them.
	qemu_plugin_register_vcpu_mem_cb(insn, decoded.rep ? on_rep : on_stack, QEMU_PLUGIN_CB_NO_REGS,
					 QEMU_PLUGIN_MEM_RW, site);
}

static void on_translate(ON_TRANSLATE)
{
	static uint8_t code[16 * 1024], lengths[1024];
	size_t insns = qemu_plugin_tb_n_insns(tb);
	uint64_t pc = qemu_plugin_tb_vaddr(tb);
	unsigned bytes = 0;
	struct block *block;

	if (state == DONE || store.full || !insns)
		return;
	if (insns > sizeof(lengths)) {
		problem = "block";
		return;
	}
	for (size_t i = 0; i < insns; i++) {
		const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		lengths[i] = qemu_plugin_insn_size(insn);
		insn_code(insn, code + bytes, lengths[i]);
		bytes += lengths[i];
	}
	block = store_block(pc, code, bytes, lengths, insns);
	if (!block)
		return;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, reads(), block);
	bytes = 0;
	for (size_t i = 0; i < insns; i++) {
		instrument(qemu_plugin_tb_get_insn(tb, i), code + bytes, lengths[i], pc + bytes, block);
		bytes += lengths[i];
	}
}

#if PLUGIN_API < 2
// Before 8.0, QEMU runs the first vCPU until the next timer and then starts with the first again; another vCPU runs
// only if the first pauses or halts. Kernels before 6.5 wait for a starting CPU without a pause, forever. A reset
// makes QEMU continue with the next vCPU; the dropped code has no memory callbacks yet.
#define ALONE 4000000 // blocks that one vCPU may run while another started vCPU waits
#define RESETS 200

static unsigned turns, last_turn, resets;
static bool started;

static void on_translate_waiting(ON_TRANSLATE);

static void on_reset_to_waiting(ON_RESET)
{
	if (state == OPENING) {
		open_window();
		return;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(self, on_translate_waiting AND_NO_DATA);
	qemu_plugin_register_atexit_cb(self, on_exit_of_qemu, NULL);
}

static void on_turn(unsigned vcpu, void *data)
{
	(void)data;
	if (vcpu)
		started = true;
	if (vcpu != last_turn) {
		last_turn = vcpu;
		turns = 0;
	} else if (started && ++turns > ALONE && state == WAITING && resets < RESETS) {
		turns = 0;
		resets++;
		qemu_plugin_reset(self, on_reset_to_waiting AND_NO_DATA);
	}
}

static void share_turns(struct qemu_plugin_tb *tb)
{
	if (vcpus > 1 && resets < RESETS)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_turn, QEMU_PLUGIN_CB_NO_REGS, NULL);
}
#else
static void share_turns(struct qemu_plugin_tb *tb)
{
	(void)tb;
}
#endif

// Before the window: only find begin markers in user code.
static void on_translate_waiting(ON_TRANSLATE)
{
	size_t insns;

	share_turns(tb);
	if (qemu_plugin_tb_vaddr(tb) >> 63)
		return;
	insns = qemu_plugin_tb_n_insns(tb);
	for (size_t i = 0; i < insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t code[8];
		unsigned marker;

		if (qemu_plugin_insn_size(insn) != arch->marker_bytes)
			continue;
		insn_code(insn, code, arch->marker_bytes);
		marker = arch->marker_of(code, arch->marker_bytes);
		if (marker)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker, reads(), (void *)(uintptr_t)marker);
	}
}

// Read the number of windows of each process. Returns the number of processes, or 0 if the text is malformed.
static unsigned expect(const char *list)
{
	unsigned n = 0;
	char *end;

	do {
		if (n == PROCESSES)
			return 0;
		expected[n++] = strtoul(list, &end, 10);
		if (end == list)
			return 0;
		list = end + 1;
	} while (*end == ':');
	return *end ? 0 : n;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	uint64_t bound = MEMORY_BOUND_DEFAULT;
	unsigned processes = 0;
	bool foreign = false, tapered = false;
	unsigned depth = USER_FRAMES;
	uint32_t contexts = UINT32_MAX;
	char *rest;

	self = id;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4)) {
			out = strdup(argv[i] + 4);
		} else if (!strncmp(argv[i], "processes=", 10)) {
			processes = expect(argv[i] + 10);
		} else if (!strncmp(argv[i], "windows=", 8)) {
			windows = strtoul(argv[i] + 8, NULL, 10);
		} else if (!strcmp(argv[i], "prepared=yes")) {
			prepares = preparing = true;
		} else if (!strncmp(argv[i], "births=", 7)) {
			births_from = strtoull(argv[i] + 7, &rest, 16);
			births_to = *rest == '-' ? strtoull(rest + 1, NULL, 16) : 0;
		} else if (!strncmp(argv[i], "users=", 6)) {
			foreign = true;
			depth = strtoul(argv[i] + 6, &rest, 10);
			contexts = *rest == ':' ? strtoul(rest + 1, NULL, 10) : 0;
		} else if (!strncmp(argv[i], "execs=", 6)) {
			exec_at = strtoull(argv[i] + 6, NULL, 16);
		} else if (!strcmp(argv[i], "counts=tapered")) {
			tapered = true;
		} else if (!strncmp(argv[i], "memory=", 7)) {
			bound = strtoull(argv[i] + 7, NULL, 10);
		} else {
			fprintf(stderr, "pipeprof plugin: unknown argument %s\n", argv[i]);
			return -1;
		}
	}
	if (!out) {
		fprintf(stderr, "pipeprof plugin: no out=FILE\n");
		return -1;
	}
	if (!processes) {
		fprintf(stderr, "pipeprof plugin: no processes=N:N..., or more than %u\n", PROCESSES);
		return -1;
	}
	for (unsigned i = 0; i < sizeof(archs) / sizeof(archs[0]) && info->system_emulation; i++)
		if (!strcmp(info->target_name, archs[i]->target))
			arch = archs[i];
	if (!arch) {
		fprintf(stderr, "pipeprof plugin: does not know the processor of this QEMU\n");
		return -1;
	}
#if PLUGIN_API >= 2
	counters = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	unnamed = info->version.cur >= 4 && info->system.max_vcpus > 1;
#else
	vcpus = info->system.max_vcpus;
#endif
	store_init(bound, processes);
	store.foreign = foreign;
	store.depth = depth < USER_FRAMES ? depth : USER_FRAMES;
	store.contexts = contexts;
	store.tapered = tapered;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate_waiting AND_NO_DATA);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
