/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that records itself: from the first line on, into a file that
 * `custody report` and `custody sql` read.  One block is forgotten on purpose; the
 * report names the place in the program that asked for it.
 *
 *	./trace_myself mine.db && custody report mine.db
 */
#include "must.h"

enum { TABLE_BYTES = 3 << 20, ROUNDS = 5 };

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "trace_myself.db";
	struct custody_context *context;
	struct custody_buffer *buffer, *forgotten;
	static char text[4096];
	int result = custody_trace_start(path); /* ahead of everything that needs the driver */

	if (result)
		fprintf(stderr, "not recorded: %s\n", custody_error_text(result));
	context = open_context();
	for (int round = 0; round < ROUNDS; round++) {
		MUST(custody_buffer_create(NULL, sizeof(text), NULL, &buffer));
		MUST(custody_buffer_write(buffer, 0, text, sizeof(text), NULL));
		MUST(custody_buffer_read(buffer, 0, text, sizeof(text), NULL));
		MUST(custody_buffer_release(buffer));
	}
	MUST(custody_buffer_create(NULL, TABLE_BYTES, NULL, &forgotten));
	MUST(custody_flush(context, true));
	printf("recorded    %s\n", custody_trace_is_on() ? path : "nothing");
	return 0;
}
