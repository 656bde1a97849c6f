/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver as a queue sees it.  What ends the program's memory goes to a
 * neighbour, who has seen it begin; all else is our own business and goes to
 * libcuda itself.
 */
#include "intercept/deferral.h"
#include "intercept/reading.h"
#include "intercept/real.h"

enum { CALIBRATION_NS = 20000 };

/* A thread that has no chunk yet counts as the others do. */
static uint64_t ticks(void)
{
	uint32_t mode = thread_segment.clock;

	return clock_ticks(mode ? mode : clock_choose());
}

static uint64_t ticks_per_us(void)
{
	struct clock_triple from, to;

	clock_read_triple(&from, clock_choose());
	do
		clock_read_triple(&to, clock_choose());
	while (to.monotonic_ns - from.monotonic_ns < CALIBRATION_NS);
	return (to.ticks - from.ticks) * 1000 / (to.monotonic_ns - from.monotonic_ns);
}

/*
 * A queue's own stream and the block on which it is tried how blocks can be
 * released take memory of the device.  What remains of both is known when the
 * block is looked at for the last time; until then a thread keeps what a reading
 * of before needs.
 */
static __thread struct {
	uint64_t weighed_at, weighed_blocks;
	uint8_t weighed;
} making __attribute__((tls_model("initial-exec")));

static CUresult create_stream(CUstream *stream, unsigned int flags)
{
	struct call own;

	reading_own_before(&own, API_cuStreamCreate, WEIGHED_STREAM);
	making.weighed_at = own.weighed_at;
	making.weighed_blocks = own.weighed_blocks;
	making.weighed = own.weighed;
	return REAL(driver, cuStreamCreate)(stream, flags);
}

static CUresult look_at_own_block(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	CUresult result = REAL(driver, cuPointerGetAttribute)(data, attribute, address);
	struct call own = {
		.self = &thread_segment,
		.api = API_cuStreamCreate,
		.weighed = making.weighed,
		.weighed_at = making.weighed_at,
		.weighed_blocks = making.weighed_blocks,
	};

	making.weighed = WEIGHED_NOTHING;
	reading_own_after(&own);
	return result;
}

static void fill_events(struct driver *driver)
{
	if (real_has(API_cuCtxRecordEvent))
		driver->ctx_record_event = REAL(driver, cuCtxRecordEvent);
	driver->event_create = REAL(driver, cuEventCreate);
	driver->event_destroy = REAL(driver, cuEventDestroy_v2);
	driver->event_query = REAL(driver, cuEventQuery);
	driver->event_synchronize = REAL(driver, cuEventSynchronize);
}

static void fill_rest(struct driver *driver)
{
	driver->ctx_get_current = REAL(driver, cuCtxGetCurrent);
	driver->ctx_push_current = REAL(driver, cuCtxPushCurrent_v2);
	driver->ctx_pop_current = REAL(driver, cuCtxPopCurrent_v2);
	driver->thread_exchange_capture_mode = REAL(driver, cuThreadExchangeStreamCaptureMode);
	driver->stream_create = create_stream;
	driver->stream_destroy = REAL(driver, cuStreamDestroy_v2);
	driver->stream_synchronize = REAL(driver, cuStreamSynchronize);
	driver->pointer_get_attribute = look_at_own_block;
}

/* That block is none of the program's: it begins and ends past a neighbour. */
static __thread CUdeviceptr own_block __attribute__((tls_model("initial-exec")));

static CUresult allocate_own(CUdeviceptr *address, size_t bytes)
{
	CUresult result = REAL(driver, cuMemAlloc_v2)(address, bytes);

	own_block = result == CUDA_SUCCESS ? *address : 0;
	return result;
}

/* It is freed by one of these two, at once and on the same thread. */
static bool ends_own_block(CUdeviceptr address)
{
	bool is_own = address && address == own_block;

	if (is_own)
		own_block = 0;
	return is_own;
}

static CUresult free_block(CUdeviceptr address)
{
	return ends_own_block(address) ? REAL(driver, cuMemFree_v2)(address) :
					 REAL(next, cuMemFree_v2)(address);
}

/* One that is refused is freed by the other. */
static CUresult free_block_async(CUdeviceptr address, CUstream stream)
{
	CUresult result;

	if (!ends_own_block(address))
		return REAL(next, cuMemFreeAsync)(address, stream);
	result = REAL(driver, cuMemFreeAsync)(address, stream);
	own_block = result == CUDA_SUCCESS ? 0 : address;
	return result;
}

/* What its code has taken comes back only now. */
static CUresult unload_module(CUmodule module)
{
	struct call unloading;
	CUresult result;

	reading_own_before(&unloading, API_cuModuleUnload, WEIGHED_CODE);
	result = REAL(next, cuModuleUnload)(module);
	reading_own_after(&unloading);
	return result;
}

static void fill_releases(struct driver *driver)
{
	driver->mem_alloc = allocate_own;
	driver->mem_free = free_block;
	if (real_has(API_cuMemFreeAsync))
		driver->mem_free_async = free_block_async;
	driver->mem_free_host = REAL(next, cuMemFreeHost);
	driver->array_destroy = REAL(next, cuArrayDestroy);
	driver->mipmapped_array_destroy = REAL(next, cuMipmappedArrayDestroy);
	driver->module_unload = unload_module;
}

/* A libcuda is bound by now: a context has been met. */
const struct driver *deferral_driver(void)
{
	static struct driver driver;

	driver.ticks = ticks;
	driver.ticks_per_us = ticks_per_us();
	fill_events(&driver);
	fill_rest(&driver);
	fill_releases(&driver);
	return &driver;
}
