/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * The kernel types and macros that the programs need. Fields are found by name in the running kernel's BTF (CO-RE),
 * so only those that are read are declared.
 */
#ifndef PIPEPROF_COMMON_BPF_H
#define PIPEPROF_COMMON_BPF_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

/* linux/bpf.h: what bpf_get_ns_current_pid_tgid fills in. */
struct bpf_pidns_info {
	u32 pid;
	u32 tgid;
};

/* Names used by libbpf's helper declarations. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

/* linux/bpf.h: numbers that are kernel ABI. */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_RINGBUF = 27 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_USER_STACK = 1 << 8 };
enum { BPF_RB_NO_WAKEUP = 1 };
enum { EEXIST = 17, E2BIG = 7 };

#include <bpf/bpf_helpers.h>

#include "pipeprof.h"
#ifdef __TARGET_ARCH_arm64
#include "arch_aarch64.h"
#else
#include "arch_x86_64.h"
#endif

extern const volatile struct pp_settings settings;

/* A map of at most `most` elements. */
#define MAP(name_, kind, most, key_type, value_type) \
	struct { \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(max_entries, most); \
		__type(key, key_type); \
		__type(value, value_type); \
	} name_ SEC(".maps")

/* Arguments of a raw tracepoint. */
struct pp_tracepoint {
	u64 args[3];
};

/* The only element of an array. */
#define FIRST(map) \
	({ \
		u32 first_ = 0; \
		bpf_map_lookup_elem(&(map), &first_); \
	})

/* The current thread and its process, by their ids in the namespace of `settings`; zeros if they are outside it. */
static __always_inline struct bpf_pidns_info current_ids(void)
{
	struct bpf_pidns_info ids = {};
	u64 both;

	if (!settings.namespace_inode) {
		both = bpf_get_current_pid_tgid();
		ids.pid = (u32)both;
		ids.tgid = both >> 32;
	} else if (bpf_get_ns_current_pid_tgid(settings.namespace_device, settings.namespace_inode, &ids,
					       sizeof(ids))) {
		ids.pid = 0;
		ids.tgid = 0;
	}
	return ids;
}

/* The current thread's id in the namespace of `settings`; 0 if it is outside it. */
static __always_inline u32 current_pid(void)
{
	return settings.namespace_inode ? current_ids().pid : (u32)bpf_get_current_pid_tgid();
}

#endif
