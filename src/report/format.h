/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h - numbers as people read them.  Each function writes into `text`
 * (FORMAT_BYTES long) and returns it, so that calls nest in a printf.  Sizes
 * are in units of 1024, three significant figures, the unit always as wide as
 * in the neighbouring rows.
 */
#ifndef CUSTODY_REPORT_FORMAT_H
#define CUSTODY_REPORT_FORMAT_H

#include <stdint.h>

enum { FORMAT_BYTES = 48 };

char *format_bytes(char *text, int64_t bytes);	     /* "1.50 MiB", "12 B" */
char *format_count(char *text, int64_t count);	     /* "12,345" */
char *format_duration(char *text, int64_t ns);	     /* "3.20 ms" */
char *format_moment(char *text, int64_t ns);	     /* "8.211 s", "12.345 ms" */
char *format_rate(char *text, int64_t bytes_per_second);
char *format_share(char *text, int64_t ten_thousandths); /* "66 %", "0.3 %" */

/* As cuDriverGetVersion gives it: 13000 is "13.0". */
char *format_driver(char *text, int64_t version);

#endif
