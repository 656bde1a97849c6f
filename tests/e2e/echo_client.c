/* SPDX-License-Identifier: Apache-2.0 */
/*
 * echo_client.c - calls every function of driver.tbl once and looks at what
 * arrived:
 *
 *	echo_client RESULT [dlvsym]
 *
 * RESULT is what the driver returns from every call; with dlvsym the functions
 * are looked up by that, which finds them because this driver has no versions.
 * Each argument is a value of its own; pointers lead to zeros.
 */
#define __CUDA_API_VERSION_INTERNAL
#include "journal.h"

#include "echo.h"

#include <cuda.h>
#include <cudaProfiler.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS_MAX = 14 };

struct echo_parameter {
	unsigned bytes;
	int is_pointer;
};

struct echo_call {
	const char *symbol;
	unsigned parameters;
	struct echo_parameter parameter[PARAMETERS_MAX];
};

#include "echo_calls.h"

static struct echo_arrival *arrivals;
static unsigned *result_to_give;
static unsigned char zeros[PARAMETERS_MAX + 1][1 << 16];
static unsigned wrong;
static int by_version;

/*
 * The slots of the call: one each, but for a structure by value, which x86-64
 * puts on the stack behind the registers and others pass by a pointer.
 */
static int has_structure(const struct echo_call *call)
{
	unsigned i;

	for (i = 0; i < call->parameters; i++)
		if (call->parameter[i].bytes > 16)
			return 1;
	return 0;
}

static uint64_t value_of(const struct echo_parameter *parameter, unsigned i)
{
	if (parameter->is_pointer)
		return (uintptr_t)zeros[i];
	return 0x21 + i;
}

static void complain(const char *symbol, const char *what, uint64_t expected, uint64_t found)
{
	printf("%s: %s: expected %#llx, found %#llx\n", symbol, what, (unsigned long long)expected,
	       (unsigned long long)found);
	wrong++;
}

static uint64_t low_bytes(uint64_t value, unsigned bytes)
{
	return bytes >= 8 ? value : value & ((UINT64_C(1) << bytes * 8) - 1);
}

/* The one question that an interposer may put besides the program's: whose context? */
static int is_asked_by_custody(const char *symbol)
{
	return !strcmp(symbol, "cuCtxGetCurrent");
}

static void check_arrival(const struct echo_call *call, const struct echo_arrival *arrival,
			  const uint64_t *sent)
{
	unsigned i, bytes;

	if (arrival->calls < 1 || arrival->calls > 1u + is_asked_by_custody(call->symbol))
		complain(call->symbol, "times called", 1, arrival->calls);
	for (i = 0; i < call->parameters; i++) {
		bytes = call->parameter[i].bytes;
		if (low_bytes(arrival->argument[i], bytes) != low_bytes(sent[i], bytes))
			complain(call->symbol, "argument", sent[i], arrival->argument[i]);
	}
}

static unsigned make_call(void *function, const uint64_t *v)
{
	echo_function *call = (echo_function *)function;

	return call(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12],
		    v[13]);
}

/* Handles for other processes are passed by value: pointer, 64 bytes, perhaps flags. */
static unsigned check_structure(void *function, const struct echo_call *call,
				const struct echo_arrival *arrival)
{
	CUipcMemHandle handle;
	unsigned result;

	memset(&handle, 0x5a, sizeof(handle));
	result = ((__typeof__(cuIpcOpenMemHandle_v2) *)function)((CUdeviceptr *)zeros[0], handle,
								 0x77);
	if (arrival->argument[0] != (uintptr_t)zeros[0] || arrival->calls != 1)
		complain(call->symbol, "first argument", (uintptr_t)zeros[0], arrival->argument[0]);
#ifdef __x86_64__
	if (memcmp(&arrival->argument[6], &handle, sizeof(handle)) != 0)
		complain(call->symbol, "handle", 0x5a5a5a5a5a5a5a5a, arrival->argument[6]);
#endif
	return result;
}

static unsigned check_plain(void *function, const struct echo_call *call,
			    const struct echo_arrival *arrival)
{
	uint64_t sent[ECHO_ARGUMENTS] = { 0 };
	unsigned result, i;

	for (i = 0; i < call->parameters; i++)
		sent[i] = value_of(&call->parameter[i], i);
	result = make_call(function, sent);
	check_arrival(call, arrival, sent);
	return result;
}

static void *find(void *driver, const char *symbol)
{
	return by_version ? dlvsym(driver, symbol, "ANY_1.0") : dlsym(driver, symbol);
}

static void check(void *driver, unsigned number)
{
	const struct echo_call *call = &echo_calls[number];
	void *function = find(driver, call->symbol);
	unsigned result;

	require(function != NULL, "every function of the table is found");
	memset(arrivals, 0, sizeof(*arrivals) * ECHO_FUNCTIONS);
	if (has_structure(call))
		result = check_structure(function, call, &arrivals[number]);
	else
		result = check_plain(function, call, &arrivals[number]);
	if (result != *result_to_give)
		complain(call->symbol, "result", *result_to_give, result);
	called(call->symbol, result);
}

int main(int count, char **arguments)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	unsigned i, calls = sizeof(echo_calls) / sizeof(echo_calls[0]);

	require(count > 1 && driver, "a result is given and a driver is there");
	by_version = count > 2 && !strcmp(arguments[2], "dlvsym");
	arrivals = dlsym(driver, "echo_arrivals");
	result_to_give = dlsym(driver, "echo_result");
	require(arrivals && result_to_give && calls <= ECHO_FUNCTIONS, "it is the echo driver");
	*result_to_give = (unsigned)atoi(arguments[1]);
	for (i = 0; i < calls; i++)
		check(driver, i);
	journal_end();
	printf("%u calls, %u wrong\n", calls, wrong);
	return wrong ? 1 : 0;
}
