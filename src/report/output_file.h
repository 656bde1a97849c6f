/* SPDX-License-Identifier: Apache-2.0 */
/* output_file.h - where a report goes: standard output, or a file that is whole or not there. */
#ifndef CUSTODY_REPORT_OUTPUT_FILE_H
#define CUSTODY_REPORT_OUTPUT_FILE_H

#include "report/report.h"

/*
 * `path` NULL or "-": standard output.  A regular file is replaced when the
 * whole report has been written, unless it is a database: a trace is never
 * overwritten.  What cannot be written ends the program.
 */
void output_file(const char *path, const struct report *report,
		 bool (*render)(const struct report *, FILE *));

#endif
