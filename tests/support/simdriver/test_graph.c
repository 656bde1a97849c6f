/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: captured, built by hand, launched, changed. */
#include "simtest.h"

static struct bench b;
static CUdeviceptr block;

static void setup(void)
{
	bench_open(&b);
	ck_cu(cuMemAlloc(&block, 4096));
}

static unsigned read_word(CUdeviceptr address)
{
	unsigned value = 0;

	ck_cu(cuMemcpyDtoH(&value, address, 4));
	return value;
}

static void begin(void)
{
	ck_cu(cuStreamBeginCapture(b.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUgraph end(void)
{
	CUgraph graph;

	ck_cu(cuStreamEndCapture(b.stream, &graph));
	return graph;
}

static void note(void *data)
{
	++*(int *)data;
}

START_TEST(captured_work_runs_at_each_launch_and_not_before)
{
	CUgraphExec exec;
	CUgraph graph;
	unsigned value = 5, words = 4;
	unsigned long long address = block;
	void *params[] = {&address, &value, &words};
	int count = 0;

	ck_cu(cuMemsetD32(block, 0, 16));
	begin();
	ck_cu(cuLaunchKernel(b.fill, 1, 1, 1, 1, 1, 1, 0, b.stream, params, NULL));
	ck_cu(cuMemcpyDtoDAsync(block + 32, block, 16, b.stream));
	ck_cu(cuLaunchHostFunc(b.stream, note, &count));
	graph = end();
	value = 6;
	ck_cu(cuGraphInstantiate(&exec, graph, 0));
	ck_cu(cuGraphDestroy(graph));
	ck_assert_uint_eq(read_word(block), 0);
	for (int i = 0; i < 3; i++)
		ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(read_word(block + 32), 5);
	ck_assert_int_eq(count, 3);
	ck_cu(cuGraphExecDestroy(exec));
}
END_TEST

START_TEST(captured_nodes_tell_what_they_copy)
{
	CUgraphNode nodes[2];
	CUgraphNodeType type;
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;
	char host[64];
	size_t count = 2;

	begin();
	ck_cu(cuMemcpyHtoDAsync(block + 8, host, sizeof(host), b.stream));
	ck_cu(cuMemsetD16Async(block, 7, 10, b.stream));
	ck_cu(cuGraphGetNodes(end(), nodes, &count));
	ck_assert_uint_eq(count, 2);
	ck_cu(cuGraphNodeGetType(nodes[0], &type));
	ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_MEMCPY);
	ck_cu(cuGraphMemcpyNodeGetParams(nodes[0], &copy));
	ck_assert_uint_eq(copy.WidthInBytes * copy.Height * copy.Depth, sizeof(host));
	ck_assert_int_eq(copy.srcMemoryType, CU_MEMORYTYPE_HOST);
	ck_assert_ptr_eq(copy.srcHost, host);
	ck_assert_uint_eq(copy.dstDevice, block + 8);
	ck_cu(cuGraphMemsetNodeGetParams(nodes[1], &fill));
	ck_assert_uint_eq(fill.dst, block);
	ck_assert_uint_eq(fill.width, 10);
	ck_assert_uint_eq(fill.elementSize, 2);
	ck_cu(cuGraphMemcpyNodeSetParams(nodes[0], &copy));
}
END_TEST

START_TEST(an_allocation_node_allocates_at_launch)
{
	size_t before = bench_free_bytes(), size;
	CUdeviceptr address, base;
	CUgraphExec exec;
	CUgraph graph;

	begin();
	ck_cu(cuMemAllocAsync(&address, 4 * MIB, b.stream));
	ck_cu(cuMemsetD32Async(address, 11, 4, b.stream));
	graph = end();
	ck_cu_is(cuMemGetAddressRange(&base, &size, address), CUDA_ERROR_NOT_FOUND);
	ck_assert_uint_eq(bench_free_bytes(), before);
	ck_cu(cuGraphInstantiate(&exec, graph, 0));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(read_word(address), 11);
	ck_assert_uint_eq(before - bench_free_bytes(), 32 * MIB);
	ck_cu_is(cuGraphLaunch(exec, b.stream), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemFree(address));
	ck_assert_uint_eq(before - bench_free_bytes(), 32 * MIB);
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuMemFreeAsync(address, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_cu(cuDeviceGraphMemTrim(b.device));
	ck_assert_uint_eq(bench_free_bytes(), before);
}
END_TEST

START_TEST(what_a_graph_frees_itself_can_be_launched_again)
{
	CUdeviceptr address;
	CUgraphExec exec, second;
	CUgraph graph, clone;

	begin();
	ck_cu(cuMemAllocAsync(&address, 4 * MIB, b.stream));
	ck_cu(cuMemsetD32Async(address, 11, 4, b.stream));
	ck_cu(cuMemcpyDtoDAsync(block, address, 4, b.stream));
	ck_cu(cuMemFreeAsync(address, b.stream));
	graph = end();
	ck_cu(cuGraphInstantiate(&exec, graph, 0));
	ck_cu_is(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
	ck_cu_is(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(read_word(block), 11);
	ck_cu(cuGraphExecDestroy(exec));
	ck_cu(cuGraphInstantiate(&second, graph, 0));
}
END_TEST

START_TEST(auto_free_lets_a_graph_be_launched_again)
{
	CUdeviceptr address;
	CUgraphExec exec;

	begin();
	ck_cu(cuMemAllocAsync(&address, MIB, b.stream));
	ck_cu(cuGraphInstantiate(&exec, end(), CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuGraphLaunch(exec, b.stream));
}
END_TEST

START_TEST(plain_blocks_cannot_be_freed_inside_a_capture)
{
	CUgraph graph;

	begin();
	ck_cu_is(cuMemFreeAsync(block, b.stream), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuStreamEndCapture(b.stream, &graph));
}
END_TEST

START_TEST(nodes_added_by_hand_run_in_order_and_can_be_changed)
{
	CUDA_MEMSET_NODE_PARAMS fill = {.dst = block, .value = 3, .elementSize = 4, .width = 4,
					.height = 1};
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = block,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = block + 64,
			      .WidthInBytes = 16, .Height = 1, .Depth = 1};
	CUgraphNode first, second;
	CUgraphExec exec;
	CUgraph graph;

	ck_cu(cuMemsetD32(block, 0, 64));
	ck_cu(cuCtxSynchronize());
	ck_cu(cuGraphCreate(&graph, 0));
	ck_cu(cuGraphAddMemcpyNode(&second, graph, NULL, 0, &copy, b.context));
	ck_cu(cuGraphAddMemsetNode(&first, graph, NULL, 0, &fill, b.context));
	ck_cu(cuGraphAddDependencies(graph, &first, &second, NULL, 1));
	ck_cu(cuGraphInstantiate(&exec, graph, 0));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(read_word(block + 64), 3);
	fill.value = 4;
	ck_cu(cuGraphExecMemsetNodeSetParams(exec, first, &fill, b.context));
	ck_cu(cuGraphNodeSetEnabled(exec, second, 0));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(read_word(block), 4);
	ck_assert_uint_eq(read_word(block + 64), 3);
	ck_cu(cuGraphAddDependencies(graph, &second, &first, NULL, 1));
	ck_cu_is(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(children_and_clones_run_too)
{
	CUgraph parent, child, clone;
	CUgraphNode node, twin;
	CUgraphExec exec;
	int count = 0;

	begin();
	ck_cu(cuLaunchHostFunc(b.stream, note, &count));
	child = end();
	ck_cu(cuGraphCreate(&parent, 0));
	ck_cu(cuGraphAddChildGraphNode(&node, parent, NULL, 0, child));
	ck_cu(cuGraphAddChildGraphNode(&node, parent, &node, 1, child));
	ck_cu(cuGraphClone(&clone, parent));
	ck_cu(cuGraphNodeFindInClone(&twin, node, clone));
	ck_assert_ptr_ne(twin, node);
	ck_cu(cuGraphInstantiate(&exec, clone, 0));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_int_eq(count, 2);
}
END_TEST

static CUDA_MEMSET_NODE_PARAMS words(CUdeviceptr at, unsigned value)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = at, .value = value, .elementSize = 4, .width = 2, .height = 1,
	};
}

START_TEST(a_child_of_an_executable_graph_can_be_another_one)
{
	CUDA_MEMSET_NODE_PARAMS fill = words(block, 1);
	CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
	CUgraph graph, child, other;
	CUgraphNode node, in_child, own;
	CUgraphExec exec;

	ck_cu(cuGraphCreate(&graph, 0));
	ck_cu(cuGraphCreate(&child, 0));
	ck_cu(cuGraphCreate(&other, 0));
	ck_cu(cuGraphAddMemsetNode(&in_child, child, NULL, 0, &fill, b.context));
	ck_cu(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	fill = words(block + 64, 2);
	ck_cu(cuGraphAddMemsetNode(&own, graph, NULL, 0, &fill, b.context));
	ck_cu(cuGraphInstantiate(&exec, graph, 0));
	fill = words(block, 3);
	ck_cu(cuGraphAddMemsetNode(&in_child, other, NULL, 0, &fill, b.context));
	ck_cu(cuGraphExecChildGraphNodeSetParams(exec, node, other));
	any.memset.dst = block + 64;
	any.memset.value = 4;
	any.memset.elementSize = 4;
	any.memset.width = any.memset.height = 1;
	ck_cu(cuGraphExecNodeSetParams(exec, own, &any));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(read_word(block), 3);
	ck_assert_uint_eq(read_word(block + 64), 4);
	ck_cu(cuGraphAddMemsetNode(&in_child, other, NULL, 0, &fill, b.context));
	ck_assert_int_eq(cuGraphExecChildGraphNodeSetParams(exec, node, other),
			 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(an_update_takes_new_parameters_and_refuses_new_shapes)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph graph;
	CUgraphExec exec;

	begin();
	ck_cu(cuMemsetD32Async(block, 1, 4, b.stream));
	ck_cu(cuGraphInstantiate(&exec, end(), 0));
	begin();
	ck_cu(cuMemsetD32Async(block, 2, 4, b.stream));
	ck_cu(cuGraphExecUpdate(exec, end(), &info));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(read_word(block), 2);
	begin();
	ck_cu(cuMemsetD32Async(block, 2, 4, b.stream));
	ck_cu(cuMemsetD32Async(block, 3, 4, b.stream));
	graph = end();
	ck_cu_is(cuGraphExecUpdate(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}
END_TEST

static CUgraph *add_switch(CUgraph graph, CUgraphConditionalNodeType type, unsigned size,
			   unsigned value)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	CUgraphNode node;

	ck_cu(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, b.context, value,
					     CU_GRAPH_COND_ASSIGN_DEFAULT));
	params.conditional.type = type;
	params.conditional.size = size;
	params.conditional.ctx = b.context;
	ck_cu(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
	return params.conditional.phGraph_out;
}

START_TEST(a_conditional_node_runs_the_body_that_its_value_names)
{
	CUDA_MEMSET_NODE_PARAMS fill;
	CUgraph graph, clone, *bodies, *either;
	CUgraphNode node;
	CUgraphExec exec;

	ck_cu(cuGraphCreate(&graph, 0));
	bodies = add_switch(graph, CU_GRAPH_COND_TYPE_SWITCH, 3, 1);
	either = add_switch(graph, CU_GRAPH_COND_TYPE_IF, 2, 0);
	for (unsigned i = 0; i < 3; i++) {
		fill = words(block + 64 * i, 10 + i);
		ck_cu(cuGraphAddMemsetNode(&node, bodies[i], NULL, 0, &fill, b.context));
	}
	for (unsigned i = 0; i < 2; i++) {
		fill = words(block + 512, 20 + i);
		ck_cu(cuGraphAddMemsetNode(&node, either[i], NULL, 0, &fill, b.context));
	}
	ck_cu_is(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
	ck_cu_is(cuGraphDestroy(bodies[0]), CUDA_ERROR_INVALID_VALUE);
	ck_cu(cuMemsetD32(block, 0, 256));
	ck_cu(cuCtxSynchronize());
	ck_cu(cuGraphInstantiate(&exec, graph, 0));
	ck_cu(cuGraphDestroy(graph));
	ck_cu(cuGraphLaunch(exec, b.stream));
	ck_cu(cuStreamSynchronize(b.stream));
	ck_assert_uint_eq(read_word(block), 0);
	ck_assert_uint_eq(read_word(block + 64), 11);
	ck_assert_uint_eq(read_word(block + 128), 0);
	ck_assert_uint_eq(read_word(block + 512), 21);
}
END_TEST

START_TEST(a_user_object_goes_with_the_last_graph)
{
	CUuserObject user;
	CUgraphExec exec;
	CUgraph graph;
	int gone = 0;

	ck_cu(cuUserObjectCreate(&user, &gone, note, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	ck_cu(cuGraphCreate(&graph, 0));
	ck_cu(cuGraphRetainUserObject(graph, user, 1, CU_GRAPH_USER_OBJECT_MOVE));
	ck_cu(cuGraphInstantiate(&exec, graph, 0));
	ck_cu(cuGraphDestroy(graph));
	ck_assert_int_eq(gone, 0);
	ck_cu(cuGraphExecDestroy(exec));
	ck_assert_int_eq(gone, 1);
}
END_TEST

Suite *suite_graph(void)
{
	Suite *suite = suite_create("simdriver graphs");
	TCase *tcase = tcase_create("graphs");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, captured_work_runs_at_each_launch_and_not_before);
	tcase_add_test(tcase, captured_nodes_tell_what_they_copy);
	tcase_add_test(tcase, an_allocation_node_allocates_at_launch);
	tcase_add_test(tcase, what_a_graph_frees_itself_can_be_launched_again);
	tcase_add_test(tcase, auto_free_lets_a_graph_be_launched_again);
	tcase_add_test(tcase, plain_blocks_cannot_be_freed_inside_a_capture);
	tcase_add_test(tcase, nodes_added_by_hand_run_in_order_and_can_be_changed);
	tcase_add_test(tcase, children_and_clones_run_too);
	tcase_add_test(tcase, a_child_of_an_executable_graph_can_be_another_one);
	tcase_add_test(tcase, an_update_takes_new_parameters_and_refuses_new_shapes);
	tcase_add_test(tcase, a_conditional_node_runs_the_body_that_its_value_names);
	tcase_add_test(tcase, a_user_object_goes_with_the_last_graph);
	suite_add_tcase(suite, tcase);
	return suite;
}
