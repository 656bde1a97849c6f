/* SPDX-License-Identifier: Apache-2.0 */
/*
 * echo_driver.c - a libcuda.so.1 that does nothing: it notes its arguments and
 * returns what the client asked for.  It shows whether wrappers are transparent,
 * for functions too that no simulated driver will ever provide.  It needs nothing
 * of libc, so it has no symbol versions, and dlvsym() finds its functions.
 */
#include "echo.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED struct echo_arrival echo_arrivals[ECHO_FUNCTIONS];
EXPORTED unsigned echo_result;

static unsigned note(unsigned function, const uint64_t *arguments)
{
	struct echo_arrival *arrival = &echo_arrivals[function];
	unsigned i;

	if (!arrival->calls++)
		for (i = 0; i < ECHO_ARGUMENTS; i++)
			arrival->argument[i] = arguments[i];
	return echo_result;
}

#define ECHO(name, number)                                                                         \
	EXPORTED echo_function name;                                                               \
	unsigned name(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,      \
		      uint64_t g, uint64_t h, uint64_t i, uint64_t j, uint64_t k, uint64_t l,      \
		      uint64_t m, uint64_t n)                                                      \
	{                                                                                          \
		const uint64_t all[ECHO_ARGUMENTS] = { a, b, c, d, e, f, g, h, i, j, k, l, m, n }; \
		return note(number, all);                                                          \
	}

#include "echo_driver_table.h"
