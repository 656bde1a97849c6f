/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process has one CUPTI: two copies would both believe that the slot is theirs.
 * So the copy that is mapped counts, the one of a wheel too, before any other.
 */
#include "intercept/cupti.h"
#include "core/option.h"
#include "intercept/object.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static const char soname_prefix[] = "libcupti.so";

static bool is_cupti(const struct object *object)
{
	return object->soname &&
	       !strncmp(object->soname, soname_prefix, sizeof(soname_prefix) - 1);
}

static int look_for_cupti(struct dl_phdr_info *info, size_t size, void *data)
{
	struct object *found = data, object;

	(void)size;
	object_describe(info, &object);
	if (!is_cupti(&object))
		return 0;
	*found = object;
	return 1;
}

static bool find_mapped(struct object *object)
{
	return dl_iterate_phdr(look_for_cupti, object) == 1;
}

void *cupti_symbol(const char *name)
{
	struct object object;

	return find_mapped(&object) ? object_symbol(&object, name) : NULL;
}

bool cupti_covers(const void *address)
{
	struct object object;

	return object_find_address(address, &object) && is_cupti(&object);
}

/* It stays for as long as the process lives: its threads run in it. */
static bool open_library(const char *path)
{
	return dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL;
}

/* What the loader finds by itself, then where toolkits put it. */
static bool open_fitting(int driver_version)
{
	static const char *const directory[] = { "", "/usr/local/cuda/lib64/",
						 "/usr/local/cuda/extras/CUPTI/lib64/" };
	char path[PATH_BYTES];

	for (size_t i = 0; i < sizeof(directory) / sizeof(*directory); i++) {
		snprintf(path, sizeof(path), "%s%s.%d", directory[i], soname_prefix,
			 driver_version / 1000);
		if (open_library(path))
			return true;
	}
	return false;
}

static bool open_any(int driver_version, char *why, size_t why_bytes)
{
	const char *path = option_environment("CUSTODY_CUPTI");
	struct object object;

	if (find_mapped(&object))
		return open_library(object.path); /* so that it stays */
	if (path && *path) {
		snprintf(why, why_bytes, "%.300s (CUSTODY_CUPTI) cannot be loaded", path);
		return open_library(path);
	}
	snprintf(why, why_bytes, "%s.%d was not found; CUSTODY_CUPTI may name it", soname_prefix,
		 driver_version / 1000);
	return open_fitting(driver_version);
}

struct function {
	const char *name;
	size_t offset;
	bool is_wanted;
};

#define WANTED(member, name) { name, offsetof(struct cupti, member), true }
#define OPTIONAL(member, name) { name, offsetof(struct cupti, member), false }

static const struct function functions[] = {
	WANTED(activity_disable, "cuptiActivityDisable"),
	WANTED(activity_enable, "cuptiActivityEnable"),
	WANTED(activity_flush_all, "cuptiActivityFlushAll"),
	WANTED(activity_get_next_record, "cuptiActivityGetNextRecord"),
	WANTED(activity_pop_external, "cuptiActivityPopExternalCorrelationId"),
	WANTED(activity_push_external, "cuptiActivityPushExternalCorrelationId"),
	WANTED(activity_register_callbacks, "cuptiActivityRegisterCallbacks"),
	WANTED(subscribe, "cuptiSubscribe"),
	WANTED(unsubscribe, "cuptiUnsubscribe"),
	OPTIONAL(activity_configure_managed, "cuptiActivityConfigureUnifiedMemoryCounter"),
	OPTIONAL(activity_enable_driver_api, "cuptiActivityEnableDriverApi"),
	OPTIONAL(activity_flush_period, "cuptiActivityFlushPeriod"),
	OPTIONAL(activity_get_dropped, "cuptiActivityGetNumDroppedRecords"),
	OPTIONAL(activity_register_clock, "cuptiActivityRegisterTimestampCallback"),
	OPTIONAL(get_callback_name, "cuptiGetCallbackName"),
	OPTIONAL(get_result_string, "cuptiGetResultString"),
	OPTIONAL(get_timestamp, "cuptiGetTimestamp"),
	OPTIONAL(subscribe_v2, "cuptiSubscribe_v2"),
};

/* The missing function that is wanted, or NULL. */
static const char *bind(struct cupti *cupti, const struct object *object)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		void *function = object_symbol(object, functions[i].name);

		if (!function && functions[i].is_wanted)
			return functions[i].name;
		memcpy((char *)cupti + functions[i].offset, &function, sizeof(function));
	}
	return NULL;
}

bool cupti_load(struct cupti *cupti, int driver_version, char *why, size_t why_bytes)
{
	struct object object;
	const char *missing;
	bool is_open = open_any(driver_version, why, why_bytes);

	if (!is_open)
		dlerror(); /* the program must not be told of it */
	if (!is_open || !find_mapped(&object))
		return false;
	missing = bind(cupti, &object);
	if (missing)
		snprintf(why, why_bytes, "%.300s has no %s", object.path, missing);
	return !missing;
}
