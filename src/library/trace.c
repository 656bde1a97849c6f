/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <custody/trace.h>

#include <errno.h>
#include <string.h>

int custody_trace_start(const char *path)
{
	int error;

	error_forget();
	error = library_check();
	if (error)
		return error;
	error = library_choose()->record(path);
	switch (error) {
	case 0:
		return 0;
	case EBUSY:
		return error_say(CUSTODY_E_BUSY,
				 "CUDA is in use already, so the trace would lack its beginning");
	case ENAMETOOLONG:
		return error_say(CUSTODY_E_INVALID, "the path of the trace is too long");
	case EPERM:
		return error_say(CUSTODY_E_SYSTEM, "a program with the rights of another user is "
						   "not recorded, nor one beside a preload of "
						   "another version");
	default:
		return error_say(CUSTODY_E_SYSTEM, "the trace cannot be begun: %s",
				 strerror(error));
	}
}

bool custody_trace_is_on(void)
{
	return !library_check() && library_choose()->is_recording();
}

void *custody_driver_function(const char *symbol)
{
	const struct engine *engine;

	error_forget();
	if (!symbol) {
		error_null("symbol");
		return NULL;
	}
	if (library_check())
		return NULL;
	engine = library_open();
	return engine ? engine->find(symbol) : NULL;
}
