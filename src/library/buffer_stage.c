/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_stage.c - a copy by the host, where the driver refuses one between two
 * devices: memory of pools and hand-made mappings is out of reach for who was not
 * let in.  The host stands still meanwhile, also where a stream was given.
 */
#include "library/buffer.h"

#include <stdlib.h>

enum { STAGE_BYTES = 4 << 20 };

/* With the context entered; its streams keep their order by the waits around it. */
static int copy_part(struct custody_context *context, CUdeviceptr device, void *host, size_t bytes,
		     bool is_to_host)
{
	struct library_call call;
	CUresult result;
	int error = library_enter_context(&call, context);

	if (error)
		return error;
	result = is_to_host ?
			 library_cuda.cuMemcpyDtoHAsync(host, device, bytes, CU_STREAM_PER_THREAD) :
			 library_cuda.cuMemcpyHtoDAsync(device, host, bytes, CU_STREAM_PER_THREAD);
	return library_leave(&call, result ? (int)result : stream_finish(CU_STREAM_PER_THREAD,
									 true));
}

static int copy_all(const struct buffer_place *target, const struct buffer_place *source,
		    size_t bytes, void *host)
{
	int error = 0;

	for (size_t done = 0; done < bytes && !error; done += STAGE_BYTES) {
		size_t part = bytes - done < STAGE_BYTES ? bytes - done : STAGE_BYTES;

		error = copy_part(source->context, source->address + done, host, part, true);
		if (!error)
			error = copy_part(target->context, target->address + done, host, part,
					  false);
	}
	return error;
}

int buffer_stage(const struct buffer_place *target, const struct buffer_place *source,
		 size_t bytes, CUstream stream)
{
	void *host = malloc(bytes < STAGE_BYTES ? bytes : STAGE_BYTES);
	int error;

	if (!host)
		return CUSTODY_E_NO_MEMORY;
	error = stream_finish(stream, true);
	if (!error)
		error = copy_all(target, source, bytes, host);
	free(host);
	return error;
}
