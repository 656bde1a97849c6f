/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - what the place that text goes to can show. */
#ifndef CUSTODY_REPORT_TERMINAL_H
#define CUSTODY_REPORT_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

struct terminal {
	int width;
	bool has_color;
	bool has_utf8;
};

/* COLUMNS, else the terminal's own width, else 80; --color, NO_COLOR and TERM; the locale. */
void terminal_probe(struct terminal *terminal, FILE *stream);

#endif
