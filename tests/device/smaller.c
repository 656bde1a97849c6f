/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smaller.c - finds out by trying how much memory there is, and compares that
 * with what it is told.  It runs itself anew under CUSTODY_LIMIT, which means
 * nothing without custody; so bare it tells of the whole device, else of a part,
 * and prints the same.
 *
 *	smaller [LIMIT_IN_MIB]
 */
#include "client.h"

#include <unistd.h>

#define PAGE ((size_t)2 << 20)

enum {
	SLACK = 4, /* pages that the driver may keep for itself near the end */
	CHUNK = 16 + SLACK, /* and a pool that takes more than it was asked for */
	DEFAULT_MIB = 4096,
};

static size_t total, device_total;

static size_t free_now(void)
{
	size_t is_free, all;

	CALL(cuMemGetInfo, &is_free, &all);
	if (all != total)
		printf("cuMemGetInfo and cuDeviceTotalMem do not agree\n");
	return is_free;
}

static int try_linear(size_t bytes)
{
	CUdeviceptr block;

	if (cuMemAlloc(&block, bytes))
		return 0;
	CALL(cuMemFree, block);
	return 1;
}

static int try_pooled(size_t bytes)
{
	CUdeviceptr block;
	CUresult result = cuMemAllocAsync(&block, bytes, NULL);

	if (!result)
		CALL(cuMemFreeAsync, block, NULL);
	CALL(cuStreamSynchronize, NULL);
	return !result;
}

static int try_created(size_t bytes)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle;

	if (cuMemCreate(&handle, bytes, &properties, 0))
		return 0;
	CALL(cuMemRelease, handle);
	return 1;
}

/* The largest that works, in pages. */
static size_t search(int (*attempt)(size_t))
{
	size_t good = 0, bad = device_total / PAGE + 1;

	while (bad - good > 1) {
		size_t middle = (good + bad) / 2;

		if (attempt(middle * PAGE))
			good = middle;
		else
			bad = middle;
	}
	return good;
}

static void compare(const char *what, int (*attempt)(size_t), size_t slack)
{
	size_t told = free_now() / PAGE, found = search(attempt);

	if (found <= told && found + slack >= told)
		printf("%s: as much as is told\n", what);
	else
		printf("%s: %zu pages of %zu\n", what, found, told);
	fflush(stdout);
}

static void compare_all(void)
{
	compare("linear", try_linear, SLACK);
	compare("created", try_created, SLACK);
	compare("pooled", try_pooled, CHUNK);
	compare("linear", try_linear, SLACK);
}

static int is_limited(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "libcustody-preload.so");
}

int main(int count, char **arguments)
{
	size_t limit = count > 1 ? (size_t)atol(arguments[1]) : DEFAULT_MIB;
	CUdeviceptr block;
	char text[32];

	if (!getenv("CUSTODY_LIMIT")) {
		snprintf(text, sizeof(text), "%zuMiB", limit);
		setenv("CUSTODY_LIMIT", text, 1);
		execv("/proc/self/exe", arguments);
	}
	client_open();
	CALL(cuDeviceTotalMem, &total, 0);
	device_total = total;
	if (is_limited() && total != limit << 20)
		printf("a limit of %zu MiB is not kept: %zu\n", limit, total);
	compare_all();
	CALL(cuMemAlloc, &block, free_now() / 2);
	compare_all();
	CALL(cuMemFree, block);
	compare_all();
	return 0;
}
