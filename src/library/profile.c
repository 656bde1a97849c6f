/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <custody/profile.h>

/* The profiler is the current context's; there has to be one. */
static int turn(bool on)
{
	struct custody_context *context;
	struct library_call call;
	int error = library_enter(&call);

	if (error)
		return error;
	error = context_ask(&context);
	if (error)
		return library_leave(&call, error);
	return library_leave(&call, (int)(on ? library_cuda.cuProfilerStart() :
					       library_cuda.cuProfilerStop()));
}

int custody_profile_start(void)
{
	return turn(true);
}

int custody_profile_stop(void)
{
	return turn(false);
}

int custody_profile_call(int (*body)(void *argument), void *argument)
{
	int error, stopped;

	if (!body)
		return error_null("body");
	error = custody_profile_start();
	if (error)
		return error;
	error = body(argument);
	stopped = custody_profile_stop();
	return error ? error : stopped;
}

void custody_profile_leave(int *result)
{
	if (*result == 0)
		custody_profile_stop();
}
