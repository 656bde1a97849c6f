/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the only door from this room to CUDA.
 *
 * A table of the driver's functions, by their base names.  The interposer fills
 * it with the real functions behind its wrappers, the library with what it has
 * loaded, a test with a driver whose time and failures it moves by hand.
 * A function the driver in use does not have is NULL where that is said.
 */
#ifndef CUSTODY_CORE_DRIVER_H
#define CUSTODY_CORE_DRIVER_H

#include <cuda.h>
#include <stdint.h>

struct driver {
	/* Time stamps, in whatever unit records have, and about how many make a microsecond. */
	uint64_t (*ticks)(void);
	uint64_t ticks_per_us;

	CUresult (*ctx_get_current)(CUcontext *context);
	CUresult (*ctx_push_current)(CUcontext context);
	CUresult (*ctx_pop_current)(CUcontext *context);
	CUresult (*ctx_record_event)(CUcontext context, CUevent event); /* NULL before CUDA 12.5 */
	CUresult (*thread_exchange_capture_mode)(CUstreamCaptureMode *mode);

	CUresult (*event_create)(CUevent *event, unsigned int flags);
	CUresult (*event_destroy)(CUevent event);
	CUresult (*event_query)(CUevent event);
	CUresult (*event_synchronize)(CUevent event);

	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_destroy)(CUstream stream);
	CUresult (*stream_synchronize)(CUstream stream);

	CUresult (*mem_alloc)(CUdeviceptr *address, size_t bytes);
	CUresult (*mem_free)(CUdeviceptr address);
	CUresult (*mem_free_async)(CUdeviceptr address, CUstream stream); /* NULL before 11.2 */
	CUresult (*mem_free_host)(void *address);
	CUresult (*pointer_get_attribute)(void *value, CUpointer_attribute attribute,
					  CUdeviceptr address);
	CUresult (*array_destroy)(CUarray array);
	CUresult (*mipmapped_array_destroy)(CUmipmappedArray array);
	CUresult (*module_unload)(CUmodule module);
};

#endif
