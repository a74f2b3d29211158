// SPDX-License-Identifier: MIT OR Apache-2.0
// Follows each vCPU through calls, returns, traps and task switches, to know the process and calling context of each
// instruction.
#ifndef PIPEPROF_FOLLOW_H
#define PIPEPROF_FOLLOW_H

#include "store.h"

#define VCPUS 64

// Totals, for the host to check; raw.rs depends on their order.
enum total {
	TOTAL_BEGUN,	   // instructions begun; each iteration of a rep instruction is one
	TOTAL_FAULTED,	   // of these: faulted, not completed
	TOTAL_REPEATED,	   // of these: further iterations of a rep instruction
	TOTAL_REPLAYED,	   // of these: begun again by the emulator
	TOTAL_TRAPS,	   // interrupts and exceptions in kernel code
	TOTAL_SWITCHES,	   // task switches
	TOTAL_ODD_RETURNS, // returns that match no call, without known exceptions
	TOTAL_LOST_STACKS, // how often a process's stack could not be followed
	TOTAL_VCPUS,
	TOTALS,
};

extern uint64_t totals[TOTALS];

// Forget all vCPUs. The first known task is that of `vcpu`, which just executed a begin marker of `process`.
void follow_open(unsigned vcpu, unsigned process, bool keep);
// Count the vCPUs' last blocks. Nothing may be executed afterwards.
void follow_close(void);
// A block starts on `vcpu`. `counter` holds the instructions begun so far on that vCPU.
void follow_block(unsigned vcpu, struct block *block, const uint64_t *counter);
// An instruction that pushes or pops has accessed the stack.
void follow_stack(unsigned vcpu, struct site *site, uint64_t address);
// From its next block on, the task of `vcpu` belongs to `process`.
void follow_process(unsigned vcpu, unsigned process);
// The task of `vcpu` executes copy_thread, which writes to `address`: if that is at the end of another task's stack, it
// forks that task, which belongs to the same process.
void follow_birth(unsigned vcpu, uint64_t address);
// The registers of a task were stored or loaded at `address`.
void follow_registers(unsigned vcpu, uint64_t address, bool stored);
void follow_switch(unsigned vcpu);
// The task of `vcpu` gets another program.
void follow_exec(unsigned vcpu);
void follow_rep(unsigned vcpu, struct site *site);

#endif
