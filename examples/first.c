/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A first program to watch: it moves a picture through the device a few
 * times, once from ordinary memory and once from pinned memory, and forgets
 * one block on purpose.  custody report shows the difference between the two
 * copies, and names the forgotten block as a leak.
 *
 *	cc -o first first.c -l:libcuda.so.1
 *	custody record ./first
 *	custody report custody.first.<pid>.db
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PICTURE_BYTES = 1920 * 1080 * 4,
	TABLE_BYTES = 3 << 20,
	ROUNDS = 8,
};

#define CHECK(call) check((call), #call)

static void check(CUresult result, const char *call)
{
	const char *text = "unknown error";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorString(result, &text);
	fprintf(stderr, "first: %s: %s\n", call, text);
	exit(1);
}

static void open_device(CUdevice *device, CUcontext *context)
{
	char name[80];

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(device, 0));
	CHECK(cuDeviceGetName(name, sizeof(name), *device));
	CHECK(cuDevicePrimaryCtxRetain(context, *device));
	CHECK(cuCtxSetCurrent(*context));
	printf("device       %s\n", name);
}

/* Up, across, down again; both device blocks live only for one round. */
static void move_picture(void *picture, CUstream stream)
{
	CUdeviceptr first, second;

	CHECK(cuMemAlloc(&first, PICTURE_BYTES));
	CHECK(cuMemAlloc(&second, PICTURE_BYTES));
	CHECK(cuMemsetD8Async(second, 0, PICTURE_BYTES, stream));
	CHECK(cuMemcpyHtoDAsync(first, picture, PICTURE_BYTES, stream));
	CHECK(cuMemcpyDtoDAsync(second, first, PICTURE_BYTES, stream));
	CHECK(cuStreamSynchronize(stream));
	memset(picture, 0, PICTURE_BYTES);
	CHECK(cuMemcpyDtoHAsync(picture, second, PICTURE_BYTES, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemFree(first));
	CHECK(cuMemFree(second));
}

static void paint(uint8_t *picture)
{
	for (size_t i = 0; i < PICTURE_BYTES; i++)
		picture[i] = (uint8_t)(i * 31 + i / 251);
}

static uint32_t sum_of(const uint8_t *picture)
{
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < PICTURE_BYTES; i++)
		sum = (sum ^ picture[i]) * 16777619u;
	return sum;
}

/* Says whether the picture came back as it went. */
static int travel(const char *memory, uint8_t *picture, CUstream stream)
{
	uint32_t before, after;

	paint(picture);
	before = sum_of(picture);
	for (int round = 0; round < ROUNDS; round++)
		move_picture(picture, stream);
	after = sum_of(picture);
	printf("%-12s %d rounds, checksum %08x, %s\n", memory, ROUNDS, after,
	       before == after ? "unchanged" : "CHANGED");
	return before == after ? 0 : 1;
}

int main(void)
{
	CUdeviceptr forgotten;
	CUcontext context;
	CUdevice device;
	CUstream stream;
	void *pinned;
	void *pageable = malloc(PICTURE_BYTES);
	int failed = 0;

	if (!pageable)
		return 1;
	open_device(&device, &context);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAllocHost(&pinned, PICTURE_BYTES));
	CHECK(cuMemAlloc(&forgotten, TABLE_BYTES));

	failed |= travel("pageable", pageable, stream);
	failed |= travel("pinned", pinned, stream);

	CHECK(cuMemFreeHost(pinned));
	CHECK(cuStreamDestroy(stream));
	free(pageable);
	printf("forgotten    %d bytes, on purpose\n", TABLE_BYTES);
	return failed;
}
