/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries: modules that belong to no context, and their kernels. */
#include <stdio.h>

#include "sim.h"
#include "entries.h"
#include "module.h"

static CUresult find(CUlibrary handle, struct module **library)
{
	CUresult error = handle_check(OBJECT_MODULE, handle);

	*library = (struct module *)handle;
	if (!error && !(*library)->library)
		error = CUDA_ERROR_INVALID_HANDLE;
	return error;
}

CUresult library_load(CUlibrary *library, const void *code, CUjit_option *jitOptions,
		      void **jitOptionsValues, unsigned int numJitOptions,
		      CUlibraryOption *libraryOptions, void **libraryOptionValues,
		      unsigned int numLibraryOptions)
{
	struct module *made;
	CUresult error;

	if (!library || module_check_image(code) ||
	    (numJitOptions && (!jitOptions || !jitOptionsValues)) ||
	    (numLibraryOptions && (!libraryOptions || !libraryOptionValues)))
		return CUDA_ERROR_INVALID_VALUE;
	error = module_new(NULL, &made);
	if (!error)
		*library = (CUlibrary)made;
	return error;
}

CUresult library_load_file(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	FILE *file = fileName ? fopen(fileName, "re") : NULL;

	if (!file)
		return fileName ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	fclose(file);
	return library_load(library, fileName, jitOptions, jitOptionsValues, numJitOptions,
			    libraryOptions, libraryOptionValues, numLibraryOptions);
}

CUresult library_unload(CUlibrary handle)
{
	struct module *library;
	CUresult error = find(handle, &library);

	if (error)
		return error;
	if (sim_thread.current && !context_usable(sim_thread.current))
		context_wait_idle(sim_thread.current);
	module_end(library);
	return CUDA_SUCCESS;
}

CUresult library_kernel(CUkernel *pKernel, CUlibrary handle, const char *name)
{
	struct function *function;
	struct module *library;
	CUresult error = find(handle, &library);

	if (!error && !pKernel)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = module_find_function(library, name, &function);
	if (!error)
		*pKernel = (CUkernel)function;
	return error;
}

CUresult library_kernel_count(unsigned int *count, CUlibrary lib)
{
	struct module *library;
	CUresult error = find(lib, &library);

	if (!error && !count)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*count = library->function_count;
	return error;
}

CUresult library_kernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	struct module *library;
	CUresult error = find(lib, &library);

	if (!error && (!kernels || numKernels == 0))
		error = CUDA_ERROR_INVALID_VALUE;
	return error ? error : module_list(library, (struct function **)kernels, numKernels);
}

CUresult library_module(CUmodule *pMod, CUlibrary handle)
{
	struct module *library;
	CUresult error = find(handle, &library);

	if (!error && !pMod)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = own_load_module(library, sim_thread.current);
	if (!error)
		*pMod = (CUmodule)library;
	return error;
}

static CUresult find_variable(CUdeviceptr *dptr, size_t *bytes, CUlibrary handle, const char *name,
			      bool managed)
{
	struct block *block;
	struct module *library;
	CUresult error = find(handle, &library);

	if (!error)
		error = module_find_variable(library, name, managed, &block);
	if (error)
		return error;
	if (dptr)
		*dptr = (CUdeviceptr)block->base;
	if (bytes)
		*bytes = block->size;
	return CUDA_SUCCESS;
}

CUresult library_global(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return find_variable(dptr, bytes, library, name, false);
}

CUresult library_managed(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	if (!sim_thread.current)
		return CUDA_ERROR_INVALID_CONTEXT;
	return find_variable(dptr, bytes, library, name, true);
}

CUresult library_unified(void **fptr, CUlibrary handle, const char *symbol)
{
	struct module *library;
	CUresult error = find(handle, &library);

	if (!error && (!fptr || !symbol))
		error = CUDA_ERROR_INVALID_VALUE;
	return error ? error : CUDA_ERROR_NOT_FOUND;
}
