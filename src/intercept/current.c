/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/current.h"
#include "core/context.h"
#include "core/tracker.h"
#include "intercept/deferral.h"
#include "intercept/green.h"
#include "intercept/linked.h"
#include "intercept/module.h"
#include "intercept/real.h"

#include <errno.h>
#include <string.h>

__thread struct current current __attribute__((tls_model("initial-exec")));
_Atomic uint32_t current_epoch = 1;

enum { DEVICES = 256, NAME_BYTES = 128 };

static _Atomic bool is_recorded[DEVICES];

static bool ask_uuid(CUuuid *uuid, CUdevice device)
{
	if (real_has(API_cuDeviceGetUuid_v2))
		return REAL(driver, cuDeviceGetUuid_v2)(uuid, device) == CUDA_SUCCESS;
	return REAL(driver, cuDeviceGetUuid)(uuid, device) == CUDA_SUCCESS;
}

static uint64_t ask_capability(CUdevice device)
{
	int major = 0, minor = 0;

	REAL(driver, cuDeviceGetAttribute)
	(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	REAL(driver, cuDeviceGetAttribute)
	(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	return (uint64_t)(major * 10 + minor);
}

static bool write_device(CUdevice device)
{
	char name[NAME_BYTES] = "";
	size_t total = 0;
	CUuuid uuid = { .bytes = { 0 } };
	struct record record = {
		.start = call_moment(),
		.kind = RECORD_DEVICE,
		.aux = (uint16_t)(device + 1),
	};

	if (ask_uuid(&uuid, device)) {
		memcpy(&record.a, uuid.bytes, sizeof(record.a));
		memcpy(&record.b, uuid.bytes + sizeof(record.a), sizeof(record.b));
	}
	REAL(driver, cuDeviceTotalMem_v2)(&total, device);
	record.c = total;
	record.stream = ask_capability(device);
	REAL(driver, cuDeviceGetName)(name, NAME_BYTES - 1, device);
	return segment_write_text(&record, name, strlen(name) + 1);
}

/* With the first context: the driver is up, so its version can be had too. */
static void write_device_once(int device)
{
	int version = 0;

	if (device < 0 || device >= DEVICES || atomic_exchange(&is_recorded[device], true))
		return;
	if (REAL(driver, cuDriverGetVersion)(&version) == CUDA_SUCCESS)
		segment_set_driver(version);
	if (!write_device(device))
		atomic_store(&is_recorded[device], false);
	linked_note();
}

static void write_context(uint64_t handle, uint32_t number, int device, uint64_t flags)
{
	unsigned long long id = 0;
	struct record *record;

	if (real_has(API_cuCtxGetId))
		REAL(driver, cuCtxGetId)((CUcontext)(uintptr_t)handle, &id);
	record = segment_reserve(&thread_segment, 1);
	if (!record)
		return;
	*record = (struct record){
		.start = call_moment(),
		.kind = RECORD_CONTEXT,
		.a = handle,
		.b = id,
		.c = flags,
		.caller_context = (uint64_t)number << RECORD_CALLER_BITS,
		.aux = (uint16_t)(device + 1),
	};
	segment_publish(&thread_segment, 1);
}

/* The device of the current context, asked where none is given; a dead context has none. */
static bool find_device(int *device)
{
	CUdevice ordinal;

	if (*device >= 0)
		return true;
	if (REAL(driver, cuCtxGetDevice)(&ordinal) != CUDA_SUCCESS)
		return false;
	*device = ordinal;
	return true;
}

static uint32_t enter_context(uint64_t handle, int device, uint64_t flags)
{
	uint32_t number;
	bool is_new;

	if (!find_device(&device))
		return 0;
	write_device_once(device);
	number = context_add(handle, device, flags & CONTEXT_IS_PRIMARY, &is_new);
	if (is_new) {
		write_context(handle, number, device, flags);
		deferral_meet(handle, number, device);
	}
	return number;
}

/* After a reset a thread's current context may be a dead one: it is nobody we want to meet. */
uint32_t current_meet(uint64_t handle, int device, bool is_primary)
{
	int saved_errno = errno;
	struct context context;
	uint32_t number;

	if (!handle)
		return 0;
	if (context_find(handle, &context) && !is_primary)
		return context.number;
	number = enter_context(handle, device, is_primary ? CONTEXT_IS_PRIMARY : 0);
	errno = saved_errno;
	return number;
}

uint32_t current_meet_green(uint64_t view, int device)
{
	int saved_errno = errno;
	uint32_t number = enter_context(view, device, CONTEXT_IS_GREEN);

	errno = saved_errno;
	return number;
}

/* The epoch is read first: a context that dies meanwhile must not look fresh. */
void current_set(uint64_t handle)
{
	uint32_t epoch = atomic_load_explicit(&current_epoch, memory_order_relaxed);
	struct context context;
	uint32_t primary;

	current.epoch = 0;
	if (!handle)
		return;
	current.handle = handle;
	current.number = current_meet(handle, -1, false);
	current.view = current.number;
	primary = green_primary(handle);
	if (primary)
		current.number = primary;
	current.device = context_find(handle, &context) ? context.device : -1;
	if (current.number)
		current.epoch = epoch;
}

/* No context at all is not kept: it is soon no longer true. */
const struct current *current_ask(void)
{
	static const struct current nothing = { .device = -1 };
	int saved_errno = errno;
	CUcontext context = NULL;
	CUresult result = REAL(driver, cuCtxGetCurrent)(&context);

	errno = saved_errno;
	if (result != CUDA_SUCCESS || !context) {
		current_forget();
		return &nothing;
	}
	if (current.handle != (uintptr_t)context ||
	    current.epoch != atomic_load_explicit(&current_epoch, memory_order_relaxed))
		current_set((uintptr_t)context);
	return &current;
}

uint32_t current_bury(uint64_t handle)
{
	uint32_t number = context_kill(handle);

	if (!number)
		return 0;
	deferral_drop(number);
	module_drop_context(number);
	tracker_drop_context(number);
	atomic_fetch_add(&current_epoch, 1);
	return number;
}

void current_bury_green(uint64_t view)
{
	context_kill(view);
	atomic_fetch_add(&current_epoch, 1);
}

void current_reset(void)
{
	for (int i = 0; i < DEVICES; i++)
		atomic_store_explicit(&is_recorded[i], false, memory_order_relaxed);
	atomic_fetch_add(&current_epoch, 1);
}
