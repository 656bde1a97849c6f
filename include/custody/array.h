/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/array.h - device arrays: a shape, strides and a type over a buffer.
 *
 * An array holds a reference on its buffer; views (slices, reshapes, fields) hold one
 * on the same buffer.  Sizes are in elements, strides in bytes and may be 0 or
 * negative where that is said.  An array may be bound to a stream, which its copies then
 * use where none is given, and which lives as long as the array.  Streams that arrays are
 * bound to or copied on are recorded with the buffer, see custody_buffer_record_stream();
 * others that use its memory are for the caller to record.  Any thread; one array is not
 * destroyed while another thread works with it.
 */
#ifndef CUSTODY_ARRAY_H
#define CUSTODY_ARRAY_H

#include <custody/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct custody_array;

enum { CUSTODY_DIMENSIONS = 8 };

enum custody_type_kind {
	CUSTODY_TYPE_BOOL = 'b',
	CUSTODY_TYPE_INT = 'i',
	CUSTODY_TYPE_UINT = 'u',
	CUSTODY_TYPE_FLOAT = 'f',
	CUSTODY_TYPE_BFLOAT = 'B', /* bfloat16 */
	CUSTODY_TYPE_COMPLEX = 'c',
	CUSTODY_TYPE_RECORD = 'V' /* fields of other types, or bytes without meaning */
};

/* The letters of NumPy's array interface, but for bfloat. */
struct custody_type {
	enum custody_type_kind kind;
	uint32_t item_bytes;
};

/* A field of a record type. */
struct custody_field {
	const char *name;
	struct custody_type type;
	size_t offset; /* in the record */
	int ndim;      /* of a field that is an array itself, in C order */
	size_t shape[CUSTODY_DIMENSIONS];
};

enum custody_order {
	CUSTODY_ORDER_C = 'C',
	CUSTODY_ORDER_F = 'F',
	CUSTODY_ORDER_ANY = 'A' /* ravel: whichever it has */
};

/* What an array looks like; also describes host memory. */
struct custody_layout {
	size_t size; /* sizeof(struct custody_layout), set by the caller */
	int ndim;
	size_t shape[CUSTODY_DIMENSIONS];
	bool has_strides; /* else `order` gives them */
	ptrdiff_t strides[CUSTODY_DIMENSIONS];
	enum custody_order order; /* 0: C */
	struct custody_type type; /* item_bytes 0: float64, as documented */
};

/*
 * Elements, their bytes, and the bytes from the lowest to behind the highest.  Of what is
 * no layout 0 and false, and custody_error_detail() says why.
 */
CUSTODY_API size_t custody_layout_count(const struct custody_layout *layout);
CUSTODY_API size_t custody_layout_bytes(const struct custody_layout *layout);
CUSTODY_API size_t custody_layout_extent(const struct custody_layout *layout);

/*
 * Axes of one element do not matter; no elements, or no axes, is both; a stride of 0
 * over more than one element is neither.  is_c_contiguous(), is_f_contiguous().
 */
CUSTODY_API bool custody_layout_is_c_contiguous(const struct custody_layout *layout);
CUSTODY_API bool custody_layout_is_f_contiguous(const struct custody_layout *layout);

/*
 * An array with contents as they come, in memory of `resource` (NULL: that of the
 * context's device); given strides win over the order, and the extent is allocated.
 * An axis of 0 is an array without memory; no axes is one element.
 * Documented: cuda.device_array(shape, dtype, strides, order, stream).
 */
CUSTODY_API int custody_array_create(struct custody_context *context,
				     const struct custody_layout *layout,
				     struct custody_resource *resource,
				     struct custody_stream *stream,
				     struct custody_array **array);

/*
 * The same shape and type.  Strides are compact: order F if like is F- and not
 * C-contiguous, else its axes in the order of their strides.  device_array_like().
 */
CUSTODY_API int custody_array_create_like(struct custody_context *context,
					  const struct custody_layout *like,
					  struct custody_resource *resource,
					  struct custody_stream *stream,
					  struct custody_array **array);

/*
 * Memory that is there already: the first element is at `offset` of a buffer, elements
 * beyond either end of that are CUSTODY_E_BOUNDS.
 */
CUSTODY_API int custody_array_over(struct custody_buffer *buffer, size_t offset,
				   const struct custody_layout *layout,
				   struct custody_stream *stream, struct custody_array **array);

/*
 * Frees the array, and its memory if no other array or caller holds the buffer; NULL is
 * fine.  CUSTODY_E_CAPTURING: not now, nothing was done.
 */
CUSTODY_API int custody_array_destroy(struct custody_array *array);

/*
 * An array like host memory, with a copy of it unless `copy` is false.  The source is
 * one block in C or F order, after axes of stride 0, else CUSTODY_E_NEEDS_COPY.
 * `into`, which may be NULL: an array that takes the copy, as with
 * custody_array_copy_from_host(), and is returned itself.  Documented: cuda.to_device().
 */
CUSTODY_API int custody_array_to_device(struct custody_context *context, const void *host,
					const struct custody_layout *layout,
					struct custody_stream *stream, bool copy,
					struct custody_array *into, struct custody_array **array);

/*
 * Copy to host memory of the same type and, axes of one element aside, the same shape
 * and strides, else CUSTODY_E_MISMATCH; `layout` NULL: as the array's own.  The whole
 * extent is copied, with what lies between the elements.  Negative strides:
 * CUSTODY_E_UNSUPPORTED.  With a stream, given or bound, the copy may be under way on
 * return.  Documented: copy_to_host().
 */
CUSTODY_API int custody_array_copy_to_host(struct custody_array *array, void *host,
					   const struct custody_layout *layout,
					   struct custody_stream *stream);

/* The same into memory of malloc(), which is the caller's to free. */
CUSTODY_API int custody_array_copy_to_new_host(struct custody_array *array, void **host,
					       struct custody_stream *stream);

/*
 * Copy into the array, which is contiguous but for what it repeats (else
 * CUSTODY_E_NEEDS_COPY): from another array, contiguous too, of the same type, shape and
 * order (else CUSTODY_E_MISMATCH), which may be on another device; or from host memory
 * of the same type and shape in any order (NULL: the array's own), reordered on the way
 * if need be, though not while the stream is capturing.  What is copied from stays the
 * caller's, to be changed on return if no stream was given or bound; with one not before
 * the stream has passed.  Without a stream of the target's, that of the source is used.
 * A source of no elements is no error whatever the target is, and nothing happens.
 * Documented: copy_to_device().
 */
CUSTODY_API int custody_array_copy(struct custody_array *target, struct custody_array *source,
				   struct custody_stream *stream);
CUSTODY_API int custody_array_copy_from_host(struct custody_array *target, const void *host,
					     const struct custody_layout *layout,
					     struct custody_stream *stream);

CUSTODY_API int custody_array_layout(const struct custody_array *array,
				     struct custody_layout *layout);
CUSTODY_API size_t custody_array_nbytes(const struct custody_array *array);	/* of its elements */
CUSTODY_API size_t custody_array_alloc_bytes(const struct custody_array *array); /* its extent */
CUSTODY_API bool custody_array_is_c_contiguous(const struct custody_array *array);
CUSTODY_API bool custody_array_is_f_contiguous(const struct custody_array *array);
/* Whether it came from others as such: writing to it is CUSTODY_E_INVALID. */
CUSTODY_API bool custody_array_is_read_only(const struct custody_array *array);

/* Of the first element; NULL: no memory, not reachable, closed or stale. */
CUSTODY_API void *custody_array_pointer(const struct custody_array *array);
CUSTODY_API void *custody_array_host_pointer(const struct custody_array *array);
CUSTODY_API void *custody_array_device_pointer(const struct custody_array *array);
CUSTODY_API struct custody_buffer *custody_array_buffer(const struct custody_array *array);
CUSTODY_API struct custody_stream *custody_array_stream(const struct custody_array *array);

/* Views: arrays of their own over the same memory, to be destroyed too; all keep the stream. */

/* Bound to another stream; NULL: to none.  Documented: DeviceNDArray.bind(). */
CUSTODY_API int custody_array_bind(struct custody_array *array, struct custody_stream *stream,
				   struct custody_array **view);
/* One axis, where it is contiguous in that order, else CUSTODY_E_NEEDS_COPY.  ravel(). */
CUSTODY_API int custody_array_ravel(struct custody_array *array, enum custody_order order,
				    struct custody_array **view);
/*
 * Another shape of as many elements; one size may be CUSTODY_REST, for what is left.  The order
 * in which elements are counted must be the array's own, else CUSTODY_E_NEEDS_COPY; the
 * same shape always works.  To have the elements counted in another order than theirs, go
 * by custody_array_ravel(CUSTODY_ORDER_ANY).  Documented: reshape().
 */
#define CUSTODY_REST ((size_t)-1)
CUSTODY_API int custody_array_reshape(struct custody_array *array, int ndim, const size_t *shape,
				      enum custody_order order, struct custody_array **view);
/*
 * Parts of `section` elements each, of one contiguous axis; the last may be shorter.
 * Documented: split(section).
 */
CUSTODY_API int custody_array_split_count(const struct custody_array *array, size_t section,
					  size_t *count);
CUSTODY_API int custody_array_split(struct custody_array *array, size_t section, size_t part,
				    struct custody_array **view);
/*
 * Elements from, from + step, ... before `to` of one axis; step is not 0 and may be
 * negative.  `to` CUSTODY_REST: to the end that lies in the direction of the step.
 */
CUSTODY_API int custody_array_slice(struct custody_array *array, int axis, size_t from, size_t to,
				    ptrdiff_t step, struct custody_array **view);
/* The i-th of one axis, which is gone then. */
CUSTODY_API int custody_array_index(struct custody_array *array, int axis, size_t index,
				    struct custody_array **view);
/* Without an axis of one element; axis -1: without all of them.  squeeze(). */
CUSTODY_API int custody_array_squeeze(struct custody_array *array, int axis,
				      struct custody_array **view);
/* Axes in another order, by their old numbers; NULL: reversed.  Nothing is moved.  T. */
CUSTODY_API int custody_array_transpose(struct custody_array *array, const int *axes,
					struct custody_array **view);
/*
 * The same bytes as another type: of the same size always, else the array is
 * C-contiguous and its last axis comes out even.  view(dtype).
 */
CUSTODY_API int custody_array_view_type(struct custody_array *array, struct custody_type type,
					struct custody_array **view);
/* A field of each record, by name from a table.  Documented: DeviceRecord. */
CUSTODY_API int custody_array_field(struct custody_array *array,
				    const struct custody_field *fields, size_t count,
				    const char *name, struct custody_array **view);

/*
 * One element, by its index on each axis.  Fill repeats a value over all elements of a
 * contiguous array of any type, as a[:] = v does; elements that are not 1, 2, 4 or 8
 * bytes are not filled while the stream is capturing.  `value` may be changed on return,
 * except that of get, which is there when the stream has passed.
 */
CUSTODY_API int custody_array_get(struct custody_array *array, const size_t *index, void *value,
				  struct custody_stream *stream);
CUSTODY_API int custody_array_set(struct custody_array *array, const size_t *index,
				  const void *value, struct custody_stream *stream);
CUSTODY_API int custody_array_fill(struct custody_array *array, const void *value,
				   struct custody_stream *stream);

/*
 * Arrays in host memory: pinned_array(), mapped_array(portable, wc), managed_array(
 * attach_global), and each with the layout of another for the _like forms.  `flags` are
 * enum custody_host_flags; a mapped array has both pointers.
 */
CUSTODY_API int custody_array_create_pinned(struct custody_context *context,
					    const struct custody_layout *layout,
					    unsigned int flags, struct custody_array **array);
CUSTODY_API int custody_array_create_managed(struct custody_context *context,
					     const struct custody_layout *layout, bool is_global,
					     struct custody_stream *stream,
					     struct custody_array **array);

#ifdef __cplusplus
}
#endif
#endif
