/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests that stand in for a tool inside the driver: what the simulated device
 * does, and when.  simwatch() is exported beside the driver's own functions.
 */
#ifndef SIMWATCH_H
#define SIMWATCH_H

#include <stddef.h>
#include <stdint.h>

enum simwatch_kind { SIMWATCH_COPY, SIMWATCH_FILL, SIMWATCH_KERNEL };
enum simwatch_memory { SIMWATCH_PAGEABLE, SIMWATCH_PINNED, SIMWATCH_DEVICE, SIMWATCH_MANAGED };

struct simwatch_work {
	enum simwatch_kind kind;
	uint32_t call;		/* what given() answered for it */
	const char *name;	/* of a kernel */
	size_t bytes;
	enum simwatch_memory from, to;
	uint64_t start_ns, end_ns;	/* of CLOCK_MONOTONIC */
};

struct simwatch {
	/* On the calling thread: the driver's function has work for a stream. */
	uint32_t (*given)(const char *function);
	/* On whatever thread has done it; of a graph, each of its nodes. */
	void (*done)(const struct simwatch_work *work);
};

/* One watcher at a time; NULL: none. */
void simwatch(const struct simwatch *watch);

#endif
