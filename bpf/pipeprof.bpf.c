/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * All BPF programs in one object, which both libbpf and aya can load.
 */
#include "common.bpf.h"

const volatile struct pp_settings settings = {};

#include "follow.bpf.h"
#include "calls.bpf.h"
#define FRAMES PP_FRAMES
#include "stacks.bpf.h"
#include "sample.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";
