/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What the processes of a pipeline do: states of their threads, and calls on their channels. Counted in the kernel.
 *
 * Threads are known by the address of their task_struct, which tracepoints give without a read, which an exec keeps,
 * and which is the same in all PID namespaces. System calls are seen at their exit only: the registers still hold the
 * arguments. A sleeping thread's call is read from the registers at the top of its stack.
 */
#include "common.bpf.h"

#include <bpf/bpf_core_read.h>

#include "record.h"

const volatile struct pp_settings settings = {};

#include "record_kernel.bpf.h"
#include "record_maps.bpf.h"
#include "record_path.bpf.h"
#define FRAMES PR_FRAMES
#include "stacks.bpf.h"
#include "record_stacks.bpf.h"
#include "record_sample.bpf.h"
#include "record_locks.bpf.h"
#include "record_compat.bpf.h"
#include "record_pipes.bpf.h"
#include "record_sockets.bpf.h"
#include "record_terminals.bpf.h"
#include "record_channels.bpf.h"
#include "record_uring.bpf.h"
#include "record_files.bpf.h"
#include "record_names.bpf.h"
#include "record_aio.bpf.h"
#include "record_shapes.bpf.h"
#include "record_notes.bpf.h"
#include "record_calls.bpf.h"
#include "record_moves.bpf.h"
#include "record_states.bpf.h"
#include "record_work.bpf.h"
#include "record_follow.bpf.h"
#include "record_seize.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";
