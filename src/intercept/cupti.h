/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti.h - CUPTI's library, found and bound at run time.
 */
#ifndef CUSTODY_INTERCEPT_CUPTI_H
#define CUSTODY_INTERCEPT_CUPTI_H

#include "intercept/cupti_abi.h"

#include <stdbool.h>

struct cupti {
	/* Without one of these it is not used. */
	int (*activity_disable)(int kind);
	int (*activity_enable)(int kind);
	int (*activity_flush_all)(uint32_t flag);
	int (*activity_get_next_record)(uint8_t *buffer, size_t valid, uint32_t **record);
	int (*activity_pop_external)(int kind, uint64_t *last);
	int (*activity_push_external)(int kind, uint64_t id);
	int (*activity_register_callbacks)(cupti_request request, cupti_complete complete);
	int (*subscribe)(void **handle, cupti_callback callback, void *data);
	int (*unsubscribe)(void *handle);

	/* NULL where it is too old. */
	int (*activity_configure_managed)(struct cupti_managed_setting *setting, uint32_t count);
	int (*activity_enable_driver_api)(uint32_t id, uint8_t enable);
	int (*activity_flush_period)(uint32_t milliseconds);
	int (*activity_get_dropped)(void *context, uint32_t stream, size_t *dropped);
	int (*activity_register_clock)(cupti_clock clock);
	int (*get_callback_name)(int domain, uint32_t id, const char **name);
	int (*get_result_string)(int result, const char **text);
	int (*get_timestamp)(uint64_t *now);
	int (*subscribe_v2)(void **handle, cupti_callback callback, void *data,
			    struct cupti_subscriber *subscriber);
};

/*
 * Bind to the copy that is mapped already, else to CUSTODY_CUPTI, else to the one
 * that fits the driver.  False: `why` gets a part of a sentence.
 */
bool cupti_load(struct cupti *cupti, int driver_version, char *why, size_t why_bytes);

/* The function of the mapped copy, or NULL. */
void *cupti_symbol(const char *name);

/* Whether the address lies in a copy of CUPTI; walks through all that is mapped. */
bool cupti_covers(const void *address);

#endif
