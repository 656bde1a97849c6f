/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h - the collector: from the segments of a session to its trace, while
 * the traced processes run or after they are gone.
 */
#ifndef CUSTODY_REPORT_COLLECT_H
#define CUSTODY_REPORT_COLLECT_H

#include "report/session.h"

#include <stdbool.h>
#include <stdint.h>

/* What `custody record` sends when its program has ended. */
struct collect_end {
	int32_t pid;
	int32_t wait_status; /* as waitpid() gives it */
	int64_t end_ns;	     /* CLOCK_MONOTONIC */
};

/* Who has started the collector, if they are there to listen. */
struct collect_link {
	int from_record; /* reads struct collect_end; its end of file says that record is gone */
	int to_record;	 /* gets one byte when only other processes are left; both -1: no record */
	bool show_progress; /* on standard error, which is a terminal */
};

/*
 * Collect until every process of the session has ended (and, if there is one, the
 * program of `record` has), complete the trace, remove the session.  The caller
 * holds the session's lock.  False: nothing was recorded, there is no trace.
 * Ends the program with one sentence where the trace cannot be written.
 */
bool collect_run(struct session *session, const struct collect_link *link);

/*
 * For verbs that read: TRACE is a file, or the directory of a session that was
 * left behind.  Waits for a collector that still works on it (and says so after a
 * second), or does the work of one that has died.  Returns the name of the file,
 * to be freed.  Ends the program with one sentence where there is none.
 */
char *collect_settle(const char *trace);

/* Whether a collector writes into this file right now. */
bool collect_settle_is_busy(const char *trace);

#endif
