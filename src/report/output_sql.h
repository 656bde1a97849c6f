/* SPDX-License-Identifier: Apache-2.0 */
/* output_sql.h - the rows of any statement, on standard output. */
#ifndef CUSTODY_REPORT_OUTPUT_SQL_H
#define CUSTODY_REPORT_OUTPUT_SQL_H

#include <sqlite3.h>

/*
 * Steps the statement to its end and prints its rows as they come: text is laid
 * out by the first rows, json is one object a line, csv has a line of names,
 * raw is the first column alone.
 * Returns SQLITE_DONE, or what the step failed with.
 */
int output_sql(sqlite3_stmt *statement, const char *format);

#endif
