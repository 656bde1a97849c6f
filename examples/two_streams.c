/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that two streams use: it is allocated in the order of one, and another reads
 * it.  custody_buffer_record_stream() says so; the buffer may then be closed at any time,
 * and its memory is not used again before the reader is through, though nobody waits.
 */
#include "must.h"

#include <string.h>

enum { BYTES = 4 << 20, ROUNDS = 16 };

static struct custody_stream *make_stream(struct custody_context *context)
{
	struct custody_stream_options options = {
		.size = sizeof(options),
		.is_nonblocking = true,
	};
	struct custody_stream *stream;

	MUST(custody_stream_create(context, &options, &stream));
	return stream;
}

int main(void)
{
	struct custody_context *context = open_context();
	struct custody_stream *writer = make_stream(context), *reader = make_stream(context);
	struct custody_resource *pool, *pinned;
	struct custody_buffer *results;
	unsigned char *host;
	int result = custody_resource_pool(context, NULL, &pool);

	if (result == CUSTODY_E_UNSUPPORTED) {
		fprintf(stderr, "this device has no memory pools\n");
		return 77;
	}
	MUST(result);
	MUST(custody_resource_pinned(context, 0, &pinned));
	MUST(custody_buffer_create(pinned, (size_t)ROUNDS * BYTES, NULL, &results));
	host = custody_buffer_pointer(results);

	for (int round = 0; round < ROUNDS; round++) {
		struct custody_buffer *buffer;
		unsigned char value = (unsigned char)(round + 1);

		MUST(custody_buffer_create(pool, BYTES, writer, &buffer));
		MUST(custody_buffer_fill(buffer, &value, 1, writer));
		MUST(custody_stream_wait_stream(reader, writer)); /* on the device */
		MUST(custody_buffer_read(buffer, 0, host + (size_t)round * BYTES, BYTES, reader));
		MUST(custody_buffer_record_stream(buffer, reader));
		MUST(custody_buffer_release(buffer)); /* in the order of `writer` */
	}
	MUST(custody_stream_synchronize(reader));
	for (int round = 0; round < ROUNDS; round++) {
		unsigned char *first = host + (size_t)round * BYTES;

		CHECK(*first == round + 1 && !memcmp(first, first + 1, BYTES - 1));
	}
	printf("rounds      %d, each read what it wrote\n", ROUNDS);

	MUST(custody_buffer_release(results));
	MUST(custody_resource_release(pool));
	MUST(custody_resource_release(pinned));
	MUST(custody_stream_destroy(writer));
	MUST(custody_stream_destroy(reader));
	return 0;
}
