/* SPDX-License-Identifier: Apache-2.0 */
/* output_table.h - the two shapes of the text report that need layout. */
#ifndef CUSTODY_REPORT_OUTPUT_TABLE_H
#define CUSTODY_REPORT_OUTPUT_TABLE_H

#include "report/report.h"
#include "report/terminal.h"

#include <stdio.h>

/*
 * Columns as wide as they need; numbers stand right.  A column that holds
 * nothing but zeros is left out.  Where the terminal is too narrow the widest
 * column of text gives way.
 */
void output_table(const struct report *report, const struct report_section *section,
		  const struct terminal *terminal, FILE *stream);

/* Column 1 (bytes) over column 0 (when), drawn. */
void output_curve(const struct report *report, const struct report_section *section,
		  const struct terminal *terminal, FILE *stream);

#endif
