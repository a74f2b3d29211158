// SPDX-License-Identifier: MIT OR Apache-2.0
#include "running.h"
#include "follow.h"
#include "qemu_api.h"

#include <string.h>

#if PLUGIN_API >= 2
static struct qemu_plugin_register *gs_base, *kernel_gs_base;
static GByteArray *value;

static bool find_registers(void)
{
	GArray *all;

	if (value)
		return gs_base && kernel_gs_base;
	value = g_byte_array_new();
	all = qemu_plugin_get_registers();
	for (unsigned i = 0; i < all->len; i++) {
		// Later QEMUs append to the descriptor.
		const void *at = all->data + (size_t)i * g_array_get_element_size(all);
		const qemu_plugin_reg_descriptor *one = at;

		if (!strcmp(one->name, "gs_base"))
			gs_base = one->handle;
		else if (!strcmp(one->name, "k_gs_base"))
			kernel_gs_base = one->handle;
	}
	g_array_free(all, true);
	return gs_base && kernel_gs_base;
}

// 0 if it cannot be read.
static uint64_t read_register(struct qemu_plugin_register *handle)
{
	uint64_t number;

	g_byte_array_set_size(value, 0);
	qemu_plugin_read_register(handle, value);
	if (value->len != sizeof(number))
		return 0;
	memcpy(&number, value->data, sizeof(number));
	return number;
}

// Linux keeps the address of a CPU's own data, a kernel address, in the gs base; in user code, in the base that swapgs
// exchanges with it (arch/x86/entry/entry_64.S).
unsigned running_vcpu(void)
{
	static uint64_t own[VCPUS];
	static unsigned n, latest;
	uint64_t data;

	if (!find_registers())
		return VCPUS;
	data = read_register(gs_base);
	if (!(data >> 63))
		data = read_register(kernel_gs_base);
	if (!(data >> 63))
		return VCPUS;
	if (own[latest] == data)
		return latest;
	for (latest = 0; latest < n; latest++)
		if (own[latest] == data)
			return latest;
	if (n == VCPUS) {
		latest = 0;
		return VCPUS;
	}
	own[n] = data;
	return n++;
}
#else
unsigned running_vcpu(void)
{
	return VCPUS;
}
#endif
