// SPDX-License-Identifier: MIT OR Apache-2.0
// Follows each vCPU through calls, returns, traps and switches of tasks, and so knows whose instructions run in which
// calling context.
#ifndef PIPEPROF_FOLLOW_H
#define PIPEPROF_FOLLOW_H

#include "store.h"

#define VCPUS 64

// What went through the plugin, for the host to check; the order is known to raw.rs.
enum total {
	TOTAL_BEGUN,	   // instructions begun, each iteration of a rep instruction one
	TOTAL_FAULTED,	   // of them: did not complete, a fault struck
	TOTAL_REPEATED,	   // of them: further iterations of a rep instruction
	TOTAL_REPLAYED,	   // of them: begun again by the emulator, not by the guest
	TOTAL_TRAPS,	   // interrupts and exceptions that struck kernel code
	TOTAL_SWITCHES,	   // switches of tasks
	TOTAL_ODD_RETURNS, // returns to where no call came from, outside of what is known to do so
	TOTAL_LOST_STACKS, // times that the stack of one of the processes could not be followed
	TOTAL_VCPUS,
	TOTALS,
};

extern uint64_t totals[TOTALS];

// Forget all vCPUs. The first task to be known is that of `vcpu`, which just executed a begin marker of `process`.
void follow_open(unsigned vcpu, unsigned process);
// Count what the vCPUs' last blocks did. Nothing is to be executed after it.
void follow_close(void);
// A block starts on `vcpu`. `counter` holds the instructions begun so far on that vCPU.
void follow_block(unsigned vcpu, struct block *block, const uint64_t *counter);
// An instruction that pushes or pops has accessed the stack.
void follow_stack(unsigned vcpu, struct site *site, uint64_t address);
// The task of `vcpu` is of `process` from its next block on.
void follow_process(unsigned vcpu, unsigned process);
void follow_switch(unsigned vcpu);
void follow_rep(unsigned vcpu, struct site *site);

#endif
