/* SPDX-License-Identifier: Apache-2.0 */
/* What fills a device, to the byte: all that cuMemGetInfo tells has an owner. */
#include "simtest.h"

static const char image[] = "any image";

static size_t used_bytes(void)
{
	size_t free_bytes, total_bytes;

	ck_cu(cuMemGetInfo(&free_bytes, &total_bytes));
	return total_bytes - free_bytes;
}

static size_t pool_reserved(CUdevice device)
{
	CUmemoryPool pool;
	cuuint64_t bytes;

	ck_cu(cuDeviceGetDefaultMemPool(&pool, device));
	ck_cu(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
	return bytes;
}

static size_t graphs_reserved(CUdevice device)
{
	cuuint64_t bytes;

	ck_cu(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
					   &bytes));
	return bytes;
}

/* One value of a setting for this test's process alone, then a context on device 0. */
static CUcontext start_with(const char *name, const char *value)
{
	CUcontext context;

	if (name)
		setenv(name, value, 1);
	setenv("SIMCUDA_CONTEXT", "10M", 1);
	ck_cu(cuInit(0));
	ck_cu(cuDevicePrimaryCtxRetain(&context, 0));
	ck_cu(cuCtxSetCurrent(context));
	return context;
}

START_TEST(a_context_and_other_processes_are_there_from_the_start)
{
	CUcontext second;

	start_with("SIMCUDA_OTHERS", "6M");
	ck_assert_uint_eq(used_bytes(), 16 * MIB);
	ck_cu(cuCtxCreate(&second, NULL, 0, 0));
	ck_assert_uint_eq(used_bytes(), 26 * MIB);
	ck_cu(cuCtxDestroy(second));
	ck_assert_uint_eq(used_bytes(), 16 * MIB);
}
END_TEST

START_TEST(blocks_pools_and_graphs_add_up_to_what_is_used)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;
	CUDA_ARRAY_DESCRIPTOR shape = {1000, 1000, CU_AD_FORMAT_FLOAT, 1};
	CUDA_ARRAY_DESCRIPTOR tiny = {64, 64, CU_AD_FORMAT_FLOAT, 1};
	CUdeviceptr small, smaller, large, pooled;
	CUarray array;

	start_with(NULL, NULL);
	ck_cu(cuMemAlloc(&small, 1000));
	ck_cu(cuMemAlloc(&smaller, 1));
	ck_assert_uint_eq(used_bytes(), 12 * MIB);
	ck_cu(cuMemAlloc(&large, 3 * MIB));
	ck_assert_uint_eq(used_bytes(), 16 * MIB);
	ck_cu(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	ck_cu(cuArrayCreate(&array, &shape));
	ck_assert_uint_eq(used_bytes(), 22 * MIB);
	/* Small arrays share pages with each other, not with blocks. */
	ck_cu(cuArrayCreate(&array, &tiny));
	ck_cu(cuArrayCreate(&array, &tiny));
	ck_assert_uint_eq(used_bytes(), 24 * MIB);
	ck_cu(cuMemAllocAsync(&pooled, 4 * MIB, NULL));
	ck_assert_uint_eq(pool_reserved(0), 32 * MIB);
	ck_assert_uint_eq(used_bytes(), 56 * MIB);
	ck_cu(cuMemFreeAsync(pooled, NULL));
	ck_assert_uint_eq(used_bytes(), 56 * MIB);
	ck_cu(cuCtxSynchronize());
	ck_assert_uint_eq(pool_reserved(0), 0);
	ck_assert_uint_eq(used_bytes(), 24 * MIB);
}
END_TEST

static CUgraphExec make_allocating_graph(size_t bytes, CUgraph *graph, CUdeviceptr *address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
		.bytesize = bytes,
	};
	CUgraphNode take, give;
	CUgraphExec exec;

	ck_cu(cuGraphCreate(graph, 0));
	ck_cu(cuGraphAddMemAllocNode(&take, *graph, NULL, 0, &params));
	ck_cu(cuGraphAddMemFreeNode(&give, *graph, &take, 1, params.dptr));
	ck_cu(cuGraphInstantiate(&exec, *graph, 0));
	*address = params.dptr;
	return exec;
}

START_TEST(what_graphs_reserve_outlives_them_until_a_trim)
{
	CUdeviceptr address;
	CUgraphExec exec;
	CUgraph graph;

	start_with(NULL, NULL);
	exec = make_allocating_graph(20 * MIB, &graph, &address);
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
	ck_cu(cuGraphLaunch(exec, NULL));
	ck_cu(cuCtxSynchronize());
	ck_assert_uint_eq(graphs_reserved(0), 32 * MIB);
	ck_assert_uint_eq(used_bytes(), 42 * MIB);
	ck_cu(cuGraphExecDestroy(exec));
	ck_cu(cuGraphDestroy(graph));
	ck_assert_uint_eq(graphs_reserved(0), 32 * MIB);
	ck_assert_uint_eq(used_bytes(), 42 * MIB);
	/* The next graph finds it there, and takes only what is missing. */
	exec = make_allocating_graph(40 * MIB, &graph, &address);
	ck_cu(cuGraphLaunch(exec, NULL));
	ck_cu(cuCtxSynchronize());
	ck_assert_uint_eq(used_bytes(), 74 * MIB);
	ck_cu(cuGraphExecDestroy(exec));
	ck_cu(cuGraphDestroy(graph));
	ck_cu(cuDeviceGraphMemTrim(0));
	ck_assert_uint_eq(graphs_reserved(0), 0);
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
}
END_TEST

START_TEST(a_graph_itself_takes_room_at_its_first_launch_or_upload)
{
	CUdeviceptr address;
	CUgraphExec exec;
	CUgraph graph;

	start_with("SIMCUDA_GRAPH", "3M");
	exec = make_allocating_graph(2 * MIB, &graph, &address);
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
	ck_cu(cuGraphUpload(exec, NULL));
	ck_assert_uint_eq(used_bytes(), 13 * MIB);
	ck_cu(cuGraphLaunch(exec, NULL));
	ck_cu(cuGraphLaunch(exec, NULL));
	ck_cu(cuCtxSynchronize());
	ck_assert_uint_eq(used_bytes(), 45 * MIB);
	ck_cu(cuGraphExecDestroy(exec));
	ck_assert_uint_eq(used_bytes(), 42 * MIB);
}
END_TEST

START_TEST(code_takes_its_bytes_when_it_is_loaded)
{
	CUdeviceptr variable;
	CUlibrary library;
	CUmodule module, view;
	size_t bytes;

	start_with("SIMCUDA_MODULE", "5M");
	ck_cu(cuModuleLoadData(&module, image));
	ck_assert_uint_eq(used_bytes(), 15 * MIB);
	ck_cu(cuModuleGetGlobal(&variable, &bytes, module, "variable"));
	ck_assert_uint_eq(used_bytes(), 15 * MIB);
	ck_cu(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	ck_cu(cuLibraryGetModule(&view, library));
	ck_assert_uint_eq(used_bytes(), 20 * MIB);
	ck_cu(cuModuleUnload(module));
	ck_assert_uint_eq(used_bytes(), 15 * MIB);
	ck_cu(cuLibraryUnload(library));
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
}
END_TEST

START_TEST(lazy_code_takes_its_bytes_at_a_functions_first_use)
{
	CUfunctionLoadingState state;
	CUfunction one, two;
	CUmodule module;

	setenv("SIMCUDA_LAZY", "1", 1);
	start_with("SIMCUDA_MODULE", "5M");
	ck_cu(cuModuleLoadData(&module, image));
	ck_cu(cuModuleGetFunction(&one, module, "one"));
	ck_cu(cuModuleGetFunction(&two, module, "two"));
	ck_cu(cuFuncIsLoaded(&state, one));
	ck_assert_int_eq(state, CU_FUNCTION_LOADING_STATE_UNLOADED);
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
	ck_cu(cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ck_cu(cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	ck_assert_uint_eq(used_bytes(), 15 * MIB);
	ck_cu(cuFuncIsLoaded(&state, one));
	ck_assert_int_eq(state, CU_FUNCTION_LOADING_STATE_LOADED);
	ck_cu(cuFuncLoad(two));
	ck_assert_uint_eq(used_bytes(), 20 * MIB);
	ck_cu(cuModuleUnload(module));
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
}
END_TEST

START_TEST(what_a_context_took_goes_with_it)
{
	CUstream stream;
	CUmodule module;
	CUcontext second;
	CUlibrary library;

	setenv("SIMCUDA_STREAM", "1M", 1);
	start_with("SIMCUDA_MODULE", "5M");
	ck_cu(cuCtxCreate(&second, NULL, 0, 0));
	ck_cu(cuModuleLoadData(&module, image));
	ck_cu(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	ck_cu(cuStreamCreate(&stream, 0));
	ck_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ck_cu(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB));
	ck_assert_uint_eq(used_bytes(), 40 * MIB);
	ck_cu(cuStreamDestroy(stream));
	ck_cu(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
	ck_assert_uint_eq(used_bytes(), 31 * MIB);
	ck_cu(cuCtxDestroy(second));
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
	ck_cu(cuLibraryUnload(library));
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_and_not_kept)
{
	CUmodule module;
	CUstream stream;

	setenv("SIMCUDA_MEMORY", "16M", 1);
	setenv("SIMCUDA_STREAM", "7M", 1);
	start_with("SIMCUDA_MODULE", "7M");
	ck_cu_is(cuModuleLoadData(&module, image), CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu_is(cuStreamCreate(&stream, 0), CUDA_ERROR_OUT_OF_MEMORY);
	ck_cu_is(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 64 << 10), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
}
END_TEST

START_TEST(managed_memory_can_be_made_to_count)
{
	CUdeviceptr block;

	start_with("SIMCUDA_MANAGED", "2");
	ck_cu(cuMemAllocManaged(&block, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
	ck_assert_uint_eq(used_bytes(), 14 * MIB);
	ck_cu(cuMemFree(block));
	ck_assert_uint_eq(used_bytes(), 10 * MIB);
}
END_TEST

Suite *suite_ledger(void)
{
	Suite *suite = suite_create("simdriver ledger");
	TCase *tcase = tcase_create("ledger");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, a_context_and_other_processes_are_there_from_the_start);
	tcase_add_test(tcase, blocks_pools_and_graphs_add_up_to_what_is_used);
	tcase_add_test(tcase, what_graphs_reserve_outlives_them_until_a_trim);
	tcase_add_test(tcase, a_graph_itself_takes_room_at_its_first_launch_or_upload);
	tcase_add_test(tcase, code_takes_its_bytes_when_it_is_loaded);
	tcase_add_test(tcase, lazy_code_takes_its_bytes_at_a_functions_first_use);
	tcase_add_test(tcase, what_a_context_took_goes_with_it);
	tcase_add_test(tcase, what_does_not_fit_is_refused_and_not_kept);
	tcase_add_test(tcase, managed_memory_can_be_made_to_count);
	suite_add_tcase(suite, tcase);
	return suite;
}
