/* SPDX-License-Identifier: Apache-2.0 */
/* Private: what another interface made, and gave us the descriptor of. */
#ifndef SIM_EXTERNAL_H
#define SIM_EXTERNAL_H

#include "sim.h"

struct external_memory {
	struct object object;
	int fd;
	size_t bytes;
};

/* The value is the first eight bytes of the descriptor's file. */
struct external_semaphore {
	struct object object;
	uint64_t *value;
	bool timeline;
};

#endif
