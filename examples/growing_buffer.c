/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer that grows without a copy: virtual memory, to which more physical memory is
 * mapped when it is full.  What was written stays where it is, and readable by the
 * old buffer too until that is closed.
 */
#include "must.h"

enum { CHUNK = 1 << 20, CHUNKS = 24 };

/* A buffer with room for `bytes`: the same one, or a larger one in its place. */
static struct custody_buffer *make_room(struct custody_buffer *buffer, size_t bytes)
{
	struct custody_buffer *grown;

	if (bytes <= custody_buffer_bytes(buffer))
		return buffer;
	MUST(custody_virtual_grow(buffer, bytes, &grown));
	printf("grown       from %zu to %zu MiB, %s\n", custody_buffer_bytes(buffer) >> 20,
	       custody_buffer_bytes(grown) >> 20,
	       custody_buffer_pointer(grown) == custody_buffer_pointer(buffer) ?
		       "where it was" : "at other addresses");
	MUST(custody_buffer_release(buffer)); /* the memory is the new one's too */
	return grown;
}

int main(void)
{
	struct custody_context *context = open_context();
	struct custody_resource *memory;
	struct custody_buffer *buffer, *part;
	struct custody_stream *stream;
	int result = custody_resource_virtual(context, NULL, &memory);

	if (result == CUSTODY_E_UNSUPPORTED) {
		fprintf(stderr, "this device has no virtual memory management\n");
		return 77;
	}
	MUST(result);
	MUST(custody_stream_create(context, NULL, &stream));
	MUST(custody_buffer_create(memory, CHUNK, stream, &buffer));
	printf("at first    asked for %d MiB, got %zu\n", CHUNK >> 20,
	       custody_buffer_bytes(buffer) >> 20);

	for (size_t i = 0; i < CHUNKS; i++) {
		buffer = make_room(buffer, (i + 1) * CHUNK);
		MUST(custody_buffer_slice(buffer, i * CHUNK, CHUNK, &part));
		MUST(custody_buffer_fill(part, &(uint32_t){ (uint32_t)i }, 4, stream));
		MUST(custody_buffer_release(part));
	}
	for (size_t i = 0; i < CHUNKS; i++) {
		uint32_t word;

		MUST(custody_buffer_read(buffer, (i + 1) * CHUNK - 4, &word, 4, stream));
		MUST(custody_stream_synchronize(stream));
		CHECK(word == i);
	}
	printf("contents    %d chunks, each as it was written\n", CHUNKS);

	MUST(custody_buffer_release(buffer));
	MUST(custody_resource_release(memory));
	MUST(custody_stream_destroy(stream));
	return 0;
}
