/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch of a graph copies and allocates, by the real wrappers. */
#include "core/tracker.h"
#include "exec.h"
#include "fake_driver.h"
#include "fake_graph.h"
#include "intercept/call.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_BLOCK EXEC_BLOCK

static struct fake_graph graph, child;
static char host[64];

static void start(void)
{
	exec_start();
	memset(&graph, 0, sizeof(graph));
	memset(&child, 0, sizeof(child));
}

START_TEST(each_way_is_one_record_of_each_launch)
{
	const struct fake_look *look;
	const struct record *record;
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	fake_graph_in(&graph, host, DEVICE_BLOCK + 512, 23);
	fake_graph_fill(&graph, DEVICE_BLOCK, 1, 7, 1);
	fake_graph_fill(&graph, DEVICE_BLOCK, 2, 7, 3);
	fake_graph_fill(&graph, DEVICE_BLOCK, 4, 7, 0);
	exec = exec_make(&graph);
	for (int i = 0; i < 3; i++) {
		look = exec_launch(exec);
		ck_assert_uint_eq(look->count, 3);
		record = exec_expect_way(look, TRANSFER_H2D, 2, 123);
		ck_assert_int_eq(record_source_place(record), PLACE_PAGEABLE);
		ck_assert_int_eq(record_target_place(record), PLACE_DEVICE);
		ck_assert(!(record->flags & RECORD_CAPTURED));
		exec_expect_way(look, TRANSFER_MEMSET, 3, 7 + 42 + 28);
	}
}
END_TEST

static CUresult CUDAAPI give_host(void **address, size_t bytes, unsigned int flags)
{
	(void)bytes;
	(void)flags;
	*address = host;
	return CUDA_SUCCESS;
}

START_TEST(ways_differ_by_their_places)
{
	const struct fake_look *look;
	void *pinned;

	fake_set(API_cuMemHostAlloc, give_host);
	cuMemHostAlloc(&pinned, sizeof(host), 0);
	fake_look();
	fake_graph_in(&graph, host, DEVICE_BLOCK, 10);
	fake_graph_in(&graph, host + sizeof(host), DEVICE_BLOCK, 5);
	look = exec_launch(exec_make(&graph));
	ck_assert_uint_eq(look->count, 3);
	for (uint32_t i = 1; i < 3; i++)
		ck_assert_uint_eq(look->record[i].c,
				  record_source_place(&look->record[i]) == PLACE_PINNED ? 10 : 5);
}
END_TEST

START_TEST(a_launch_that_fails_moves_nothing)
{
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	exec = exec_make(&graph);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	exec_expect_nothing(exec);
}
END_TEST

START_TEST(a_graph_that_copies_nothing_is_not_kept)
{
	exec_expect_nothing(exec_make(&graph));
	exec_expect_nothing((CUgraphExec)0x1234);
}
END_TEST

START_TEST(what_was_not_made_is_not_read)
{
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	fake_result = CUDA_ERROR_NOT_SUPPORTED;
	cuGraphInstantiateWithFlags(&exec, fake_graph_handle(&graph), 0);
	fake_look_one(RECORD_OPERATION, API_cuGraphInstantiateWithFlags);
	fake_result = CUDA_SUCCESS;
	exec_expect_nothing(fake_exec);
}
END_TEST

START_TEST(the_graph_may_be_gone_before_the_launch)
{
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	exec = exec_make(&graph);
	memset(&graph, 0xee, sizeof(graph));
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 1, 100);
}
END_TEST

START_TEST(a_destroyed_graph_is_forgotten)
{
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	exec = exec_make(&graph);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	exec_end(exec);
	fake_result = CUDA_SUCCESS;
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 1, 100);
	exec_end(exec);
	exec_expect_nothing(exec);
}
END_TEST

START_TEST(a_handle_that_comes_back_is_the_new_graph)
{
	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	exec_make(&graph);
	fake_graph_in(&child, host, DEVICE_BLOCK, 9);
	exec_expect_way(exec_launch(exec_make(&child)), TRANSFER_H2D, 1, 9);
	exec_expect_nothing(exec_make(&(struct fake_graph){ .count = 0 }));
}
END_TEST

static CUgraph bodies[2];

static CUresult CUDAAPI add_conditional(CUgraphNode *node, CUgraph into, const CUgraphNode *edges,
					const CUgraphEdgeData *data, size_t edge_count,
					CUgraphNodeParams *parameters)
{
	(void)into;
	(void)edges;
	(void)data;
	(void)edge_count;
	parameters->conditional.phGraph_out = bodies;
	*node = fake_graph_node(&graph.node[0]);
	return fake_result;
}

static void add_bodies(void)
{
	CUgraphNodeParams parameters = { .type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
					 .conditional.size = 2 };
	CUgraphNode node;

	fake_set(API_cuGraphAddNode_v2, add_conditional);
	cuGraphAddNode_v2(&node, fake_graph_handle(&graph), NULL, NULL, 0, &parameters);
	fake_look_one(RECORD_OPERATION, API_cuGraphAddNode_v2);
}

START_TEST(bodies_of_conditional_nodes_count_apart)
{
	struct fake_graph otherwise = { .count = 0 };
	const struct fake_look *look;
	const struct record *record;

	bodies[0] = fake_graph_handle(&child);
	bodies[1] = fake_graph_handle(&otherwise);
	fake_graph_in(&child, host, DEVICE_BLOCK, 40);
	fake_graph_in(&otherwise, host, DEVICE_BLOCK, 2);
	fake_graph_child(&graph, NULL)->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	fake_graph_fill(&graph, DEVICE_BLOCK, 1, 16, 1);
	add_bodies();
	look = exec_launch(exec_make(&graph));
	ck_assert_uint_eq(look->count, 3);
	record = exec_expect_way(look, TRANSFER_H2D, 0, 42);
	ck_assert(record->flags & RECORD_CAPTURED);
	record = exec_expect_way(look, TRANSFER_MEMSET, 1, 16);
	ck_assert(!(record->flags & RECORD_CAPTURED));
}
END_TEST

START_TEST(what_cannot_be_read_is_said)
{
	const struct fake_look *look;
	CUgraphExec exec;

	fake_graph_fill(&graph, DEVICE_BLOCK, 1, 16, 1);
	fake_graph_child(&graph, NULL)->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	look = exec_launch(exec_make(&graph));
	exec_expect_way(look, TRANSFER_MEMSET, 1, 16);
	ck_assert(exec_expect_way(look, TRANSFER_UNKNOWN, 0, 0)->flags & RECORD_CAPTURED);
	fake_graph_in(&child, host, DEVICE_BLOCK, 40)->result = CUDA_ERROR_INVALID_VALUE;
	exec = exec_make(&child);
	look = exec_launch(exec);
	ck_assert(exec_expect_way(look, TRANSFER_UNKNOWN, 0, 0)->flags & RECORD_CAPTURED);
}
END_TEST

static CUresult CUDAAPI say_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
	(void)stream;
	(void)mode;
	return CUDA_SUCCESS;
}

START_TEST(a_launch_into_a_capture_moves_nothing)
{
	const struct fake_look *look;
	CUgraphExec exec;

	fake_set(API_cuStreamIsCapturing, say_capturing);
	fake_set(API_cuStreamBeginCapture_v2, begin_capture);
	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	fake_graph_alloc(&graph, 0xa0000, 512);
	exec = exec_make(&graph);
	cuStreamBeginCapture_v2(EXEC_STREAM, CU_STREAM_CAPTURE_MODE_RELAXED);
	fake_look();
	look = exec_launch(exec);
	ck_assert_uint_eq(look->count, 2);
	ck_assert(exec_expect_way(look, TRANSFER_H2D, 1, 100)->flags & RECORD_CAPTURED);
}
END_TEST

static const struct record *expect_block(const struct fake_look *look, enum record_kind kind,
					 uint64_t address, uint64_t bytes)
{
	ck_assert_uint_eq(look->count, 2);
	ck_assert_int_eq(look->record[1].kind, kind);
	ck_assert_int_eq(look->record[1].api, API_cuGraphLaunch);
	ck_assert_uint_eq(look->record[1].a, address);
	ck_assert_uint_ne(look->record[1].b, 0);
	ck_assert_uint_eq(look->record[1].c, bytes);
	ck_assert(!(look->record[1].flags & RECORD_CAPTURED));
	return &look->record[1];
}

START_TEST(memory_that_a_launch_leaves_is_a_block)
{
	struct block block;
	CUgraphExec exec;

	fake_graph_alloc(&graph, 0xa0000, 512);
	fake_graph_alloc(&graph, 0xb0000, 4096);
	fake_graph_free(&graph, 0xb0000);
	exec = exec_make(&graph);
	ck_assert(!tracker_find(SPACE_ADDRESS, 0xa0000, &block));
	expect_block(exec_launch(exec), RECORD_ALLOC, 0xa0000, 512);
	ck_assert(tracker_find(SPACE_ADDRESS, 0xa0000, &block));
	ck_assert_int_eq(block.kind, BLOCK_GRAPH);
	ck_assert_int_eq(block.device, 2);
	ck_assert(!tracker_find(SPACE_ADDRESS, 0xb0000, &block));
	/* Freed by the launch itself, if so wished, and allocated again. */
	exec_expect_nothing(exec);
	fake_set(API_cuMemFree_v2, fake_free_address);
	cuMemFree_v2(0xa0000);
	ck_assert_uint_eq(fake_look_one(RECORD_FREE, API_cuMemFree_v2)->b, block.id);
	expect_block(exec_launch(exec), RECORD_ALLOC, 0xa0000, 512);
}
END_TEST

enum { NODES = 3000 };

static struct fake_node nodes[NODES];

/* Pairs stand far from each other, but for one block that stays. */
START_TEST(thousands_of_blocks_are_paired)
{
	graph.many = nodes;
	for (int i = 0; i < NODES / 2; i++)
		fake_graph_alloc(&graph, 0xa0000 + 512 * (CUdeviceptr)i, 512);
	for (int i = NODES / 2; --i >= 0;)
		if (i != 700)
			fake_graph_free(&graph, 0xa0000 + 512 * (CUdeviceptr)i);
	expect_block(exec_launch(exec_make(&graph)), RECORD_ALLOC, 0xa0000 + 512 * 700, 512);
}
END_TEST

START_TEST(a_launch_may_free_what_another_has_left)
{
	struct block block;
	CUgraphExec freeing;

	fake_graph_free(&child, 0xa0000);
	freeing = exec_make(&child);
	exec_expect_nothing(freeing);
	fake_graph_alloc(&graph, 0xa0000, 512);
	fake_exec = (CUgraphExec)0x9100;
	exec_launch(exec_make(&graph));
	expect_block(exec_launch(freeing), RECORD_FREE, 0xa0000, 512);
	ck_assert(!tracker_find(SPACE_ADDRESS, 0xa0000, &block));
}
END_TEST

enum { MANY = 5000 };

static CUgraphExec exec_number(unsigned int i)
{
	return (CUgraphExec)(UINT64_C(0x7f0000000000) + 1040 * (uint64_t)i);
}

/* Far more than the table has room for at first, and gone again in another order. */
START_TEST(many_graphs_are_kept_at_a_time)
{
	struct fake_node *copy = fake_graph_in(&graph, host, DEVICE_BLOCK, 1);

	for (unsigned int i = 0; i < MANY; i++) {
		copy->copy.WidthInBytes = i + 1;
		fake_exec = exec_number(i);
		exec_make(&graph);
	}
	for (unsigned int i = 0; i < MANY; i += 3)
		exec_end(exec_number(i));
	for (unsigned int i = 0; i < MANY; i++) {
		if (i % 3)
			exec_expect_way(exec_launch(exec_number(i)), TRANSFER_H2D, 1, i + 1);
		else
			exec_expect_nothing(exec_number(i));
	}
	for (unsigned int i = 0; i < MANY; i++)
		exec_end(exec_number(i));
	for (unsigned int i = 0; i < MANY; i++)
		exec_expect_nothing(exec_number(i));
}
END_TEST

enum { THREADS = 4, TURNS = 2000 };

/* Handles of their own, which the driver gives out through a thread's own variable. */
static __thread CUgraphExec own_exec;

static CUresult CUDAAPI instantiate_own(CUgraphExec *exec, CUgraph from, unsigned long long flags)
{
	(void)from;
	(void)flags;
	*exec = own_exec;
	return CUDA_SUCCESS;
}

static void *make_and_launch(void *number)
{
	CUgraphExec exec;

	for (unsigned int i = 0; i < TURNS; i++) {
		own_exec = exec_number((unsigned int)(uintptr_t)number * TURNS + i % 700);
		cuGraphInstantiateWithFlags(&exec, fake_graph_handle(&graph), 0);
		cuGraphLaunch(exec, EXEC_STREAM);
		cuGraphNodeSetEnabled(exec, fake_graph_node(&graph.node[0]), i & 1);
		cuGraphLaunch(exec, EXEC_STREAM);
		if (i % 5)
			cuGraphExecDestroy(exec);
	}
	return NULL;
}

START_TEST(threads_have_graphs_of_their_own)
{
	pthread_t thread[THREADS];

	fake_set(API_cuGraphInstantiateWithFlags, instantiate_own);
	fake_graph_in(&graph, host, DEVICE_BLOCK, 77);
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, make_and_launch, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	fake_look();
	own_exec = exec_number(123456);
	exec_expect_way(exec_launch(exec_make(&graph)), TRANSFER_H2D, 1, 77);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("graph");
	TCase *work = tcase_create("work");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(work, start, fake_stop);
	tcase_set_timeout(work, 60);
	tcase_add_test(work, each_way_is_one_record_of_each_launch);
	tcase_add_test(work, ways_differ_by_their_places);
	tcase_add_test(work, a_launch_that_fails_moves_nothing);
	tcase_add_test(work, a_graph_that_copies_nothing_is_not_kept);
	tcase_add_test(work, what_was_not_made_is_not_read);
	tcase_add_test(work, the_graph_may_be_gone_before_the_launch);
	tcase_add_test(work, a_destroyed_graph_is_forgotten);
	tcase_add_test(work, a_handle_that_comes_back_is_the_new_graph);
	tcase_add_test(work, bodies_of_conditional_nodes_count_apart);
	tcase_add_test(work, what_cannot_be_read_is_said);
	tcase_add_test(work, a_launch_into_a_capture_moves_nothing);
	tcase_add_test(work, memory_that_a_launch_leaves_is_a_block);
	tcase_add_test(work, thousands_of_blocks_are_paired);
	tcase_add_test(work, a_launch_may_free_what_another_has_left);
	tcase_add_test(work, many_graphs_are_kept_at_a_time);
	tcase_add_test(work, threads_have_graphs_of_their_own);
	suite_add_tcase(suite, work);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
