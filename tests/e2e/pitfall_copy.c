/* SPDX-License-Identifier: Apache-2.0 */
/* pitfall_copy.c - which way copies go, who waits for them, how many bytes they move. */
#include "pitfall.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 64 * KIB };

static CUdeviceptr host_address(void *memory)
{
	return (CUdeviceptr)(uintptr_t)memory;
}

static CUdeviceptr new_managed(size_t bytes)
{
	CUdeviceptr address;

	need(cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL));
	return address;
}

static void *new_pinned(size_t bytes)
{
	void *memory;

	need(cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP));
	return memory;
}

/* The addresses decide, each pair of places differently. */
static void directions(void)
{
	CUdeviceptr device, second, shared;
	void *pinned, *pageable = calloc(1, PIECE);

	pitfall_start();
	device = new_block(PIECE);
	second = new_block(PIECE);
	shared = new_managed(PIECE);
	pinned = new_pinned(PIECE);
	memset(pinned, 3, PIECE);
	need(cuMemcpy(device, host_address(pinned), 1001));
	need(cuMemcpy(second, device, 1002));
	need(cuMemcpy(host_address(pageable), second, 1003));
	need(cuMemcpy(shared, host_address(pageable), 1004));
	need(cuMemcpy(device, shared, 1005));
	need(cuMemcpy(host_address(pinned), host_address(pageable), 1006));
	need(cuCtxSynchronize());
	tell("byte", ((unsigned char *)pageable)[1000]);
	tell("word", read_word(device));
	need(cuMemFree(device));
	need(cuMemFree(second));
	need(cuMemFree(shared));
	need(cuMemFreeHost(pinned));
	free(pageable);
}

/* A function's name says less than its arguments. */
static void names(void)
{
	CUdeviceptr device, shared, mapped;
	void *pinned;

	pitfall_start();
	device = new_block(PIECE);
	shared = new_managed(PIECE);
	pinned = new_pinned(PIECE);
	memset((void *)(uintptr_t)shared, 4, PIECE);
	need(cuMemHostGetDevicePointer(&mapped, pinned, 0));
	need(cuMemcpyHtoD(device, (void *)(uintptr_t)shared, 2001));
	tell("from managed memory, by HtoD", read_word(device));
	memset(pinned, 5, PIECE);
	need(cuMemcpyDtoD(device, mapped, 2002));
	need(cuCtxSynchronize());
	tell("from page-locked memory, by DtoD", read_word(device));
	need(cuMemFree(device));
	need(cuMemFree(shared));
	need(cuMemFreeHost(pinned));
}

/*
 * Who waits, with a held stream in front.  The legacy stream stands behind blocking
 * streams only; between blocks of the device even a synchronous copy does not wait.
 */
static void waiting(void)
{
	CUdeviceptr device, second;
	CUstream blocking;
	void *pinned;

	pitfall_start();
	device = new_block(PIECE);
	second = new_block(PIECE);
	pinned = new_pinned(PIECE);
	need(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	hold(pitfall.stream);
	need(cuMemcpyHtoD(device, pinned, PIECE));
	need(cuMemcpyDtoH(pinned, device, PIECE));
	tell("synchronous copies pass a stream that does not block", !is_let_go());
	need(cuMemcpyHtoDAsync(device, pinned, PIECE, pitfall.stream));
	tell("an asynchronous one returns", !is_let_go());
	let_go();
	need(cuStreamSynchronize(pitfall.stream));
	hold(blocking);
	need(cuMemcpyDtoD(second, device, PIECE));
	need(cuMemsetD32(second, 1, 16));
	tell("on the device neither copy nor memset waits for a blocking one", !is_let_go());
	let_go_after(400);
	need(cuMemcpyDtoH(pinned, second, PIECE));
	tell("but one to the host does", is_let_go());
	join_letting_go();
	need(cuStreamDestroy(blocking));
	need(cuMemFree(device));
	need(cuMemFree(second));
	need(cuMemFreeHost(pinned));
}

/* The driver has taken the bytes when the call returns, up to a size. */
static void staged(void)
{
	char *pageable = malloc(PIECE);
	CUdeviceptr device;

	pitfall_start();
	device = new_block(PIECE);
	memset(pageable, 6, PIECE);
	hold(pitfall.stream);
	need(cuMemcpyHtoDAsync(device, pageable, PIECE, pitfall.stream));
	tell("returns while the stream is held", !is_let_go());
	memset(pageable, 7, PIECE);
	let_go();
	need(cuStreamSynchronize(pitfall.stream));
	tell("word", read_word(device));
	need(cuMemFree(device));
	free(pageable);
}

/* A block can ask that the host waits for every operation on it. */
static void sync_memops(void)
{
	CUdeviceptr device, second;
	CUstream blocking;
	unsigned on = 1;

	pitfall_start();
	device = new_block(PIECE);
	second = new_block(PIECE);
	need(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	need(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, second));
	hold(blocking);
	let_go_after(400);
	need(cuMemcpyDtoD(second, device, PIECE));
	tell("a copy on the device waits", is_let_go());
	join_letting_go();
	need(cuStreamDestroy(blocking));
	need(cuMemFree(device));
	need(cuMemFree(second));
}

static CUresult copy_batch(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes,
			   CUstream stream)
{
	CUmemcpyAttributes how[2] = {
		{ .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM },
		{ .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL },
	};
	size_t firsts[2] = { 0, 2 };

	return cuMemcpyBatchAsync(targets, sources, sizes, 3, how, firsts, 2, stream);
}

/* One call, several copies, each with a direction of its own. */
static void batch(void)
{
	CUdeviceptr targets[3], sources[3], device, second;
	size_t sizes[3] = { 3001, 3002, 3003 };
	char *pageable = calloc(1, PIECE);
	void *pinned;

	pitfall_start();
	device = new_block(PIECE);
	second = new_block(PIECE);
	pinned = new_pinned(PIECE);
	memset(pinned, 8, PIECE);
	targets[0] = device;
	sources[0] = host_address(pinned);
	targets[1] = second;
	sources[1] = device;
	targets[2] = second + 32 * KIB;
	sources[2] = host_address(pageable);
	tell("on the legacy stream", copy_batch(targets, sources, sizes, NULL));
	need(copy_batch(targets, sources, sizes, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("word", read_word(second));
	need(cuMemFree(device));
	need(cuMemFree(second));
	need(cuMemFreeHost(pinned));
	free(pageable);
}

/* A pitch lays out; it does not move. */
static void shapes(void)
{
	CUDA_MEMCPY2D flat = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcPitch = 1024,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .WidthInBytes = 100, .Height = 10,
	};
	CUDA_MEMCPY3D deep = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcHeight = 10,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstHeight = 20, .WidthInBytes = 64,
		.Height = 4, .Depth = 3,
	};
	CUdeviceptr pitched, second;
	void *pinned;
	size_t pitch;

	pitfall_start();
	need(cuMemAllocPitch(&pitched, &pitch, 100, 100, 4));
	second = new_block(MIB);
	pinned = new_pinned(PIECE);
	memset(pinned, 9, PIECE);
	flat.srcHost = pinned;
	flat.dstDevice = pitched;
	flat.dstPitch = deep.srcPitch = pitch;
	need(cuMemcpy2D(&flat));
	deep.srcDevice = pitched;
	deep.dstDevice = second;
	deep.dstPitch = 512;
	need(cuMemcpy3D(&deep));
	need(cuCtxSynchronize());
	tell("word", read_word(second));
	need(cuMemFree(pitched));
	need(cuMemFree(second));
	need(cuMemFreeHost(pinned));
}

/* Bytes that may move, or may be there already. */
static void prefetch(void)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUdeviceptr shared;

	pitfall_start();
	here.id = pitfall.device;
	shared = new_managed(MIB);
	memset((void *)(uintptr_t)shared, 1, MIB);
	need(cuMemPrefetchAsync(shared, MIB, here, 0, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	tell("word", *(uint32_t *)(uintptr_t)shared);
	need(cuMemFree(shared));
}

/* Between contexts: the host does not wait, and the contexts say whose memory it is. */
static void peers(void)
{
	CUdeviceptr here, there;
	CUcontext second;

	pitfall_start();
	here = new_block(PIECE);
	need(cuMemsetD32(here, 77, 16));
	need(cuCtxCreate(&second, NULL, 0, pitfall.device));
	there = new_block(PIECE);
	need(cuMemcpyPeer(there, second, here, pitfall.context, 4001));
	need(cuMemcpyPeerAsync(there, second, here, pitfall.context, 4002, pitfall.stream));
	need(cuStreamSynchronize(pitfall.stream));
	need(cuCtxSynchronize());
	tell("word", read_word(there));
	need(cuMemFree(there));
	need(cuCtxDestroy(second));
	need(cuCtxSetCurrent(pitfall.context));
	need(cuMemFree(here));
}

const struct pitfall_case pitfall_copy_cases[] = {
	{ "copy-directions", directions },
	{ "copy-names", names },
	{ "copy-waiting", waiting },
	{ "copy-staged", staged },
	{ "copy-sync-memops", sync_memops },
	{ "copy-batch", batch },
	{ "copy-shapes", shapes },
	{ "copy-prefetch", prefetch },
	{ "copy-peers", peers },
	{ NULL, NULL },
};
