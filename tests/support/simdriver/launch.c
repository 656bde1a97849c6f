/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel launches.  A kernel does nothing, unless a fixture library has a function for
 * it or it is one of the two built in; every launch can be given a duration.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "sim.h"
#include "entries.h"
#include "launch.h"
#include "module.h"
#include "simk.h"

struct kernel_call {
	atomic_uint refs;
	struct function *function;	/* referenced */
	CUfunction handle;		/* as the client gave it */
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	void **given;			/* parameters as the client gave them, for graphs */
	void **params;			/* copies of them, in here; NULL: of unknown size */
	void *storage[];
};

static void *fixture;
static pthread_once_t fixture_once = PTHREAD_ONCE_INIT;

static void open_fixture(void)
{
	if (!settings.kernels)
		return;
	fixture = dlopen(settings.kernels, RTLD_NOW | RTLD_LOCAL);
	if (!fixture)
		config_die("SIMCUDA_KERNELS: %s", dlerror());
}

/* ------------------------------------------------------------------ built-in kernels */

/* Memory out of the device's reach is a fault, which sticks to the context. */
static void *host_address(unsigned long long address)
{
	struct block *block = registry_find_any((void *)(size_t)address);
	struct context *context = sim_thread.running;

	if (block && peer_reaches(block, context))
		return block_alias(block, (void *)(size_t)address);
	if (block) {
		atomic_store(&context->error, CUDA_ERROR_ILLEGAL_ADDRESS);
		atomic_store(&context->alive, false);
	}
	return NULL;
}

/* sim_delay(unsigned microseconds) keeps its stream busy. */
static void run_delay(const struct simk_launch *launch)
{
	config_pass_until(config_now_ns() + *(unsigned *)launch->params[0] * 1000ull);
}

/* sim_fill(unsigned long long address, unsigned value, unsigned words) writes memory. */
static void run_fill(const struct simk_launch *launch)
{
	char *to = launch->host(*(unsigned long long *)launch->params[0]);
	unsigned value = *(unsigned *)launch->params[1];
	unsigned words = *(unsigned *)launch->params[2];

	for (unsigned i = 0; to && i < words; i++)
		memcpy(to + 4 * (size_t)i, &value, 4);
}

static const size_t delay_sizes[] = {4, 0};
static const size_t fill_sizes[] = {8, 4, 4, 0};

static void find_in_fixture(struct function *function)
{
	char symbol[300];

	pthread_once(&fixture_once, open_fixture);
	if (!fixture)
		return;
	snprintf(symbol, sizeof(symbol), "simk_%s", function->name);
	*(void **)&function->body = dlsym(fixture, symbol);
	snprintf(symbol, sizeof(symbol), "simk_%s_sizes", function->name);
	if (function->body)
		function->sizes = dlsym(fixture, symbol);
}

static void find_body(struct function *function)
{
	if (strcmp(function->name, "sim_delay") == 0) {
		function->body = run_delay;
		function->sizes = delay_sizes;
	} else if (strcmp(function->name, "sim_fill") == 0) {
		function->body = run_fill;
		function->sizes = fill_sizes;
	} else {
		find_in_fixture(function);
	}
}

/* ------------------------------------------------------------------ durations */

/* SIMCUDA_KERNEL_TIMES is name=microseconds,name=microseconds. */
static uint64_t duration_of(const char *name)
{
	size_t length = strlen(name);
	const char *at = settings.kernel_times;

	while (at && *at) {
		if (strncmp(at, name, length) == 0 && at[length] == '=')
			return strtoull(at + length + 1, NULL, 10) * 1000;
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	return (uint64_t)settings.kernel_us * 1000;
}

void launch_prepare(struct function *function)
{
	find_body(function);
	function->ns = duration_of(function->name);
}

bool launch_is_nothing(const struct kernel_call *call)
{
	return !call->function->body && !call->function->ns;
}

const char *launch_name(const struct kernel_call *call)
{
	return call->function->name;
}

uint64_t launch_ns(const struct kernel_call *call)
{
	return call->function->ns;
}

/* ------------------------------------------------------------------ one launch */

void launch_retain(struct kernel_call *call)
{
	atomic_fetch_add(&call->refs, 1);
}

void launch_give(struct kernel_call *call)
{
	if (!call || atomic_fetch_sub(&call->refs, 1) != 1)
		return;
	handle_give(OBJECT_FUNCTION, call->function);
	free(call);
}

void launch_run(struct kernel_call *call, struct context *context)
{
	struct simk_launch launch = {
		.params = call->params,
		.grid = {call->grid[0], call->grid[1], call->grid[2]},
		.block = {call->block[0], call->block[1], call->block[2]},
		.shared_bytes = call->shared_bytes,
		.host = host_address,
	};

	if (!call->function->body)
		return;
	sim_thread.running = context;
	call->function->body(&launch);
	sim_thread.running = NULL;
}

enum { PARAM_SLOT = 16 };

/* Room for the pointers and the values behind them. */
static size_t storage_bytes(const size_t *sizes)
{
	size_t bytes = 0;

	for (int i = 0; sizes && sizes[i]; i++)
		bytes += PARAM_SLOT + round_up(sizes[i], PARAM_SLOT);
	return bytes;
}

static CUresult copy_params(struct kernel_call *call, const size_t *sizes, void **params)
{
	size_t count = 0;
	char *at;

	while (sizes && sizes[count])
		count++;
	if (!count)
		return CUDA_SUCCESS;
	call->params = call->storage;
	at = (char *)call->storage + count * PARAM_SLOT;
	for (size_t i = 0; i < count; i++) {
		if (!params || !params[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(at, params[i], sizes[i]);
		call->params[i] = at;
		at += round_up(sizes[i], PARAM_SLOT);
	}
	return CUDA_SUCCESS;
}

static bool is_shape(const unsigned grid[3], const unsigned block[3])
{
	for (int i = 0; i < 3; i++)
		if (grid[i] == 0 || block[i] == 0 || (i && grid[i] > 65535))
			return false;
	return (uint64_t)block[0] * block[1] * block[2] <= 1024 && block[2] <= 64;
}

static CUresult make_call(CUfunction handle, const unsigned grid[3], const unsigned block[3],
			  unsigned shared_bytes, void **params, struct kernel_call **out)
{
	struct function *function = (struct function *)handle;
	CUresult error = handle_check(OBJECT_FUNCTION, handle);
	struct kernel_call *call;

	if (error)
		return error;
	if (!is_shape(grid, block))
		return CUDA_ERROR_INVALID_VALUE;
	error = own_load_function(function, sim_thread.current);
	if (error)
		return error;
	call = malloc(sizeof(*call) + storage_bytes(function->sizes));
	if (!call)
		return CUDA_ERROR_OUT_OF_MEMORY;
	handle_retain(function);
	*call = (struct kernel_call){
		.function = function, .handle = handle,
		.grid = {grid[0], grid[1], grid[2]}, .block = {block[0], block[1], block[2]},
		.shared_bytes = shared_bytes, .given = params,
	};
	atomic_init(&call->refs, 1);
	error = copy_params(call, function->sizes, params);
	if (error)
		launch_give(call);
	else
		*out = call;
	return error;
}

CUresult launch_from_params(const CUDA_KERNEL_NODE_PARAMS *p, struct kernel_call **out)
{
	const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
	const unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
	CUfunction function = p->func ? p->func : (CUfunction)p->kern;

	return make_call(function, grid, block, p->sharedMemBytes, p->kernelParams, out);
}

void launch_describe(const struct kernel_call *call, CUDA_KERNEL_NODE_PARAMS *params)
{
	*params = (CUDA_KERNEL_NODE_PARAMS){
		.func = call->handle,
		.gridDimX = call->grid[0], .gridDimY = call->grid[1], .gridDimZ = call->grid[2],
		.blockDimX = call->block[0], .blockDimY = call->block[1],
		.blockDimZ = call->block[2],
		.sharedMemBytes = call->shared_bytes,
		.kernelParams = call->params ? call->params : call->given,
	};
}

/* ------------------------------------------------------------------ the calls */

static CUresult start(struct kernel_call *call, struct stream *stream)
{
	struct op op = { .kind = OP_KERNEL, .kernel = call };
	CUresult error = CUDA_SUCCESS;

	if (capture_takes(stream, &op, &error))
		return error;
	context_pass_gate(stream->context);
	return queue_submit(stream, &op, NULL);
}

CUresult launch_kernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
		       unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
		       unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
		       void **kernelParams, void **extra)
{
	const unsigned grid[3] = {gridDimX, gridDimY, gridDimZ};
	const unsigned block[3] = {blockDimX, blockDimY, blockDimZ};
	struct kernel_call *call;
	struct stream *stream;
	CUresult error = stream_find(hStream, &stream);

	if (!error)
		error = capture_check_legacy(stream);
	if (!error && kernelParams && extra)
		error = CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = make_call(f, grid, block, sharedMemBytes, kernelParams, &call);
	return error ? error : start(call, stream);
}

CUresult launch_cooperative(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
			    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
			    void **kernelParams)
{
	return launch_kernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
			     sharedMemBytes, hStream, kernelParams, NULL);
}

CUresult launch_kernel_ex(const CUlaunchConfig *shape, CUfunction f, void **kernelParams,
			  void **extra, CUstream hStream)
{
	if (!shape)
		return CUDA_ERROR_INVALID_VALUE;
	return launch_kernel(f, shape->gridDimX, shape->gridDimY, shape->gridDimZ,
			     shape->blockDimX, shape->blockDimY, shape->blockDimZ,
			     shape->sharedMemBytes, stream_or(shape->hStream, hStream),
			     kernelParams, extra);
}
