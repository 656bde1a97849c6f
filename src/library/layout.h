/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - private to src/library: what an array looks like, worked out and checked.
 *
 * Arithmetic alone: no driver, no memory, no lock.  A layout that layout_make() has
 * filled is consistent, and so is what the functions here make of it: no sum or product
 * of its sizes and strides overflows.  Errors are explained by error_say().
 */
#ifndef CUSTODY_LIBRARY_LAYOUT_H
#define CUSTODY_LIBRARY_LAYOUT_H

#include <custody/array.h>

struct layout {
	int ndim;
	size_t shape[CUSTODY_DIMENSIONS];
	ptrdiff_t strides[CUSTODY_DIMENSIONS]; /* bytes */
	struct custody_type type;
	size_t count;  /* elements */
	size_t bytes;  /* of the elements, whether they lie apart or on each other */
	size_t before; /* bytes below the first element, by negative strides */
	size_t extent; /* bytes from the lowest to behind the highest; 0: no elements */
};

/* ------------------------------------------------------------- layout.c */

/* From what a caller describes; an item of 0 bytes is a float64. */
int layout_make(struct layout *layout, const struct custody_layout *given);

/* count, bytes, before and extent from the rest. */
int layout_measure(struct layout *layout);

/* As it is shown to callers, always with strides. */
void layout_show(const struct layout *layout, struct custody_layout *shown);

/* C or F order without a gap; axes of one element do not matter.  F for any other order. */
bool layout_is_contiguous(const struct layout *layout, enum custody_order order);

/* Whether one stride at least is negative, over more than one element. */
bool layout_is_backward(const struct layout *layout);

/* Compact strides in an order: no gap and nothing twice. */
int layout_pack(struct layout *layout, enum custody_order order);

/*
 * The same shape with compact strides: order F if `like` is F- and not C-contiguous,
 * else its axes in the order of their strides.
 */
int layout_pack_like(struct layout *layout, const struct layout *like);

/* Without the axes that repeat one element, and without those of one element. */
void layout_core(struct layout *core, const struct layout *layout);

/*
 * Two layouts that one copy may join: of the same type and, axes of one element aside,
 * the same shape, else CUSTODY_E_MISMATCH.  Both lose their axes of one element.
 */
int layout_match(struct layout *a, struct layout *b);

/* The same; what `target` repeats `source` has to repeat as well, and both lose it. */
int layout_pair(struct layout *target, struct layout *source);

/* Without the axes of one element. */
void layout_squeeze(struct layout *squeezed, const struct layout *layout);

bool layout_has_shape(const struct layout *layout, int ndim, const size_t *shape);
bool layout_has_strides(const struct layout *layout, const ptrdiff_t *strides);

/* Where an element lies, from the first one; the index is in the shape. */
ptrdiff_t layout_offset(const struct layout *layout, const size_t *index);

/*
 * Copy elements on the host, from one layout to another of the same shape and item;
 * the pointers are those of the first elements.
 */
void layout_gather(const struct layout *to, void *target, const struct layout *from,
		   const void *source);

/* Whether a type is one that there is. */
bool layout_is_type(struct custody_type type);

/* -------------------------------------------------------- layout_view.c */

/*
 * Views: `*moved` is how far their first element lies from that of `layout`, in bytes.
 * `view` is not `layout`, and is not filled where a function fails.
 */
int layout_view_ravel(struct layout *view, const struct layout *layout, enum custody_order order);
int layout_view_reshape(struct layout *view, const struct layout *layout, int ndim,
			const size_t *shape, enum custody_order order);
int layout_view_split_count(const struct layout *layout, size_t section, size_t *count);
int layout_view_split(struct layout *view, const struct layout *layout, size_t section,
		      size_t part, ptrdiff_t *moved);
int layout_view_slice(struct layout *view, const struct layout *layout, int axis, size_t from,
		      size_t to, ptrdiff_t step, ptrdiff_t *moved);
int layout_view_index(struct layout *view, const struct layout *layout, int axis, size_t index,
		      ptrdiff_t *moved);
int layout_view_squeeze(struct layout *view, const struct layout *layout, int axis);
int layout_view_transpose(struct layout *view, const struct layout *layout, const int *axes);
int layout_view_type(struct layout *view, const struct layout *layout, struct custody_type type);
int layout_view_field(struct layout *view, const struct layout *layout,
		      const struct custody_field *fields, size_t count, const char *name,
		      ptrdiff_t *moved);

#endif
