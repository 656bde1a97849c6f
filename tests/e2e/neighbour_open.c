/* SPDX-License-Identifier: Apache-2.0 */
/* neighbour_open.c - wraps dlopen, as a tool that waits for a library does. */
#include "neighbour.h"

#include <dlfcn.h>

EXPORTED void *dlopen(const char *file, int flags)
{
	static __typeof__(dlopen) *_Atomic next;
	void *result;

	if (!next)
		next = (__typeof__(dlopen) *)dlsym(RTLD_NEXT, "dlopen");
	neighbour_saw(file ? file : "the program");
	result = next(file, flags);
	neighbour_leaves();
	return result;
}
