/* SPDX-License-Identifier: Apache-2.0 */
/* Linear, managed and pinned memory against what was measured on hardware. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include "simtest.h"

static struct bench b;

static void setup(void)
{
	bench_open(&b);
}

START_TEST(free_refuses_what_is_no_base)
{
	CUdeviceptr block, managed;
	void *pinned;

	ck_cu(cuMemAlloc(&block, 4 * MIB));
	ck_cu(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	ck_cu(cuMemAllocHost(&pinned, MIB));
	ck_cu_is(cuMemFree(block + 256), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuMemFree((CUdeviceptr)pinned), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuMemFree((CUdeviceptr)&block), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemFree(0));
	ck_cu(cuMemFree(managed));
	ck_cu(cuMemFree(block));
	ck_cu_is(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_freed_address_is_unknown_to_every_question)
{
	CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				       CU_POINTER_ATTRIBUTE_HOST_POINTER};
	unsigned type = 7;
	int ordinal = 0;
	CUdeviceptr host = 0;
	void *answers[] = {&type, &ordinal, &host};
	CUipcMemHandle handle;
	CUdeviceptr block, kept, base;
	size_t size;

	for (size_t bytes = 4096; bytes <= 4 * MIB; bytes *= 1024) {
		ck_cu(cuMemAlloc(&block, bytes));
		ck_cu(cuMemAlloc(&kept, 4096));
		ck_cu(cuMemFree(block));
		ck_cu_is(cuPointerGetAttribute(&type, names[0], block), CUDA_ERROR_INVALID_VALUE);
		ck_cu(cuPointerGetAttributes(3, names, answers, block));
		ck_assert_uint_eq(type, 0);
		ck_assert_uint_eq(host, block);
		ck_assert_int_eq(ordinal, -2);
		ck_cu_is(cuMemGetAddressRange(&base, &size, block), CUDA_ERROR_NOT_FOUND);
		ck_cu_is(cuIpcGetMemHandle(&handle, block), CUDA_ERROR_INVALID_VALUE);
		ck_cu_is(cuMemcpyHtoD(block, &type, sizeof(type)), CUDA_ERROR_INVALID_VALUE);
		ck_cu_is(cuMemsetD8(block, 0, 16), CUDA_ERROR_INVALID_VALUE);
	}
}
END_TEST

static void *free_elsewhere(void *argument)
{
	return (void *)(intptr_t)cuMemFree(*(CUdeviceptr *)argument);
}

START_TEST(free_needs_no_current_context)
{
	CUdeviceptr block;
	CUcontext other;
	pthread_t thread;
	void *result;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_assert_int_eq(pthread_create(&thread, NULL, free_elsewhere, &block), 0);
	pthread_join(thread, &result);
	ck_assert_int_eq((int)(intptr_t)result, 0);
	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuCtxCreate(&other, NULL, 0, b.device));
	ck_cu(cuMemFree(block));
	ck_cu(cuCtxDestroy(other));
}
END_TEST

START_TEST(a_destroyed_context_takes_its_blocks_along)
{
	CUcontext other;
	CUdeviceptr block;
	size_t before = bench_free_bytes();

	ck_cu(cuCtxCreate(&other, NULL, 0, b.device));
	ck_cu(cuMemAlloc(&block, 64 * MIB));
	ck_cu(cuCtxDestroy(other));
	ck_cu_is(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(bench_free_bytes(), before);
}
END_TEST

START_TEST(a_reset_leaves_a_dead_context_current)
{
	CUcontext again;
	CUdeviceptr block;
	unsigned long long before, after;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuCtxGetId(b.context, &before));
	ck_cu(cuDevicePrimaryCtxReset(b.device));
	ck_cu_is(cuMemFree(block), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cu_is(cuMemAlloc(&block, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ck_cu(cuDevicePrimaryCtxRetain(&again, b.device));
	ck_assert_ptr_eq(again, b.context);
	ck_cu(cuCtxGetId(again, &after));
	ck_assert_uint_ne(before, after);
}
END_TEST

START_TEST(too_much_is_out_of_memory)
{
	CUdeviceptr block;

	ck_cu_is(cuMemAlloc(&block, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu_is(cuMemAlloc(&block, 0), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemAlloc(&block, 16));
}
END_TEST

START_TEST(small_blocks_share_a_page_and_large_ones_round_up)
{
	CUdeviceptr block[5], base;
	size_t before, size;

	ck_cu(cuMemAlloc(&block[0], 512));
	before = bench_free_bytes();
	ck_cu(cuMemAlloc(&block[1], 300000));
	ck_cu(cuMemAlloc(&block[2], 4096));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMemAlloc(&block[3], 3 * MIB));
	ck_assert_uint_eq(before - bench_free_bytes(), 4 * MIB);
	ck_cu(cuMemGetAddressRange(&base, &size, block[3] + 17));
	ck_assert_uint_eq(base, block[3]);
	ck_assert_uint_eq(size, 3 * MIB);
}
END_TEST

START_TEST(addresses_come_back_but_buffer_ids_do_not)
{
	const size_t sizes[] = {256, 4096, 1 * MIB, 4 * MIB, 256 * (size_t)MIB};
	unsigned long long first, second;
	CUdeviceptr block, again, kept;

	ck_cu(cuMemAlloc(&kept, 64));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ck_cu(cuMemAlloc(&block, sizes[i]));
		ck_cu(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, block));
		ck_cu(cuMemFree(block));
		ck_cu(cuMemAlloc(&again, sizes[i]));
		ck_cu(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, again));
		ck_assert_uint_eq(block, again);
		ck_assert_uint_ne(first, second);
		ck_cu(cuMemFree(again));
	}
}
END_TEST

START_TEST(copies_move_bytes_and_check_bounds)
{
	unsigned char out[1000], in[1000];
	CUdeviceptr one, two;

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (unsigned char)(i * 7);
	ck_cu(cuMemAlloc(&one, sizeof(out)));
	ck_cu(cuMemAlloc(&two, sizeof(out)));
	ck_cu(cuMemcpyHtoD(one, out, sizeof(out)));
	ck_cu(cuMemcpyDtoD(two + 10, one + 10, sizeof(out) - 20));
	ck_cu(cuMemsetD8(two, 1, 10));
	ck_cu(cuMemsetD16(two + sizeof(out) - 10, 0x0203, 5));
	ck_cu(cuMemcpyDtoH(in, two, sizeof(in)));
	ck_assert_mem_eq(in + 10, out + 10, sizeof(out) - 20);
	ck_assert_uint_eq(in[9], 1);
	ck_assert_uint_eq(in[sizeof(in) - 1], 2);
	ck_cu_is(cuMemcpyHtoD(one + 1, out, sizeof(out)), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuMemcpyDtoD(one, two + 1, sizeof(out)), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuMemsetD32(one + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(boxes_go_through_arrays_and_back)
{
	CUDA_ARRAY_DESCRIPTOR desc = {.Width = 20, .Height = 10, .NumChannels = 1,
				      .Format = CU_AD_FORMAT_UNSIGNED_INT8};
	CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcPitch = 32,
			    .dstMemoryType = CU_MEMORYTYPE_ARRAY, .WidthInBytes = 20, .Height = 10};
	CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcXInBytes = 2, .srcY = 1,
			      .dstMemoryType = CU_MEMORYTYPE_HOST, .dstPitch = 8,
			      .WidthInBytes = 8, .Height = 4};
	unsigned char out[320], in[32];

	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (unsigned char)i;
	up.srcHost = out;
	down.dstHost = in;
	ck_cu(cuArrayCreate(&up.dstArray, &desc));
	down.srcArray = up.dstArray;
	ck_cu(cuMemcpy2D(&up));
	ck_cu(cuMemcpy2D(&down));
	for (size_t y = 0; y < 4; y++)
		ck_assert_mem_eq(in + 8 * y, out + 32 * (y + 1) + 2, 8);
	down.srcXInBytes = 13;
	ck_cu_is(cuMemcpy2D(&down), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuArrayDestroy(up.dstArray));
}
END_TEST

START_TEST(attributes_tell_the_kinds_apart)
{
	CUdeviceptr device, managed;
	void *pinned, *host;
	unsigned type, is_managed;
	CUcontext context;

	ck_cu(cuMemAlloc(&device, 4096));
	ck_cu(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	ck_cu(cuMemAllocHost(&pinned, 4096));
	ck_cu(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_cu(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, device));
	ck_assert_ptr_eq(context, b.context);
	ck_cu_is(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, device),
		 CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, managed));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_cu(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
	ck_assert_uint_eq(is_managed, 1);
	ck_cu(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
	*(volatile char *)managed = 1;
	*(volatile char *)pinned = 1;
}
END_TEST

START_TEST(registered_memory_is_known_until_it_is_given_up)
{
	static char own[10000];
	unsigned flags;

	ck_cu(cuMemHostRegister(own + 3, 5000, CU_MEMHOSTREGISTER_PORTABLE));
	ck_cu_is(cuMemHostRegister(own + 4000, 100, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ck_cu(cuMemHostGetFlags(&flags, own + 100));
	ck_assert_uint_eq(flags, CU_MEMHOSTREGISTER_PORTABLE);
	ck_cu_is(cuMemHostUnregister(own + 4), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ck_cu(cuMemHostUnregister(own + 3));
	ck_cu_is(cuMemHostUnregister(own + 3), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ck_cu_is(cuMemFreeHost(own), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(an_ipc_handle_opens_twice_under_one_address)
{
	CUdeviceptr block, one, two;
	CUipcMemHandle handle;
	unsigned value = 0;

	ck_cu(cuMemAlloc(&block, 4096));
	ck_cu(cuIpcGetMemHandle(&handle, block));
	ck_cu(cuIpcOpenMemHandle(&one, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_cu(cuIpcOpenMemHandle(&two, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_assert_uint_eq(one, two);
	ck_cu(cuMemsetD32(block, 77, 1));
	ck_cu(cuMemcpyDtoH(&value, one, 4));
	ck_assert_uint_eq(value, 77);
	ck_cu_is(cuMemFree(one), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuIpcCloseMemHandle(one));
	ck_cu(cuIpcCloseMemHandle(one));
	ck_cu_is(cuIpcCloseMemHandle(one), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuIpcCloseMemHandle(block), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static sigjmp_buf fault;

static void on_fault(int number)
{
	siglongjmp(fault, number);
}

START_TEST(the_host_cannot_touch_device_memory)
{
	CUdeviceptr block;

	ck_cu(cuMemAlloc(&block, 4096));
	signal(SIGSEGV, on_fault);
	if (sigsetjmp(fault, 1) == 0) {
		*(volatile char *)block = 1;
		ck_abort_msg("the write went through");
	}
}
END_TEST

Suite *suite_memory(void)
{
	Suite *suite = suite_create("simdriver memory");
	TCase *tcase = tcase_create("memory");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, free_refuses_what_is_no_base);
	tcase_add_test(tcase, a_freed_address_is_unknown_to_every_question);
	tcase_add_test(tcase, free_needs_no_current_context);
	tcase_add_test(tcase, a_destroyed_context_takes_its_blocks_along);
	tcase_add_test(tcase, a_reset_leaves_a_dead_context_current);
	tcase_add_test(tcase, too_much_is_out_of_memory);
	tcase_add_test(tcase, small_blocks_share_a_page_and_large_ones_round_up);
	tcase_add_test(tcase, addresses_come_back_but_buffer_ids_do_not);
	tcase_add_test(tcase, copies_move_bytes_and_check_bounds);
	tcase_add_test(tcase, boxes_go_through_arrays_and_back);
	tcase_add_test(tcase, attributes_tell_the_kinds_apart);
	tcase_add_test(tcase, registered_memory_is_known_until_it_is_given_up);
	tcase_add_test(tcase, an_ipc_handle_opens_twice_under_one_address);
	tcase_add_test(tcase, the_host_cannot_touch_device_memory);
	suite_add_tcase(suite, tcase);
	return suite;
}
