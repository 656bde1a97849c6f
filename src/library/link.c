/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which engine the library works through: that of a preload, where one is in the
 * process, so that there is one core in it; else its own.
 */
#include "library/library.h"

#include "core/notice.h"
#include "core/process.h"

#include <dlfcn.h>

static _Atomic bool is_own;

typedef const struct engine *(*engine_function)(uint32_t version);

/* Ours is not to be seen from outside, so what is found is the preload's. */
static engine_function find_preload(void)
{
	engine_function function;

	*(void **)&function = dlsym(RTLD_DEFAULT, "custody_engine");
	return function;
}

/*
 * Beside a preload of another version the library keeps its frees to itself, and the
 * recording is the preload's, which sees the program's own calls.
 */
const struct engine *link_choose(void)
{
	engine_function preload = find_preload();
	const struct engine *engine = preload ? preload(ENGINE_VERSION) : NULL;

	if (engine)
		return engine;
	process_be_library(!preload);
	atomic_store(&is_own, true);
	if (preload)
		notice_once("the preload in this process is of another version than libcustody, "
			    "whose calls are not recorded");
	return custody_engine(ENGINE_VERSION);
}

/* The driver starts, and libcustody-inject.so asks: see intercept/inject.h. */
__attribute__((visibility("default"))) int custody_linked(void);

int custody_linked(void)
{
	return atomic_load(&is_own) && process_is_recorded();
}
