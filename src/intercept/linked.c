/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/linked.h"
#include "core/process.h"
#include "intercept/object.h"
#include "intercept/real.h"
#include "intercept/uncovered.h"

#include <stddef.h>

/* What libcuda lacks belongs to another library whose functions are called so. */
static void judge(const char *name, void *data)
{
	const struct object *libcuda = data;
	void *address;

	if (!uncovered_is_driver_name(name))
		return;
	address = object_symbol(libcuda, name);
	if (address && real_find(address) < 0)
		uncovered_note(address, name, 0, 0);
}

/* Only who is linked with the driver itself: that is few, and all others ask for what they call. */
static int judge_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct object *libcuda = data, object;

	(void)size;
	object_describe(info, &object);
	if (!real_is_ours((const void *)object.start) && object_needs(&object, libcuda->soname))
		object_each_wanted(&object, judge, libcuda);
	return 0;
}

/* In front of a program that links libcustody we do not stand at all, and it knows. */
void linked_note(void)
{
	void *function = __atomic_load_n(&real_driver[API_cuDriverGetVersion], __ATOMIC_RELAXED);
	struct object libcuda;

	if (process_is_library())
		return;
	if (function && object_find_address(function, &libcuda) && libcuda.soname)
		dl_iterate_phdr(judge_object, &libcuda);
}
