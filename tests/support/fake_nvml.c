/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A management library for tests: FAKE_NVML names a file with a line "UUID BYTES" for
 * each device, read anew with every question, so that a test says what is free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOOD = 0, BAD = 999, DEVICES = 8 };

/* nvmlMemory_t */
struct memory {
	unsigned long long total, free, used;
};

/* nvmlDevice_t: which line it is. */
static char handle[DEVICES];

static int read_line(unsigned int line, char uuid[64], unsigned long long *bytes)
{
	const char *path = getenv("FAKE_NVML");
	FILE *stream = path ? fopen(path, "r") : NULL;
	int result = BAD;

	if (!stream)
		return BAD;
	for (unsigned int i = 0; i <= line; i++)
		result = fscanf(stream, "%63s %llu", uuid, bytes) == 2 ? GOOD : BAD;
	fclose(stream);
	return result;
}

#define VISIBLE __attribute__((visibility("default")))

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned int *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int bytes);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);

VISIBLE int nvmlInit_v2(void)
{
	return getenv("FAKE_NVML") ? GOOD : BAD;
}

VISIBLE int nvmlShutdown(void)
{
	return GOOD;
}

VISIBLE int nvmlDeviceGetCount_v2(unsigned int *count)
{
	unsigned long long bytes;
	char uuid[64];

	for (*count = 0; *count < DEVICES && read_line(*count, uuid, &bytes) == GOOD; ++*count)
		;
	return GOOD;
}

VISIBLE int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
	if (index >= DEVICES)
		return BAD;
	*device = &handle[index];
	return GOOD;
}

static unsigned int line_of(const void *device)
{
	return (unsigned int)((const char *)device - handle);
}

VISIBLE int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int bytes)
{
	unsigned long long free_bytes;
	char text[64];
	int result = read_line(line_of(device), text, &free_bytes);

	if (result == GOOD)
		snprintf(uuid, bytes, "%s", text);
	return result;
}

VISIBLE int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
	char uuid[64];

	memset(memory, 0, sizeof(*memory));
	return read_line(line_of(device), uuid, &memory->free);
}
