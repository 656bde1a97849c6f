/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_fixture.h - a session of one process that is gone, whose records the
 * test puts there; the collector makes a trace of it, which the test asks.
 */
#ifndef CUSTODY_TESTS_COLLECT_FIXTURE_H
#define CUSTODY_TESTS_COLLECT_FIXTURE_H

#include "report/store.h"
#include "session_writer.h"

#include <limits.h>
#include <stdint.h>

enum { FIXTURE_GONE = 0x3ffffff }; /* above every pid the kernel gives out */

extern char fixture_session[PATH_MAX];
extern char fixture_trace[64];
extern struct session_writer fixture_writer; /* of the process that is gone */
extern sqlite3 *fixture_db;		     /* the trace, from fixture_collect() on */

/* Before and after a test. */
void fixture_make_session(void);
void fixture_remove_session(void);

/* A record of a thread of the process. */
void fixture_put(uint32_t thread, struct record record);

/* The number of a function in a record. */
uint16_t fixture_api_of(const char *symbol);

/* Make the trace, and open it. */
void fixture_collect(void);

/* The first value of the first row; INT64_MIN or empty: there is none, or it is NULL. */
int64_t fixture_ask(const char *sql);
const char *fixture_ask_text(const char *sql); /* until the next question */

#endif
