/* SPDX-License-Identifier: Apache-2.0 */
/* collect_trace.h - what the collector knows of a trace and its processes do not. */
#ifndef CUSTODY_REPORT_COLLECT_TRACE_H
#define CUSTODY_REPORT_COLLECT_TRACE_H

#include "report/collect.h"
#include "report/ingest.h"

/* The name of the trace, from the session's template and its first process; reserves the file. */
void collect_trace_choose(struct session *session, const struct trace_control *control);

/* How the program of `record` has ended. */
void collect_trace_note_exit(struct ingest *ingest, const struct collect_end *end);

#endif
