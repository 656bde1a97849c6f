/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shortest whole program: numbers to the device and back, in a stream, by way of
 * an array that knows its shape; nothing in it waits but for the one line that says so.
 *
 *	cc -o quick_start quick_start.c $(pkg-config --cflags --libs custody)
 *	CUSTODY_OUTPUT=quick.db ./quick_start && custody report quick.db
 */
#include "must.h"

#include <string.h>

enum { ROWS = 20, COLUMNS = 50 };

int main(void)
{
	static float numbers[ROWS][COLUMNS], back[ROWS][COLUMNS];
	struct custody_layout layout = {
		.size = sizeof(layout),
		.ndim = 2,
		.shape = { ROWS, COLUMNS },
		.type = { CUSTODY_TYPE_FLOAT, sizeof(float) },
	};
	struct custody_device_info device = { .size = sizeof(device) };
	struct custody_context *context = open_context();
	struct custody_stream *stream;
	struct custody_array *array, *row;

	MUST(custody_device_info(custody_context_device(context), &device));
	printf("device      %s, %s\n", device.name, device.uuid);
	for (int i = 0; i < ROWS * COLUMNS; i++)
		numbers[i / COLUMNS][i % COLUMNS] = (float)i;

	MUST(custody_stream_create(context, NULL, &stream));
	MUST(custody_array_to_device(context, numbers, &layout, stream, true, NULL, &array));

	/* Row 3 as an array of its own, over the same memory; one value for all of it. */
	MUST(custody_array_index(array, 0, 3, &row));
	MUST(custody_array_fill(row, &(float){ -1 }, stream));

	MUST(custody_array_copy_to_host(array, back, &layout, stream));
	MUST(custody_stream_synchronize(stream)); /* waits; `back` is there from here on */

	for (int i = 0; i < COLUMNS; i++)
		numbers[3][i] = -1;
	CHECK(!memcmp(numbers, back, sizeof(back)));
	printf("round trip  %zu bytes, row 3 filled with -1\n", custody_array_nbytes(array));

	/* Queued: neither of these waits for the device. */
	MUST(custody_array_destroy(row));
	MUST(custody_array_destroy(array));
	MUST(custody_stream_destroy(stream));
	return 0;
}
