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
		return error > 0 ? "CUDA_ERROR_?" : "CUSTODY_E_?";
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
