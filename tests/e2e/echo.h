/* SPDX-License-Identifier: Apache-2.0 */
/*
 * echo.h - between the driver that only remembers its calls and the client that
 * makes them.  Both find the other's data by name: echo_arrivals, echo_result.
 */
#ifndef CUSTODY_TESTS_E2E_ECHO_H
#define CUSTODY_TESTS_E2E_ECHO_H

#include <stdint.h>

/*
 * Enough for six registers and a structure of 64 bytes on the stack, which is
 * the most that a driver function takes.
 */
enum { ECHO_ARGUMENTS = 14, ECHO_FUNCTIONS = 1024 };

struct echo_arrival {
	uint64_t argument[ECHO_ARGUMENTS]; /* of the first call */
	unsigned calls;
};

typedef unsigned echo_function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			       uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			       uint64_t);

#endif
