/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managed.c - where managed memory is, and shall be.
 *
 * Before CUDA 12.2 the driver's functions name a device, or the processor as a device of
 * its own; since then a location.  The newer ones are used where the driver has them.
 */
#include "library/buffer.h"

#include <custody/managed.h>

#include <string.h>

/* The older functions, which cuda.h names no more. */
typedef CUresult (*prefetch_old)(CUdeviceptr address, size_t bytes, CUdevice device,
				 CUstream stream);
typedef CUresult (*advise_old)(CUdeviceptr address, size_t bytes, CUmem_advise advice,
			       CUdevice device);

static CUdeviceptr address_of(const struct custody_buffer *buffer)
{
	return (CUdeviceptr)(uintptr_t)buffer->memory.pointer;
}

/* ------------------------------------------------------------ checks */

static int check(const struct custody_buffer *buffer)
{
	int error = buffer_check(buffer);

	if (error || buffer->is_managed)
		return error;
	return error_say(CUSTODY_E_INVALID, "the buffer is not one of managed memory");
}

static bool has_managed_access(struct custody_device *device)
{
	int value = 0;

	return !custody_device_attribute(
		       device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &value) &&
	       value;
}

static int check_device(int ordinal, bool *does_nothing)
{
	struct custody_context *context = context_of_ordinal(ordinal);

	if (!context)
		return error_say(CUSTODY_E_NO_DEVICE, "there is no device %d", ordinal);
	if (!has_managed_access(context->device))
		*does_nothing = true;
	return 0;
}

/*
 * The driver's form of a location.  `*does_nothing`: a device that has to do with it
 * moves no pages by itself, so that there is nothing to wish for.
 */
static int convert(const struct custody_buffer *buffer, const struct custody_location *given,
		   CUmemLocation *location, bool *does_nothing)
{
	*does_nothing = !has_managed_access(buffer->object.context->device);
	*location = (CUmemLocation){ .id = given->id };
	switch (given->kind) {
	case CUSTODY_LOCATION_DEVICE:
		location->type = CU_MEM_LOCATION_TYPE_DEVICE;
		return check_device(given->id, does_nothing);
	case CUSTODY_LOCATION_HOST:
		*location = (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
		return 0;
	case CUSTODY_LOCATION_HOST_NUMA:
		location->type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		return given->id >= 0 ? 0 : error_say(CUSTODY_E_INVALID, "there is no NUMA node %d",
						      given->id);
	case CUSTODY_LOCATION_NONE:
		return error_say(CUSTODY_E_INVALID, "a location has to be named");
	default:
		return error_say(CUSTODY_E_INVALID, "there is no kind %d of location",
				 (int)given->kind);
	}
}

static CUdevice device_of(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? location->id : CU_DEVICE_CPU;
}

/* None of this becomes a node of a graph: a capture of the stream would be lost. */
static int enter_idle(struct library_call *call, const struct custody_buffer *buffer,
		      struct custody_stream *stream, CUstream *handle, bool *is_synchronous)
{
	bool is_capturing;
	int error = buffer_enter_stream(call, buffer, stream, handle, is_synchronous);

	if (error)
		return error;
	error = stream_ask_capturing(*handle, &is_capturing);
	if (!error && is_capturing)
		error = error_say(CUSTODY_E_CAPTURING, "the stream is capturing, and managed "
				  "memory cannot be moved in a graph");
	return error ? library_leave(call, error) : 0;
}

/* ------------------------------------------------------------ attaching */

static int attach_flag(enum custody_attach attach, unsigned int *flag)
{
	switch (attach) {
	case CUSTODY_ATTACH_GLOBAL:
		*flag = CU_MEM_ATTACH_GLOBAL;
		return 0;
	case CUSTODY_ATTACH_HOST:
		*flag = CU_MEM_ATTACH_HOST;
		return 0;
	case CUSTODY_ATTACH_SINGLE:
		*flag = CU_MEM_ATTACH_SINGLE;
		return 0;
	default:
		return error_say(CUSTODY_E_INVALID, "there is no way %d to attach memory",
				 (int)attach);
	}
}

/* The driver attaches whole allocations, and to one stream that is nobody's default. */
static int check_attach(const struct custody_buffer *buffer, enum custody_attach attach,
			const struct custody_stream *stream)
{
	int error = check(buffer);

	if (error)
		return error;
	if (buffer->whole)
		return error_say(CUSTODY_E_INVALID, "a part of a buffer is attached with the "
				 "whole");
	if (attach == CUSTODY_ATTACH_SINGLE && (!stream || stream->is_default))
		return error_say(CUSTODY_E_INVALID, "memory is attached to a stream that was "
				 "made, not to a default one");
	return 0;
}

int custody_managed_attach(struct custody_buffer *buffer, enum custody_attach attach,
			   struct custody_stream *stream)
{
	struct library_call call;
	struct resource_mode before;
	bool is_synchronous;
	unsigned int flag = 0;
	CUstream handle;
	int error = library_check();

	if (!error)
		error = check_attach(buffer, attach, stream);
	if (!error)
		error = attach_flag(attach, &flag);
	if (!error)
		error = enter_idle(&call, buffer, stream, &handle, &is_synchronous);
	if (error || !buffer->memory.pointer)
		return error ? error : library_leave(&call, 0);
	resource_relax(&before);
	error = library_cuda.cuStreamAttachMemAsync(handle, address_of(buffer), 0, flag);
	resource_restore(&before);
	return library_leave(&call, error ? error : stream_finish(handle, is_synchronous));
}

/* ------------------------------------------------------------ prefetching */

static int prefetch(const struct custody_buffer *buffer, const CUmemLocation *location,
		    CUstream stream)
{
	prefetch_old old;
	void *found;

	if (library_cuda.cuMemPrefetchAsync)
		return library_cuda.cuMemPrefetchAsync(address_of(buffer), buffer->memory.bytes,
						       *location, 0, stream);
	found = library_engine->find("cuMemPrefetchAsync");
	if (!found)
		return 0;
	memcpy(&old, &found, sizeof(old));
	return old(address_of(buffer), buffer->memory.bytes, device_of(location), stream);
}

int custody_managed_prefetch(struct custody_buffer *buffer, struct custody_location location,
			     struct custody_stream *stream)
{
	bool is_synchronous, does_nothing;
	struct library_call call;
	CUmemLocation target;
	CUstream handle;
	int error = library_check();

	if (!error)
		error = check(buffer);
	if (!error)
		error = convert(buffer, &location, &target, &does_nothing);
	if (!error)
		error = enter_idle(&call, buffer, stream, &handle, &is_synchronous);
	if (error || does_nothing || !buffer->memory.pointer)
		return error ? error : library_leave(&call, 0);
	error = prefetch(buffer, &target, handle);
	return library_leave(&call, error ? error : stream_finish(handle, is_synchronous));
}

/* ------------------------------------------------------------ advice */

static int advice_of(enum custody_advice advice, bool is_given, CUmem_advise *driver_advice)
{
	switch (advice) {
	case CUSTODY_ADVICE_READ_MOSTLY:
		*driver_advice = is_given ? CU_MEM_ADVISE_SET_READ_MOSTLY :
					    CU_MEM_ADVISE_UNSET_READ_MOSTLY;
		return 0;
	case CUSTODY_ADVICE_PREFERRED_LOCATION:
		*driver_advice = is_given ? CU_MEM_ADVISE_SET_PREFERRED_LOCATION :
					    CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
		return 0;
	case CUSTODY_ADVICE_ACCESSED_BY:
		*driver_advice = is_given ? CU_MEM_ADVISE_SET_ACCESSED_BY :
					    CU_MEM_ADVISE_UNSET_ACCESSED_BY;
		return 0;
	default:
		return error_say(CUSTODY_E_INVALID, "there is no advice %d", (int)advice);
	}
}

/* Where no location is looked at the own device does for one. */
static bool needs_location(enum custody_advice advice, bool is_given)
{
	return advice == CUSTODY_ADVICE_ACCESSED_BY ||
	       (advice == CUSTODY_ADVICE_PREFERRED_LOCATION && is_given);
}

static int advise(const struct custody_buffer *buffer, CUmem_advise advice,
		  const CUmemLocation *location)
{
	advise_old old;
	void *found;

	if (library_cuda.cuMemAdvise)
		return library_cuda.cuMemAdvise(address_of(buffer), buffer->memory.bytes, advice,
						*location);
	found = library_engine->find("cuMemAdvise");
	if (!found)
		return 0;
	memcpy(&old, &found, sizeof(old));
	return old(address_of(buffer), buffer->memory.bytes, advice, device_of(location));
}

int custody_managed_advise(struct custody_buffer *buffer, enum custody_advice advice,
			   struct custody_location location, bool is_given)
{
	struct library_call call;
	CUmemLocation target;
	CUmem_advise what = CU_MEM_ADVISE_SET_READ_MOSTLY;
	bool does_nothing;
	int error = library_check();

	if (!error)
		error = check(buffer);
	if (!error)
		error = advice_of(advice, is_given, &what);
	if (!error && !needs_location(advice, is_given))
		location = (struct custody_location){
			CUSTODY_LOCATION_DEVICE, buffer->object.context->device->ordinal
		};
	if (!error)
		error = convert(buffer, &location, &target, &does_nothing);
	if (!error)
		error = buffer_enter(&call, buffer);
	if (error || does_nothing || !buffer->memory.pointer)
		return error ? error : library_leave(&call, 0);
	return library_leave(&call, advise(buffer, what, &target));
}

/* ------------------------------------------------------------ discarding */

/*
 * The driver refuses batches on the legacy stream.  What is in that and in all that
 * wait for it is over first, and the host stands still till the end.
 */
static int leave_legacy(CUstream *handle, bool *is_synchronous)
{
	if (*handle != CU_STREAM_LEGACY)
		return 0;
	*handle = CU_STREAM_PER_THREAD;
	*is_synchronous = true;
	return stream_finish(CU_STREAM_LEGACY, true);
}

/* `location` NULL: the pages are wanted nowhere.  An older driver moves them at most. */
static int discard(const struct custody_buffer *buffer, const CUmemLocation *location,
		   CUstream stream)
{
	CUdeviceptr address = address_of(buffer);
	size_t bytes = buffer->memory.bytes, first = 0;
	CUmemLocation target;

	if (!location)
		return library_cuda.cuMemDiscardBatchAsync ?
			       library_cuda.cuMemDiscardBatchAsync(&address, &bytes, 1, 0, stream) :
			       0;
	if (!library_cuda.cuMemDiscardAndPrefetchBatchAsync)
		return prefetch(buffer, location, stream);
	target = *location;
	return library_cuda.cuMemDiscardAndPrefetchBatchAsync(&address, &bytes, 1, &target, &first,
							      1, 0, stream);
}

/* Between entering and leaving. */
static int discard_on(const struct custody_buffer *buffer, const CUmemLocation *location,
		      CUstream handle, bool is_synchronous)
{
	int error = leave_legacy(&handle, &is_synchronous);

	if (!error)
		error = discard(buffer, location, handle);
	return error ? error : stream_finish(handle, is_synchronous);
}

int custody_managed_discard(struct custody_buffer *buffer, struct custody_location location,
			    struct custody_stream *stream)
{
	const bool is_wanted = location.kind != CUSTODY_LOCATION_NONE;
	bool is_synchronous, does_nothing;
	struct library_call call;
	CUmemLocation target;
	CUstream handle;
	int error = library_check();

	if (!error)
		error = check(buffer);
	if (!is_wanted)
		location.kind = CUSTODY_LOCATION_HOST;
	if (!error)
		error = convert(buffer, &location, &target, &does_nothing);
	if (!error)
		error = enter_idle(&call, buffer, stream, &handle, &is_synchronous);
	if (error || does_nothing || !buffer->memory.pointer)
		return error ? error : library_leave(&call, 0);
	return library_leave(&call, discard_on(buffer, is_wanted ? &target : NULL, handle,
					       is_synchronous));
}
