// SPDX-License-Identifier: MIT OR Apache-2.0
// AArch64. Encodings: Arm Architecture Reference Manual for A-profile, "A64 instruction set encoding".
#include "decode.h"

#include <string.h>

// The signed number in `bits` bits of `word` from `at` on, times 4.
static uint64_t offset(uint32_t word, unsigned at, unsigned bits)
{
	int32_t value = (int32_t)(word << (32 - at - bits)) >> (32 - bits);

	return (uint64_t)(int64_t)value * 4;
}

static struct insn direct(enum flow flow, uint64_t addr, uint64_t distance)
{
	return (struct insn){ .flow = flow, .target = addr + distance };
}

// Unconditional branches to a register.
static enum flow to_register(uint32_t word)
{
	switch (word >> 21 & 15) {
	case 0: // br
	case 8: // braa, brab
		return FLOW_JUMP_INDIRECT;
	case 1: // blr
	case 9: // blraa, blrab
		return FLOW_CALL_INDIRECT;
	case 2: // ret, retaa, retab
		return FLOW_RET;
	case 4: // eret, eretaa, eretab
		return FLOW_IRET;
	}
	return FLOW_NEXT;
}

static struct insn decode(const uint8_t *code, unsigned len, uint64_t addr)
{
	struct insn insn = { .flow = FLOW_NEXT };
	uint32_t word;

	if (len != 4)
		return insn;
	memcpy(&word, code, 4);
	switch (word) {
	// cpu_switch_to (arch/arm64/kernel/entry.S), in this order: stp x19, x20, [x8], #16; ldp x19, x20, [x8], #16;
	// msr sp_el0, x1. x8 is in the task's struct cpu_context, and sp_el0 has the current task.
	case 0xa8815113:
		insn.stack = STACK_SAVE;
		return insn;
	case 0xa8c15113:
		insn.stack = STACK_LOAD;
		return insn;
	case 0xd5184101:
		insn.stack = STACK_SWITCH;
		return insn;
	case 0xd503207f: // wfi
		insn.flow = FLOW_HLT;
		return insn;
	}
	if (word >> 26 == 0x05)
		return direct(FLOW_JUMP, addr, offset(word, 0, 26));
	if (word >> 26 == 0x25)
		return direct(FLOW_CALL, addr, offset(word, 0, 26));
	if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) // b.cond, cbz, cbnz
		return direct(FLOW_BRANCH, addr, offset(word, 5, 19));
	if ((word & 0x7e000000) == 0x36000000) // tbz, tbnz
		return direct(FLOW_BRANCH, addr, offset(word, 5, 14));
	if ((word & 0xfe000000) == 0xd6000000)
		insn.flow = to_register(word);
	else if ((word & 0xffe0001f) == 0xd4000001) // svc
		insn.flow = FLOW_SYSCALL;
	else if ((word & 0xffe0001f) == 0xd4200000 || !(word >> 16)) // brk, udf
		insn.flow = FLOW_UD;
	return insn;
}

// Handlers begin in the vector table, whose place link.c learns.
static enum entry entry_kind(const uint8_t *code, unsigned len)
{
	(void)code;
	(void)len;
	return ENTRY_NONE;
}

// movz xzr, #0x5000 + number, lsl #48 (src/arch/marker.rs).
static unsigned marker_of(const uint8_t *code, unsigned len)
{
	uint32_t word;

	if (len != 4)
		return 0;
	memcpy(&word, code, 4);
	if ((word & 0xffe0001f) != 0xd2e0001f || (word >> 13 & 0xff) != MARKER_MAGIC >> 24)
		return 0;
	return word >> 5 & 0xff;
}

const struct arch arch_aarch64 = {
	.target = "aarch64",
	.number = 1,
	.marker_bytes = 4,
	.links = true,
	// __per_cpu_offset of this CPU (arch/arm64/include/asm/percpu.h).
	.own_data = { "TPIDR_EL1", NULL },
	.decode = decode,
	.entry_kind = entry_kind,
	.marker_of = marker_of,
};
