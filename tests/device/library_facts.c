/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libcustody takes for granted of the driver and no document says in full.  A
 * line for each fact; exit status 1 if one does not hold here.
 */
#include "client.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext primary;
static CUstream stream;

/* ----------------------------------------------------------------- contexts */

static bool context_of_a_reset_is_told_by_an_error(void)
{
	CUdevice device;
	CUresult result;

	CALL(cuDevicePrimaryCtxReset, 0);
	result = cuCtxGetDevice(&device);
	return result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_CONTEXT;
}

static bool reset_leaves_the_primary_context_inactive(void)
{
	unsigned int flags;
	int is_active = 1;

	CALL(cuDevicePrimaryCtxReset, 0);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &is_active);
	return !is_active;
}

static bool context_after_a_reset_has_another_id(void)
{
	unsigned long long before, after;

	CALL(cuCtxGetId, primary, &before);
	CALL(cuDevicePrimaryCtxReset, 0);
	primary = client_open();
	CALL(cuCtxGetId, primary, &after);
	return before != after;
}

/* Each retain has its release, with a reset in between too. */
static bool references_outlive_a_reset(void)
{
	unsigned int flags;
	int is_active;

	CALL(cuDevicePrimaryCtxReset, 0);
	CALL(cuDevicePrimaryCtxRetain, &primary, 0);
	CALL(cuDevicePrimaryCtxRelease, 0);
	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &is_active);
	return cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS || !is_active;
}

/* --------------------------------------------------------------------- host */

static bool neighbours_in_a_page_can_be_registered(void)
{
	char *page = aligned_alloc(4096, 4096);
	bool holds = page && cuMemHostRegister(page, 100, 0) == CUDA_SUCCESS &&
		     cuMemHostRegister(page + 100, 100, 0) == CUDA_SUCCESS;

	return holds && cuMemHostUnregister(page) == CUDA_SUCCESS &&
	       cuMemHostUnregister(page + 100) == CUDA_SUCCESS;
}

static bool pinned_memory_has_its_own_address_on_the_device(void)
{
	CUdeviceptr there;
	void *host;

	CALL(cuMemHostAlloc, &host, 4096, 0);
	CALL(cuMemHostGetDevicePointer, &there, host, 0);
	CALL(cuMemsetD8Async, there, 7, 4096, stream);
	CALL(cuStreamSynchronize, stream);
	return there == (CUdeviceptr)(uintptr_t)host && *(char *)host == 7;
}

/* What is registered, and what is nobody's, as cai.c and host.c ask. */
static bool attributes_tell_known_memory_from_unknown(void)
{
	void *unknown = malloc(64), *known = aligned_alloc(4096, 4096);
	CUdeviceptr last, there = 0;
	bool holds;

	CALL(cuMemAlloc, &last, 1 << 20);
	last += (1 << 20) - 1;
	CALL(cuMemHostRegister, known, 4096, 0);
	holds = cuPointerGetAttribute(&there, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, last) ==
			CUDA_SUCCESS && there == last;
	holds = holds && cuPointerGetAttribute(&there, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
					       (CUdeviceptr)(uintptr_t)known + 5) == CUDA_SUCCESS;
	return holds && cuPointerGetAttribute(&there, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
					      (CUdeviceptr)(uintptr_t)unknown) != CUDA_SUCCESS;
}

/* --------------------------------------------------------------------- work */

static void CUDA_CB sleep_a_while(void *nothing)
{
	(void)nothing;
	usleep(200000);
}

/* Every other word, as custody_array_fill() does it for eight bytes. */
static bool columns_of_one_word_can_be_set(void)
{
	unsigned int word[4];
	CUdeviceptr block;

	CALL(cuMemAlloc, &block, 1 << 20);
	CALL(cuMemsetD2D32Async, block, 8, 7, 1, 1024, stream);
	CALL(cuMemsetD2D32Async, block + 4, 8, 9, 1, 1024, stream);
	CALL(cuStreamSynchronize, stream);
	CALL(cuMemcpyDtoH, word, block + 1024 * 8 - 16, sizeof(word));
	return word[0] == 7 && word[1] == 9 && word[2] == 7 && word[3] == 9;
}

/* An event of a context covers a stream that does nothing but wait for another one. */
static bool context_event_covers_a_stream_that_waits(void)
{
	CUstream waiting;
	CUevent passed, all;
	CUresult result;

	CALL(cuStreamCreate, &waiting, CU_STREAM_NON_BLOCKING);
	CALL(cuEventCreate, &passed, CU_EVENT_DISABLE_TIMING);
	CALL(cuEventCreate, &all, CU_EVENT_DISABLE_TIMING);
	CALL(cuLaunchHostFunc, stream, sleep_a_while, NULL);
	CALL(cuEventRecord, passed, stream);
	CALL(cuStreamWaitEvent, waiting, passed, 0);
	CALL(cuCtxRecordEvent, primary, all);
	result = cuEventQuery(all);
	CALL(cuCtxSynchronize, );
	return result == CUDA_ERROR_NOT_READY;
}

static bool question_about_the_default_stream_spares_a_capture(void)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUstream blocking;
	CUgraph graph;

	CALL(cuStreamCreate, &blocking, 0);
	CALL(cuStreamBeginCapture, blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
	return cuStreamIsCapturing(CU_STREAM_LEGACY, &status) ==
		       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT &&
	       cuStreamEndCapture(blocking, &graph) == CUDA_SUCCESS;
}

/* -------------------------------------------------------------------- pools */

static CUmemoryPool make_pool(CUmemAllocationHandleType handles)
{
	CUmemPoolProps wanted = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = handles,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemoryPool pool;

	CALL(cuMemPoolCreate, &pool, &wanted);
	return pool;
}

static bool pool_memory_outlives_a_reset_and_is_freed_without_a_context(void)
{
	CUmemoryPool pool = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	CUdeviceptr block;

	CALL(cuMemAllocFromPoolAsync, &block, 4096, pool, stream);
	CALL(cuStreamSynchronize, stream);
	CALL(cuDevicePrimaryCtxReset, 0);
	CALL(cuCtxSetCurrent, NULL);
	return cuMemFree(block) == CUDA_SUCCESS && cuMemPoolDestroy(pool) == CUDA_SUCCESS;
}

static bool managed_pools_give_managed_memory(void)
{
	CUmemPoolProps wanted = { .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED };
	unsigned int is_managed = 0;
	CUmemoryPool pool;
	CUdeviceptr block;
	CUresult result = cuMemPoolCreate(&pool, &wanted);

	if (result == CUDA_ERROR_NOT_SUPPORTED)
		return true;
	client_must(result, "cuMemPoolCreate");
	CALL(cuMemAllocFromPoolAsync, &block, 4096, pool, stream);
	CALL(cuStreamSynchronize, stream);
	CALL(cuPointerGetAttribute, &is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block);
	return is_managed;
}

/* What one process tells the other of its pool's memory. */
struct shared {
	CUmemPoolPtrExportData data;
};

static void send_pool(int socket, int fd, struct shared *shared)
{
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec text = { .iov_base = shared, .iov_len = sizeof(*shared) };
	struct msghdr message = { .msg_iov = &text, .msg_iovlen = 1, .msg_control = room,
				  .msg_controllen = sizeof(room) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	if (sendmsg(socket, &message, 0) < 0)
		exit(1);
}

static int receive_pool(int socket, struct shared *shared)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec text = { .iov_base = shared, .iov_len = sizeof(*shared) };
	struct msghdr message = { .msg_iov = &text, .msg_iovlen = 1, .msg_control = room,
				  .msg_controllen = sizeof(room) };
	int fd;

	if (recvmsg(socket, &message, MSG_WAITALL) < 0 || !CMSG_FIRSTHDR(&message))
		_exit(1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

enum { SHARED_BYTES = 1000000 };

/* The size of what was imported is known, as ipc_cache.c wants it. */
static int import(int socket)
{
	struct shared shared;
	CUmemoryPool pool;
	CUdeviceptr block, base = 0;
	size_t bytes = 0;
	int fd = receive_pool(socket, &shared);

	client_open();
	CALL(cuMemPoolImportFromShareableHandle, &pool, (void *)(intptr_t)fd,
	     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	CALL(cuMemPoolImportPointer, &block, pool, &shared.data);
	CALL(cuMemGetAddressRange, &base, &bytes, block);
	return base == block && bytes >= SHARED_BYTES ? 0 : 2;
}

static bool size_of_imported_pool_memory_is_known(void)
{
	struct shared shared;
	CUmemoryPool pool;
	CUdeviceptr block;
	int ends[2], fd, status = -1;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return false;
	child = fork();
	if (!child)
		_exit(import(ends[1]));
	primary = client_open();
	CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	pool = make_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CALL(cuMemAllocFromPoolAsync, &block, SHARED_BYTES, pool, stream);
	CALL(cuStreamSynchronize, stream);
	CALL(cuMemPoolExportPointer, &shared.data, block);
	CALL(cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	     0);
	send_pool(ends[0], fd, &shared);
	return waitpid(child, &status, 0) == child && !status;
}

/* --------------------------------------------------------------------- main */

static const struct fact {
	const char *text;
	bool (*holds)(void);
	bool opens_itself;
} facts[] = {
	{ "a context that was reset is told by an error, not by a crash",
	  context_of_a_reset_is_told_by_an_error, false },
	{ "a reset leaves the primary context inactive", reset_leaves_the_primary_context_inactive,
	  false },
	{ "the context after a reset has another id", context_after_a_reset_has_another_id, false },
	{ "references to a primary context outlive a reset", references_outlive_a_reset, false },
	{ "neighbours in a page can be registered", neighbours_in_a_page_can_be_registered, false },
	{ "pinned memory has its own address on the device",
	  pinned_memory_has_its_own_address_on_the_device, false },
	{ "attributes tell known memory from unknown", attributes_tell_known_memory_from_unknown,
	  false },
	{ "columns of one word can be set", columns_of_one_word_can_be_set, false },
	{ "a context's event covers a stream that waits", context_event_covers_a_stream_that_waits,
	  false },
	{ "a question about the default stream spares a capture",
	  question_about_the_default_stream_spares_a_capture, false },
	{ "pool memory outlives a reset and is freed without a context",
	  pool_memory_outlives_a_reset_and_is_freed_without_a_context, false },
	{ "managed pools, where there are any, give managed memory",
	  managed_pools_give_managed_memory, false },
	{ "the size of imported pool memory is known", size_of_imported_pool_memory_is_known,
	  true },
};

/* Each in a process of its own: some end the context, and a fault would spoil the rest. */
static int ask(const struct fact *fact)
{
	int status = -1;
	pid_t child = fork();

	if (!child) {
		if (!fact->opens_itself) {
			primary = client_open();
			CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
		}
		_exit(fact->holds() ? 0 : 2);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(void)
{
	int wrong = 0;

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		int answer = ask(&facts[i]);

		if (answer == CLIENT_SKIPPED)
			return CLIENT_SKIPPED;
		printf("%-64s %s\n", facts[i].text,
		       answer == 0 ? "yes" : answer == 2 ? "NO" : "FAILED");
		fflush(stdout);
		wrong += answer != 0;
	}
	return wrong ? 1 : 0;
}
