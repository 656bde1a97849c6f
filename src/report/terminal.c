/* SPDX-License-Identifier: Apache-2.0 */
#include "report/terminal.h"

#include "report/options.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_PIPED = 80, WIDTH_LEAST = 60, WIDTH_MOST = 160 };

static int find_width(int descriptor)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int width = columns ? atoi(columns) : 0;

	if (width <= 0 && !ioctl(descriptor, TIOCGWINSZ, &size))
		width = size.ws_col;
	if (width <= 0)
		width = WIDTH_PIPED;
	return width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : width;
}

static bool wants_color(int descriptor)
{
	const char *none = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	if (options_color != COLOR_AUTO)
		return options_color == COLOR_ALWAYS;
	if (none && *none)
		return false;
	return isatty(descriptor) && term && strcmp(term, "dumb");
}

void terminal_probe(struct terminal *terminal, FILE *stream)
{
	int descriptor = fileno(stream);

	setlocale(LC_CTYPE, "");
	terminal->width = find_width(descriptor);
	terminal->has_color = wants_color(descriptor);
	terminal->has_utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
}
