/* SPDX-License-Identifier: Apache-2.0 */
/*
 * must.h - what the examples do about errors: say which call failed and why, and end.
 * A function of libcustody returns 0, a negative CUSTODY_E_*, or what the driver said.
 */
#ifndef CUSTODY_EXAMPLES_MUST_H
#define CUSTODY_EXAMPLES_MUST_H

#include <custody/custody.h>

#include <stdio.h>
#include <stdlib.h>

/* MUST(call): it succeeds, or the program ends here. */
#define MUST(call) must((call), #call)

static inline void must(int result, const char *call)
{
	if (!result)
		return;
	fflush(stdout);
	fprintf(stderr, "%s: %s (%s)\n", call, custody_error_text(result),
		custody_error_name(result));
	if (custody_error_detail()[0])
		fprintf(stderr, "%s\n", custody_error_detail());
	exit(1);
}

/* CHECK(condition): the example shows what it says that it shows. */
#define CHECK(condition) check((condition), #condition)

static inline void check(bool holds, const char *condition)
{
	if (holds)
		return;
	fflush(stdout);
	fprintf(stderr, "this does not hold: %s\n", condition);
	exit(1);
}

/* Status 77 where there is no GPU: nothing can be shown then. */
static inline struct custody_context *open_context(void)
{
	struct custody_context *context;

	if (!custody_is_available()) {
		fprintf(stderr, "%s\n", custody_init_error());
		exit(77);
	}
	MUST(custody_context_current(-1, &context));
	return context;
}

#endif
