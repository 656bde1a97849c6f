/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory inside a CUDA graph: while a stream is being captured, a buffer of the graph
 * resource becomes a node that allocates, and its close one that frees.  The memory is
 * there only while the graph runs, as often as it runs.
 */
#include "must.h"

enum { COUNT = 4096, RUNS = 3 };

/* The driver's function by its symbol; its type is that of cuda.h. */
#define DRIVER(symbol) ((__typeof__(&symbol))custody_driver_function(#symbol))

/* Fill scratch memory of the graph's own and copy it to where the result is wanted. */
static CUgraph capture(struct custody_resource *memory, struct custody_stream *stream,
		       struct custody_buffer *result)
{
	struct custody_buffer *scratch;
	CUgraph graph;

	MUST(custody_stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	MUST(custody_buffer_create(memory, COUNT * sizeof(uint32_t), stream, &scratch));
	MUST(custody_buffer_fill(scratch, &(uint32_t){ 42 }, 4, stream));
	MUST(custody_buffer_copy_to(scratch, &result, stream));
	MUST(custody_buffer_release(scratch)); /* a node too, for the capture still runs */
	MUST(custody_stream_end_capture(stream, &graph));
	return graph;
}

int main(void)
{
	struct custody_context *context = open_context();
	static uint32_t numbers[COUNT];
	struct custody_resource *memory, *pool;
	struct custody_stream_options options = {
		.size = sizeof(options),
		.is_nonblocking = true,
	};
	struct custody_stream *stream;
	struct custody_buffer *result;
	uint64_t high;
	CUgraphExec runnable;
	CUgraph graph;

	MUST(custody_stream_create(context, &options, &stream));
	MUST(custody_resource_graph(context, &memory));
	MUST(custody_resource_device(context, &pool));
	MUST(custody_buffer_create(pool, sizeof(numbers), stream, &result));

	/* Outside a capture the graph resource has nothing to give. */
	CHECK(custody_resource_allocate(memory, 64, stream, &(void *){ NULL }) ==
	      CUSTODY_E_NOT_CAPTURING);
	graph = capture(memory, stream, result);
	MUST(DRIVER(cuGraphInstantiateWithFlags)(&runnable, graph, 0));
	for (int run = 0; run < RUNS; run++) {
		MUST(custody_buffer_fill(result, &(uint32_t){ 0 }, 4, stream));
		MUST(DRIVER(cuGraphLaunch)(runnable, custody_stream_handle(stream)));
		MUST(custody_buffer_read(result, 0, numbers, sizeof(numbers), stream));
		MUST(custody_stream_synchronize(stream));
		CHECK(numbers[0] == 42 && numbers[COUNT - 1] == 42);
	}
	MUST(custody_pool_attribute(memory, CUSTODY_POOL_USED_HIGH, &high));
	CHECK(high >= sizeof(numbers));
	printf("run         %d times, memory of the graph in each\n", RUNS);

	MUST(DRIVER(cuGraphExecDestroy)(runnable));
	MUST(DRIVER(cuGraphDestroy)(graph));
	MUST(custody_pool_trim(memory, 0)); /* what the graph kept goes back */
	MUST(custody_buffer_release(result));
	MUST(custody_resource_release(pool));
	MUST(custody_resource_release(memory));
	MUST(custody_stream_destroy(stream));
	return 0;
}
