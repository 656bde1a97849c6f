/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_kinds.c - a driver API program, linked with libcuda, that makes every
 * kind of allocation and copy and keeps a journal of it.  What it prints (check
 * sums of what came back) is the same on every run and with or without custody.
 *
 *	driver_kinds [STATUS]	ends with this status; "abort" ends by SIGABRT
 *
 * A call that the driver does not support (the simulated one has no IPC) is
 * named on standard output and leaves no row in the journal.
 */
#include "journal.h"

#include <cuda.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SMALL = 4096,
	LARGE = 3 << 20,
	WIDTH = 640,
	HEIGHT = 48,
	DEPTH = 4,
	LEAK = 12345,
};

#define SYMBOL_TEXT(symbol) #symbol
#define SYMBOL(function)    SYMBOL_TEXT(function)

/* CALL(function, arguments...): 1 if it succeeded, 0 if not supported, else the end. */
#define CALL(function, ...) expect(function(__VA_ARGS__), SYMBOL(function))
#define ALLOCATE(kind, bytes, function, ...) \
	(CALL(function, __VA_ARGS__) ? (journal_allocation(SYMBOL(function), kind, bytes), 1) : 0)
#define TRANSFER(kind, bytes, function, ...) \
	(CALL(function, __VA_ARGS__) ? (journal_transfer(SYMBOL(function), kind, bytes), 1) : 0)

static CUdevice device;
static CUcontext context;
static CUstream stream;

static int expect(CUresult result, const char *function)
{
	if (result == CUDA_SUCCESS)
		return 1;
	if (result == CUDA_ERROR_NOT_SUPPORTED) {
		printf("%s is not supported here\n", function);
		return 0;
	}
	fprintf(stderr, "driver_kinds: %s answered %d\n", function, (int)result);
	exit(1);
}

static uint32_t sum_of(const void *data, size_t bytes)
{
	const unsigned char *byte = data;
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ byte[i]) * 16777619u;
	return sum;
}

static void fill(void *data, size_t bytes, uint32_t seed)
{
	unsigned char *byte = data;

	for (size_t i = 0; i < bytes; i++)
		byte[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
}

static void show(const char *what, const void *data, size_t bytes)
{
	printf("%-28s %08x\n", what, sum_of(data, bytes));
}

static void *host_block(size_t bytes)
{
	void *block = calloc(1, bytes);

	if (!block)
		exit(1);
	return block;
}

static CUdeviceptr device_block(size_t bytes)
{
	CUdeviceptr block = 0;

	ALLOCATE("device", bytes, cuMemAlloc, &block, bytes);
	return block;
}

/* What went to the default stream, memsets too, may run on when the call has returned. */
static void settle(void)
{
	expect(cuCtxSynchronize(), "cuCtxSynchronize");
}

/* ---------------------------------------------------------- plain blocks */

static void copy_plain(void)
{
	unsigned char *host = host_block(LARGE);
	CUdeviceptr first = device_block(LARGE), second = device_block(LARGE);

	fill(host, LARGE, 1);
	TRANSFER("H2D", LARGE, cuMemcpyHtoD, first, host, LARGE);
	TRANSFER("D2D", LARGE, cuMemcpyDtoD, second, first, LARGE);
	memset(host, 0, LARGE);
	TRANSFER("D2H", LARGE, cuMemcpyDtoH, host, second, LARGE);
	show("plain copies", host, LARGE);
	TRANSFER("MEMSET", SMALL, cuMemsetD8, first, 0x5a, SMALL);
	TRANSFER("MEMSET", SMALL, cuMemsetD16, first + SMALL, 0x1234, SMALL / 2);
	TRANSFER("MEMSET", SMALL, cuMemsetD32, first + 2 * SMALL, 0xdeadbeef, SMALL / 4);
	settle();
	TRANSFER("D2H", 3 * SMALL, cuMemcpyDtoHAsync, host, first, 3 * SMALL, stream);
	CALL(cuStreamSynchronize, stream);
	show("memsets", host, 3 * SMALL);
	CALL(cuMemFree, first);
	CALL(cuMemFree, second);
	free(host);
}

static void copy_managed(void)
{
	CUdeviceptr managed = 0, block = device_block(SMALL);
	unsigned char *host = host_block(SMALL);

	if (ALLOCATE("managed", SMALL, cuMemAllocManaged, &managed, SMALL, CU_MEM_ATTACH_GLOBAL)) {
		TRANSFER("MEMSET", SMALL, cuMemsetD8, managed, 0x33, SMALL);
		TRANSFER("D2D", SMALL, cuMemcpyDtoD, block, managed, SMALL);
		TRANSFER("D2H", SMALL, cuMemcpyDtoH, host, block, SMALL);
		show("managed", host, SMALL);
		CALL(cuMemFree, managed);
	}
	CALL(cuMemFree, block);
	free(host);
}

/* The bytes of a pitched block are known only when the driver has chosen the pitch. */
static void copy_pitched(void)
{
	unsigned char *host = host_block(WIDTH * HEIGHT);
	CUdeviceptr block = 0;
	size_t pitch = 0;
	CUDA_MEMCPY2D up = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			     .srcHost = host,
			     .srcPitch = WIDTH };
	CUDA_MEMCPY2D down = { .dstMemoryType = CU_MEMORYTYPE_HOST,
			       .dstHost = host,
			       .dstPitch = WIDTH };

	CALL(cuMemAllocPitch, &block, &pitch, WIDTH, HEIGHT, 4);
	journal_allocation(SYMBOL(cuMemAllocPitch), "pitch", pitch * HEIGHT);
	fill(host, WIDTH * HEIGHT, 2);
	up.dstMemoryType = down.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	up.dstDevice = down.srcDevice = block;
	up.dstPitch = down.srcPitch = pitch;
	up.WidthInBytes = down.WidthInBytes = WIDTH;
	up.Height = down.Height = HEIGHT;
	TRANSFER("H2D", WIDTH * HEIGHT, cuMemcpy2D, &up);
	TRANSFER("H2D", WIDTH * HEIGHT, cuMemcpy2DUnaligned, &up);
	TRANSFER("H2D", WIDTH * HEIGHT, cuMemcpy2DAsync, &up, stream);
	CALL(cuStreamSynchronize, stream);
	TRANSFER("MEMSET", 64 * HEIGHT, cuMemsetD2D8, block, pitch, 7, 64, HEIGHT);
	TRANSFER("MEMSET", 64 * HEIGHT, cuMemsetD2D32, block + 64, pitch, 9, 16, HEIGHT);
	memset(host, 0, WIDTH * HEIGHT);
	TRANSFER("D2H", WIDTH * HEIGHT, cuMemcpy2D, &down);
	show("pitched", host, WIDTH * HEIGHT);
	CALL(cuMemFree, block);
	free(host);
}

/* ----------------------------------------------------------- host memory */

static void copy_through(const char *what, unsigned char *host, size_t bytes)
{
	CUdeviceptr block = device_block(bytes);

	fill(host, bytes, (uint32_t)bytes);
	TRANSFER("H2D", bytes, cuMemcpyHtoDAsync, block, host, bytes, stream);
	CALL(cuStreamSynchronize, stream);
	memset(host, 0, bytes);
	TRANSFER("D2H", bytes, cuMemcpyDtoHAsync, host, block, bytes, stream);
	CALL(cuStreamSynchronize, stream);
	show(what, host, bytes);
	/* The general copy: the driver, and custody, infer the direction. */
	TRANSFER("H2D", bytes, cuMemcpy, block, (CUdeviceptr)(uintptr_t)host, bytes);
	TRANSFER("D2H", bytes, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)host, block, bytes, stream);
	CALL(cuStreamSynchronize, stream);
	show(what, host, bytes);
	CALL(cuMemFree, block);
}

static void use_host_memory(void)
{
	void *pinned = NULL, *mapped = NULL, *own = aligned_alloc(SMALL, 16 * SMALL);

	ALLOCATE("pinned", 2 * SMALL, cuMemAllocHost, &pinned, 2 * SMALL);
	copy_through("pinned", pinned, 2 * SMALL);
	ALLOCATE("pinned", 4 * SMALL, cuMemHostAlloc, &mapped, 4 * SMALL,
		 CU_MEMHOSTALLOC_DEVICEMAP);
	copy_through("pinned and mapped", mapped, 4 * SMALL);
	if (ALLOCATE("registered", 16 * SMALL, cuMemHostRegister, own, 16 * SMALL, 0)) {
		copy_through("registered", own, 16 * SMALL);
		CALL(cuMemHostUnregister, own);
	}
	CALL(cuMemFreeHost, pinned);
	CALL(cuMemFreeHost, mapped);
	free(own);
}

/* ----------------------------------------------------- pools and mappings */

static void use_pools(void)
{
	CUmemPoolProps property = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
						  .id = device } };
	CUmemoryPool pool;
	CUdeviceptr block = 0;
	unsigned char *host = host_block(LARGE);

	if (ALLOCATE("pool", LARGE, cuMemAllocAsync, &block, LARGE, stream)) {
		TRANSFER("MEMSET", LARGE, cuMemsetD8Async, block, 1, LARGE, stream);
		TRANSFER("MEMSET", SMALL, cuMemsetD16Async, block, 0x0203, SMALL / 2, stream);
		TRANSFER("MEMSET", SMALL, cuMemsetD32Async, block + SMALL, 4, SMALL / 4, stream);
		TRANSFER("D2H", LARGE, cuMemcpyDtoHAsync, host, block, LARGE, stream);
		CALL(cuMemFreeAsync, block, stream);
		CALL(cuStreamSynchronize, stream);
		show("default pool", host, LARGE);
	}
	if (!CALL(cuMemPoolCreate, &pool, &property))
		return;
	for (int i = 0; i < 5; i++) {
		ALLOCATE("pool", SMALL << i, cuMemAllocFromPoolAsync, &block, SMALL << i, pool,
			 stream);
		CALL(cuMemFreeAsync, block, stream);
	}
	CALL(cuStreamSynchronize, stream);
	CALL(cuMemPoolDestroy, pool);
	free(host);
}

static void copy_mapped(CUdeviceptr address, size_t bytes)
{
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
						 .id = device },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	unsigned char *host = host_block(bytes);

	CALL(cuMemSetAccess, address, bytes, &access, 1);
	fill(host, bytes, 3);
	TRANSFER("H2D", bytes, cuMemcpyHtoD, address, host, bytes);
	memset(host, 0, bytes);
	TRANSFER("D2H", bytes, cuMemcpyDtoH, host, address, bytes);
	show("virtual memory", host, bytes);
	free(host);
}

/* The handle is released while it is mapped: its bytes live until the unmap. */
static void use_virtual_memory(void)
{
	CUmemAllocationProp property = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
						       .id = device } };
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr address = 0;
	size_t bytes = 0;

	if (!CALL(cuMemGetAllocationGranularity, &bytes, &property,
		  CU_MEM_ALLOC_GRANULARITY_MINIMUM))
		return;
	if (!CALL(cuMemAddressReserve, &address, 2 * bytes, 0, 0, 0))
		return;
	ALLOCATE("vmm", bytes, cuMemCreate, &handle, bytes, &property, 0);
	CALL(cuMemMap, address + bytes, bytes, 0, handle, 0);
	CALL(cuMemRelease, handle);
	copy_mapped(address + bytes, bytes);
	CALL(cuMemUnmap, address + bytes, bytes);
	CALL(cuMemAddressFree, address, 2 * bytes);
}

/* ------------------------------------------------------------------ arrays */

static void copy_arrays(CUarray first, CUarray second, size_t bytes)
{
	unsigned char *host = host_block(bytes);
	CUdeviceptr block = device_block(bytes);

	fill(host, bytes, 4);
	TRANSFER("H2D", bytes, cuMemcpyHtoA, first, 0, host, bytes);
	TRANSFER("D2D", bytes, cuMemcpyAtoA, second, 0, first, 0, bytes);
	TRANSFER("D2D", bytes, cuMemcpyAtoD, block, second, 0, bytes);
	TRANSFER("D2D", bytes, cuMemcpyDtoA, first, 0, block, bytes);
	memset(host, 0, bytes);
	TRANSFER("D2H", bytes, cuMemcpyAtoH, host, first, 0, bytes);
	show("arrays", host, bytes);
	CALL(cuMemFree, block);
	free(host);
}

static void copy_volume(CUarray volume)
{
	size_t row = WIDTH * sizeof(float), bytes = row * HEIGHT * DEPTH;
	unsigned char *host = host_block(bytes);
	CUDA_MEMCPY3D up = { .srcMemoryType = CU_MEMORYTYPE_HOST,
			     .srcHost = host,
			     .srcPitch = row,
			     .srcHeight = HEIGHT,
			     .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			     .dstArray = volume,
			     .WidthInBytes = row,
			     .Height = HEIGHT,
			     .Depth = DEPTH };
	CUDA_MEMCPY3D down = { .dstMemoryType = CU_MEMORYTYPE_HOST,
			       .dstHost = host,
			       .dstPitch = row,
			       .dstHeight = HEIGHT,
			       .srcMemoryType = CU_MEMORYTYPE_ARRAY,
			       .srcArray = volume,
			       .WidthInBytes = row,
			       .Height = HEIGHT,
			       .Depth = DEPTH };

	fill(host, bytes, 5);
	TRANSFER("H2D", bytes, cuMemcpy3D, &up);
	settle();
	memset(host, 0, bytes);
	TRANSFER("D2H", bytes, cuMemcpy3DAsync, &down, stream);
	CALL(cuStreamSynchronize, stream);
	show("volume", host, bytes);
	free(host);
}

static void use_arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR line = { .Width = WIDTH,
				       .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				       .NumChannels = 4 };
	CUDA_ARRAY3D_DESCRIPTOR shape = { .Width = WIDTH,
					  .Height = HEIGHT,
					  .Depth = DEPTH,
					  .Format = CU_AD_FORMAT_FLOAT,
					  .NumChannels = 1 };
	CUarray first = NULL, second = NULL, volume = NULL;

	if (ALLOCATE("array", WIDTH * 4, cuArrayCreate, &first, &line) &&
	    ALLOCATE("array", WIDTH * 4, cuArrayCreate, &second, &line)) {
		copy_arrays(first, second, WIDTH * 4);
		CALL(cuArrayDestroy, first);
		CALL(cuArrayDestroy, second);
	}
	if (ALLOCATE("array", sizeof(float) * WIDTH * HEIGHT * DEPTH, cuArray3DCreate, &volume,
		     &shape)) {
		copy_volume(volume);
		CALL(cuArrayDestroy, volume);
	}
}

/* -------------------------------------------------- peers, batches, graphs */

static void copy_batch(CUdeviceptr target, CUdeviceptr source)
{
	CUdeviceptr targets[2] = { target, target + 3 * SMALL };
	CUdeviceptr sources[2] = { source + SMALL, source };
	size_t sizes[2] = { SMALL, SMALL / 2 }, first_of_attribute = 0;
	CUmemcpyAttributes attribute = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };

	if (CALL(cuMemcpyBatchAsync, targets, sources, sizes, 2, &attribute, &first_of_attribute, 1,
		 stream)) {
		journal_transfer(SYMBOL(cuMemcpyBatchAsync), "D2D", SMALL);
		journal_transfer(SYMBOL(cuMemcpyBatchAsync), "D2D", SMALL / 2);
	}
	CALL(cuStreamSynchronize, stream);
}

static void copy_peers(void)
{
	CUdeviceptr first = device_block(4 * SMALL), second = device_block(4 * SMALL);
	unsigned char *host = host_block(4 * SMALL);

	fill(host, 4 * SMALL, 6);
	TRANSFER("H2D", 4 * SMALL, cuMemcpyHtoD, first, host, 4 * SMALL);
	TRANSFER("D2D", SMALL, cuMemcpyPeer, second, context, first, context, SMALL);
	settle();
	TRANSFER("D2D", SMALL, cuMemcpyPeerAsync, second + SMALL, context, first, context, SMALL,
		 stream);
	TRANSFER("D2D", SMALL, cuMemcpyDtoDAsync, second + 2 * SMALL, first, SMALL, stream);
	CALL(cuStreamSynchronize, stream);
	copy_batch(second, first);
	TRANSFER("D2H", 4 * SMALL, cuMemcpyDtoH, host, second, 4 * SMALL);
	show("peers and batches", host, 4 * SMALL);
	CALL(cuMemFree, first);
	CALL(cuMemFree, second);
	free(host);
}

static int capture_graph(CUgraph *graph, CUdeviceptr first, CUdeviceptr second)
{
	if (!CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL))
		return 0;
	TRANSFER("MEMSET", SMALL, cuMemsetD8Async, first, 0x77, SMALL, stream);
	TRANSFER("D2D", SMALL, cuMemcpyDtoDAsync, second, first, SMALL, stream);
	return CALL(cuStreamEndCapture, stream, graph);
}

/* What is issued into a capture moves later, with every launch of the graph. */
static void launch_graph(void)
{
	CUdeviceptr first = device_block(SMALL), second = device_block(SMALL);
	unsigned char *host = host_block(SMALL);
	CUgraph graph;
	CUgraphExec ready;

	if (capture_graph(&graph, first, second)) {
		CALL(cuGraphInstantiate, &ready, graph, 0);
		for (int i = 0; i < 3; i++) {
			CALL(cuGraphLaunch, ready, stream);
			journal_transfer(SYMBOL(cuGraphLaunch), "MEMSET", SMALL);
			journal_transfer(SYMBOL(cuGraphLaunch), "D2D", SMALL);
		}
		CALL(cuStreamSynchronize, stream);
		CALL(cuGraphExecDestroy, ready);
		CALL(cuGraphDestroy, graph);
	}
	TRANSFER("D2H", SMALL, cuMemcpyDtoH, host, second, SMALL);
	show("graph", host, SMALL);
	CALL(cuMemFree, first);
	CALL(cuMemFree, second);
	free(host);
}

/* --------------------------------------------- doors, failures, contexts */

/* The twins for per-thread default streams, by the door the runtime uses. */
static void use_per_thread_twins(void)
{
	unsigned char *host = host_block(SMALL);
	CUdeviceptr block = device_block(SMALL);
	__typeof__(&cuMemcpyHtoD) up = NULL;
	__typeof__(&cuMemcpyDtoHAsync) down = NULL;
	CUdriverProcAddressQueryResult status;

	fill(host, SMALL, 8);
	CALL(cuGetProcAddress, "cuMemcpyHtoD", (void **)&up, 13000,
	     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
	CALL(cuGetProcAddress, "cuMemcpyDtoHAsync", (void **)&down, 13000,
	     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
	expect(up(block, host, SMALL), "cuMemcpyHtoD_v2_ptds");
	journal_transfer("cuMemcpyHtoD_v2_ptds", "H2D", SMALL);
	memset(host, 0, SMALL);
	expect(down(host, block, SMALL, NULL), "cuMemcpyDtoHAsync_v2_ptsz");
	journal_transfer("cuMemcpyDtoHAsync_v2_ptsz", "D2H", SMALL);
	CALL(cuStreamSynchronize, CU_STREAM_PER_THREAD);
	show("per-thread twins", host, SMALL);
	CALL(cuMemFree, block);
	free(host);
}

static void fail_on_purpose(void)
{
	CUdeviceptr block = device_block(SMALL), none = 0;
	CUresult too_much = cuMemAlloc(&none, (size_t)1 << 44);
	CUresult twice;

	CALL(cuMemFree, block);
	twice = cuMemFree(block);
	journal_add("failure", "api", SYMBOL(cuMemAlloc), (size_t)1 << 44);
	journal_add("failure", "api", SYMBOL(cuMemFree), 0);
	printf("16 TiB answered %d, a second free %d\n", (int)too_much, (int)twice);
}

/* A context of its own takes its blocks along when it is destroyed. */
static void destroy_context(void)
{
	CUcontext other;

	if (!CALL(cuCtxCreate, &other, NULL, 0, device))
		return;
	device_block(LARGE);
	device_block(SMALL);
	CALL(cuCtxDestroy, other);
	CALL(cuCtxSetCurrent, context);
	puts("a context was destroyed with two blocks in it");
}

/* ------------------------------------------------- memory of another process */

struct importer {
	pid_t pid;
	int give; /* the handle goes in here */
};

/* The child of a fork before CUDA: it opens the parent's block and reads it. */
static void import_block(int take)
{
	CUipcMemHandle handle;
	CUdeviceptr block;
	unsigned char byte = 0;

	if (read(take, &handle, sizeof(handle)) != sizeof(handle))
		_exit(77);
	expect(cuInit(0), "cuInit");
	expect(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	expect(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	if (!CALL(cuIpcOpenMemHandle, &block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
		_exit(77);
	expect(cuMemcpyDtoH(&byte, block + LARGE - 1, 1), "cuMemcpyDtoH");
	expect(cuIpcCloseMemHandle(block), "cuIpcCloseMemHandle");
	_exit(byte == 0x42 ? 0 : 1);
}

static struct importer fork_importer(void)
{
	struct importer importer = { .pid = -1, .give = -1 };
	int ends[2];

	if (pipe(ends))
		return importer;
	fflush(stdout);
	importer.pid = fork();
	if (importer.pid == 0) {
		close(ends[1]);
		import_block(ends[0]);
	}
	close(ends[0]);
	importer.give = ends[1];
	return importer;
}

/* The child's calls are in the trace too, so they are in this journal. */
static void export_block(struct importer importer)
{
	CUdeviceptr block = device_block(LARGE);
	CUipcMemHandle handle;
	int status = -1;

	TRANSFER("MEMSET", LARGE, cuMemsetD8, block, 0x42, LARGE);
	settle();
	if (!CALL(cuIpcGetMemHandle, &handle, block) ||
	    write(importer.give, &handle, sizeof(handle)) != sizeof(handle))
		puts("nothing was exported");
	close(importer.give);
	waitpid(importer.pid, &status, 0);
	printf("the importer ended with status %d\n", WEXITSTATUS(status));
	if (status == 0) {
		journal_allocation(SYMBOL(cuIpcOpenMemHandle), "ipc", LARGE);
		journal_transfer(SYMBOL(cuMemcpyDtoH), "D2H", 1);
	}
	CALL(cuMemFree, block);
}

/* ------------------------------------------------------------------- main */

static void use_every_kind(void)
{
	copy_plain();
	copy_managed();
	copy_pitched();
	use_host_memory();
	use_pools();
	use_virtual_memory();
	use_arrays();
	copy_peers();
	launch_graph();
	use_per_thread_twins();
	fail_on_purpose();
	destroy_context();
}

int main(int argc, char **argv)
{
	struct importer importer = fork_importer();

	CALL(cuInit, 0);
	CALL(cuDeviceGet, &device, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, device);
	CALL(cuCtxSetCurrent, context);
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	use_every_kind();
	export_block(importer);
	device_block(LEAK);
	journal_live("device", LEAK);
	journal_close();
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "abort"))
		abort();
	return argc > 1 ? atoi(argv[1]) : 0;
}
