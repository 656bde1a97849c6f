/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload of custody that came later or earlier: it has an engine, but not the one
 * that is asked for.
 */
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("default"))) const void *custody_engine(uint32_t version);

const void *custody_engine(uint32_t version)
{
	(void)version;
	return NULL;
}
