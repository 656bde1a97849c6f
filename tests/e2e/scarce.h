/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scarce.h - what the clients share that live with memory that runs out.
 *
 * Each prints facts that do not differ from run to run; a failed allocation is
 * one of them and never ends the client.
 */
#ifndef CUSTODY_TESTS_E2E_SCARCE_H
#define CUSTODY_TESTS_E2E_SCARCE_H

#include <cuda.h>
#include <stddef.h>

enum { KIB = 1 << 10, MIB = 1 << 20, PAGE = 2 * MIB };

/* Print one line. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A call that must succeed, whatever is scarce. */
#define do_call(call) require_success((call), #call)
void require_success(CUresult result, const char *what);

/* CUDA started, the primary context of device 0 current, no memory taken. */
CUcontext scarce_start(void);

/* The case named by the first argument; the rest of them follow. */
struct scarce_case {
	const char *name;
	void (*run)(char **arguments);
};

int scarce_main(const struct scarce_case *cases, char **arguments);

#endif
