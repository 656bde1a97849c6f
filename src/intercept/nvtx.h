/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx.h - scopes of an unmodified program: ranges named "custody.defer_cleanup".
 *
 * NVTX is a header: each module that uses it has hidden tables of function
 * pointers, and at its first call loads the library that NVTX_INJECTION64_PATH
 * names and hands it those tables.  Declared here is the part of that interface
 * that ranges need.
 */
#ifndef CUSTODY_INTERCEPT_NVTX_H
#define CUSTODY_INTERCEPT_NVTX_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define NVTX_SCOPE_NAME "custody.defer_cleanup"

enum { NVTX_TABLE_CALLBACKS = 1 };
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };

/* Slots of the two modules; slot 0 of each is nothing. */
enum nvtx_core {
	NVTX_START_EX = 4,
	NVTX_START_A,
	NVTX_START_W,
	NVTX_END,
	NVTX_PUSH_EX,
	NVTX_PUSH_A,
	NVTX_PUSH_W,
	NVTX_POP,
	NVTX_CORE_SLOTS = 16
};

enum nvtx_core2 {
	NVTX_DOMAIN_START_EX = 2,
	NVTX_DOMAIN_END,
	NVTX_DOMAIN_PUSH_EX,
	NVTX_DOMAIN_POP,
	NVTX_DOMAIN_STRING_A = 10,
	NVTX_DOMAIN_STRING_W,
	NVTX_DOMAIN_CREATE_A,
	NVTX_DOMAIN_CREATE_W,
	NVTX_CORE2_SLOTS = 16
};

/* What a push or a pop returns where nobody counts levels, as without a tool. */
enum { NVTX_NO_LEVEL = -2 };

typedef void (*nvtx_function)(void);

/* A slot points to the module's own pointer to the function, which a tool sets. */
struct nvtx_callbacks {
	size_t bytes;
	int (*get_module)(int module, nvtx_function ***slots, unsigned int *count);
};

enum nvtx_message { NVTX_MESSAGE_ASCII = 1, NVTX_MESSAGE_WIDE, NVTX_MESSAGE_REGISTERED };

struct nvtx_attributes {
	uint16_t version;
	uint16_t bytes;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved;
	uint64_t payload;
	int32_t message_type; /* enum nvtx_message */
	union {
		const char *ascii;
		const wchar_t *wide;
		const void *registered; /* what the registering function gave */
	};
};

/* Called by each module that uses NVTX, at its first call; more often does no harm. */
__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(const void *(*get_table)(uint32_t table));

/* Child of fork: ranges that other threads of its parent began end nowhere. */
void nvtx_reset(void);

#endif
