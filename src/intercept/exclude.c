/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/exclude.h"
#include "core/context.h"
#include "core/deferq.h"
#include "intercept/object.h"

#include <stdatomic.h>
#include <string.h>

enum { DEVICES = 256, WORD_BITS = 64 };
enum checker { NOT_LOOKED, IS_ABSENT, IS_PRESENT };

static _Atomic uint64_t contexts[CONTEXT_MAX / WORD_BITS + 1]; /* a bit each, by number */
static _Atomic bool devices[DEVICES];
static _Atomic uint32_t checker; /* enum checker */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* compute-sanitizer works through libraries that it has the program load before any call. */
static int look_for_checker(struct dl_phdr_info *info, size_t size, void *data)
{
	static const char name[] = "libsanitizer";
	bool *is_present = data;

	(void)size;
	*is_present = info->dlpi_name &&
		      !strncmp(last_part(info->dlpi_name), name, sizeof(name) - 1);
	return *is_present;
}

/* Looked for once: one that comes later has missed the program's blocks anyway. */
static bool has_checker(void)
{
	uint32_t known = atomic_load_explicit(&checker, memory_order_relaxed);
	bool is_present = false;

	if (known == NOT_LOOKED) {
		dl_iterate_phdr(look_for_checker, &is_present);
		known = is_present ? IS_PRESENT : IS_ABSENT;
		atomic_store_explicit(&checker, known, memory_order_relaxed);
	}
	return known == IS_PRESENT;
}

static bool has_device(int device)
{
	return device >= 0 && device < DEVICES &&
	       atomic_load_explicit(&devices[device], memory_order_relaxed);
}

static bool has_context(uint32_t context)
{
	uint64_t word = atomic_load_explicit(&contexts[context / WORD_BITS], memory_order_relaxed);

	return word >> context % WORD_BITS & 1;
}

/* A context whose number is not known has nothing that could be queued. */
bool exclude_has(uint32_t context)
{
	if (!context || context > CONTEXT_MAX)
		return true;
	return has_checker() || has_device(context_device(context)) || has_context(context);
}

/* The queue is told too: a free may have passed exclude_has() already. */
void exclude_context(uint32_t context)
{
	struct deferq *queue;

	if (!context || context > CONTEXT_MAX)
		return;
	atomic_fetch_or_explicit(&contexts[context / WORD_BITS], UINT64_C(1) << context % WORD_BITS,
				 memory_order_relaxed);
	queue = deferq_find(context);
	if (queue)
		deferq_exclude(queue);
}

void exclude_device(int device)
{
	if (device >= 0 && device < DEVICES)
		atomic_store_explicit(&devices[device], true, memory_order_relaxed);
}

void exclude_reset(void)
{
	for (size_t i = 0; i < sizeof(contexts) / sizeof(*contexts); i++)
		if (atomic_load_explicit(&contexts[i], memory_order_relaxed))
			atomic_store_explicit(&contexts[i], 0, memory_order_relaxed);
	for (int i = 0; i < DEVICES; i++)
		atomic_store_explicit(&devices[i], false, memory_order_relaxed);
}
