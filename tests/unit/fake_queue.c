/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_queue.h"
#include "intercept/real.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

_Atomic bool fake_is_busy;
_Atomic CUresult fake_wait_result;
_Atomic CUresult fake_release_result;
_Atomic CUcontext fake_event_context;
_Atomic bool fake_spoils_errno;

void (*fake_on_release)(void);

static _Atomic uint32_t calls[API_COUNT];
static _Atomic uint32_t spoilt;
static _Atomic uint32_t failures_left;
static _Atomic uint64_t next_address;
static _Atomic uint64_t next_handle = 0x5000;
static _Atomic int32_t captures;

static void count(enum api api)
{
	atomic_fetch_add(&calls[api], 1);
	if (atomic_load(&fake_spoils_errno))
		errno = EILSEQ;
}

/* One that must not be called during a capture, by us. */
static void count_guarded(enum api api)
{
	count(api);
	if (atomic_load(&captures) > 0)
		atomic_fetch_add(&spoilt, 1);
}

uint32_t fake_calls(enum api api)
{
	return atomic_load(&calls[api]);
}

uint32_t fake_spoilt(void)
{
	return atomic_load(&spoilt);
}

void fake_next_address(CUdeviceptr address)
{
	atomic_store(&next_address, address);
}

void fake_run_out(uint32_t times)
{
	atomic_store(&failures_left, times);
}

void fake_set_capturing(bool is_capturing)
{
	atomic_fetch_add(&captures, is_capturing ? 1 : -1);
}

static bool runs_out(void)
{
	uint32_t left = atomic_load(&failures_left);

	while (left && !atomic_compare_exchange_weak(&failures_left, &left, left - 1))
		continue;
	return left != 0;
}

static CUresult release_result(void)
{
	CUresult result = atomic_load(&fake_release_result);

	return result == CUDA_SUCCESS ? fake_result : result;
}

static CUresult CUDAAPI total_memory(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = FAKE_TOTAL;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI record_event(CUcontext context, CUevent event)
{
	(void)event;
	count_guarded(API_cuCtxRecordEvent);
	atomic_store(&fake_event_context, context);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI create_event(CUevent *event, unsigned int flags)
{
	(void)flags;
	count(API_cuEventCreate);
	*event = (CUevent)(uintptr_t)atomic_fetch_add(&next_handle, 16);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI destroy_event(CUevent event)
{
	(void)event;
	count(API_cuEventDestroy_v2);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI query_event(CUevent event)
{
	(void)event;
	count_guarded(API_cuEventQuery);
	return atomic_load(&fake_is_busy) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* Legal during a capture from a thread in relaxed mode, so not guarded. */
static CUresult CUDAAPI wait_for_event(CUevent event)
{
	(void)event;
	count(API_cuEventSynchronize);
	atomic_store(&fake_is_busy, false);
	return atomic_load(&fake_wait_result);
}

static CUresult CUDAAPI create_stream(CUstream *stream, unsigned int flags)
{
	(void)flags;
	count(API_cuStreamCreate);
	if (runs_out())
		return CUDA_ERROR_OUT_OF_MEMORY;
	*stream = (CUstream)(uintptr_t)atomic_fetch_add(&next_handle, 16);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI destroy_stream(CUstream stream)
{
	(void)stream;
	count(API_cuStreamDestroy_v2);
	return fake_result;
}

static CUresult CUDAAPI synchronize_stream(CUstream stream)
{
	(void)stream;
	count(API_cuStreamSynchronize);
	return fake_result;
}

static CUresult CUDAAPI synchronize_context(void)
{
	count(API_cuCtxSynchronize);
	if (fake_result == CUDA_SUCCESS)
		atomic_store(&fake_is_busy, false);
	return fake_result;
}

/* One deep, of one thread. */
static CUcontext pushed_over;

static CUresult CUDAAPI push_context(CUcontext context)
{
	count(API_cuCtxPushCurrent_v2);
	pushed_over = fake_context;
	fake_context = context;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI pop_context(CUcontext *context)
{
	*context = fake_context;
	fake_context = pushed_over;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI exchange_mode(CUstreamCaptureMode *mode)
{
	(void)mode;
	count(API_cuThreadExchangeStreamCaptureMode);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI give_memory(CUdeviceptr *address, size_t bytes)
{
	count(API_cuMemAlloc_v2);
	if (runs_out())
		return CUDA_ERROR_OUT_OF_MEMORY;
	*address = atomic_fetch_add(&next_address, (bytes + 511) / 512 * 512);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI give_managed(CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	(void)flags;
	return give_memory(address, bytes);
}

static CUresult CUDAAPI give_host_memory(void **address, size_t bytes)
{
	CUdeviceptr number = 0;
	CUresult result = give_memory(&number, bytes);

	*address = (void *)(uintptr_t)number;
	return result;
}

static CUresult CUDAAPI free_memory(CUdeviceptr address)
{
	(void)address;
	count_guarded(API_cuMemFree_v2);
	return release_result();
}

static CUresult CUDAAPI free_memory_async(CUdeviceptr address, CUstream stream)
{
	(void)address;
	(void)stream;
	count_guarded(API_cuMemFreeAsync);
	if (fake_on_release)
		fake_on_release();
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI free_host_memory(void *address)
{
	(void)address;
	count_guarded(API_cuMemFreeHost);
	return release_result();
}

static CUresult CUDAAPI know_nothing(void *value, CUpointer_attribute attribute,
				     CUdeviceptr address)
{
	(void)value;
	(void)attribute;
	(void)address;
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI create_array(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape)
{
	(void)shape;
	*array = (CUarray)(uintptr_t)atomic_fetch_add(&next_handle, 16);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI destroy_array(CUarray array)
{
	(void)array;
	count(API_cuArrayDestroy);
	return release_result();
}

static CUresult CUDAAPI load_module(CUmodule *module, const void *image)
{
	(void)image;
	count(API_cuModuleLoadData);
	if (runs_out())
		return CUDA_ERROR_OUT_OF_MEMORY;
	*module = (CUmodule)(uintptr_t)atomic_fetch_add(&next_handle, 16);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI unload_module(CUmodule module)
{
	(void)module;
	count(API_cuModuleUnload);
	return release_result();
}

static void set_memory(void)
{
	fake_set(API_cuDeviceTotalMem_v2, total_memory);
	fake_set(API_cuMemAlloc_v2, give_memory);
	fake_set(API_cuMemAllocManaged, give_managed);
	fake_set(API_cuMemAllocHost_v2, give_host_memory);
	fake_set(API_cuMemFree_v2, free_memory);
	fake_set(API_cuMemFreeAsync, free_memory_async);
	fake_set(API_cuMemFreeHost, free_host_memory);
	fake_set(API_cuPointerGetAttribute, know_nothing);
	fake_set(API_cuArrayCreate_v2, create_array);
	fake_set(API_cuArrayDestroy, destroy_array);
	fake_set(API_cuModuleLoadData, load_module);
	fake_set(API_cuModuleUnload, unload_module);
}

static void set_events(void)
{
	fake_set(API_cuEventCreate, create_event);
	fake_set(API_cuEventDestroy_v2, destroy_event);
	fake_set(API_cuEventQuery, query_event);
	fake_set(API_cuEventSynchronize, wait_for_event);
	fake_set(API_cuStreamCreate, create_stream);
	fake_set(API_cuStreamDestroy_v2, destroy_stream);
	fake_set(API_cuStreamSynchronize, synchronize_stream);
	fake_set(API_cuCtxSynchronize, synchronize_context);
	fake_set(API_cuCtxPushCurrent_v2, push_context);
	fake_set(API_cuCtxPopCurrent_v2, pop_context);
	fake_set(API_cuThreadExchangeStreamCaptureMode, exchange_mode);
}

void fake_queue_prepare(const char *policy, bool is_old)
{
	setenv("CUSTODY_FREES", policy, 1);
	fake_next_address(0x700000000);
	set_memory();
	set_events();
	if (!is_old)
		fake_set(API_cuCtxRecordEvent, record_event);
}

CUdeviceptr fake_block(size_t bytes)
{
	CUdeviceptr address = 0;

	ck_assert_int_eq(cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
	return address;
}
