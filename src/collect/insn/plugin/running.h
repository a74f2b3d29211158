// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the vCPU that executes a callback if QEMU does not report it.
#ifndef PIPEPROF_RUNNING_H
#define PIPEPROF_RUNNING_H

// vCPUs are numbered in the order in which they are seen. Only for callbacks that may read registers. VCPUS on
// failure.
unsigned running_vcpu(void);

#endif
