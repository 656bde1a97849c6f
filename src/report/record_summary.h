/* SPDX-License-Identifier: Apache-2.0 */
/* record_summary.h - what `custody record` says at its end: five lines and what to do next. */
#ifndef CUSTODY_REPORT_RECORD_SUMMARY_H
#define CUSTODY_REPORT_RECORD_SUMMARY_H

/* On standard error, from the complete trace at `path`. */
void record_summary_print(const char *path);

#endif
