/* SPDX-License-Identifier: Apache-2.0 */
/* What the PTX of examples/memory_resources.c does, for the simulated driver. */
#include "simk.h"

void simk_memory_ops(const struct simk_launch *launch);
extern const size_t simk_memory_ops_sizes[];

const size_t simk_memory_ops_sizes[] = {8, 8, 8, 0};

/* memory_ops(float *device, float *pinned, uint64_t count) */
void simk_memory_ops(const struct simk_launch *launch)
{
	float *device = launch->host(*(unsigned long long *)launch->params[0]);
	float *pinned = launch->host(*(unsigned long long *)launch->params[1]);
	unsigned long long count = *(unsigned long long *)launch->params[2];

	for (unsigned long long i = 0; device && pinned && i < count; i++) {
		device[i] += 1;
		pinned[i] *= 3;
	}
}
