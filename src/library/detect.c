/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <inttypes.h>
#include <stdio.h>

static const char *say_support(const struct custody_device_info *info)
{
	if (info->is_deprecated)
		return "SUPPORTED, DEPRECATED";
	return info->is_supported ? "SUPPORTED" : "NOT SUPPORTED";
}

static const char *say_yes(bool is_so)
{
	return is_so ? "yes" : "no";
}

static void print_one(FILE *out, struct custody_device *device,
		      const struct custody_device_info *info)
{
	int watches, ratio; /* not shown by a driver that does not know them */

	fprintf(out, "device %d  %-40s [%s]\n", info->ordinal, info->name, say_support(info));
	fprintf(out, "\tcompute capability       %d.%d\n", info->major, info->minor);
	fprintf(out, "\tPCI                      %04x:%02x:%02x\n", (unsigned int)info->pci_domain,
		(unsigned int)info->pci_bus, (unsigned int)info->pci_device);
	fprintf(out, "\tUUID                     %s\n", info->uuid);
	fprintf(out, "\tmemory                   %" PRIu64 " MiB\n", info->total_bytes >> 20);
	if (custody_device_attribute(device, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT,
				     &watches) == 0)
		fprintf(out, "\twatchdog                 %s\n", watches ? "enabled" : "disabled");
	if (custody_device_attribute(device,
				     CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
				     &ratio) == 0)
		fprintf(out, "\tFP32/FP64 performance    %d\n", ratio);
	fprintf(out, "\tfloat16                  %s\n", say_yes(info->supports_float16));
	fprintf(out, "\tbfloat16                 %s\n", say_yes(info->supports_bfloat16));
	fprintf(out, "\tfloat8                   %s\n", say_yes(info->supports_float8));
	fprintf(out, "\tmemory pools             %s\n", say_yes(info->supports_pools));
}

static int print_all(FILE *out, int count, int *supported)
{
	struct custody_device_info info = { .size = sizeof(info) };
	int error = 0;

	*supported = 0;
	fprintf(out, "%d CUDA device%s found\n", count, count == 1 ? " was" : "s were");
	for (int i = 0; !error && i < count; i++) {
		error = custody_device_info(device_find(i), &info);
		if (error)
			break;
		*supported += info.is_supported;
		print_one(out, device_find(i), &info);
	}
	fprintf(out, "%d of %d supported\n", *supported, count);
	return error;
}

int custody_detect(FILE *out, int *supported)
{
	int error, found;

	if (!out)
		return error_null("out");
	error_forget();
	error = library_init();
	if (error)
		return error;
	error = print_all(out, device_count(), &found);
	if (error)
		return error;
	error_forget();
	if (supported)
		*supported = found;
	return 0;
}
