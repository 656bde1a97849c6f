/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h - from the samples of a trace, which are kept per process, device and
 * kind, to the use of all device memory over time and the highest use of a kind.
 */
#ifndef CUSTODY_REPORT_USAGE_H
#define CUSTODY_REPORT_USAGE_H

#include "report/rows.h"

#include <stdint.h>

struct query;

/* One series of samples. */
struct usage_level {
	int64_t process_id, device_id; /* 0: host memory */
	size_t kind;		       /* index into usage.kind */
	int64_t bytes;		       /* highest in the slice at hand, of what is live */
	int64_t pending;	       /* likewise, on top of it */
};

struct usage_kind {
	char name[16];
	bool is_device;
	int64_t bytes;	 /* in the slice at hand, all processes and devices */
	int64_t highest; /* in any slice */
};

struct usage {
	struct usage_level *level;
	size_t levels;
	struct usage_kind *kind;
	size_t kinds;
};

/* Of the rows usage_load() fills: when, how many bytes were live, and how many were pending. */
extern const struct rows_column usage_columns[];

/*
 * `curve` gets a row for each moment that has samples; what is live is never above
 * `peak`, and both together never above `held`: kinds reach their highest at
 * different moments of a slice.
 */
void usage_load(struct usage *usage, struct query *query, struct rows *curve, int64_t peak,
		int64_t held);
void usage_free(struct usage *usage);

/* The highest use of this kind in any slice; 0 when it has no samples. */
int64_t usage_highest(const struct usage *usage, const char *kind);

/* Whether that may be more than there was: it adds what several had at different moments. */
bool usage_has_bounds(const struct usage *usage);

#endif
