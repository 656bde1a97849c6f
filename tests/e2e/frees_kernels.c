/* SPDX-License-Identifier: Apache-2.0 */
/* frees_kernels.c - a fixture: the kernel that waits for a word of the host. */
#include "simk.h"

#include <stdint.h>
#include <unistd.h>

void simk_poll(const struct simk_launch *launch);
extern const size_t simk_poll_sizes[];

const size_t simk_poll_sizes[] = { 8, 0 };

/* poll(const uint32_t *word): returns once it is not 0; after a minute in any case. */
void simk_poll(const struct simk_launch *launch)
{
	const uint32_t *word = launch->host(*(unsigned long long *)launch->params[0]);
	unsigned i;

	for (i = 0; i < 300000 && !__atomic_load_n(word, __ATOMIC_ACQUIRE); i++)
		usleep(200);
}
