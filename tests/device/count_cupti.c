/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count_cupti.c - NVIDIA's own count of driver calls: an injection library
 * (CUDA_INJECTION64_PATH) that asks CUPTI to call back on every driver
 * function.  CUPTI sits inside the driver, so it also sees calls that came past
 * every door of the interposer.
 */
#include "count_file.h"

#include <cuda.h>
#include <cupti.h>
#include <string.h>

static struct count *counts; /* by callback id */

/* The bytes that the parameters ask for, of the functions that most programs use. */
static size_t bytes_of(CUpti_CallbackId id, const void *parameters)
{
	switch (id) {
	case CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2:
		return ((const cuMemAlloc_v2_params *)parameters)->bytesize;
	case CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync:
		return ((const cuMemAllocAsync_params *)parameters)->bytesize;
	case CUPTI_DRIVER_TRACE_CBID_cuMemAllocManaged:
		return ((const cuMemAllocManaged_params *)parameters)->bytesize;
	case CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc:
		return ((const cuMemHostAlloc_params *)parameters)->bytesize;
	case CUPTI_DRIVER_TRACE_CBID_cuMemCreate:
		return ((const cuMemCreate_params *)parameters)->size;
	case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2:
		return ((const cuMemcpyHtoD_v2_params *)parameters)->ByteCount;
	case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2:
		return ((const cuMemcpyDtoH_v2_params *)parameters)->ByteCount;
	case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2:
		return ((const cuMemcpyHtoDAsync_v2_params *)parameters)->ByteCount;
	case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2:
		return ((const cuMemcpyDtoHAsync_v2_params *)parameters)->ByteCount;
	case CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2:
		return ((const cuMemcpyDtoDAsync_v2_params *)parameters)->ByteCount;
	case CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async:
		return ((const cuMemsetD8Async_params *)parameters)->N;
	default:
		return 0;
	}
}

static void CUPTIAPI count_one(void *data, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			       const CUpti_CallbackData *call)
{
	CUresult result;

	(void)data;
	if (call->callbackSite != CUPTI_API_EXIT || id >= COUNT_MAX)
		return;
	if (!counts[id].name[0]) {
		const char *name = NULL;

		if (cuptiGetCallbackName(domain, id, &name) == CUPTI_SUCCESS && name)
			snprintf(counts[id].name, COUNT_NAME_BYTES, "%s", name);
	}
	result = *(const CUresult *)call->functionReturnValue;
	atomic_fetch_add(&counts[id].calls, 1);
	if (result == CUDA_SUCCESS)
		atomic_fetch_add(&counts[id].bytes, bytes_of(id, call->functionParams));
	else if (result != CUDA_ERROR_NOT_READY)
		atomic_fetch_add(&counts[id].errors, 1);
}

int InitializeInjection(void);

/* The driver calls this inside cuInit. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
	CUpti_SubscriberHandle subscriber;

	counts = count_file_map("cupti");
	if (cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)count_one, NULL) != CUPTI_SUCCESS ||
	    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS)
		fprintf(stderr, "count_cupti: CUPTI refuses\n");
	return 1;
}
