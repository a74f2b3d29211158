// SPDX-License-Identifier: MIT OR Apache-2.0
// Which vCPU executes a callback, where QEMU does not tell.
#ifndef PIPEPROF_RUNNING_H
#define PIPEPROF_RUNNING_H

// vCPUs are numbered as they are first seen: only for callbacks that may read registers. VCPUS where that fails.
unsigned running_vcpu(void);

#endif
