/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_client.h"

#include <check.h>

const struct engine *engine;
uint32_t engine_context;

void engine_begin(void)
{
	engine = custody_engine(ENGINE_VERSION);
	ck_assert_ptr_nonnull(engine);
	engine_context = engine->meet(fake_context, 0, false);
	ck_assert_uint_ne(engine_context, 0);
}

void engine_start(const char *policy)
{
	fake_queue_prepare(policy, false);
	fake_start();
	engine_begin();
	fake_look();
}

CUresult engine_free(CUdeviceptr address)
{
	CUresult result;

	engine->mark(true);
	result = cuMemFree_v2(address);
	engine->mark(false);
	return result;
}

CUdeviceptr engine_free_new(uint32_t count)
{
	CUdeviceptr first = fake_block(4096);

	for (uint32_t i = 1; i < count; i++)
		fake_block(4096);
	for (uint32_t i = 0; i < count; i++)
		ck_assert_int_eq(engine_free(first + i * 4096), CUDA_SUCCESS);
	return first;
}

struct deferq_statistics engine_statistics(void)
{
	struct deferq_statistics statistics;

	ck_assert(engine->statistics(engine_context, &statistics));
	return statistics;
}

uint64_t engine_waiting(enum queue_kind kind)
{
	return engine_statistics().count[kind];
}

void engine_retire(enum deferq_kind kind, uint64_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ck_assert(engine->retire(engine_context, kind, first + i, engine_retire));
}
