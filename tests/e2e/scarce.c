/* SPDX-License-Identifier: Apache-2.0 */
#include "scarce.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

void require_success(CUresult result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %d\n", what, (int)result);
	exit(91);
}

CUcontext scarce_start(void)
{
	CUcontext context;

	do_call(cuInit(0));
	do_call(cuDevicePrimaryCtxRetain(&context, 0));
	do_call(cuCtxSetCurrent(context));
	return context;
}

int scarce_main(const struct scarce_case *cases, char **arguments)
{
	for (; cases->name; cases++) {
		if (!arguments[1] || strcmp(cases->name, arguments[1]))
			continue;
		alarm(50); /* a test that hangs ends */
		cases->run(arguments + 2);
		return 0;
	}
	fprintf(stderr, "no such case\n");
	return 92;
}
