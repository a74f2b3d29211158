// SPDX-License-Identifier: MIT OR Apache-2.0
// The part of QEMU's plugin interface that this plugin uses, declared here so that building needs no QEMU headers.
//
// PLUGIN_API is the interface version that the object is built for (QEMU: include/qemu/qemu-plugin.h):
//   1  QEMU 4.2 to 8.x
//   2  QEMU 9.0: inline operations use "scoreboards" (one counter per vCPU); those on plain pointers were removed
//   3  QEMU 9.1: qemu_plugin_insn_data copies the code instead of returning a pointer to it
//   4  QEMU 10.0, 5 QEMU 10.1 and 10.2: additions not used here
//   6  between 10.2 and 11.1, assumed for 11.0: qemu_plugin_read_register returns success as a bool
//   7  QEMU 11.1: callbacks get their registered data instead of the plugin's id; 11.1 rejects older plugins
#ifndef PIPEPROF_QEMU_API_H
#define PIPEPROF_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint32_t qemu_plugin_meminfo_t;

typedef struct qemu_info_t {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_CB_RW_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

// The parameters of three kinds of callbacks, and the argument added at registration. Only `tb` is used.
#define UNUSED __attribute__((unused))
#if PLUGIN_API >= 7
#define ON_RESET UNUSED void *userdata
#define ON_EXIT UNUSED void *userdata
#define ON_TRANSLATE struct qemu_plugin_tb *tb, UNUSED void *userdata
#define AND_NO_DATA , NULL
#else
#define ON_RESET UNUSED qemu_plugin_id_t id
#define ON_EXIT UNUSED qemu_plugin_id_t id, UNUSED void *userdata
#define ON_TRANSLATE UNUSED qemu_plugin_id_t id, struct qemu_plugin_tb *tb
#define AND_NO_DATA
#endif

typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int vcpu, void *userdata);
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
					  void *userdata);

#if PLUGIN_API >= 7
void qemu_plugin_reset(qemu_plugin_id_t id, void (*cb)(ON_RESET), void *userdata);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(ON_TRANSLATE), void *userdata);
#else
void qemu_plugin_reset(qemu_plugin_id_t id, void (*cb)(ON_RESET));
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(ON_TRANSLATE));
#endif
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(ON_EXIT), void *userdata);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t cb,
					  enum qemu_plugin_cb_flags flags, void *userdata);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_udata_cb_t cb,
					    enum qemu_plugin_cb_flags flags, void *userdata);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t cb,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *userdata);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

#if PLUGIN_API >= 3
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest, size_t len);
#else
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#endif

#if PLUGIN_API >= 2
struct qemu_plugin_scoreboard;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int vcpu);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, enum qemu_plugin_op op,
							 qemu_plugin_u64 entry, uint64_t imm);

// Registers of the CPU that executes the callback. The arrays are from GLib, which QEMU links.
typedef struct {
	char *data;
	unsigned int len;
} GArray;
typedef struct {
	uint8_t *data;
	unsigned int len;
} GByteArray;
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *array, unsigned int length);
unsigned int g_array_get_element_size(GArray *array);
char *g_array_free(GArray *array, int free_segment);

struct qemu_plugin_register;
typedef struct {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
} qemu_plugin_reg_descriptor;
GArray *qemu_plugin_get_registers(void);
#if PLUGIN_API >= 6
bool qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *buf);
#else
int qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *buf);
#endif
#else
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, enum qemu_plugin_op op, void *ptr,
						uint64_t imm);
#endif

#endif
