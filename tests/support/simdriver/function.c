/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and kernels: one structure under both kinds of handle. */
#include "sim.h"
#include "entries.h"
#include "module.h"

static CUresult find(const void *handle, struct function **function)
{
	CUresult error = handle_check(OBJECT_FUNCTION, handle);

	*function = (struct function *)(uintptr_t)handle;
	return error;
}

static CUresult get_attribute(int *pi, CUfunction_attribute attrib, const void *handle)
{
	struct function *function;
	CUresult error = find(handle, &function);

	if (!error && (!pi || (unsigned)attrib >= FUNCTION_ATTRIBUTES))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*pi = function->attributes[attrib];
	return error;
}

static CUresult put_attribute(CUfunction_attribute attrib, int value, const void *handle)
{
	struct function *function;
	CUresult error = find(handle, &function);

	if (!error && (unsigned)attrib >= FUNCTION_ATTRIBUTES)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		function->attributes[attrib] = value;
	return error;
}

CUresult function_attribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	return get_attribute(pi, attrib, hfunc);
}

CUresult function_set_attribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	return put_attribute(attrib, value, hfunc);
}

CUresult function_kernel_attribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
				   CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	return error ? error : get_attribute(pi, attrib, kernel);
}

CUresult function_set_kernel_attribute(CUfunction_attribute attrib, int val, CUkernel kernel,
				       CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	return error ? error : put_attribute(attrib, val, kernel);
}

static CUresult get_name(const char **name, const void *handle)
{
	struct function *function;
	CUresult error = find(handle, &function);

	if (!error && !name)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*name = function->name;
	return error;
}

CUresult function_name(const char **name, CUfunction hfunc)
{
	return get_name(name, hfunc);
}

CUresult function_kernel_name(const char **name, CUkernel hfunc)
{
	return get_name(name, hfunc);
}

/* Only kernels that run here have parameters that are known. */
static CUresult get_param(const void *handle, size_t index, size_t *offset, size_t *size)
{
	struct function *function;
	CUresult error = find(handle, &function);
	const size_t *sizes;
	size_t at = 0;

	if (error || !offset)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	sizes = function->sizes;
	for (size_t i = 0; sizes && sizes[i]; i++) {
		at = round_up(at, sizes[i] < 8 ? sizes[i] : 8);
		if (i == index) {
			*offset = at;
			if (size)
				*size = sizes[i];
			return CUDA_SUCCESS;
		}
		at += sizes[i];
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult function_param(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	return get_param(func, paramIndex, paramOffset, paramSize);
}

CUresult function_kernel_param(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
			       size_t *paramSize)
{
	return get_param(kernel, paramIndex, paramOffset, paramSize);
}

CUresult function_module(CUmodule *hmod, CUfunction hfunc)
{
	struct function *function;
	CUresult error = find(hfunc, &function);

	if (!error && !hmod)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*hmod = (CUmodule)function->module;
	return error;
}

CUresult function_library(CUlibrary *pLib, CUkernel kernel)
{
	return function_module((CUmodule *)pLib, (CUfunction)kernel);
}

CUresult function_of_kernel(CUfunction *pFunc, CUkernel kernel)
{
	struct function *function;
	CUresult error = find(kernel, &function);

	if (!error && !pFunc)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = own_load_module(function->module, sim_thread.current);
	if (!error)
		*pFunc = (CUfunction)function;
	return error;
}

CUresult function_is_loaded(CUfunctionLoadingState *state, CUfunction function)
{
	struct function *found;
	CUresult error = find(function, &found);

	if (!error && !state)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*state = own_is_loaded(found, sim_thread.current) ?
			 CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
	return error;
}

CUresult function_load(CUfunction function)
{
	struct function *found;
	CUresult error = find(function, &found);

	return error ? error : own_load_function(found, context_current());
}

CUresult function_set_cache(CUfunction hfunc, CUfunc_cache wanted)
{
	struct function *function;

	(void)wanted;
	return find(hfunc, &function);
}

CUresult function_set_shared(CUfunction hfunc, CUsharedconfig wanted)
{
	struct function *function;

	(void)wanted;
	return find(hfunc, &function);
}

CUresult function_set_kernel_cache(CUkernel kernel, CUfunc_cache wanted, CUdevice dev)
{
	struct device *device;
	CUresult error = device_find(dev, &device);

	return error ? error : function_set_cache((CUfunction)kernel, wanted);
}

CUresult function_occupancy(int *numBlocks, CUfunction func, int blockSize,
			    size_t dynamicSMemSize)
{
	return function_occupancy_flags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult function_occupancy_flags(int *numBlocks, CUfunction func, int blockSize,
				  size_t dynamicSMemSize, unsigned int flags)
{
	struct function *function;
	CUresult error = find(func, &function);

	if (error)
		return error;
	if (!numBlocks || blockSize <= 0 || blockSize > 1024 || flags > 1 ||
	    dynamicSMemSize > 232448)
		return CUDA_ERROR_INVALID_VALUE;
	*numBlocks = 2048 / blockSize < 32 ? 2048 / blockSize : 32;
	return CUDA_SUCCESS;
}

CUresult function_best_block_flags(int *minGridSize, int *blockSize, CUfunction func,
				   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
				   size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
	int size = blockSizeLimit > 0 && blockSizeLimit < 1024 ? blockSizeLimit : 1024, blocks;
	CUresult error;

	if (!minGridSize || !blockSize)
		return CUDA_ERROR_INVALID_VALUE;
	if (blockSizeToDynamicSMemSize)
		dynamicSMemSize = blockSizeToDynamicSMemSize(size);
	error = function_occupancy_flags(&blocks, func, size, dynamicSMemSize, flags);
	if (error)
		return error;
	*minGridSize = blocks * DEVICE_PROCESSORS;
	*blockSize = size;
	return CUDA_SUCCESS;
}

CUresult function_best_block(int *minGridSize, int *blockSize, CUfunction func,
			     CUoccupancyB2DSize blockSizeToDynamicSMemSize,
			     size_t dynamicSMemSize, int blockSizeLimit)
{
	return function_best_block_flags(minGridSize, blockSize, func,
					 blockSizeToDynamicSMemSize, dynamicSMemSize,
					 blockSizeLimit, 0);
}

/* What is left of a processor's shared memory when the blocks divide it. */
CUresult function_available(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
	struct function *function;
	CUresult error = find(func, &function);

	if (error)
		return error;
	if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0 || blockSize > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	*dynamicSmemSize = 233472 / (size_t)numBlocks - 1024;
	return CUDA_SUCCESS;
}

CUresult function_cluster_size(int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
	struct function *function;
	CUresult error = find(func, &function);

	if (!error && (!clusterSize || !config))
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*clusterSize = 8;
	return error;
}

CUresult function_clusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
	CUresult error = function_cluster_size(numClusters, func, config);

	if (!error)
		*numClusters = DEVICE_PROCESSORS / *numClusters;
	return error;
}
