/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fixtures: what a kernel gets that runs on the processor.  A shared library named
 * by SIMCUDA_KERNELS defines, for a kernel NAME,
 *
 *	void simk_NAME(const struct simk_launch *launch);
 *	const size_t simk_NAME_sizes[] = {8, 4, 0};
 *
 * where the sizes are those of the kernel's parameters in order, ended by 0.  Without
 * sizes the kernel takes no parameters.
 */
#ifndef SIMK_H
#define SIMK_H

#include <stddef.h>

struct simk_launch {
	void **params;		/* copies of the parameters, taken at the launch */
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	/* Where the bytes behind a device address can be touched; NULL: no such block. */
	void *(*host)(unsigned long long address);
};

#endif
