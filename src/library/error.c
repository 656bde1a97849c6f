/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { DETAIL_BYTES = 512 };

/*
 * Of the last function of this thread that failed and had something to say.  Static TLS
 * is scarce in a library that may be loaded late, so there is a pointer only; the key is
 * there to have it freed.
 */
static __thread char *detail;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

#define NAME_CASE(name, value, text) case name: return #name;
#define TEXT_CASE(name, value, text) case name: return text;

/* For when the driver cannot be asked: at exit, above all, when a program says why. */
#define ROW(name) { CUDA_ERROR_##name, "CUDA_ERROR_" #name },

static const struct {
	CUresult result;
	const char *name;
} usual[] = {
	ROW(INVALID_VALUE)
	ROW(OUT_OF_MEMORY)
	ROW(NOT_INITIALIZED)
	ROW(DEINITIALIZED)
	ROW(STUB_LIBRARY)
	ROW(DEVICE_UNAVAILABLE)
	ROW(NO_DEVICE)
	ROW(INVALID_DEVICE)
	ROW(DEVICE_NOT_LICENSED)
	ROW(INVALID_IMAGE)
	ROW(INVALID_CONTEXT)
	ROW(MAP_FAILED)
	ROW(UNMAP_FAILED)
	ROW(NO_BINARY_FOR_GPU)
	ROW(ECC_UNCORRECTABLE)
	ROW(UNSUPPORTED_LIMIT)
	ROW(CONTEXT_ALREADY_IN_USE)
	ROW(PEER_ACCESS_UNSUPPORTED)
	ROW(INVALID_PTX)
	ROW(NVLINK_UNCORRECTABLE)
	ROW(UNSUPPORTED_PTX_VERSION)
	ROW(OPERATING_SYSTEM)
	ROW(INVALID_HANDLE)
	ROW(ILLEGAL_STATE)
	ROW(NOT_FOUND)
	ROW(NOT_READY)
	ROW(ILLEGAL_ADDRESS)
	ROW(LAUNCH_OUT_OF_RESOURCES)
	ROW(LAUNCH_TIMEOUT)
	ROW(PEER_ACCESS_ALREADY_ENABLED)
	ROW(PEER_ACCESS_NOT_ENABLED)
	ROW(PRIMARY_CONTEXT_ACTIVE)
	ROW(CONTEXT_IS_DESTROYED)
	ROW(ASSERT)
	ROW(TOO_MANY_PEERS)
	ROW(HOST_MEMORY_ALREADY_REGISTERED)
	ROW(HOST_MEMORY_NOT_REGISTERED)
	ROW(HARDWARE_STACK_ERROR)
	ROW(ILLEGAL_INSTRUCTION)
	ROW(MISALIGNED_ADDRESS)
	ROW(INVALID_ADDRESS_SPACE)
	ROW(INVALID_PC)
	ROW(LAUNCH_FAILED)
	ROW(NOT_PERMITTED)
	ROW(NOT_SUPPORTED)
	ROW(SYSTEM_NOT_READY)
	ROW(SYSTEM_DRIVER_MISMATCH)
	ROW(STREAM_CAPTURE_UNSUPPORTED)
	ROW(STREAM_CAPTURE_INVALIDATED)
	ROW(STREAM_CAPTURE_MERGE)
	ROW(STREAM_CAPTURE_UNMATCHED)
	ROW(STREAM_CAPTURE_UNJOINED)
	ROW(STREAM_CAPTURE_ISOLATION)
	ROW(STREAM_CAPTURE_IMPLICIT)
	ROW(CAPTURED_EVENT)
	ROW(STREAM_CAPTURE_WRONG_THREAD)
	ROW(TIMEOUT)
	ROW(UNKNOWN)
};

#undef ROW

static const char *find_usual(int error)
{
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (error == (int)usual[i].result)
			return usual[i].name;
	return "CUDA_ERROR_?";
}

/* The driver's word for a result; NULL: it cannot be asked, or has none. */
static const char *ask_name(int error)
{
	const char *text = NULL;

	if (error <= 0 || !library_has_functions() ||
	    library_cuda.cuGetErrorName((CUresult)error, &text) != CUDA_SUCCESS)
		return NULL;
	return text;
}

static const char *ask_text(int error)
{
	const char *text = NULL;

	if (error <= 0 || !library_has_functions() ||
	    library_cuda.cuGetErrorString((CUresult)error, &text) != CUDA_SUCCESS)
		return NULL;
	return text;
}

const char *custody_error_name(int error)
{
	const char *name = ask_name(error);

	if (name)
		return name;
	switch (error) {
	CUSTODY_ERROR_MAP(NAME_CASE)
	case CUSTODY_OK:
		return "CUSTODY_OK";
	default:
		return error > 0 ? find_usual(error) : "CUSTODY_E_?";
	}
}

const char *custody_error_text(int error)
{
	const char *text = ask_text(error);

	if (text)
		return text;
	switch (error) {
	CUSTODY_ERROR_MAP(TEXT_CASE)
	case CUSTODY_OK:
		return "no error";
	default:
		return error > 0 ? "an error of the driver" : "an error that is not known";
	}
}

/* Other destructors of the thread may still call us; they get a new one. */
static void free_detail(void *text)
{
	free(text);
	detail = NULL;
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, free_detail) == 0;
}

static char *find_detail(void)
{
	if (detail)
		return detail;
	pthread_once(&key_once, make_key);
	detail = has_key ? calloc(1, DETAIL_BYTES) : NULL;
	if (detail)
		pthread_setspecific(key, detail);
	return detail;
}

const char *custody_error_detail(void)
{
	return detail ? detail : "";
}

void error_forget(void)
{
	if (detail)
		detail[0] = '\0';
}

void error_keep(struct error_kept *kept)
{
	snprintf(kept->text, sizeof(kept->text), "%s", custody_error_detail());
}

int error_say_kept(int error, const struct error_kept *kept)
{
	return error_say(error, "%s", kept->text);
}

int error_say(int error, const char *format, ...)
{
	char *text = find_detail();
	va_list arguments;

	if (!text)
		return error;
	va_start(arguments, format);
	vsnprintf(text, DETAIL_BYTES, format, arguments);
	va_end(arguments);
	return error;
}

int error_null(const char *what)
{
	return error_say(CUSTODY_E_INVALID, "%s is NULL", what);
}
