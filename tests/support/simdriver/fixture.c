/* SPDX-License-Identifier: Apache-2.0 */
/* A fixture for the tests: one kernel that adds a number to every word of a block. */
#include "simk.h"

void simk_add_to_all(const struct simk_launch *launch);
extern const size_t simk_add_to_all_sizes[];

const size_t simk_add_to_all_sizes[] = {8, 4, 0};

/* add_to_all(unsigned long long address, int number), a thread per word */
void simk_add_to_all(const struct simk_launch *launch)
{
	int *words = launch->host(*(unsigned long long *)launch->params[0]);
	int number = *(int *)launch->params[1];

	for (unsigned i = 0; words && i < launch->grid[0] * launch->block[0]; i++)
		words[i] += number;
}
