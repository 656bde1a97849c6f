/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Let the device work in memory of the host for a while: the scope page-locks and maps
 * it, and gives an array for it.  No copy is made; the host finds what the device wrote.
 */
#include "must.h"

enum { COUNT = 1000 };

int main(void)
{
	struct custody_context *context = open_context();
	struct custody_layout layout = {
		.size = sizeof(layout),
		.ndim = 1,
		.shape = { COUNT },
		.type = { CUSTODY_TYPE_INT, sizeof(int32_t) },
	};
	static int32_t numbers[COUNT];
	struct custody_range range = { numbers, sizeof(numbers) };
	struct custody_array *array, *part;
	struct custody_stream *stream;
	struct custody_map *map;

	for (int i = 0; i < COUNT; i++)
		numbers[i] = i;
	MUST(custody_stream_create(context, NULL, &stream));
	MUST(custody_map_begin(context, &range, &layout, 1, 0, stream, &map));
	MUST(custody_map_array(map, 0, &array));

	/* 100 to 199 by the device; the array is bound to the stream of the scope. */
	MUST(custody_array_slice(array, 0, 100, 200, 1, &part));
	MUST(custody_array_fill(part, &(int32_t){ -7 }, NULL));
	MUST(custody_stream_synchronize(stream));
	CHECK(numbers[99] == 99 && numbers[100] == -7 && numbers[199] == -7 && numbers[200] == 200);
	printf("inside      the device wrote numbers[100] to [199]\n");
	CHECK(custody_array_host_pointer(part) == &numbers[100]);

	MUST(custody_array_destroy(part)); /* a view is its maker's ... */
	MUST(custody_map_end(map));	   /* ... and the array the scope's */
	numbers[100] = 100;
	printf("behind      they are the host's alone\n");
	MUST(custody_stream_destroy(stream));
	return 0;
}
