/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/cai.h - the CUDA array interface, version 3, as a structure: what Python
 * programs hand each other in __cuda_array_interface__.  Any thread.
 */
#ifndef CUSTODY_CAI_H
#define CUSTODY_CAI_H

#include <custody/array.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CUSTODY_CAI_TYPESTR = 16, CUSTODY_CAI_NO_STREAM = -1 };

struct custody_cai {
	size_t size; /* sizeof(struct custody_cai), set by the caller */
	int version;
	int ndim;
	size_t shape[CUSTODY_DIMENSIONS];
	bool has_strides; /* else C order */
	ptrdiff_t strides[CUSTODY_DIMENSIONS]; /* bytes */
	char typestr[CUSTODY_CAI_TYPESTR];     /* "<f4" */
	uint64_t data; /* device address; 0: no elements */
	bool is_read_only;
	bool has_mask;
	int64_t stream; /* 1 legacy, 2 per thread, else a handle; CUSTODY_CAI_NO_STREAM; never 0 */
};

/* Describe an array; the stream is there where it is bound to one.  The array owns the memory. */
CUSTODY_API int custody_array_to_cai(struct custody_array *array, struct custody_cai *cai);

enum custody_sync {
	CUSTODY_SYNC_HOST,   /* wait here for the exporter's stream, unless
				NUMBA_CUDA_ARRAY_INTERFACE_SYNC=0 says no */
	CUSTODY_SYNC_STREAM, /* have `stream` wait for it by an event */
	CUSTODY_SYNC_NONE
};

/*
 * An array over memory of an exporter, that stays alive until `release` (may be NULL)
 * is called with `owner`; not called where this fails.  A mask (from version 1 on) is
 * CUSTODY_E_UNSUPPORTED, an address that the driver does not know CUSTODY_E_INVALID.
 * The array is bound to the exporter's stream if there is one, else to `stream`.
 * Documented: cuda.as_cuda_array(obj, sync).
 */
CUSTODY_API int custody_array_from_cai(struct custody_context *context,
				       const struct custody_cai *cai, enum custody_sync sync,
				       struct custody_stream *stream,
				       void (*release)(void *owner), void *owner,
				       struct custody_array **array);

/*
 * Whether it describes memory that CUDA knows, and is well formed; goes beyond
 * cuda.is_cuda_array(), which looks for the attribute alone.
 */
CUSTODY_API bool custody_cai_check(const struct custody_cai *cai);

#ifdef __cplusplus
}
#endif
#endif
