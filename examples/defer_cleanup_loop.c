/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop that must not be held up: inside a scope nothing is released, however many
 * buffers the loop drops; all of it is, behind the scope.  The trace shows the same.
 * Work goes on in the stream meanwhile, and the loop never waits for it.
 */
#include "must.h"

enum { ROUNDS = 40, BYTES = 1 << 20 };

static struct custody_pending ask_pending(struct custody_context *context)
{
	struct custody_pending pending = { .size = sizeof(pending) };

	MUST(custody_pending(context, &pending));
	return pending;
}

static struct custody_defer_statistics ask_statistics(struct custody_context *context)
{
	struct custody_defer_statistics statistics = { .size = sizeof(statistics) };

	MUST(custody_defer_statistics(context, &statistics));
	return statistics;
}

static void work(struct custody_resource *memory, struct custody_stream *stream, int round)
{
	struct custody_buffer *buffer;
	unsigned char value = (unsigned char)round;

	MUST(custody_buffer_create(memory, BYTES, stream, &buffer));
	MUST(custody_buffer_fill(buffer, &value, 1, stream));
	MUST(custody_buffer_release(buffer)); /* the fill may still be under way */
}

int main(void)
{
	struct custody_context *context = open_context();
	struct custody_resource *memory;
	struct custody_stream *stream;
	uint64_t released;

	MUST(custody_resource_device(context, &memory));
	MUST(custody_stream_create(context, NULL, &stream));
	work(memory, stream, 0); /* what starts up once, starts up here */
	MUST(custody_flush(context, true));

	released = ask_statistics(context).released;
	MUST(custody_defer_begin(context));
	for (int round = 0; round < ROUNDS; round++)
		work(memory, stream, round);
	CHECK(ask_statistics(context).released == released);
	printf("inside      %llu freed, none of them released\n",
	       (unsigned long long)ask_pending(context).memory_count);
	CHECK(ask_pending(context).memory_count == ROUNDS);
	CHECK(ask_pending(context).memory_bytes == (uint64_t)ROUNDS * BYTES);
	MUST(custody_defer_end(context, CUSTODY_LEAVE_IF_OVER)); /* does not wait either */

	MUST(custody_flush(context, true)); /* waits, to have an end here */
	CHECK(ask_pending(context).memory_count == 0);
	printf("behind      %llu released\n",
	       (unsigned long long)(ask_statistics(context).released - released));

	MUST(custody_stream_destroy(stream));
	MUST(custody_resource_release(memory));
	return 0;
}
