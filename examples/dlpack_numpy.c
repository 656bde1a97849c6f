/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C half of dlpack_numpy.py: arrays of libcustody to Python by DLPack, and Python's
 * to libcustody, without a copy.  Each function returns 0 or what libcustody returned.
 */
#include <custody/custody.h>

#include <stdlib.h>

#define EXAMPLE_API __attribute__((visibility("default")))

EXAMPLE_API int give(size_t rows, size_t columns, int on_device,
		     struct custody_dlpack_versioned **tensor);
EXAMPLE_API int take(struct custody_dlpack *tensor, double *sum);
EXAMPLE_API const char *why(int error);

/*
 * A tensor of float32 that counts from 0, in page-locked host memory or on the device.
 * The tensor keeps the memory alive: the array may go before its user does.
 */
int give(size_t rows, size_t columns, int on_device, struct custody_dlpack_versioned **tensor)
{
	struct custody_layout layout = {
		.size = sizeof(layout),
		.ndim = 2,
		.shape = { rows, columns },
		.type = { CUSTODY_TYPE_FLOAT, sizeof(float) },
	};
	struct custody_array *host = NULL, *device = NULL;
	struct custody_context *context;
	float *numbers;
	int result = custody_context_current(-1, &context);

	if (!result)
		result = custody_array_create_pinned(context, &layout, 0, &host);
	if (result)
		return result;
	numbers = custody_array_host_pointer(host);
	for (size_t i = 0; i < rows * columns; i++)
		numbers[i] = (float)i;
	if (on_device)
		result = custody_array_to_device(context, numbers, &layout, NULL, true, NULL,
						 &device);
	if (!result)
		result = custody_array_to_dlpack(on_device ? device : host, NULL, tensor);
	if (device)
		custody_array_destroy(device);
	custody_array_destroy(host);
	return result;
}

static int sum_up(struct custody_array *array, double *sum)
{
	struct custody_context *context = custody_buffer_context(custody_array_buffer(array));
	struct custody_layout layout = { .size = sizeof(layout) };
	struct custody_array *device;
	void *host;
	int result = custody_array_layout(array, &layout);

	if (!result)
		result = custody_array_create_like(context, &layout, NULL, NULL, &device);
	if (result)
		return result;
	result = custody_array_copy(device, array, NULL);
	if (!result)
		result = custody_array_copy_to_new_host(device, &host, NULL);
	if (!result) {
		*sum = 0;
		for (size_t i = 0; i < custody_layout_count(&layout); i++)
			*sum += ((float *)host)[i];
		free(host);
	}
	custody_array_destroy(device);
	return result;
}

/* The sum of a float32 tensor of somebody's, by way of the device; its owner gets it back. */
int take(struct custody_dlpack *tensor, double *sum)
{
	struct custody_context *context;
	struct custody_array *array;
	int result = custody_context_current(-1, &context);

	if (!result)
		result = custody_array_from_old_dlpack(context, tensor, NULL, &array);
	if (result)
		return result;
	result = sum_up(array, sum);
	custody_array_destroy(array); /* calls the tensor's deleter */
	return result;
}

const char *why(int error)
{
	return custody_error_detail()[0] ? custody_error_detail() : custody_error_text(error);
}
