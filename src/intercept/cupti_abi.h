/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_abi.h - what GPU times need of CUPTI, so that nothing of it is wanted to
 * build.  Its records only ever grow at their end; named here are the beginnings
 * that CUPTI 12 and 13 have in common.  A unit test compares them with cupti.h.
 */
#ifndef CUSTODY_INTERCEPT_CUPTI_ABI_H
#define CUSTODY_INTERCEPT_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
	CUPTI_GOOD = 0,
	CUPTI_NOT_INITIALIZED = 15,
	CUPTI_TAKEN = 39, /* MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
};

enum cupti_kind {
	CUPTI_MEMCPY = 1,
	CUPTI_MEMSET = 2,
	CUPTI_DRIVER = 4,
	CUPTI_KERNEL = 10, /* CONCURRENT_KERNEL: the other one makes kernels wait for each other */
	CUPTI_MEMCPY2 = 22, /* between devices */
	CUPTI_MANAGED = 25, /* UNIFIED_MEMORY_COUNTER */
	CUPTI_EXTERNAL = 39,
};

enum { CUPTI_DOMAIN_DRIVER = 1, CUPTI_FLUSH_FORCED = 1, CUPTI_EXTERNAL_CUSTOM2 = 5 };

/* cupti_copy.copy_kind */
enum { CUPTI_COPY_H2D = 1, CUPTI_COPY_D2H, CUPTI_COPY_H2A, CUPTI_COPY_A2H, CUPTI_COPY_A2A,
       CUPTI_COPY_A2D, CUPTI_COPY_D2A, CUPTI_COPY_D2D, CUPTI_COPY_H2H, CUPTI_COPY_P2P,
       CUPTI_COPY_KINDS };

/* cupti_copy.source_kind, cupti_copy.target_kind */
enum { CUPTI_MEMORY_PAGEABLE = 1, CUPTI_MEMORY_PINNED, CUPTI_MEMORY_DEVICE, CUPTI_MEMORY_ARRAY,
       CUPTI_MEMORY_MANAGED, CUPTI_MEMORY_STATIC, CUPTI_MEMORY_MANAGED_STATIC,
       CUPTI_MEMORY_KINDS };

/* cupti_managed.counter */
enum { CUPTI_MANAGED_H2D = 1, CUPTI_MANAGED_D2H = 2, CUPTI_MANAGED_D2D = 8 };

struct cupti_copy {
	uint32_t kind;
	uint8_t copy_kind, source_kind, target_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	union {
		uint32_t correlation; /* of a MEMCPY */
		uint32_t source_device;
	};
	uint32_t source_context, target_device, target_context;
	uint32_t peer_correlation; /* of a MEMCPY2 */
};

struct cupti_fill {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
};

struct cupti_kernel {
	uint32_t kind;
	uint8_t cache[4];
	uint32_t partitioned_requested, partitioned_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3], static_shared, dynamic_shared;
	uint32_t local_per_thread, local_total, correlation;
	int64_t grid_id;
	const char *name;
};

struct cupti_managed {
	uint32_t kind, counter;
	uint64_t value, start, end, address;
};

struct cupti_external {
	uint32_t kind, external_kind;
	uint64_t id;
	uint32_t correlation, reserved;
};

struct cupti_managed_setting {
	uint32_t scope; /* 2: all devices */
	uint32_t counter;
	uint32_t device, enable;
};

struct cupti_subscriber {
	size_t bytes;
	const char *name;
	char *holder; /* who has the slot, where it is taken */
	size_t holder_bytes;
};

enum { CUPTI_HOLDER_BYTES = 64 };

typedef void (*cupti_callback)(void *data, int domain, uint32_t id, const void *call);
typedef void (*cupti_request)(uint8_t **buffer, size_t *bytes, size_t *records);
typedef void (*cupti_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			       size_t valid);
typedef uint64_t (*cupti_clock)(void);

#endif
