/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_limit.h - the memory that this process may use in all.
 */
#ifndef CUSTODY_CORE_MEMORY_LIMIT_H
#define CUSTODY_CORE_MEMORY_LIMIT_H

#include <stdint.h>

/*
 * Bytes, UINT64_MAX where there is no limit.  The pages of a memory file system
 * are charged to the control group of whoever writes them: a recording that
 * takes too many of them would have the program killed.
 */
uint64_t memory_limit_bytes(void);

#endif
