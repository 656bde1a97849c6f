/* SPDX-License-Identifier: Apache-2.0 */
#include "exec.h"

#include <check.h>

void exec_start(void)
{
	fake_start();
	fake_graph_start();
	fake_allocate(EXEC_BLOCK, 4096);
}

CUgraphExec exec_make(struct fake_graph *from)
{
	CUgraphExec exec;

	ck_assert_int_eq(cuGraphInstantiateWithFlags(&exec, fake_graph_handle(from), 0), 0);
	fake_look_one(RECORD_OPERATION, API_cuGraphInstantiateWithFlags);
	return exec;
}

void exec_end(CUgraphExec exec)
{
	cuGraphExecDestroy(exec);
	ck_assert_int_eq(fake_look_one(RECORD_OPERATION, API_cuGraphExecDestroy)->result,
			 fake_result);
}

const struct fake_look *exec_launch(CUgraphExec exec)
{
	const struct fake_look *look;

	ck_assert_int_eq(cuGraphLaunch(exec, EXEC_STREAM), fake_result);
	look = fake_look();
	ck_assert_uint_ge(look->count, 1);
	ck_assert_int_eq(look->record[0].kind, RECORD_OPERATION);
	ck_assert_int_eq(look->record[0].api, API_cuGraphLaunch);
	ck_assert(!(look->record[0].flags & RECORD_MORE));
	for (uint32_t i = 1; i < look->count; i++)
		ck_assert(look->record[i].flags & RECORD_MORE);
	return look;
}

void exec_expect_nothing(CUgraphExec exec)
{
	ck_assert_uint_eq(exec_launch(exec)->count, 1);
}

const struct record *exec_expect_way(const struct fake_look *look, enum transfer_kind kind,
				      uint64_t copies, uint64_t bytes)
{
	const struct record *found = NULL;

	for (uint32_t i = 1; i < look->count; i++)
		if (look->record[i].kind == RECORD_TRANSFER &&
		    record_transfer_kind(&look->record[i]) == kind) {
			ck_assert_ptr_eq(found, NULL);
			found = &look->record[i];
		}
	ck_assert_ptr_ne(found, NULL);
	ck_assert(found->flags & RECORD_SUM);
	ck_assert_uint_eq(found->a, copies);
	ck_assert_uint_eq(found->b, 0);
	ck_assert_uint_eq(found->c, bytes);
	ck_assert_uint_eq(found->stream, (uintptr_t)EXEC_STREAM);
	ck_assert(record_is_async(found));
	return found;
}
