// SPDX-License-Identifier: MIT OR Apache-2.0
#include "running.h"
#include "follow.h"
#include "qemu_api.h"

#include <string.h>
#include <strings.h>

#if PLUGIN_API >= 2
static struct qemu_plugin_register *own_data[2];
static bool found;
static GByteArray *value;

static bool find_registers(void)
{
	GArray *all;

	if (value)
		return found;
	value = g_byte_array_new();
	all = qemu_plugin_get_registers();
	for (unsigned i = 0; i < all->len; i++) {
		// Later QEMUs append to the descriptor.
		const void *at = all->data + (size_t)i * g_array_get_element_size(all);
		const qemu_plugin_reg_descriptor *one = at;

		for (unsigned n = 0; n < 2; n++)
			if (arch->own_data[n] && !strcasecmp(one->name, arch->own_data[n]))
				own_data[n] = one->handle;
	}
	g_array_free(all, true);
	found = true;
	for (unsigned n = 0; n < 2; n++)
		found = found && (!arch->own_data[n] || own_data[n]);
	return found;
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

// By the address of the CPU's own data, a kernel address.
unsigned running_vcpu(void)
{
	static uint64_t own[VCPUS];
	static unsigned n, latest;
	uint64_t data;

	if (!find_registers())
		return VCPUS;
	data = read_register(own_data[0]);
	if (!(data >> 63) && own_data[1])
		data = read_register(own_data[1]);
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
