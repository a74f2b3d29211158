// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls, returns, exceptions and task switches of processors that keep return addresses in a register.
#ifndef PIPEPROF_LINK_H
#define PIPEPROF_LINK_H

#include "task.h"

// The block of `v` has ended with its last instruction, and `to` follows: follow its call or return.
void link_leave(struct vcpu *v, const struct block *to);
// `to` is where a fault of the instruction before it leads.
bool link_faults(struct vcpu *v, const struct block *to);
// Follow `v` into the block `to` of the kernel. Its last instruction is at `last`, and would lead to `resume`, if that is known.
void link_into_kernel(struct vcpu *v, const struct block *to, bool whole, uint64_t last, uint64_t resume);
// The task of `v` executes copy_thread, which stores to `address`.
void link_birth(struct vcpu *v, uint64_t address);
// Forget the births of an earlier window.
void link_forget(void);
// The registers of the next task have been loaded: switch to it.
void link_switch(struct vcpu *v);

#endif
