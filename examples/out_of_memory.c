/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do when the device is full: custody releases what is pending and tries again
 * by itself; then it asks the program, which here lets go of one block of its cache at a
 * time.  The allocation that ran out of memory succeeds, and nobody has to write a loop.
 */
#include "must.h"

enum { BLOCKS = 8 };

struct cache {
	struct custody_buffer *blocks[BLOCKS];
	int kept;
};

/* Called with an allocation waiting: true, if it is worth trying again. */
static bool let_go(struct custody_context *context, size_t bytes, void *argument)
{
	struct cache *cache = argument;

	(void)context;
	if (!cache->kept)
		return false;
	cache->kept--;
	printf("full        %zu MiB wanted; block %d of the cache is let go\n", bytes >> 20,
	       cache->kept);
	return custody_buffer_release(cache->blocks[cache->kept]) == 0;
}

int main(void)
{
	struct custody_context *context = open_context();
	struct custody_memory_info info = { .size = sizeof(info) };
	struct cache cache = { .kept = 0 };
	struct custody_resource *memory;
	struct custody_buffer *wanted;
	size_t block;
	int kept;

	MUST(custody_resource_device(context, &memory));
	MUST(custody_context_memory_info(context, &info));
	block = info.free_bytes / (BLOCKS + 1) & ~(size_t)0xfffff;
	while (cache.kept < BLOCKS) {
		MUST(custody_buffer_create(memory, block, NULL, &cache.blocks[cache.kept]));
		cache.kept++;
	}
	printf("cached      %d blocks, of a ninth of what was free each\n", BLOCKS);

	/* Four times a block cannot be had beside the cache. */
	kept = cache.kept;
	MUST(custody_set_out_of_memory(let_go, &cache));
	MUST(custody_buffer_create(memory, 4 * block, NULL, &wanted));
	CHECK(cache.kept < kept);
	printf("had         4 blocks more, %d of the cache are left\n", cache.kept);

	/* And what is larger than the device fails, when the cache is empty. */
	CHECK(custody_resource_allocate(memory, 2 * info.total_bytes, NULL, &(void *){ NULL }) ==
	      CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cache.kept == 0);
	printf("too much    %s\n", custody_error_detail());

	MUST(custody_set_out_of_memory(NULL, NULL));
	MUST(custody_buffer_release(wanted));
	MUST(custody_resource_release(memory));
	return 0;
}
