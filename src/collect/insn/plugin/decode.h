// SPDX-License-Identifier: MIT OR Apache-2.0
// What an instruction does to control flow and to stacks, from its bytes, and what else differs by the guest's processor.
#ifndef PIPEPROF_DECODE_H
#define PIPEPROF_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flow {
	FLOW_NEXT,	    // to the next instruction
	FLOW_JUMP,	    // to `target`
	FLOW_BRANCH,	    // to `target` or to the next instruction
	FLOW_JUMP_INDIRECT, // anywhere
	FLOW_CALL,	    // to `target`, with a return address
	FLOW_CALL_INDIRECT, // anywhere, with a return address
	FLOW_RET,
	FLOW_SYSCALL, // syscall, sysenter; svc
	FLOW_SYSRET,  // sysret, sysexit
	FLOW_IRET,    // iret; eret
	FLOW_INT,     // int n, int3
	FLOW_HLT,     // hlt; wfi
	FLOW_UD,      // ud2; brk, udf
};

enum stack {
	STACK_NONE,
	STACK_PUSH,   // writes at the new top of the stack
	STACK_POP,    // reads at the old top of the stack
	STACK_SWITCH, // a context switch: loads the stack pointer from memory, or sets the register of the current task
	STACK_SAVE,   // may store the registers of the task that is switched away, at a place of its own
	STACK_LOAD,   // may load those of the next task
};

struct insn {
	enum flow flow;
	enum stack stack;
	bool rep;	 // rep, repe, repne with a string instruction
	bool rep_reads;	 // loads count its iterations (otherwise stores)
	bool rep_twice;	 // two loads per iteration (cmps)
	uint64_t target; // of direct jumps, branches, calls
};

// How code with these first instructions is entered.
enum entry {
	ENTRY_NONE,
	ENTRY_CUT, // what a handler begins with, and no more: it may be one
	ENTRY_PLAIN, // an interrupt or exception handler, without an error code
	ENTRY_ERROR, // an exception handler with an error code: the faulting instruction did not complete
};

// A processor.
struct arch {
	const char *target;    // QEMU's name for it
	uint32_t number;       // in the plugin's file (raw.rs)
	unsigned marker_bytes; // length of a marker instruction
	// Return addresses are in a register, not on a stack: calls and returns are followed by addresses of code (link.c).
	bool links;
	// Registers, one of which has the address of a CPU's own data.
	const char *own_data[2];
	struct insn (*decode)(const uint8_t *code, unsigned len, uint64_t addr);
	enum entry (*entry_kind)(const uint8_t *code, unsigned len);
	// The number in a marker (src/arch); 0 for every other instruction.
	unsigned (*marker_of)(const uint8_t *code, unsigned len);
};

extern const struct arch arch_x86_64, arch_aarch64;
// That of the guest.
extern const struct arch *arch;

#endif
