/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory shared with another process.  The other one is forked before CUDA starts; the
 * two talk over a pair of sockets.
 */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simtest.h"

/* What goes over: a handle of whichever sort, perhaps a descriptor beside it. */
struct message {
	union {
		CUipcMemHandle ipc;
		CUipcEventHandle event;
		CUmemPoolPtrExportData block;
		int word;
	};
};

static int line;

static void send_message(const struct message *message, int fd)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = {0};
	struct iovec part = {(void *)(uintptr_t)message, sizeof(*message)};
	struct msghdr whole = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		whole.msg_control = &control;
		whole.msg_controllen = sizeof(control);
		control.head = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	ck_assert_int_eq(sendmsg(line, &whole, 0), sizeof(*message));
}

/* Gives the descriptor that came along, or -1. */
static int receive_message(struct message *message)
{
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = {0};
	struct iovec part = {message, sizeof(*message)};
	struct msghdr whole = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
			       .msg_controllen = sizeof(control)};
	int fd = -1;

	ck_assert_int_eq(recvmsg(line, &whole, 0), sizeof(*message));
	if (whole.msg_controllen)
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static void say_word(int word)
{
	const struct message message = { .word = word };

	send_message(&message, -1);
}

static int hear_word(void)
{
	struct message message;

	receive_message(&message);
	return message.word;
}

/* Runs `taker` in a process of its own and `giver` here; both end well. */
static void run_both(void (*giver)(void), void (*taker)(void))
{
	int pair[2], status;
	pid_t child;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	child = fork();
	line = pair[child == 0];
	close(pair[child != 0]);
	if (child == 0) {
		taker();
		_exit(0);
	}
	giver();
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

/* ------------------------------------------------------------------ IPC handles */

static void give_ipc(void)
{
	struct message message;
	CUdeviceptr small, block;
	unsigned value = 41;
	struct bench b;

	bench_open(&b);
	ck_cu(cuMemAlloc(&small, 4096));
	ck_cu(cuMemAlloc(&block, 4096));	/* in the same page as the other */
	ck_cu(cuMemcpyHtoD(block, &value, 4));
	ck_cu(cuIpcGetMemHandle(&message.ipc, block));
	send_message(&message, -1);
	ck_assert_int_eq(hear_word(), 42);
	ck_cu(cuMemcpyDtoH(&value, block, 4));
	ck_assert_uint_eq(value, 43);
	say_word(0);
	ck_assert_int_eq(hear_word(), 0);
	ck_cu(cuMemFree(block));
	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuMemcpyHtoD(block, &value, 4));
}

static void take_ipc(void)
{
	CUdeviceptr block, again;
	struct message message;
	unsigned value = 0;
	struct bench b;
	size_t before;

	bench_open(&b);
	receive_message(&message);
	before = bench_free_bytes();
	ck_cu(cuIpcOpenMemHandle(&block, message.ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_cu(cuIpcOpenMemHandle(&again, message.ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_assert_uint_eq(block, again);
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMemcpyDtoH(&value, block, 4));
	ck_assert_uint_eq(value, 41);
	value = 43;
	ck_cu(cuMemcpyHtoD(block, &value, 4));
	say_word(42);
	hear_word();
	ck_cu_is(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuIpcCloseMemHandle(block));
	ck_cu(cuMemcpyDtoH(&value, block, 4));
	ck_cu(cuIpcCloseMemHandle(block));
	ck_cu_is(cuIpcCloseMemHandle(block), CUDA_ERROR_INVALID_VALUE);
	say_word(0);
}

START_TEST(an_ipc_handle_opens_in_another_process)
{
	run_both(give_ipc, take_ipc);
}
END_TEST

static void open_stale(void)
{
	struct message message;
	CUdeviceptr block;
	struct bench b;

	bench_open(&b);
	receive_message(&message);
	ck_cu_is(cuIpcOpenMemHandle(&block, message.ipc, 0), CUDA_ERROR_INVALID_VALUE);
	say_word(0);
}

static void send_stale(void)
{
	struct message message;
	CUdeviceptr block;
	struct bench b;

	bench_open(&b);
	ck_cu(cuMemAlloc(&block, 4 * MIB));
	ck_cu(cuIpcGetMemHandle(&message.ipc, block));
	ck_cu(cuMemFree(block));
	ck_cu_is(cuIpcGetMemHandle(&message.ipc, block), CUDA_ERROR_INVALID_VALUE);
	send_message(&message, -1);
	hear_word();
}

START_TEST(the_handle_of_a_freed_block_opens_nothing)
{
	run_both(open_stale, send_stale);
}
END_TEST

static void give_event(void)
{
	struct message message;
	struct bench b;
	CUevent event, own;

	bench_open(&b);
	ck_cu(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	ck_cu(cuIpcGetEventHandle(&message.event, event));
	ck_cu_is(cuIpcOpenEventHandle(&own, message.event), CUDA_ERROR_INVALID_CONTEXT);
	bench_hold(&b, b.stream);
	ck_cu(cuEventRecord(event, b.stream));
	send_message(&message, -1);
	ck_assert_int_eq(hear_word(), 1);
	bench_release(&b);
	ck_assert_int_eq(hear_word(), 2);
	/* The other one's record: it has passed there. */
	ck_cu(cuEventSynchronize(event));
	ck_cu(cuEventDestroy(event));
}

static void take_event(void)
{
	struct message message;
	struct bench b;
	CUevent event;

	bench_open(&b);
	receive_message(&message);
	ck_cu(cuIpcOpenEventHandle(&event, message.event));
	ck_cu_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	ck_cu(cuStreamWaitEvent(b.stream, event, 0));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	say_word(1);
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu(cuEventQuery(event));
	ck_cu(cuEventRecord(event, b.stream));
	ck_cu(cuEventSynchronize(event));
	say_word(2);
	ck_cu(cuEventDestroy(event));
}

START_TEST(an_event_orders_the_work_of_two_processes)
{
	run_both(give_event, take_event);
}
END_TEST

/* ------------------------------------------------------------------ descriptors */

static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
};

static CUdeviceptr map_whole(CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc desc = {.location = prop.location,
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr range;

	ck_cu(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
	ck_cu(cuMemMap(range, 2 * MIB, 0, handle, 0));
	ck_cu(cuMemSetAccess(range, 2 * MIB, &desc, 1));
	return range;
}

static void give_memory(void)
{
	CUmemGenericAllocationHandle handle;
	struct message message = {0};
	CUdeviceptr range;
	unsigned value;
	struct bench b;
	int fd;

	bench_open(&b);
	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	range = map_whole(handle);
	ck_cu(cuMemsetD32(range, 7, 1));
	ck_cu(cuCtxSynchronize());
	ck_cu(cuMemExportToShareableHandle(&fd, handle,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	send_message(&message, fd);
	close(fd);
	hear_word();
	ck_cu(cuMemcpyDtoH(&value, range, 4));
	ck_assert_uint_eq(value, 8);
}

static void take_memory(void)
{
	CUmemGenericAllocationHandle handle;
	struct message message;
	CUdeviceptr range;
	unsigned value;
	struct bench b;
	size_t before;
	int fd;

	bench_open(&b);
	fd = receive_message(&message);
	before = bench_free_bytes();
	ck_cu_is(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)line,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		 CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	range = map_whole(handle);
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMemcpyDtoH(&value, range, 4));
	ck_assert_uint_eq(value, 7);
	ck_cu(cuMemsetD32(range, 8, 1));
	ck_cu(cuCtxSynchronize());
	say_word(0);
}

START_TEST(memory_made_by_hand_is_imported_by_another_process)
{
	run_both(give_memory, take_memory);
}
END_TEST

/* Released by its maker, it fills the device until the descriptor and its imports are gone. */
START_TEST(an_open_descriptor_keeps_the_memory)
{
	CUmemGenericAllocationHandle handle, again;
	struct bench b;
	size_t before;
	int fd, copy;

	bench_open(&b);
	before = bench_free_bytes();
	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	ck_cu(cuMemExportToShareableHandle(&fd, handle,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ck_cu(cuMemRelease(handle));
	ck_assert_uint_eq(before - bench_free_bytes(), 2 * MIB);
	copy = dup(fd);
	close(fd);
	ck_assert_uint_eq(before - bench_free_bytes(), 2 * MIB);
	ck_cu(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)copy,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(copy);
	ck_assert_uint_eq(before - bench_free_bytes(), 2 * MIB);
	ck_cu(cuMemRelease(again));
	ck_assert_uint_eq(bench_free_bytes(), before);
}
END_TEST

/* ------------------------------------------------------------------ pools */

static void give_pool(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool, plain;
	struct message message;
	CUdeviceptr block;
	unsigned value;
	struct bench b;
	int fd;

	bench_open(&b);
	ck_cu(cuMemPoolCreate(&pool, &props));
	ck_cu(cuMemAllocFromPoolAsync(&block, 4096, pool, b.stream));
	ck_cu(cuMemsetD32Async(block, 5, 1, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu(cuDeviceGetDefaultMemPool(&plain, 0));
	ck_cu_is(cuMemPoolExportToShareableHandle(&fd, plain,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		 CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemPoolExportToShareableHandle(&fd, pool,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ck_cu(cuMemPoolExportPointer(&message.block, block));
	send_message(&message, fd);
	close(fd);
	hear_word();
	ck_cu(cuMemcpyDtoH(&value, block, 4));
	ck_assert_uint_eq(value, 6);
	ck_cu(cuMemFreeAsync(block, b.stream));
	ck_cu(cuMemPoolDestroy(pool));
}

static void take_pool(void)
{
	CUdeviceptr block, own, twice;
	struct message message;
	CUmemoryPool pool;
	unsigned value;
	struct bench b;
	size_t before;
	int fd;

	bench_open(&b);
	fd = receive_message(&message);
	before = bench_free_bytes();
	ck_cu(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	close(fd);
	ck_cu_is(cuMemAllocFromPoolAsync(&own, 4096, pool, b.stream), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemPoolImportPointer(&block, pool, &message.block));
	ck_cu(cuMemPoolImportPointer(&twice, pool, &message.block));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMemcpyDtoH(&value, block, 4));
	ck_assert_uint_eq(value, 5);
	ck_cu(cuMemsetD32(block, 6, 1));
	ck_cu(cuCtxSynchronize());
	ck_cu(cuMemFreeAsync(block, b.stream));
	ck_cu(cuMemFree(twice));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu_is(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemPoolDestroy(pool));
	say_word(0);
}

START_TEST(a_pool_and_its_blocks_are_imported_by_another_process)
{
	run_both(give_pool, take_pool);
}
END_TEST

/* ------------------------------------------------------------------ one device for all */

static void take_half(void)
{
	CUdeviceptr block;
	struct bench b;

	bench_open(&b);
	ck_cu(cuMemAlloc(&block, 32 * MIB));
	say_word(0);
	ck_assert_int_eq(hear_word(), 0);
	ck_cu(cuMemFree(block));
	say_word(0);
	ck_assert_int_eq(hear_word(), 0);
	/* Its end gives back what it has left. */
	ck_cu(cuMemAlloc(&block, 16 * MIB));
	say_word(0);
}

static long long told_free(const char *path)
{
	long long free_bytes = -1;
	FILE *stream = fopen(path, "r");

	ck_assert_ptr_nonnull(stream);
	ck_assert_int_eq(fscanf(stream, "GPU-%*s %lld", &free_bytes), 1);
	fclose(stream);
	return free_bytes;
}

static void find_less(void)
{
	const char *path = getenv("SIMCUDA_SHARED");
	struct bench b;
	CUdeviceptr block;

	ck_assert_int_eq(hear_word(), 0);
	bench_open(&b);
	/* Two contexts, and the other's block. */
	ck_assert_uint_eq(bench_free_bytes(), (64 - 4 - 4 - 32) * MIB);
	ck_assert_int_eq(told_free(path), (64 - 4 - 4 - 32) * MIB);
	ck_cu_is(cuMemAlloc(&block, 40 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	say_word(0);
	ck_assert_int_eq(hear_word(), 0);
	ck_cu(cuMemAlloc(&block, 40 * MIB));
	ck_cu(cuMemFree(block));
	say_word(0);
	ck_assert_int_eq(hear_word(), 0);
	while (bench_free_bytes() != (64 - 4) * MIB)
		usleep(1000);
	ck_assert_int_eq(told_free(path), (64 - 4 - 4 - 16) * MIB);
	ck_cu(cuMemAlloc(&block, 2 * MIB));
	ck_assert_int_eq(told_free(path), (64 - 4 - 2) * MIB);
}

START_TEST(processes_can_fill_one_device)
{
	char path[] = "/tmp/simdriver-shared.XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	setenv("SIMCUDA_SHARED", path, 1);
	setenv("SIMCUDA_MEMORY", "64M", 1);
	setenv("SIMCUDA_CONTEXT", "4M", 1);
	run_both(find_less, take_half);
	unlink(path);
}
END_TEST

Suite *suite_share(void)
{
	Suite *suite = suite_create("simdriver sharing");
	TCase *tcase = tcase_create("sharing");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, an_ipc_handle_opens_in_another_process);
	tcase_add_test(tcase, the_handle_of_a_freed_block_opens_nothing);
	tcase_add_test(tcase, an_event_orders_the_work_of_two_processes);
	tcase_add_test(tcase, memory_made_by_hand_is_imported_by_another_process);
	tcase_add_test(tcase, an_open_descriptor_keeps_the_memory);
	tcase_add_test(tcase, a_pool_and_its_blocks_are_imported_by_another_process);
	tcase_add_test(tcase, processes_can_fill_one_device);
	suite_add_tcase(suite, tcase);
	return suite;
}
