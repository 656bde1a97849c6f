/* SPDX-License-Identifier: Apache-2.0 */
/* Executable graphs whose nodes are changed, switched off, or all exchanged at once. */
#include "exec.h"
#include "fake_driver.h"
#include "fake_graph.h"
#include "intercept/call.h"

#include <check.h>
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

START_TEST(children_are_part_of_it_and_can_be_changed)
{
	struct fake_graph other = { .count = 0 };
	struct fake_node *node;
	CUgraphExec exec;

	fake_graph_in(&child, host, DEVICE_BLOCK, 50);
	fake_graph_fill(&child, DEVICE_BLOCK, 4, 2, 1);
	fake_graph_in(&graph, host, DEVICE_BLOCK, 1);
	node = fake_graph_child(&graph, &child);
	fake_graph_in(&graph, host, DEVICE_BLOCK, 3);
	exec = exec_make(&graph);
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 3, 54);
	fake_graph_in(&other, host, DEVICE_BLOCK, 600);
	fake_graph_fill(&other, DEVICE_BLOCK, 1, 1, 1);
	cuGraphExecChildGraphNodeSetParams(exec, fake_graph_node(node), fake_graph_handle(&other));
	fake_look_one(RECORD_OPERATION, API_cuGraphExecChildGraphNodeSetParams);
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 3, 604);
	exec_expect_way(exec_launch(exec), TRANSFER_MEMSET, 1, 1);
	cuGraphNodeSetEnabled(exec, fake_graph_node(&child.node[0]), 0);
	fake_look();
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 2, 4);
}
END_TEST

START_TEST(changed_nodes_are_followed)
{
	struct fake_node *copy = fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	struct fake_node *fill = fake_graph_fill(&graph, DEVICE_BLOCK, 4, 10, 1);
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
	CUgraphExec exec = exec_make(&graph);
	CUDA_MEMCPY3D shorter = copy->copy;

	shorter.WidthInBytes = 60;
	cuGraphExecMemcpyNodeSetParams(exec, fake_graph_node(copy), &shorter, NULL);
	cuGraphExecMemsetNodeSetParams(exec, fake_graph_node(fill),
				       &(CUDA_MEMSET_NODE_PARAMS){ .dst = DEVICE_BLOCK,
								   .elementSize = 2,
								   .width = 5,
								   .height = 1 },
				       NULL);
	fake_look();
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 1, 60);
	exec_expect_way(exec_launch(exec), TRANSFER_MEMSET, 1, 10);
	any.memcpy.copyParams = shorter;
	any.memcpy.copyParams.WidthInBytes = 7;
	cuGraphExecNodeSetParams(exec, fake_graph_node(copy), &any);
	fake_look();
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 1, 7);
	fake_result = CUDA_ERROR_INVALID_VALUE;
	cuGraphExecMemcpyNodeSetParams(exec, fake_graph_node(copy), &shorter, NULL);
	fake_look();
	fake_result = CUDA_SUCCESS;
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 1, 7);
}
END_TEST

START_TEST(a_child_of_another_shape_is_unknown)
{
	const struct fake_look *look;
	struct fake_node *node;
	CUgraphExec exec;

	fake_graph_in(&child, host, DEVICE_BLOCK, 50);
	node = fake_graph_child(&graph, &child);
	exec = exec_make(&graph);
	for (int i = 0; i < 2; i++) {
		fake_graph_in(&child, host, DEVICE_BLOCK, 1);
		cuGraphExecChildGraphNodeSetParams(exec, fake_graph_node(node),
						   fake_graph_handle(&child));
		fake_look();
		look = exec_launch(exec);
		ck_assert_uint_eq(look->count, 3);
		exec_expect_way(look, TRANSFER_UNKNOWN, 0, 0);
		exec_expect_way(look, TRANSFER_H2D, 1, 50);
	}
}
END_TEST

enum { NODES = 3000, CHANGES = 6000 };

static struct fake_node nodes[NODES];

/* What a node does by now, as the test knows it. */
static struct model {
	enum transfer_kind kind;
	size_t bytes;
	bool is_enabled;
} model[NODES];

static void expect_model(CUgraphExec exec)
{
	uint64_t copies[TRANSFER_KINDS] = { 0 }, bytes[TRANSFER_KINDS] = { 0 };
	const struct fake_look *look = exec_launch(exec);
	uint32_t ways = 0;

	for (int i = 0; i < NODES; i++) {
		copies[model[i].kind] += model[i].is_enabled;
		bytes[model[i].kind] += model[i].is_enabled ? model[i].bytes : 0;
	}
	for (enum transfer_kind kind = 0; kind < TRANSFER_KINDS; kind++) {
		ways += copies[kind] != 0;
		if (copies[kind])
			exec_expect_way(look, kind, copies[kind], bytes[kind]);
	}
	ck_assert_uint_eq(look->count, 1 + ways);
}

static void change_node(CUgraphExec exec, unsigned int i, unsigned int random)
{
	CUDA_MEMCPY3D copy = nodes[i].copy;

	if (model[i].kind == TRANSFER_MEMSET || random % 3 == 0) {
		model[i].is_enabled = !model[i].is_enabled;
		cuGraphNodeSetEnabled(exec, fake_graph_node(&nodes[i]), model[i].is_enabled);
	} else {
		model[i].kind = random & 1 ? TRANSFER_H2D : TRANSFER_D2D;
		model[i].bytes = copy.WidthInBytes = random % 1000;
		copy.srcMemoryType = random & 1 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		copy.srcDevice = DEVICE_BLOCK;
		cuGraphExecMemcpyNodeSetParams(exec, fake_graph_node(&nodes[i]), &copy, NULL);
	}
	fake_look();
}

/* Sums change by difference: those of all nodes, made anew here, tell whether that is right. */
START_TEST(thousands_of_nodes_are_changed)
{
	unsigned int random = 1;
	CUgraphExec exec;

	graph.many = nodes;
	for (unsigned int i = 0; i < NODES; i++) {
		model[i] = (struct model){ i % 3 ? TRANSFER_H2D : TRANSFER_MEMSET, i, true };
		if (i % 3)
			fake_graph_in(&graph, host, DEVICE_BLOCK, i);
		else
			fake_graph_fill(&graph, DEVICE_BLOCK, 1, i, 1);
	}
	exec = exec_make(&graph);
	for (unsigned int i = 0; i < CHANGES; i++) {
		if (i % 100 == 0)
			expect_model(exec);
		random = random * 1664525 + 1013904223;
		change_node(exec, (random >> 8) % NODES, random >> 12);
	}
	expect_model(exec);
}
END_TEST

/* As measured: handles stay those of the first graph, and what is off stays off. */
START_TEST(an_update_changes_all_but_what_is_enabled)
{
	struct fake_graph other = { .count = 0 };
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	fake_graph_in(&graph, host, DEVICE_BLOCK, 10);
	exec = exec_make(&graph);
	cuGraphNodeSetEnabled(exec, fake_graph_node(&graph.node[0]), 0);
	fake_look();
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 1, 10);
	fake_graph_in(&other, host, DEVICE_BLOCK, 7);
	fake_graph_in(&other, host, DEVICE_BLOCK, 8);
	cuGraphExecUpdate_v2(exec, fake_graph_handle(&other), &info);
	fake_look_one(RECORD_OPERATION, API_cuGraphExecUpdate_v2);
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 1, 8);
	cuGraphNodeSetEnabled(exec, fake_graph_node(&graph.node[0]), 1);
	fake_look();
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 2, 15);
	cuGraphNodeSetEnabled(exec, fake_graph_node(&graph.node[0]), 0);
	cuGraphNodeSetEnabled(exec, fake_graph_node(&graph.node[1]), 0);
	fake_look();
	exec_expect_nothing(exec);
}
END_TEST

START_TEST(an_update_that_cannot_be_read_leaves_nothing_of_before)
{
	struct fake_graph other = { .count = 0 };
	CUgraphExecUpdateResultInfo info;
	const struct fake_look *look;
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	fake_graph_fill(&graph, DEVICE_BLOCK, 1, 5, 1);
	exec = exec_make(&graph);
	fake_graph_in(&other, host, DEVICE_BLOCK, 7)->result = CUDA_ERROR_INVALID_VALUE;
	fake_graph_fill(&other, DEVICE_BLOCK, 1, 6, 1);
	cuGraphExecUpdate_v2(exec, fake_graph_handle(&other), &info);
	fake_look();
	look = exec_launch(exec);
	ck_assert_uint_eq(look->count, 3);
	exec_expect_way(look, TRANSFER_MEMSET, 1, 6);
	exec_expect_way(look, TRANSFER_UNKNOWN, 0, 0);
	other.node[0].result = CUDA_SUCCESS;
	cuGraphExecUpdate_v2(exec, fake_graph_handle(&other), &info);
	fake_look();
	exec_expect_way(exec_launch(exec), TRANSFER_H2D, 1, 7);
}
END_TEST

static void update(CUgraphExec exec, struct fake_graph *from)
{
	CUgraphExecUpdateResultInfo info;

	cuGraphExecUpdate_v2(exec, fake_graph_handle(from), &info);
	fake_look();
}

static void set_bytes(CUgraphExec exec, struct fake_node *node, size_t bytes)
{
	CUDA_MEMCPY3D copy = node->copy;

	copy.WidthInBytes = bytes;
	cuGraphExecMemcpyNodeSetParams(exec, fake_graph_node(node), &copy, NULL);
	fake_look();
}

/* Whether there is something in it that nobody knows, beside so much. */
static bool is_unknown(CUgraphExec exec, uint64_t copies, uint64_t bytes)
{
	const struct fake_look *look = exec_launch(exec);

	exec_expect_way(look, TRANSFER_H2D, copies, bytes);
	if (look->count == 2)
		return false;
	ck_assert_uint_eq(look->count, 3);
	exec_expect_way(look, TRANSFER_UNKNOWN, 0, 0);
	return true;
}

/* Which node of the new graph stands for it, only the driver knows. */
START_TEST(a_node_is_unknown_after_an_update_of_another_shape)
{
	struct fake_graph other = { .count = 0 };
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	fake_graph_child(&graph, &child);
	fake_graph_in(&child, host, DEVICE_BLOCK, 10);
	exec = exec_make(&graph);
	fake_graph_child(&other, &child);
	fake_graph_in(&other, host, DEVICE_BLOCK, 7);
	update(exec, &other);
	ck_assert(!is_unknown(exec, 2, 17));
	/* In the child, which is the same, it is known. */
	set_bytes(exec, &child.node[0], 20);
	ck_assert(!is_unknown(exec, 2, 27));
	set_bytes(exec, &graph.node[0], 60);
	ck_assert(is_unknown(exec, 2, 27));
	update(exec, &other);
	ck_assert(!is_unknown(exec, 2, 17));
	cuGraphNodeSetEnabled(exec, fake_graph_node(&graph.node[0]), 0);
	fake_look();
	ck_assert(is_unknown(exec, 2, 17));
}
END_TEST

START_TEST(what_is_off_stays_off_in_an_update_of_another_shape)
{
	struct fake_graph other = { .count = 0 };
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	fake_graph_child(&graph, &child);
	fake_graph_in(&child, host, DEVICE_BLOCK, 10);
	exec = exec_make(&graph);
	cuGraphNodeSetEnabled(exec, fake_graph_node(&child.node[0]), 0);
	fake_look();
	fake_graph_child(&other, &child);
	fake_graph_in(&other, host, DEVICE_BLOCK, 7);
	update(exec, &other);
	ck_assert(!is_unknown(exec, 1, 7));
	/* One of the nodes is off, and nobody knows which. */
	exec = exec_make(&graph);
	cuGraphNodeSetEnabled(exec, fake_graph_node(&graph.node[0]), 0);
	fake_look();
	update(exec, &other);
	ck_assert(is_unknown(exec, 2, 17));
}
END_TEST

/* A kernel is none of ours: whether it runs changes nothing here. */
START_TEST(a_node_that_copies_nothing_may_be_switched_off)
{
	CUgraphExec exec;

	fake_graph_in(&graph, host, DEVICE_BLOCK, 100);
	fake_graph_in(&graph, host, DEVICE_BLOCK, 1)->type = CU_GRAPH_NODE_TYPE_KERNEL;
	exec = exec_make(&graph);
	cuGraphNodeSetEnabled(exec, fake_graph_node(&graph.node[1]), 0);
	fake_look();
	ck_assert(!is_unknown(exec, 1, 100));
}
END_TEST

/* Programs update a graph of many kernels at each step, whose nodes cannot become copies. */
START_TEST(an_update_of_what_copies_nothing_asks_nothing)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec = exec_make(&graph);

	ck_assert_uint_gt(fake_graph_asked, 0);
	fake_graph_asked = 0;
	cuGraphExecUpdate_v2(exec, fake_graph_handle(&graph), &info);
	fake_look();
	ck_assert_uint_eq(fake_graph_asked, 0);
	exec_expect_nothing(exec);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("graph_change");
	TCase *work = tcase_create("work");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(work, start, fake_stop);
	tcase_set_timeout(work, 60);
	tcase_add_test(work, children_are_part_of_it_and_can_be_changed);
	tcase_add_test(work, changed_nodes_are_followed);
	tcase_add_test(work, a_child_of_another_shape_is_unknown);
	tcase_add_test(work, thousands_of_nodes_are_changed);
	tcase_add_test(work, an_update_changes_all_but_what_is_enabled);
	tcase_add_test(work, an_update_that_cannot_be_read_leaves_nothing_of_before);
	tcase_add_test(work, a_node_is_unknown_after_an_update_of_another_shape);
	tcase_add_test(work, what_is_off_stays_off_in_an_update_of_another_shape);
	tcase_add_test(work, a_node_that_copies_nothing_may_be_switched_off);
	tcase_add_test(work, an_update_of_what_copies_nothing_asks_nothing);
	suite_add_tcase(suite, work);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
