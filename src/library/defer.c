/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <custody/defer.h>

void defer_mark(void)
{
	library_engine->mark(true);
}

void defer_unmark(void)
{
	library_engine->mark(false);
}

/* ------------------------------------------------------------------ out of memory */

enum { HANDLER_TRIES = 16 };

struct out_of_memory {
	bool (*handler)(struct custody_context *context, size_t bytes, void *argument);
	void *argument;
};

/* Copied out before it is called, so that it may change itself. */
static pthread_mutex_t handler_lock = PTHREAD_MUTEX_INITIALIZER;
static struct out_of_memory out_of_memory;

int custody_set_out_of_memory(bool (*handler)(struct custody_context *context, size_t bytes,
					      void *argument),
			      void *argument)
{
	struct library_call call;
	int error = library_enter(&call);

	if (error)
		return error;
	pthread_mutex_lock(&handler_lock);
	out_of_memory = (struct out_of_memory){ handler, argument };
	pthread_mutex_unlock(&handler_lock);
	return library_leave(&call, 0);
}

bool defer_ask_handler(struct custody_context *context, size_t bytes, unsigned int *attempts)
{
	struct out_of_memory mine;

	pthread_mutex_lock(&handler_lock);
	mine = out_of_memory;
	pthread_mutex_unlock(&handler_lock);
	if (!mine.handler || *attempts >= HANDLER_TRIES)
		return false;
	++*attempts;
	return mine.handler(context, bytes, mine.argument);
}
