/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-lock memory that the program has anyway, for as long as it takes to move it:
 * copies from and to it are truly asynchronous then.  The end of the scope waits for
 * them, so that the memory may be given back right behind it.
 */
#include "must.h"

#include <string.h>

enum { BYTES = 8 << 20 };

int main(void)
{
	struct custody_context *context = open_context();
	unsigned char *source = malloc(BYTES), *target = calloc(1, BYTES);
	struct custody_range ranges[] = { { source, BYTES }, { target, BYTES } };
	struct custody_buffer *buffer;
	struct custody_stream *stream;
	struct custody_pin *pin, *second;
	int result;

	if (!source || !target)
		return 1;
	memset(source, 0x5a, BYTES);
	MUST(custody_stream_create(context, NULL, &stream));
	MUST(custody_buffer_create(NULL, BYTES, stream, &buffer)); /* of the current device */

	MUST(custody_pin_begin(context, ranges, 2, 0, &pin));
	MUST(custody_buffer_write(buffer, 0, source, BYTES, stream));
	MUST(custody_buffer_read(buffer, 0, target, BYTES, stream));
	printf("inside      both copies are on their way\n");

	/* What is registered already is told, with numbers, instead of done by halves. */
	result = custody_pin_begin(context, ranges, 1, 0, &second);
	CHECK(result == CUSTODY_E_OVERLAP);
	printf("again       %s\n", custody_error_text(result));

	MUST(custody_pin_end(pin));
	CHECK(!memcmp(source, target, BYTES));
	printf("behind      the bytes are there\n");

	MUST(custody_buffer_release(buffer));
	MUST(custody_stream_destroy(stream));
	free(source);
	free(target);
	return 0;
}
