/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules.  Any image is accepted, and every name is a function or a variable of it:
 * what code does is not simulated here, only that it is loaded, found and unloaded.
 */
#include <stdio.h>

#include "sim.h"
#include "entries.h"
#include "launch.h"
#include "module.h"

CUresult module_check_image(const void *image)
{
	return image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void link_module(struct context *context, struct module *module)
{
	pthread_mutex_lock(&context->lock);
	module->next = context->modules;
	if (module->next)
		module->next->prev = module;
	context->modules = module;
	pthread_mutex_unlock(&context->lock);
}

/* A library's code goes to the context that is current, if there is one. */
CUresult module_new(struct context *context, struct module **out)
{
	struct module *module = handle_new(OBJECT_MODULE);
	CUresult error;

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&module->lock, NULL);
	module->context = context;
	module->library = !context;
	if (!context && sim_thread.current && !context_usable(sim_thread.current))
		error = own_load_module(module, sim_thread.current);
	else
		error = own_load_module(module, context);
	if (error) {
		handle_give(OBJECT_MODULE, module);
		return error;
	}
	if (context)
		link_module(context, module);
	*out = module;
	return CUDA_SUCCESS;
}

static void unlink_module(struct module *module)
{
	struct context *context = module->context;

	pthread_mutex_lock(&context->lock);
	if (module->prev)
		module->prev->next = module->next;
	else
		context->modules = module->next;
	if (module->next)
		module->next->prev = module->prev;
	pthread_mutex_unlock(&context->lock);
}

static void end_functions(struct module *module)
{
	struct function *function, *next;

	for (function = module->functions; function; function = next) {
		next = function->next;
		handle_kill(function);
		handle_give(OBJECT_FUNCTION, function);
	}
}

static void end_variables(struct module *module)
{
	struct variable *variable, *next;

	for (variable = module->variables; variable; variable = next) {
		next = variable->next;
		memory_drop(variable->block);
		free(variable->name);
		free(variable);
	}
}

void module_end(struct module *module)
{
	if (module->context)
		unlink_module(module);
	end_functions(module);
	end_variables(module);
	own_unload_module(module);
	handle_kill(module);
	handle_give(OBJECT_MODULE, module);
}

void module_end_all(struct context *context)
{
	while (context->modules)
		module_end(context->modules);
}

/* ------------------------------------------------------------------ what is in it */

void function_finish(void *object)
{
	struct function *function = object;

	free(function->name);
	function->name = NULL;
}

static struct function *add_function(struct module *module, const char *name)
{
	struct function *function = handle_new(OBJECT_FUNCTION);

	if (!function)
		return NULL;
	function->name = strdup(name);
	function->module = module;
	function->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
	function->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
	function->attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90;
	function->attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90;
	function->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
	launch_prepare(function);
	function->next = module->functions;
	module->functions = function;
	module->function_count++;
	return function;
}

CUresult module_find_function(struct module *module, const char *name, struct function **out)
{
	struct function *function;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!*name)
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&module->lock);
	function = module->functions;
	while (function && strcmp(function->name, name) != 0)
		function = function->next;
	if (!function)
		function = add_function(module, name);
	pthread_mutex_unlock(&module->lock);
	*out = function;
	return function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* SIMCUDA_GLOBALS: clients such as libgomp look at the size of their variables. */
static size_t size_of_variable(const char *name)
{
	const char *at = getenv("SIMCUDA_GLOBALS");
	size_t length = strlen(name);

	for (; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
		if (strncmp(at, name, length) == 0 && at[length] == '=' &&
		    atoi(at + length + 1) > 0)
			return (size_t)atoi(at + length + 1);
	return settings.global_bytes;
}

/* What a variable takes is part of the code's bytes. */
static struct block *new_variable_block(struct context *context, size_t bytes, bool managed)
{
	struct block *block;
	CUdeviceptr address;
	char *base;

	if (managed) {
		if (memory_alloc_managed(&address, bytes, CU_MEM_ATTACH_GLOBAL))
			return NULL;
		return registry_find((void *)address);
	}
	base = space_reserve_pages(context->device, bytes);
	block = base ? memory_block(BLOCK_GLOBAL, base, bytes, bytes) : NULL;
	if (!block)
		return NULL;
	block->alias = space_alias(context->device, base);
	block->device = context->device;
	context_add_block(context, block);
	registry_add(block);
	return block;
}

static struct variable *add_variable(struct module *module, const char *name, bool managed)
{
	struct variable *variable = calloc(1, sizeof(*variable));

	if (!variable)
		return NULL;
	variable->block = new_variable_block(context_current(), size_of_variable(name), managed);
	if (!variable->block) {
		free(variable);
		return NULL;
	}
	variable->name = strdup(name);
	variable->next = module->variables;
	module->variables = variable;
	return variable;
}

CUresult module_find_variable(struct module *module, const char *name, bool managed,
			      struct block **out)
{
	struct variable *variable;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!*name)
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&module->lock);
	variable = module->variables;
	while (variable && (strcmp(variable->name, name) != 0 ||
			    variable->block->context != context_owner(context_current())))
		variable = variable->next;
	if (!variable)
		variable = add_variable(module, name, managed);
	pthread_mutex_unlock(&module->lock);
	*out = variable ? variable->block : NULL;
	return variable ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult module_list(struct module *module, struct function **list, unsigned room)
{
	unsigned count = 0;

	pthread_mutex_lock(&module->lock);
	for (struct function *function = module->functions; function && count < room;
	     function = function->next)
		list[count++] = function;
	pthread_mutex_unlock(&module->lock);
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ calls */

CUresult module_load(CUmodule *module, const void *image)
{
	CUresult error = module_check_image(image);
	struct module *made;

	if (error || !module)
		return CUDA_ERROR_INVALID_VALUE;
	if (!config_may_allocate())
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Measured: loading waits for all running work of the context. */
	context_wait_idle(context_current());
	error = module_new(context_owner(context_current()), &made);
	if (!error)
		*module = (CUmodule)made;
	return error;
}

CUresult module_load_options(CUmodule *module, const void *image, unsigned int numOptions,
			     CUjit_option *options, void **optionValues)
{
	if (numOptions && (!options || !optionValues))
		return CUDA_ERROR_INVALID_VALUE;
	return module_load(module, image);
}

CUresult module_load_file(CUmodule *module, const char *fname)
{
	FILE *file = fname ? fopen(fname, "re") : NULL;

	if (!file)
		return fname ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
	fclose(file);
	return module_load(module, fname);
}

static CUresult find(CUmodule handle, struct module **module)
{
	CUresult error = handle_check(OBJECT_MODULE, handle);

	*module = (struct module *)handle;
	return error;
}

CUresult module_unload(CUmodule hmod)
{
	struct module *module;
	CUresult error = find(hmod, &module);
	struct context *owner;

	if (error || module->library)
		return error ? error : CUDA_ERROR_INVALID_VALUE;
	owner = module->context;
	pthread_mutex_lock(&owner->api);
	context_wait_idle(owner);
	module_end(module);
	pthread_mutex_unlock(&owner->api);
	return CUDA_SUCCESS;
}

CUresult module_function(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct function *function;
	struct module *module;
	CUresult error = find(hmod, &module);

	if (!error && !hfunc)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = module_find_function(module, name, &function);
	if (!error)
		*hfunc = (CUfunction)function;
	return error;
}

CUresult module_function_count(unsigned int *count, CUmodule mod)
{
	struct module *module;
	CUresult error = find(mod, &module);

	if (!error && !count)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*count = module->function_count;
	return error;
}

CUresult module_functions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
	struct module *module;
	CUresult error = find(mod, &module);

	if (!error && (!functions || numFunctions == 0))
		error = CUDA_ERROR_INVALID_VALUE;
	return error ? error : module_list(module, (struct function **)functions, numFunctions);
}

CUresult module_global(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	struct block *block;
	struct module *module;
	CUresult error = find(hmod, &module);

	if (!error)
		error = module_find_variable(module, name, false, &block);
	if (error)
		return error;
	if (dptr)
		*dptr = (CUdeviceptr)block->base;
	if (bytes)
		*bytes = block->size;
	return CUDA_SUCCESS;
}

CUresult module_loading_mode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = settings.lazy ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
	return CUDA_SUCCESS;
}
