/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in memory that the host reaches, each from a resource that lives with it. */
#include "library/array.h"

/* `error` is that of making the resource, whose reference goes to the array. */
static int create(int error, struct custody_context *context, const struct custody_layout *layout,
		  struct custody_resource *resource, struct custody_stream *stream,
		  struct custody_array **array)
{
	struct error_kept kept;

	if (error)
		return error;
	error = custody_array_create(context, layout, resource, stream, array);
	error_keep(&kept);
	custody_resource_release(resource);
	return error ? error_say_kept(error, &kept) : 0;
}

static int check(const struct custody_context *context, const struct custody_layout *layout,
		 struct custody_array **array)
{
	struct layout mine;

	error_forget();
	if (!context || !array)
		return error_say(CUSTODY_E_INVALID, "the context, or where to put the array, "
				 "is NULL");
	return array_read_layout(&mine, layout);
}

int custody_array_create_pinned(struct custody_context *context,
				const struct custody_layout *layout, unsigned int flags,
				struct custody_array **array)
{
	struct custody_resource *resource = NULL;
	int error = check(context, layout, array);

	if (!error)
		error = custody_resource_pinned(context, flags, &resource);
	return create(error, context, layout, resource, NULL, array);
}

int custody_array_create_managed(struct custody_context *context,
				 const struct custody_layout *layout, bool is_global,
				 struct custody_stream *stream, struct custody_array **array)
{
	struct custody_resource *resource = NULL;
	int error = check(context, layout, array);

	if (!error)
		error = custody_resource_managed(context, is_global, &resource);
	return create(error, context, layout, resource, stream, array);
}
