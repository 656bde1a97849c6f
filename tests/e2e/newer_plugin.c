/* SPDX-License-Identifier: Apache-2.0 */
/* newer_plugin.c - a plugin that is linked with a function of a newer driver. */
#include <cuda.h>

CUresult cuNewOtherThing(void);
int plugin_do(void);

int plugin_do(void)
{
	return cuNewOtherThing();
}
