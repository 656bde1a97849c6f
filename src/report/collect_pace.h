/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_pace.h - how long the collector sleeps between two looks.  Every look
 * takes time from the program where processors are few; none may come so late
 * that the program finds its buffer full.
 */
#ifndef CUSTODY_REPORT_COLLECT_PACE_H
#define CUSTODY_REPORT_COLLECT_PACE_H

#include <stdint.h>

struct collect_pace {
	int wait_ms;	   /* the last answer; 0: none yet */
	int64_t looked_ns; /* when it was asked last */
};

/*
 * After a look at `now_ns` that found `records` of programs whose smallest buffer
 * has `buffer_bytes` (0: there is none yet).  Milliseconds.
 */
int collect_pace_wait(struct collect_pace *pace, int64_t now_ns, uint64_t records,
		      uint64_t buffer_bytes);

#endif
