/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/caller.h"
#include "core/lock.h"
#include "intercept/call.h"
#include "intercept/object.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

_Atomic uint64_t caller_pages[CALLER_SETS][2];
_Atomic uint64_t caller_epoch = 1;

enum { MODULES = 8192, MODULES_MAX = MODULES * 3 / 4, BUILD_ID_BYTES = 80, RETRY_NS = 10000000 };

/*
 * Recorded modules, hashed by where they begin.  The lock is taken inside the
 * callbacks of dl_iterate_phdr only: the loader's lock comes before ours.
 */
static struct module {
	uintptr_t start;
	uintptr_t end;
	uint64_t name; /* hash of the path */
} modules[MODULES];
static size_t module_count;
static struct lock lock;

/* The loader's counts of objects added and removed, at the last look. */
static _Atomic uint64_t seen_adds;
static _Atomic uint64_t seen_subs;

/* When to tell again of modules whose records were lost; 0: there are none. */
static _Atomic uint64_t retry_ns;

static uint64_t hash_text(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static size_t module_home(uintptr_t start)
{
	return (start >> CALLER_PAGE_BITS) * UINT64_C(0x9e3779b97f4a7c15) >> 51;
}

/* Note this module; false: noted before.  Under the lock. */
static bool remember(const struct object *object)
{
	struct module module = { object->start, object->end, hash_text(object->path) };
	size_t at = module_home(object->start);

	while (modules[at].start && modules[at].start != module.start)
		at = (at + 1) % MODULES;
	if (modules[at].end == module.end && modules[at].name == module.name)
		return false;
	if (!modules[at].start && ++module_count > MODULES_MAX) {
		module_count = MODULES_MAX;
		return false;
	}
	modules[at] = module;
	return true;
}

/* Its record was lost with a full buffer: it is to be told again.  Under the lock. */
static void forget(const struct object *object)
{
	size_t at = module_home(object->start);

	while (modules[at].start != object->start)
		at = (at + 1) % MODULES;
	modules[at].end = 0;
	atomic_store(&retry_ns, clock_system_ns(CLOCK_MONOTONIC) + RETRY_NS);
}

/* Path, NUL, build id, NUL.  False: lost. */
static bool write_module(const struct object *object)
{
	char text[PATH_MAX + BUILD_ID_BYTES];
	const struct record record = {
		.start = call_moment(),
		.kind = RECORD_MODULE,
		.a = object->start,
		.b = object->end - object->start,
	};
	size_t length = strlen(object->path);

	if (length && length < PATH_MAX) {
		memcpy(text, object->path, length);
	} else {
		ssize_t got = readlink("/proc/self/exe", text, PATH_MAX - 1);

		length = got > 0 ? (size_t)got : 0;
	}
	text[length++] = '\0';
	object_build_id(object, text + length, BUILD_ID_BYTES);
	return segment_write_text(&record, text, length + strlen(text + length) + 1);
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct object object;

	(void)size;
	(void)data;
	object_describe(info, &object);
	if (object.start >= object.end)
		return 0;
	lock_take(&lock);
	if (remember(&object) && !write_module(&object))
		forget(&object);
	lock_give(&lock);
	return 0;
}

/* Whether anything was loaded or unloaded since the last look; what is gone opens a new epoch. */
static int compare_counts(struct dl_phdr_info *info, size_t size, void *data)
{
	bool *is_changed = data;
	uint64_t subs = info->dlpi_subs, adds = info->dlpi_adds;

	(void)size;
	*is_changed = atomic_exchange(&seen_adds, adds) != adds;
	if (atomic_exchange(&seen_subs, subs) != subs) {
		*is_changed = true;
		atomic_fetch_add(&caller_epoch, 1);
	}
	return 1;
}

/* While the buffer is full every recorded call comes here; it looks again now and then. */
static bool must_retry(void)
{
	uint64_t due = atomic_load_explicit(&retry_ns, memory_order_relaxed);

	return due && clock_system_ns(CLOCK_MONOTONIC) >= due &&
	       atomic_compare_exchange_strong(&retry_ns, &due, 0);
}

void caller_scan(const void *caller)
{
	uint64_t page = (uintptr_t)caller >> CALLER_PAGE_BITS;
	_Atomic uint64_t *set = caller_set(page);
	int saved_errno = errno;
	bool is_changed = false;

	if (segment_directory()[0]) {
		dl_iterate_phdr(compare_counts, &is_changed);
		if (is_changed || must_retry())
			dl_iterate_phdr(visit, NULL);
	}
	if (!atomic_load_explicit(&retry_ns, memory_order_relaxed)) {
		atomic_store(&set[1], atomic_load(&set[0]));
		atomic_store(&set[0], page << CALLER_EPOCH_BITS |
					      (uint16_t)atomic_load(&caller_epoch));
	}
	errno = saved_errno;
}

static int notice_subs(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	if (atomic_load(&seen_adds) && info->dlpi_subs != atomic_load(&seen_subs))
		atomic_fetch_add(&caller_epoch, 1);
	return 1;
}

void caller_notice_unloads(void)
{
	dl_iterate_phdr(notice_subs, NULL);
}

void caller_reset(void)
{
	lock_give(&lock);
	if (module_count)
		memset(modules, 0, sizeof(modules));
	module_count = 0;
	atomic_store(&seen_adds, 0);
	atomic_store(&seen_subs, 0);
	atomic_store(&retry_ns, 0);
	atomic_fetch_add(&caller_epoch, 1);
}
