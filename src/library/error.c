/* SPDX-License-Identifier: Apache-2.0 */
#include "library/library.h"

#include <stdarg.h>
#include <stdio.h>

enum { DETAIL_BYTES = 512 };

/* Of the last function of this thread that failed and had something to say. */
static __thread char detail[DETAIL_BYTES];

#define NAME_CASE(name, value, text) case name: return #name;
#define TEXT_CASE(name, value, text) case name: return text;

/* The driver's word for a result; NULL: it cannot be asked, or has none. */
static const char *ask(CUresult (*question)(CUresult result, const char **text), int error)
{
	const char *text = NULL;

	if (!question || !library_is_usable() || question((CUresult)error, &text) != CUDA_SUCCESS)
		return NULL;
	return text;
}

const char *custody_error_name(int error)
{
	const char *name = error > 0 ? ask(library_cuda.cuGetErrorName, error) : NULL;

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
	const char *text = error > 0 ? ask(library_cuda.cuGetErrorString, error) : NULL;

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

const char *custody_error_detail(void)
{
	return detail;
}

void error_forget(void)
{
	detail[0] = '\0';
}

int error_say(int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(detail, sizeof(detail), format, arguments);
	va_end(arguments);
	return error;
}
