/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the driver takes of a device for itself, on behalf of a context: code,
 * streams, limits, executable graphs.  What nobody gave back goes with the context.
 */
#include "sim.h"
#include "entries.h"
#include "module.h"

CUresult own_take(struct context *context, size_t bytes)
{
	if (!bytes)
		return CUDA_SUCCESS;
	if (!device_charge(context->device, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_fetch_add(&context->own, bytes);
	return CUDA_SUCCESS;
}

void own_give(struct context *context, size_t bytes)
{
	if (!bytes)
		return;
	atomic_fetch_sub(&context->own, bytes);
	device_discharge(context->device, bytes);
}

void own_end(struct context *context)
{
	device_discharge(context->device, atomic_exchange(&context->own, 0));
	memset(context->limit_bytes, 0, sizeof(context->limit_bytes));
}

/* Adds to what is owed already; that must be of the same context. */
CUresult own_owe(struct owed *owed, struct context *context, size_t bytes)
{
	CUresult error = own_take(context, bytes);

	if (error)
		return error;
	owed->context = context;
	owed->context_id = context->id;
	owed->bytes += bytes;
	return CUDA_SUCCESS;
}

/* Nothing when the context went before: all of its bytes went with it. */
void own_repay(struct owed *owed)
{
	if (owed->bytes && atomic_load(&owed->context->alive) &&
	    owed->context->id == owed->context_id)
		own_give(owed->context, owed->bytes);
	owed->bytes = 0;
}

/* ------------------------------------------------------------------ code */

/* What the module took in this context, or nothing when another had it before. */
static struct owed *code_of(struct module *module, const struct context *context)
{
	struct owed *code = &module->code[context->device->index];

	if (code->context_id != context->id)
		*code = (struct owed){0};
	return code;
}

CUresult own_load_module(struct module *module, struct context *context)
{
	CUresult error = CUDA_SUCCESS;

	if (settings.lazy || !settings.module_bytes || !context)
		return error;
	context = context_owner(context);
	pthread_mutex_lock(&module->lock);
	if (!code_of(module, context)->bytes)
		error = own_owe(code_of(module, context), context, settings.module_bytes);
	pthread_mutex_unlock(&module->lock);
	return error;
}

bool own_is_loaded(struct function *function, const struct context *context)
{
	return !settings.lazy || !context ||
	       atomic_load(&function->loaded_in[context->device->index]) == context->id;
}

/* Measured: the first use of lazily loaded code waits for all work of the context. */
static CUresult load_lazily(struct function *function, struct context *context)
{
	_Atomic uint64_t *loaded_in = &function->loaded_in[context->device->index];
	struct module *module = function->module;
	CUresult error = CUDA_SUCCESS;

	context_wait_idle(context);
	pthread_mutex_lock(&module->lock);
	if (atomic_load(loaded_in) != context->id)
		error = own_owe(code_of(module, context), context, settings.module_bytes);
	if (!error)
		atomic_store(loaded_in, context->id);
	pthread_mutex_unlock(&module->lock);
	return error;
}

CUresult own_load_function(struct function *function, struct context *context)
{
	if (!context)
		return CUDA_SUCCESS;
	context = context_owner(context);
	if (!settings.lazy)
		return own_load_module(function->module, context);
	return own_is_loaded(function, context) ? CUDA_SUCCESS : load_lazily(function, context);
}

void own_unload_module(struct module *module)
{
	for (int i = 0; i < SIM_DEVICES_MAX; i++)
		own_repay(&module->code[i]);
}

/* ------------------------------------------------------------------ limits */

/* What a limit costs above its default; a stack is there for every resident thread. */
static size_t price_of(CUlimit limit, size_t value)
{
	const size_t resident = (size_t)DEVICE_PROCESSORS * DEVICE_PROCESSOR_THREADS;

	switch (limit) {
	case CU_LIMIT_STACK_SIZE:
		return value > 1024 ? (value - 1024) * resident : 0;
	case CU_LIMIT_PRINTF_FIFO_SIZE:
		return value > 7340032 ? value - 7340032 : 0;
	case CU_LIMIT_MALLOC_HEAP_SIZE:
		return value > 8388608 ? value - 8388608 : 0;
	default:
		return 0;
	}
}

CUresult own_set_limit(struct context *context, CUlimit limit, size_t value)
{
	size_t bytes = round_up(price_of(limit, value), PAGE_BYTES), had;
	CUresult error = CUDA_SUCCESS;

	pthread_mutex_lock(&context->lock);
	had = context->limit_bytes[limit];
	if (bytes > had)
		error = own_take(context, bytes - had);
	else
		own_give(context, had - bytes);
	if (!error) {
		context->limit_bytes[limit] = bytes;
		context->limits[limit] = value;
	}
	pthread_mutex_unlock(&context->lock);
	return error;
}
