/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_driver.h"
#include "core/segment.h"
#include "intercept/real.h"
#include "trace_reader.h"

#include <check.h>
#include <string.h>

CUresult fake_result;
CUdeviceptr fake_address;
CUcontext fake_context;
CUresult fake_context_result;

static const char *session;
static struct trace_reader reader;
static uint32_t seen;
static struct fake_look look;

void fake_set(enum api api, void *function)
{
	real_driver[api] = function;
	real_next[api] = function;
}

static CUresult CUDAAPI get_current(CUcontext *context)
{
	*context = fake_context;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_device(CUdevice *device)
{
	*device = 0;
	return fake_context_result;
}

static CUresult CUDAAPI get_name(char *name, int length, CUdevice device)
{
	(void)device;
	strncpy(name, "fake", (size_t)length);
	return CUDA_SUCCESS;
}

/* The first call makes the thread ready and the context known, so that looks hold less. */
void fake_begin(void)
{
	CUcontext context;

	fake_result = CUDA_SUCCESS;
	fake_context = (CUcontext)0x1000;
	fake_set(API_cuCtxGetCurrent, get_current);
	fake_set(API_cuCtxGetDevice, get_device);
	fake_set(API_cuDeviceGetName, get_name);
	cuCtxGetCurrent(&context);
}

void fake_start(void)
{
	session = trace_reader_session();
	fake_begin();
	trace_reader_open(&reader, segment_directory());
	seen = 0;
}

void fake_stop(void)
{
	trace_reader_remove(session);
}

static bool is_identity(const struct record *record)
{
	switch (record->kind) {
	case RECORD_CONTEXT:
	case RECORD_DEVICE:
	case RECORD_MODULE:
	case RECORD_THREAD:
		return true;
	default:
		return false;
	}
}

static void keep(const struct record *record, const char *text, void *argument)
{
	uint32_t *at = argument;

	(void)text;
	if (is_identity(record) || (*at)++ < seen)
		return;
	ck_assert_uint_lt(look.count, FAKE_RECORDS);
	look.record[look.count++] = *record;
}

const struct fake_look *fake_look(void)
{
	uint32_t at = 0;

	look.count = 0;
	trace_reader_update(&reader, segment_directory());
	trace_reader_walk(&reader, thread_segment.thread, keep, &at);
	seen = at;
	return &look;
}

const struct record *fake_look_one(enum record_kind kind, enum api api)
{
	const struct fake_look *one = fake_look();

	ck_assert_uint_eq(one->count, 1);
	ck_assert_int_eq(one->record[0].kind, kind);
	ck_assert_int_eq(one->record[0].api, api);
	return &one->record[0];
}

static const struct trace_counter *counter_of(enum api api)
{
	for (int slot = 0; slot < SLOT_COUNT; slot++)
		if (api_of_slot[slot] == api)
			return &thread_segment.counters->counter[slot];
	ck_abort_msg("%s is not counted", api_symbol[api]);
	return NULL;
}

uint64_t fake_counted(enum api api)
{
	return atomic_load(&counter_of(api)->calls);
}

uint64_t fake_counted_errors(enum api api)
{
	return atomic_load(&counter_of(api)->errors);
}

CUresult CUDAAPI fake_give_address(CUdeviceptr *address, size_t bytes)
{
	(void)bytes;
	if (fake_result == CUDA_SUCCESS)
		*address = fake_address;
	return fake_result;
}

CUresult CUDAAPI fake_free_address(CUdeviceptr address)
{
	(void)address;
	return fake_result;
}

static CUresult CUDAAPI create_memory(CUmemGenericAllocationHandle *handle, size_t bytes,
				      const CUmemAllocationProp *properties,
				      unsigned long long flags)
{
	(void)bytes;
	(void)properties;
	(void)flags;
	*handle = FAKE_MEMORY;
	return fake_result;
}

static CUresult CUDAAPI map_memory(CUdeviceptr address, size_t bytes, size_t offset,
				   CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	(void)address;
	(void)bytes;
	(void)offset;
	(void)handle;
	(void)flags;
	return fake_result;
}

static CUresult CUDAAPI unmap_memory(CUdeviceptr address, size_t bytes)
{
	(void)address;
	(void)bytes;
	return fake_result;
}

static CUresult CUDAAPI release_memory(CUmemGenericAllocationHandle handle)
{
	(void)handle;
	return fake_result;
}

void fake_set_mapping(void)
{
	fake_set(API_cuMemCreate, create_memory);
	fake_set(API_cuMemMap, map_memory);
	fake_set(API_cuMemUnmap, unmap_memory);
	fake_set(API_cuMemRelease, release_memory);
}

uint64_t fake_allocate(CUdeviceptr address, size_t bytes)
{
	CUdeviceptr got = 0;

	fake_set(API_cuMemAlloc_v2, fake_give_address);
	fake_address = address;
	ck_assert_int_eq(cuMemAlloc_v2(&got, bytes), CUDA_SUCCESS);
	ck_assert_uint_eq(got, address);
	return fake_look_one(RECORD_ALLOC, API_cuMemAlloc_v2)->b;
}
