// SPDX-License-Identifier: MIT OR Apache-2.0
// x86-64.
#include "decode.h"

#include <string.h>

static int64_t displacement(const uint8_t *code, unsigned len, unsigned size)
{
	int32_t wide;

	if (size == 1)
		return (int8_t)code[len - 1];
	memcpy(&wide, code + len - 4, sizeof(wide));
	return wide;
}

static struct insn direct(enum flow flow, const uint8_t *code, unsigned len, unsigned size, uint64_t addr)
{
	struct insn insn = { .flow = flow };

	if (len > size)
		insn.target = addr + len + (uint64_t)displacement(code, len, size);
	return insn;
}

static struct insn two_byte(const uint8_t *code, unsigned len, unsigned i, uint64_t addr)
{
	struct insn insn = { .flow = FLOW_NEXT };
	uint8_t op = i < len ? code[i] : 0;

	switch (op) {
	case 0x05:
	case 0x34:
		insn.flow = FLOW_SYSCALL;
		break;
	case 0x07:
	case 0x35:
		insn.flow = FLOW_SYSRET;
		break;
	case 0x0b:
	case 0xb9:
	case 0xff:
		insn.flow = FLOW_UD;
		break;
	case 0xa0:
	case 0xa8:
		insn.stack = STACK_PUSH;
		break;
	case 0xa1:
	case 0xa9:
		insn.stack = STACK_POP;
		break;
	default:
		if (op >= 0x80 && op <= 0x8f)
			return direct(FLOW_BRANCH, code, len, 4, addr);
	}
	return insn;
}

static struct insn group_ff(uint8_t modrm)
{
	struct insn insn = { .flow = FLOW_NEXT };

	switch ((modrm >> 3) & 7) {
	case 2:
	case 3:
		insn.flow = FLOW_CALL_INDIRECT;
		insn.stack = STACK_PUSH;
		break;
	case 4:
	case 5:
		insn.flow = FLOW_JUMP_INDIRECT;
		break;
	case 6:
		insn.stack = STACK_PUSH;
		break;
	}
	return insn;
}

static struct insn string_insn(uint8_t op)
{
	struct insn insn = { .flow = FLOW_NEXT, .rep = true };

	insn.rep_reads = op == 0xa6 || op == 0xa7 || (op >= 0xac && op <= 0xaf) || op == 0x6e || op == 0x6f;
	insn.rep_twice = op == 0xa6 || op == 0xa7;
	return insn;
}

static bool is_string(uint8_t op)
{
	return (op >= 0xa4 && op <= 0xa7) || (op >= 0xaa && op <= 0xaf) || (op >= 0x6c && op <= 0x6f);
}

static struct insn decode(const uint8_t *code, unsigned len, uint64_t addr)
{
	struct insn insn = { .flow = FLOW_NEXT };
	bool rep = false, gs = false;
	uint8_t rex = 0, op, modrm;
	unsigned i = 0;

	for (; i < len; i++) {
		uint8_t byte = code[i];

		if (byte == 0xf2 || byte == 0xf3)
			rep = true;
		else if (byte == 0x65)
			gs = true;
		else if (byte != 0x66 && byte != 0x67 && byte != 0xf0 && byte != 0x2e && byte != 0x36 && byte != 0x3e &&
			 byte != 0x26 && byte != 0x64)
			break;
	}
	if (i < len && (code[i] & 0xf0) == 0x40)
		rex = code[i++];
	if (i >= len)
		return insn;
	op = code[i];
	modrm = i + 1 < len ? code[i + 1] : 0;
	if (op == 0x0f)
		return two_byte(code, len, i + 1, addr);
	if (rep && is_string(op))
		return string_insn(op);
	if (op >= 0x70 && op <= 0x7f)
		return direct(FLOW_BRANCH, code, len, 1, addr);
	if (op >= 0xe0 && op <= 0xe3)
		return direct(FLOW_BRANCH, code, len, 1, addr);
	if ((op >= 0x50 && op <= 0x57) || op == 0x68 || op == 0x6a || op == 0x9c) {
		insn.stack = STACK_PUSH;
		return insn;
	}
	if ((op >= 0x58 && op <= 0x5f) || op == 0x9d || op == 0xc9 || op == 0x8f) {
		insn.stack = STACK_POP;
		return insn;
	}
	switch (op) {
	case 0xe8:
		insn = direct(FLOW_CALL, code, len, 4, addr);
		insn.stack = STACK_PUSH;
		break;
	case 0xe9:
		return direct(FLOW_JUMP, code, len, 4, addr);
	case 0xeb:
		return direct(FLOW_JUMP, code, len, 1, addr);
	case 0xc2:
	case 0xc3:
		insn.flow = FLOW_RET;
		insn.stack = STACK_POP;
		break;
	case 0xca:
	case 0xcb: // far return: not to a recorded call
		insn.flow = FLOW_JUMP_INDIRECT;
		break;
	case 0xcf:
		insn.flow = FLOW_IRET;
		break;
	case 0xcc:
	case 0xcd:
		insn.flow = FLOW_INT;
		break;
	case 0xf4:
		insn.flow = FLOW_HLT;
		break;
	case 0xff:
		return group_ff(modrm);
	case 0x8b:
		// mov disp(%reg),%rsp. Loads through %gs are the kernel's entry code, not a task switch.
		if ((rex & 0x0c) == 0x08 && !gs && ((modrm >> 3) & 7) == 4 && modrm >> 6 != 3)
			insn.stack = STACK_SWITCH;
		break;
	}
	return insn;
}

// Handlers begin with an optional endbr64, clac (3 bytes of nop without SMAP, of which 5.10 has a form of its own for
// AMD's K8, as which qemu64 presents itself: arch/x86/include/asm/nops.h) and, since 6.1, cld. Then they push $-1
// in place of an error code, or call error_entry. Device interrupts push $vector and jump (arch/x86/entry/entry_64.S,
// arch/x86/include/asm/idtentry.h).
static enum entry entry_kind(const uint8_t *code, unsigned len)
{
	static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa }, sealed[] = { 0x66, 0x0f, 0x1f, 0x00 };
	static const uint8_t clac[][3] = {
		{ 0x0f, 0x01, 0xca }, { 0x0f, 0x1f, 0x00 }, { 0x90, 0x90, 0x90 }, { 0x66, 0x66, 0x90 },
	};
	bool cleared = false;
	unsigned i = 0;

	if (len >= 4 && (!memcmp(code, endbr, 4) || !memcmp(code, sealed, 4)))
		i += 4;
	for (unsigned c = 0; c < sizeof(clac) / sizeof(clac[0]) && !cleared; c++)
		if (len >= i + 3 && !memcmp(code + i, clac[c], 3))
			cleared = true;
	if (cleared)
		i += 3;
	if (i < len && code[i] == 0xfc) {
		cleared = true;
		i++;
	}
	if ((i && i == len) || (i + 2 == len && code[i] == 0x6a))
		return ENTRY_CUT;
	if (cleared && i + 1 < len && code[i] == 0x6a)
		return ENTRY_PLAIN;
	if (cleared && i < len && code[i] == 0xe8)
		return ENTRY_ERROR;
	if (i + 2 < len && code[i] == 0x6a && (code[i + 2] == 0xe9 || code[i + 2] == 0xeb))
		return ENTRY_PLAIN;
	return ENTRY_NONE;
}

// The lower half of the displacement of a long nop (src/arch/marker.rs).
static unsigned marker_of(const uint8_t *code, unsigned len)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x84, 0x00 };
	uint32_t displacement;

	if (len != 8 || memcmp(code, nop, 4))
		return 0;
	memcpy(&displacement, code + 4, 4);
	if ((displacement & 0xffff0000u) != MARKER_MAGIC)
		return 0;
	return displacement & 0xffffu;
}

const struct arch arch_x86_64 = {
	.target = "x86_64",
	.number = 0,
	.marker_bytes = 8,
	// Linux keeps the address of a CPU's own data in the gs base; in user code, in the base that swapgs exchanges with it
	// (arch/x86/entry/entry_64.S).
	.own_data = { "gs_base", "k_gs_base" },
	.decode = decode,
	.entry_kind = entry_kind,
	.marker_of = marker_of,
};
