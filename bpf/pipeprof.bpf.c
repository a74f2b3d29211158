/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * All BPF programs, as one object that libbpf and aya load alike.
 */
#include "common.bpf.h"

const volatile struct pp_settings settings = {};

#include "follow.bpf.h"
#include "calls.bpf.h"
#include "sample.bpf.h"

char _license[] SEC("license") = "Dual MIT/GPL";
