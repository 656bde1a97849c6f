/* SPDX-License-Identifier: Apache-2.0 */
/* What a context says of itself, and its settings. */
#include "sim.h"
#include "entries.h"
#include "own.h"

static CUresult find(CUcontext ctx, struct context **context)
{
	*context = ctx ? (struct context *)ctx : sim_thread.current;
	return context_check((CUcontext)*context);
}

CUresult setting_device_of(CUdevice *device, CUcontext ctx)
{
	struct context *context;
	CUresult error = find(ctx, &context);

	if (!error && !device)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*device = context->device->index;
	return error;
}

CUresult setting_device(CUdevice *device)
{
	return setting_device_of(device, NULL);
}

CUresult setting_id(CUcontext ctx, unsigned long long *ctxId)
{
	struct context *context;
	CUresult error = find(ctx, &context);

	if (!error && !ctxId)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*ctxId = context->id;
	return error;
}

CUresult setting_api_version(CUcontext ctx, unsigned int *version)
{
	struct context *context;
	CUresult error = find(ctx, &context);

	if (!error && !version)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*version = 3020;
	return error;
}

CUresult setting_flags(unsigned int *flags)
{
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context_current()->flags;
	return CUDA_SUCCESS;
}

CUresult setting_set_flags(unsigned int flags)
{
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	context_current()->flags = flags;
	return CUDA_SUCCESS;
}

static bool is_limit(CUlimit limit)
{
	return (unsigned)limit < CU_LIMIT_MAX &&
	       (unsigned)limit < sizeof(context_current()->limits) / sizeof(size_t);
}

CUresult setting_limit(size_t *pvalue, CUlimit limit)
{
	if (!pvalue)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_limit(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*pvalue = context_current()->limits[limit];
	return CUDA_SUCCESS;
}

CUresult setting_set_limit(CUlimit limit, size_t value)
{
	if (!is_limit(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	return own_set_limit(context_current(), limit, value);
}

CUresult setting_cache(CUfunc_cache *pconfig)
{
	if (!pconfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pconfig = (CUfunc_cache)context_current()->cache_config;
	return CUDA_SUCCESS;
}

CUresult setting_set_cache(CUfunc_cache wanted)
{
	context_current()->cache_config = wanted;
	return CUDA_SUCCESS;
}

CUresult setting_shared(CUsharedconfig *pConfig)
{
	if (!pConfig)
		return CUDA_ERROR_INVALID_VALUE;
	*pConfig = (CUsharedconfig)context_current()->shared_config;
	return CUDA_SUCCESS;
}

CUresult setting_set_shared(CUsharedconfig wanted)
{
	context_current()->shared_config = wanted;
	return CUDA_SUCCESS;
}

CUresult setting_priorities(int *leastPriority, int *greatestPriority)
{
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = -5;
	return CUDA_SUCCESS;
}

CUresult setting_reset_cache(void)
{
	return CUDA_SUCCESS;
}

CUresult setting_exec_affinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	(void)type;
	return pExecAffinity ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_ERROR_INVALID_VALUE;
}
