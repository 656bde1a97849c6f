/* SPDX-License-Identifier: Apache-2.0 */
/* What another interface made, and handles that only remember: textures, linked code. */
#include <sys/mman.h>
#include <unistd.h>

#include "simtest.h"

static struct bench b;

static void setup(void)
{
	bench_open(&b);
}

static int new_file(size_t bytes)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static CUexternalMemory import_file(int fd, size_t bytes)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.handle = {.fd = fd},
		.size = bytes,
	};
	CUexternalMemory memory;

	ck_cu(cuImportExternalMemory(&memory, &desc));
	return memory;
}

START_TEST(a_buffer_of_external_memory_shows_its_bytes_and_ends_by_cumemfree)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.offset = 8192, .size = 4096};
	size_t before = bench_free_bytes(), size;
	int fd = new_file(16384), own = dup(fd);
	CUexternalMemory memory = import_file(fd, 16384);
	CUdeviceptr buffer, base;
	unsigned value = 1234;

	ck_assert_int_eq(pwrite(own, &value, 4, 8192), 4);
	ck_cu(cuExternalMemoryGetMappedBuffer(&buffer, memory, &part));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuMemGetAddressRange(&base, &size, buffer + 100));
	ck_assert_uint_eq(base, buffer);
	ck_assert_uint_eq(size, 4096);
	/* The object may go before what is mapped of it. */
	ck_cu(cuDestroyExternalMemory(memory));
	value = 0;
	ck_cu(cuMemcpyDtoH(&value, buffer, 4));
	ck_assert_uint_eq(value, 1234);
	ck_cu(cuMemsetD32(buffer, 99, 1));
	ck_cu(cuMemFree(buffer));
	ck_cu_is(cuMemFree(buffer), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(pread(own, &value, 4, 8192), 4);
	ck_assert_uint_eq(value, 99);
}
END_TEST

START_TEST(external_memory_refuses_what_is_outside_of_it)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.offset = 12288, .size = 8192};
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = 4096,
	};
	CUexternalMemory memory = import_file(new_file(16384), 16384);
	CUdeviceptr buffer;

	ck_cu_is(cuExternalMemoryGetMappedBuffer(&buffer, memory, &part),
		 CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuDestroyExternalMemory(memory));
	desc.handle.fd = new_file(1000);
	ck_cu_is(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_HANDLE);
	desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF;
	ck_cu_is(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

START_TEST(a_mipmapped_array_lies_on_external_memory)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc = {
		.arrayDesc = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
			      .NumChannels = 1},
		.numLevels = 2,
	};
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcPitch = 64,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY, .WidthInBytes = 64, .Height = 1,
	};
	int fd = new_file(65536), own = dup(fd);
	CUexternalMemory memory = import_file(fd, 65536);
	size_t before = bench_free_bytes();
	char row[64] = "a row of bytes", back[64];
	CUmipmappedArray mipmap;
	CUarray level;

	ck_cu(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &desc));
	ck_cu(cuMipmappedArrayGetLevel(&level, mipmap, 0));
	copy.srcHost = row;
	copy.dstArray = level;
	ck_cu(cuMemcpy2D(&copy));
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_assert_int_eq(pread(own, back, 64, 0), 64);
	ck_assert_mem_eq(row, back, 64);
	ck_cu_is(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
	ck_cu(cuMipmappedArrayDestroy(mipmap));
	ck_cu(cuDestroyExternalMemory(memory));
}
END_TEST

static CUexternalSemaphore import_semaphore(int fd, CUexternalSemaphoreHandleType type)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {.type = type, .handle = {.fd = fd}};
	CUexternalSemaphore semaphore;

	ck_cu(cuImportExternalSemaphore(&semaphore, &desc));
	return semaphore;
}

START_TEST(a_timeline_holds_a_stream_up_until_its_value_is_there)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params = {.fence = {.value = 7}}};
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params = {.fence = {.value = 5}}};
	int fd = new_file(8), own = dup(fd);
	CUexternalSemaphore semaphore =
		import_semaphore(fd, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD);
	uint64_t value = 4;
	CUstream other;

	ck_assert_int_eq(pwrite(own, &value, 8, 0), 8);
	ck_cu(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ck_cu(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, b.stream));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	ck_cu(cuSignalExternalSemaphoresAsync(&semaphore, &signal, 1, other));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_int_eq(pread(own, &value, 8, 0), 8);
	ck_assert_uint_eq(value, 7);
	ck_cu(cuDestroyExternalSemaphore(semaphore));
}
END_TEST

START_TEST(a_wait_takes_the_signal_of_a_binary_semaphore_away)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {0};
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {0};
	CUexternalSemaphore semaphore =
		import_semaphore(new_file(8), CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD);

	ck_cu(cuSignalExternalSemaphoresAsync(&semaphore, &signal, 1, b.stream));
	ck_cu(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu(cuWaitExternalSemaphoresAsync(&semaphore, &wait, 1, b.stream));
	ck_cu_is(cuStreamQuery(b.stream), CUDA_ERROR_NOT_READY);
	ck_cu(cuSignalExternalSemaphoresAsync(&semaphore, &signal, 1, NULL));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu(cuDestroyExternalSemaphore(semaphore));
}
END_TEST

START_TEST(textures_and_surfaces_remember_what_they_are_of)
{
	CUDA_ARRAY_DESCRIPTOR shape = {16, 16, CU_AD_FORMAT_FLOAT, 1};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY}, got;
	CUDA_TEXTURE_DESC sampling = {.filterMode = CU_TR_FILTER_MODE_LINEAR}, back;
	CUtexObject texture;
	CUsurfObject surface;

	ck_cu(cuArrayCreate(&resource.res.array.hArray, &shape));
	ck_cu(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
	ck_cu(cuSurfObjectCreate(&surface, &resource));
	ck_cu(cuTexObjectGetResourceDesc(&got, texture));
	ck_assert_ptr_eq(got.res.array.hArray, resource.res.array.hArray);
	ck_cu(cuTexObjectGetTextureDesc(&back, texture));
	ck_assert_int_eq(back.filterMode, CU_TR_FILTER_MODE_LINEAR);
	ck_cu_is(cuSurfObjectDestroy(texture), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuTexObjectDestroy(texture));
	ck_cu(cuSurfObjectDestroy(surface));
	resource.resType = CU_RESOURCE_TYPE_LINEAR;
	resource.res.linear.devPtr = 4096;
	resource.res.linear.sizeInBytes = 64;
	ck_cu_is(cuTexObjectCreate(&texture, &resource, &sampling, NULL),
		 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_destroyed_texture_is_caught)
{
	CUDA_ARRAY_DESCRIPTOR shape = {16, 16, CU_AD_FORMAT_FLOAT, 1};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC sampling = {0};
	CUtexObject texture;

	ck_cu(cuArrayCreate(&resource.res.array.hArray, &shape));
	ck_cu(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
	ck_cu(cuTexObjectDestroy(texture));
	cuTexObjectDestroy(texture);
}
END_TEST

START_TEST(linked_code_is_an_image_that_loads)
{
	char log[64] = "untouched", text[] = ".version 8.0";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof(log)}, *image;
	CUfunction function;
	CUlinkState state;
	CUmodule module;
	size_t size;

	ck_cu(cuLinkCreate(2, options, values, &state));
	ck_cu_is(cuLinkComplete(state, &image, &size), CUDA_ERROR_INVALID_VALUE);
	ck_cu_is(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere", 0, NULL, NULL),
		 CUDA_ERROR_FILE_NOT_FOUND);
	ck_cu(cuLinkAddData(state, CU_JIT_INPUT_PTX, text, sizeof(text), "text", 0, NULL, NULL));
	ck_cu(cuLinkComplete(state, &image, &size));
	ck_assert_uint_gt(size, 0);
	ck_assert_str_eq(log, "");
	ck_cu(cuModuleLoadData(&module, image));
	ck_cu(cuLinkDestroy(state));
	ck_cu(cuModuleGetFunction(&function, module, "kernel"));
}
END_TEST

Suite *suite_external(void)
{
	Suite *suite = suite_create("simdriver external objects");
	TCase *tcase = tcase_create("external");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, a_buffer_of_external_memory_shows_its_bytes_and_ends_by_cumemfree);
	tcase_add_test(tcase, external_memory_refuses_what_is_outside_of_it);
	tcase_add_test(tcase, a_mipmapped_array_lies_on_external_memory);
	tcase_add_test(tcase, a_timeline_holds_a_stream_up_until_its_value_is_there);
	tcase_add_test(tcase, a_wait_takes_the_signal_of_a_binary_semaphore_away);
	tcase_add_test(tcase, textures_and_surfaces_remember_what_they_are_of);
	tcase_add_test_raise_signal(tcase, a_destroyed_texture_is_caught, SIGABRT);
	tcase_add_test(tcase, linked_code_is_an_image_that_loads);
	suite_add_tcase(suite, tcase);
	return suite;
}
