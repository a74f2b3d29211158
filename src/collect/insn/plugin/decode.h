// SPDX-License-Identifier: MIT OR Apache-2.0
// What an x86-64 instruction does to control flow and to the stack pointer, from its bytes.
#ifndef PIPEPROF_DECODE_H
#define PIPEPROF_DECODE_H

#include <stdbool.h>
#include <stdint.h>

enum flow {
	FLOW_NEXT,	    // to the next instruction
	FLOW_JUMP,	    // to `target`
	FLOW_BRANCH,	    // to `target` or to the next instruction
	FLOW_JUMP_INDIRECT, // anywhere
	FLOW_CALL,	    // to `target`, pushes a return address
	FLOW_CALL_INDIRECT, // anywhere, pushes a return address
	FLOW_RET,
	FLOW_SYSCALL, // syscall, sysenter
	FLOW_SYSRET,  // sysret, sysexit
	FLOW_IRET,
	FLOW_INT, // int n, int3
	FLOW_HLT,
	FLOW_UD,
};

enum stack {
	STACK_NONE,
	STACK_PUSH,   // writes at the new top of the stack
	STACK_POP,    // reads at the old top of the stack
	STACK_SWITCH, // loads the stack pointer from memory (a context switch)
};

struct insn {
	enum flow flow;
	enum stack stack;
	bool rep;	 // rep, repe, repne with a string instruction
	bool rep_reads;	 // loads count its iterations (otherwise stores)
	bool rep_twice;	 // two loads per iteration (cmps)
	uint64_t target; // of direct jumps, branches, calls
};

struct insn decode(const uint8_t *code, unsigned len, uint64_t addr);

// How code with these first instructions is entered.
enum entry {
	ENTRY_NONE,
	ENTRY_CUT, // what a handler begins with, and no more: it may be one
	ENTRY_PLAIN, // an interrupt or exception handler, without an error code
	ENTRY_ERROR, // an exception handler with an error code: the faulting instruction did not complete
};

enum entry entry_kind(const uint8_t *code, unsigned len);

#endif
