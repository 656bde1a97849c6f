/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h - private: what the tests of arrays share. */
#ifndef CUSTODY_TESTS_ARRAYS_H
#define CUSTODY_TESTS_ARRAYS_H

#include "fixture.h"

#define INT32 { CUSTODY_TYPE_INT, 4 }

/* One or two axes of int32 in C order. */
static inline struct custody_layout line_of(size_t count)
{
	return (struct custody_layout){ .size = sizeof(struct custody_layout), .ndim = 1,
					.shape = { count }, .type = INT32 };
}

static inline struct custody_layout table_of(size_t rows, size_t columns)
{
	return (struct custody_layout){ .size = sizeof(struct custody_layout), .ndim = 2,
					.shape = { rows, columns }, .type = INT32 };
}

static inline struct custody_layout layout_of(const struct custody_array *array)
{
	struct custody_layout layout = { .size = sizeof(layout) };

	ck_ok(custody_array_layout(array, &layout));
	return layout;
}

static inline struct custody_array *make_array(struct custody_context *context,
					       const struct custody_layout *layout)
{
	struct custody_array *array = NULL;

	ck_ok(custody_array_create(context, layout, NULL, NULL, &array));
	ck_assert_ptr_nonnull(array);
	return array;
}

/* 0, 1, 2, ... in an array of one axis. */
static inline struct custody_array *make_counting(struct custody_context *context, size_t count)
{
	const struct custody_layout layout = line_of(count);
	int32_t *values = calloc(count, sizeof(*values));
	struct custody_array *array = NULL;

	for (size_t i = 0; i < count; i++)
		values[i] = (int32_t)i;
	ck_ok(custody_array_to_device(context, values, &layout, NULL, true, NULL, &array));
	free(values);
	return array;
}

/* What the device has at an address, asked of the driver itself. */
static inline int32_t peek(const struct custody_array *array, ptrdiff_t bytes)
{
	int32_t value = 0;

	ck_cu(cuMemcpyDtoH(&value, (CUdeviceptr)((char *)custody_array_pointer(array) + bytes),
			   sizeof(value)));
	return value;
}

static inline struct custody_stream *make_stream(struct custody_context *context)
{
	struct custody_stream *stream = NULL;

	ck_ok(custody_stream_create(context, NULL, &stream));
	return stream;
}

static inline TCase *add_case(Suite *suite, const char *name, void (*begin)(void))
{
	TCase *tests = tcase_create(name);

	tcase_add_checked_fixture(tests, begin, NULL);
	suite_add_tcase(suite, tests);
	return tests;
}

#endif
