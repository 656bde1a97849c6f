/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custody/dlpack.h - arrays to and from others by DLPack, without a copy.
 *
 * The structures have the layout of DLPack 1.0's DLManagedTensorVersioned and of the
 * older DLManagedTensor; pointers to those can be cast.  Any thread.
 */
#ifndef CUSTODY_DLPACK_H
#define CUSTODY_DLPACK_H

#include <custody/array.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	CUSTODY_DLPACK_MAJOR = 1,
	CUSTODY_DLPACK_MINOR = 0,
	CUSTODY_DLPACK_READ_ONLY = 1 << 0,
	CUSTODY_DLPACK_IS_COPIED = 1 << 1
};

/* DLDeviceType */
enum {
	CUSTODY_DLPACK_CPU = 1,
	CUSTODY_DLPACK_CUDA = 2,
	CUSTODY_DLPACK_CUDA_HOST = 3,
	CUSTODY_DLPACK_CUDA_MANAGED = 13
};

/* DLDataTypeCode */
enum {
	CUSTODY_DLPACK_INT = 0,
	CUSTODY_DLPACK_UINT = 1,
	CUSTODY_DLPACK_FLOAT = 2,
	CUSTODY_DLPACK_BFLOAT = 4,
	CUSTODY_DLPACK_COMPLEX = 5,
	CUSTODY_DLPACK_BOOL = 6
};

struct custody_dlpack_tensor {
	void *data;
	int32_t device_type;
	int32_t device_id;
	int32_t ndim;
	uint8_t type_code;
	uint8_t type_bits;
	uint16_t type_lanes;
	int64_t *shape;
	int64_t *strides; /* in elements; NULL: C order */
	uint64_t byte_offset;
};

struct custody_dlpack {
	struct custody_dlpack_tensor tensor;
	void *manager;
	void (*deleter)(struct custody_dlpack *self);
};

struct custody_dlpack_versioned {
	uint32_t major;
	uint32_t minor;
	void *manager;
	void (*deleter)(struct custody_dlpack_versioned *self);
	uint64_t flags;
	struct custody_dlpack_tensor tensor;
};

/*
 * The array as a tensor that holds a reference on its buffer until its deleter is
 * called, from any thread.  Where the consumer works on another stream (NULL: the legacy
 * default one), that stream waits for the array's; where the host reaches the memory and
 * no consumer's stream is given, the host does.  Records are CUSTODY_E_UNSUPPORTED, and
 * so are strides that are no whole number of elements, and read-only arrays in the old form.
 */
CUSTODY_API int custody_array_to_dlpack(struct custody_array *array,
					struct custody_stream *consumer,
					struct custody_dlpack_versioned **tensor);
CUSTODY_API int custody_array_to_old_dlpack(struct custody_array *array,
					    struct custody_stream *consumer,
					    struct custody_dlpack **tensor);

/* A buffer as one axis of bytes. */
CUSTODY_API int custody_buffer_to_dlpack(struct custody_buffer *buffer,
					 struct custody_dlpack_versioned **tensor);

/*
 * An array over somebody's tensor; its deleter is called when the array's buffer is closed, and
 * not where this fails: the tensor is the caller's then.  A major version other than 1,
 * and devices that are not CUDA's or the host's, are CUSTODY_E_UNSUPPORTED; a tensor on
 * another device than the context's is CUSTODY_E_MISMATCH.
 * `stream`: what the array is bound to, and on which the contents are ready.
 */
CUSTODY_API int custody_array_from_dlpack(struct custody_context *context,
					  struct custody_dlpack_versioned *tensor,
					  struct custody_stream *stream,
					  struct custody_array **array);
CUSTODY_API int custody_array_from_old_dlpack(struct custody_context *context,
					      struct custody_dlpack *tensor,
					      struct custody_stream *stream,
					      struct custody_array **array);

#ifdef __cplusplus
}
#endif
#endif
