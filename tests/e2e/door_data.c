/* SPDX-License-Identifier: Apache-2.0 */
/* door_data.c - the symbols' addresses stand in data, filled in by the loader. */
#include "story.h"

struct story_driver driver_in_data = {
	cuInit,
	cuDriverGetVersion,
	cuDeviceGet,
	cuDevicePrimaryCtxRetain,
	cuCtxSetCurrent,
	cuCtxSynchronize,
	cuMemAlloc,
	cuMemFree,
	cuMemHostAlloc,
	cuMemFreeHost,
	cuPointerGetAttribute,
	cuMemcpy,
	cuMemcpyHtoD,
	cuMemcpyDtoH,
	cuMemcpyDtoD,
	cuMemcpyHtoDAsync,
	cuMemcpyDtoHAsync,
	cuMemsetD8,
	cuMemsetD32Async,
	cuMemAllocAsync,
	cuMemFreeAsync,
	cuStreamCreate,
	cuStreamSynchronize,
	cuStreamDestroy,
};

int main(void)
{
	story_tell(&driver_in_data, 0);
	return 0;
}
